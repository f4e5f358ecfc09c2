//! A progress bar on stderr, if that is a terminal, for a walk that takes longer than a second.

use crate::terminal::standard_output;
use analysis::filter::progress::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

pub(crate) struct Bar {
    bar: ProgressBar,
    started: Instant,
    done: u64,
}

/// Calls between two looks at the clock.
const STEP: u64 = 1 << 14;

impl Bar {
    pub(crate) fn new() -> Bar {
        Bar { bar: ProgressBar::hidden(), started: Instant::now(), done: 0 }
    }
}

impl Progress for Bar {
    fn begin(&mut self, what: &str, calls: u64) {
        let bar = ProgressBar::with_draw_target(Some(calls), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{msg} {wide_bar} {human_pos}/{human_len} calls, {eta}");
        let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())).with_message(what.to_owned());
        *self = Bar { bar, started: Instant::now(), done: 0 };
    }

    fn advance(&mut self) {
        self.done += 1;
        if self.done.is_multiple_of(STEP) {
            if self.bar.is_hidden() && self.started.elapsed() > Duration::from_secs(1) {
                self.bar.set_draw_target(ProgressDrawTarget::stderr());
            }
            self.bar.set_position(self.done);
        }
    }

    fn end(&mut self) {
        self.bar.finish_and_clear();
    }

    fn is_unread(&self) -> bool {
        standard_output::are_unread()
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.end();
    }
}
