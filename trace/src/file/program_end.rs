//! The end of a program, in words.

use crate::file::record::Ended;
use std::fmt::{Display, Formatter, Result};

/// Signals that end programs, by their numbers on x86-64.
const SIGNALS: &[(i32, &str)] = &[
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (5, "SIGTRAP"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (10, "SIGUSR1"),
    (11, "SIGSEGV"),
    (12, "SIGUSR2"),
    (13, "SIGPIPE"),
    (14, "SIGALRM"),
    (15, "SIGTERM"),
    (24, "SIGXCPU"),
    (25, "SIGXFSZ"),
    (31, "SIGSYS"),
];

impl Ended {
    /// Whether the program exited with status 0.
    pub fn is_success(self) -> bool {
        self == Ended { status: 0, signal: 0 }
    }
}

/// `exit 3`, `SIGSEGV`
impl Display for Ended {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match (self.signal, SIGNALS.iter().find(|(number, _)| *number == self.signal)) {
            (0, _) => write!(f, "exit {}", self.status),
            (_, Some((_, name))) => f.write_str(name),
            (number, None) => write!(f, "signal {number}"),
        }
    }
}
