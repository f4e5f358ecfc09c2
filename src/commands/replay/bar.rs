//! The progress of a replay.

use super::interruption::Interruption;
use super::sharing;
use crate::terminal::exit;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use replayer::{PeerWait, Progress};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A progress bar on stderr, for replays of more than a second.
pub(super) struct Bar {
    pub bar: ProgressBar,
    interruption: Interruption,
    trace: PathBuf,
    started: Instant,
}

impl Bar {
    pub(super) fn new(interruption: &Interruption, trace: &Path, calls: u64) -> Bar {
        let (interruption, trace, started) = (interruption.clone(), trace.to_path_buf(), Instant::now());
        let bar = interruption.bar.clone();
        let style = ProgressStyle::with_template("replaying {wide_bar} {human_pos}/{human_len} calls, {eta}");
        bar.set_length(calls);
        let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Bar { bar, interruption, trace, started }
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
        self.bar.suspend(|| exit::say(waits(patience, waiting)));
    }

    fn awaits_others(&self, patience: Duration, waiting: &[(u64, String)], others: &[PeerWait]) {
        let why = sharing::told(&self.trace, others);
        self.bar.suspend(|| exit::say(format_args!("{}: {why}", waits(patience, waiting))));
    }

    fn gives_up(&self, patience: Duration, waiting: &[(u64, String)]) {
        self.interruption.give_up(&waits(patience, waiting))
    }

    fn does_not_begin(&self, patience: Duration) {
        let seconds = patience.as_secs_f64();
        let what = "starting the driver and reserving the recorded addresses";
        self.interruption.give_up(&format!("{what}, within {seconds} s"))
    }

    fn warn(&self, what: &str) {
        self.bar.suspend(|| eprintln!("cutrace: warning: {what}"));
    }
}

fn waits(patience: Duration, waiting: &[(u64, String)]) -> String {
    let calls: Vec<String> = waiting.iter().map(|(call, function)| format!("call {call} {function}")).collect();
    let what = match &calls[..] {
        [] => "the work in flight when the recording ended".to_owned(),
        calls => calls.join(", "),
    };
    format!("no call has returned for {} s; waiting for {what}", patience.as_secs_f64())
}
