//! A bar on stderr for what takes longer than a second, if that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

pub struct Progress {
    bar: ProgressBar,
    shown: bool,
    started: Instant,
    done: u64,
}

/// Calls between two looks at the clock.
const STEP: u64 = 1 << 14;

impl Progress {
    /// `what`: as in "reading".
    pub fn new(what: &str, calls: u64) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(calls), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{msg} {wide_bar} {human_pos}/{human_len} calls, {eta}");
        let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())).with_message(what.to_owned());
        Progress { bar, shown: true, started: Instant::now(), done: 0 }
    }

    /// For who shows something else meanwhile.
    pub fn hidden() -> Progress {
        let mut progress = Progress::new("", 0);
        progress.shown = false;
        progress
    }

    /// One more call is done.
    pub fn advance(&mut self) {
        self.done += 1;
        if self.done.is_multiple_of(STEP) {
            if self.shown && self.bar.is_hidden() && self.started.elapsed() > Duration::from_secs(1) {
                self.bar.set_draw_target(ProgressDrawTarget::stderr());
            }
            self.bar.set_position(self.done);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
