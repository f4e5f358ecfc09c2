//! Plans, re-executes and checks a trace.
//!
//! [`plan()`] walks the trace once, without a driver, and says what can be replayed (`plan/`). [`replay`] does it on any
//! `libcuda.so.1`: one worker a recorded thread under the partial order of the recording (`run/`), memory at its recorded
//! addresses or translated (`memory/`), each call rebuilt from its attachments by the roles of the driver table (`call/`) and
//! compared with what was recorded (`check/`).

mod call;
mod check;
mod driver;
mod memory;
mod plan;
pub mod profile;
mod ranges;
mod run;
#[cfg(test)]
mod sample;

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::Duration;

pub use check::bisection::{self, Bisection, Parting};
pub use check::extent::{Elements, Extent, Fill, Float, Tolerance};
pub use check::report::{Checked, Divergence, LeftOut, Outcome, Placed, Report};
pub use check::trust::BLIND;
pub use driver::result::is_sticky;
pub use driver::stream::is_left_behind;
pub use memory::words::Words;
pub use plan::called_back::reached;
pub use plan::contexts::Contexts;
pub use plan::copied::{Copied, End, copied};
pub use plan::nested::structs;
pub use plan::outstanding::{Outstanding, Wait, Work, outstanding};
pub use plan::stops::{Memory, find_call, find_launches, find_memory};
pub use plan::unordered::{Submission, Unordered, unordered};
pub use plan::verdict::{Reason, Verdict};
pub use plan::{Plan, plan};
pub use run::culprit::{Argument, Culprit, Recorded, Shape, What};
pub use run::launches::Watched;
pub use run::peek::Dump;
pub use run::repeat::{Repeat, Repeated};
pub use run::replay;

/// How to replay.
#[derive(Debug, Clone)]
pub struct Options {
    /// The driver library to use.
    pub driver: PathBuf,
    /// Compare results, outputs and copies with the recording.
    pub verify: bool,
    /// Recorded device ordinal to live device ordinal; the others stay the same.
    pub devices: HashMap<i32, i32>,
    /// Put memory back at its recorded addresses; otherwise all of it is translated, and pointers that the program
    /// keeps in memory lead nowhere.
    pub place: bool,
    /// Where recorded addresses are taken, by mappings of this process or by the driver, translate, rather than stop with
    /// [`Error::Collision`]: in another process they may be free.
    pub translate: bool,
    pub tools: Tools,
}

/// What a replay does besides, to find out what is wrong with the program or with the replay.
#[derive(Debug, Clone, Default)]
pub struct Tools {
    /// Wait for every launch, and stop at the first that fails.
    pub sync_launches: bool,
    /// The same, and hash what every launch can have written.
    pub trail: Option<Followed>,
    /// What device memory holds that the replay allocates, before the program could use it. None: zeros, and memory that
    /// is allocated again keeps what it held, as a driver may have it.
    pub fill: Option<u8>,
    /// By how much copies to the host may differ from recorded bytes. None: by nothing.
    pub tolerance: Option<Tolerance>,
    /// Take the device's times.
    pub measure: Option<profile::Measure>,
    /// Put cuProfilerStart and cuProfilerStop round these launches and nowhere else, for other tools.
    pub marked: Option<BTreeSet<u64>>,
    /// Make a range of calls again and again, and stop behind it.
    pub repeat: Option<Repeat>,
    /// Stop before the call of this number.
    pub end: Option<u64>,
    /// Device memory to be written to files when the replay stops, or at its end.
    pub dumps: Vec<Dump>,
}

/// Which launches are hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Followed {
    /// Those before the first difference that a call finds.
    UntilItDiffers,
    /// Those up to this call.
    Until(u64),
}

/// Told how far a replay has come.
pub trait Progress: Sync {
    /// So many more of the planned calls are done.
    fn advance(&self, calls: u64);

    /// Nothing has come to an end for so long: the calls that are being waited for, by number and function. None: the
    /// replay is at its end, and waits for work that the recording left under way.
    fn stalled(&self, _: Duration, _: &[(u64, String)]) {}
    /// Something that may spoil the replay, found before it begins.
    fn warn(&self, _: &str) {}
}

/// No report of progress.
impl Progress for () {
    fn advance(&self, _: u64) {}
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: the driver cannot be loaded: {source}")]
    Driver { path: PathBuf, source: libloading::Error },
    #[error("the driver does not start: {failure}")]
    Init { failure: String },
    #[error("recorded memory cannot all go where it was in this process: {what}")]
    Collision { what: String },
    #[error("device {device} cannot be asked for its memory: {failure}")]
    Device { device: i32, failure: String },
    #[error("a thread for the recorded thread {thread} cannot be started: {source}")]
    Thread { thread: u32, source: std::io::Error },
    #[error("there is no device {here} here to stand in for a recorded one; the driver has {count}")]
    NoDevice { here: i32, count: i32 },
    #[error("CUPTI cannot be used: {why}")]
    Cupti { why: String },
    #[error("the range cannot be repeated: {why}")]
    Repeat { why: String },
    #[error("{path}: {why}")]
    Dump { path: PathBuf, why: String },
    #[error("a worker of the replay panicked; its message stands above")]
    Worker,
}
