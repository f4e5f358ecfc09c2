//! How far a replay has come.

use crate::exit;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use replayer::Progress;
use std::time::{Duration, Instant};

/// On stderr, for replays of more than a second.
pub struct Bar {
    pub bar: ProgressBar,
    started: Instant,
}

impl Bar {
    pub fn new(bar: ProgressBar, calls: u64) -> Bar {
        let style = ProgressStyle::with_template("replaying {wide_bar} {human_pos}/{human_len} calls, {eta}");
        bar.set_length(calls);
        Bar { bar: bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())), started: Instant::now() }
    }
}

impl Progress for Bar {
    fn advance(&self, calls: u64) {
        if self.bar.is_hidden() && self.started.elapsed() > Duration::from_secs(1) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.inc(calls);
    }

    fn stalled(&self, patience: Duration, waiting: &[(u64, String)]) {
        let calls: Vec<String> = waiting.iter().map(|(call, function)| format!("call {call} {function}")).collect();
        let what = match &calls[..] {
            [] => "the work that the recording left under way".to_owned(),
            calls => calls.join(", "),
        };
        let patience = patience.as_secs();
        self.bar.suspend(|| exit::say(format_args!("nothing has come to an end for {patience} s; waiting for {what}")));
    }

    fn warn(&self, what: &str) {
        self.bar.suspend(|| eprintln!("cutrace: warning: {what}"));
    }
}
