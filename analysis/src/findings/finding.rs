//! Findings, each with its evidence. The code that opens a trace passes in the function that finds them:
//! `cutrace report` and the viewer show one list.

use crate::text::numbers::{bytes, counted, duration};
use bincode::{Decode, Encode};
use trace::Trace;

/// Time in which a device was idle: by its own times, or else because no work was outstanding as far as the
/// host knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Gap {
    /// Ordinal of the idle device.
    pub device: i32,
    /// Nanoseconds; of the replay's clock if it is by device times.
    pub begin: u64,
    /// Nanoseconds on the same clock.
    pub end: u64,
    /// The call that waited for all work; with device times, the one whose work was the last.
    pub after: u32,
    /// The call that submitted the next.
    pub before: u32,
    /// By device times: how long the host, and the way of the launch, are why.
    pub causes: Option<(u64, u64)>,
}

impl Gap {
    /// Nanoseconds.
    pub fn length(&self) -> u64 {
        self.end - self.begin
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Finding {
    /// A word for scripts: `failed_calls`.
    pub kind: String,
    /// In one line.
    pub what: String,
    /// Figures, and the numbers of calls.
    pub evidence: String,
    /// A command that shows more, without the trace's path: see [`Finding::command`].
    pub next: String,
    /// Cost to the program.
    pub cost: Cost,
    /// How often it was met.
    pub times: u64,
    /// Calls that show it, the costliest first.
    pub calls: Vec<u64>,
}

/// The cost to the program, by which findings are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Cost {
    /// Something is wrong, whatever time it takes.
    Wrong,
    /// Nanoseconds of the host's time that go there. Little of it is not worth telling.
    Time(i64),
    /// Bytes held that nobody uses.
    Memory(u64),
    /// Objects that are held by nobody.
    Objects(u64),
}

/// Finds out what is worth looking at, by the calls of a trace: the most important first.
pub type Find = fn(&Trace) -> Vec<Finding>;

/// Stretches in which a device had nothing to do: by its own times, and as far as the host knows.
pub const IDLE: [&str; 2] = ["device_idle", "nothing_outstanding"];
/// Calls that cannot be read.
pub const LOST: &str = "lost_calls";

impl Finding {
    /// The command that shows more of the trace at this path.
    pub fn command(&self, path: &str) -> String {
        match self.next.splitn(3, ' ').collect::<Vec<_>>()[..] {
            [program, subcommand, flags] => format!("{program} {subcommand} {path} {flags}"),
            _ => format!("{} {path}", self.next),
        }
    }

    /// In one line: what, and what it cost.
    pub fn line(&self) -> String {
        let cost = match self.cost {
            Cost::Time(ns) => duration(ns.max(0) as u64),
            Cost::Memory(held) => bytes(held),
            Cost::Objects(count) => counted(count, "object"),
            Cost::Wrong => return self.what.clone(),
        };
        format!("{} ({cost})", self.what)
    }
}
