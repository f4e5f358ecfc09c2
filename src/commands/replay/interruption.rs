//! A replay interrupted by a signal: it reports its progress, and leaves no partial file behind.

use crate::commands::replay::child_replays;
use crate::process::signals;
use crate::terminal::exit;
use crate::terminal::exit::FAILED;
use analysis::text::figures::grouped;
use indicatif::{ProgressBar, ProgressDrawTarget};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Clone)]
pub(super) struct Interruption {
    pub bar: ProgressBar,
    /// Files that are not whole yet.
    partial: Arc<Mutex<Vec<PathBuf>>>,
}

impl Default for Interruption {
    fn default() -> Interruption {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        Interruption { bar, partial: Arc::default() }
    }
}

impl Interruption {
    /// From now on. To be called while there is one thread.
    pub(super) fn attend(&self) {
        let Interruption { bar, partial } = self.clone();
        signals::on_interruption(move |name| {
            remove(&partial);
            child_replays::interrupt();
            let so_far = so_far(&bar);
            bar.finish_and_clear();
            exit::say_last(format_args!("interrupted by {name} {so_far}; no verdict"));
        })
    }

    /// Ends the process, whose replay comes to no end.
    pub(super) fn give_up(&self, why: &str) -> ! {
        remove(&self.partial);
        let so_far = so_far(&self.bar);
        self.bar.finish_and_clear();
        exit::say_last(format_args!("{why}: stopped {so_far}; no verdict"));
        exit::at_once(FAILED)
    }

    /// This file, too, is not whole yet.
    pub(super) fn removes(&self, partial: &Path) {
        self.partial.lock().push(partial.to_path_buf());
    }

    /// All are.
    pub(super) fn removes_none(&self) {
        self.partial.lock().clear();
    }
}

fn remove(partial: &Mutex<Vec<PathBuf>>) {
    for partial in partial.lock().drain(..) {
        let _gone_already = std::fs::remove_file(partial);
    }
}

/// A replay of many calls reports some of them at a time.
fn so_far(bar: &ProgressBar) -> String {
    match (bar.position(), bar.length()) {
        (done, Some(all)) => format!("after about {} of {} calls", grouped(done), grouped(all)),
        (_, None) => "before the first call".into(),
    }
}
