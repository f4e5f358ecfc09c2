//! A rank's own process, which a launcher has started, as the leader sees it.

use crate::commands::replay::together::protocol;
use crate::terminal::exit::{FAILED, failure};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// Messages from a rank's process to the leader.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToLead {
    /// It is there, for this trace of the directory.
    Joins {
        trace: PathBuf,
    },
    /// Its replay has begun; the file that its stderr goes to goes with it.
    Began,
    NotBegun(String),
    /// It has ended, as `waitpid` tells that.
    Ended(i32),
}

/// Messages from the leader.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromLead {
    /// The replay's socket, its part and how far all have come go with it.
    Begin,
    /// To end its replay.
    End,
    /// All have ended: its exit status.
    Over(u8),
    /// Nothing is replayed, and why.
    Refused(String),
}

/// A process of the launcher that replays a trace, and the time within which it must report that its replay
/// has begun, or ended.
pub(crate) struct Launched {
    pub socket: OwnedFd,
    pub patience: Duration,
}

impl Launched {
    /// Has the replay begin, and gets the file that its stderr goes to.
    pub(crate) fn begin(&self, files: [OwnedFd; 3]) -> Result<File> {
        const GONE: &str = "its process ended before its replay began";
        protocol::send(&self.socket, &FromLead::Begin, &files).context(GONE)?;
        if !self.says_something() {
            let seconds = self.patience.as_secs_f64();
            return Err(failure(FAILED, format_args!("its process did not begin its replay within {seconds} s")));
        }
        let told = protocol::receive::<ToLead>(&self.socket).context(GONE)?;
        let Some((ToLead::Began, mut files)) = told else {
            let why = if let Some((ToLead::NotBegun(why), _)) = told { why } else { GONE.into() };
            return Err(failure(FAILED, why));
        };
        files.pop().map(File::from).ok_or_else(|| failure(FAILED, "its file was not received"))
    }

    pub(crate) fn end(&self) -> io::Result<()> {
        protocol::send(&self.socket, &FromLead::End, &[])
    }

    /// How the replay, which has ended, did: with the process that started it, if that is gone. None if that
    /// does not say it.
    pub(crate) fn wait(&self) -> Option<ExitStatus> {
        self.says_something().then(|| match protocol::receive(&self.socket) {
            Ok(Some((ToLead::Ended(status), _))) => ExitStatus::from_raw(status),
            _ => ExitStatus::from_raw(libc::SIGKILL),
        })
    }

    /// Within its time, be it that it has ended.
    fn says_something(&self) -> bool {
        let until = Instant::now() + self.patience;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match protocol::ready(&[self.socket.as_raw_fd()], left) {
                Ok(ready) if ready.is_empty() && !left.is_zero() => {}
                Ok(ready) => return !ready.is_empty(),
                // What is wrong with it shows when it is read.
                Err(_) => return true,
            }
        }
    }
}
