//! Options of a replay, and the receiver of its progress.

use crate::base::extent::Tolerance;
use crate::diagnose::serial_launches::HashedLaunches;
use crate::job::peer_waits::PeerWait;
use crate::job::peers::Peers;
use crate::profile::Measure;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The options of a replay.
#[derive(Debug, Clone)]
pub struct Options {
    /// The driver library to use.
    pub driver: PathBuf,
    /// Compare results, outputs and copies with the recording.
    pub verify: bool,
    /// Recorded device ordinal to live device ordinal; the others stay the same.
    pub devices: HashMap<i32, i32>,
    /// Put memory back at its recorded addresses; otherwise all of it is translated, and pointers that the
    /// program keeps in memory lead nowhere.
    pub place: bool,
    /// Where recorded addresses are taken, by mappings of this process or by the driver, translate, rather
    /// than stop with [`Error::Collision`](crate::Error::Collision): in another process they may be free.
    pub translate: bool,
    /// The other processes of a job, if they are replayed beside this one.
    pub company: Option<Arc<dyn Peers>>,
    /// Give up where no call has come to its end for so long. None: only what waits for other processes is given
    /// up.
    pub limit: Option<Duration>,
    /// Diagnosis beside the replay.
    pub tools: Tools,
}

/// Further actions of a replay, for debugging the program or the replay.
#[derive(Debug, Clone, Default)]
pub struct Tools {
    /// Wait for every launch, and stop at the first that fails.
    pub sync_launches: bool,
    /// The same, and hash what every launch can have written.
    pub trail: Option<HashedLaunches>,
    /// What device memory holds that the replay allocates, before the program could use it. None: zeros, and
    /// memory that is allocated again keeps what it held, as a driver may have it.
    pub fill: Option<u8>,
    /// By how much copies to the host may differ from recorded bytes. None: by nothing.
    pub tolerance: Option<Tolerance>,
    /// Take the device's times.
    pub measure: Option<Measure>,
    /// Put cuProfilerStart and cuProfilerStop round these launches and nowhere else, for other tools.
    pub marked: Option<BTreeSet<u64>>,
    /// Make a range of calls again and again, and stop behind it.
    pub repeat: Option<Repeat>,
    /// Stop before the call of this number.
    pub end: Option<u64>,
    /// Device memory to be written to files when the replay stops, or at its end.
    pub dumps: Vec<Dump>,
}

/// Memory to be written to a file when the replay stops.
#[derive(Debug, Clone)]
pub struct Dump {
    /// Recorded addresses within one allocation.
    pub range: Range<u64>,
    /// Where the bytes go, and its name for messages. What was written of it is worth nothing unless all was.
    pub file: Arc<File>,
    /// Path of the file, for messages.
    pub path: PathBuf,
}

/// The range to repeat.
#[derive(Debug, Clone)]
pub struct Repeat {
    /// The calls, by number.
    pub range: Range<u64>,
    /// Times that are not counted, and times that are.
    pub warmup: u64,
    /// Runs that count.
    pub times: u64,
    /// Where device times are taken from: libraries to try in this order, or why events are used.
    pub cupti: Result<Vec<PathBuf>, String>,
}

/// The receiver of a replay's progress.
pub trait Progress: Sync {
    /// So many more of the planned calls are done.
    fn advance(&self, calls: u64);

    /// Nothing has come to an end for so long: the calls that are being waited for, by number and function.
    /// None: the replay is at its end, and waits for work that the recording left under way.
    fn stalled(&self, _: Duration, _: &[(u64, String)]) {}
    /// The same for a shorter time, if what is waited for may wait for processes that are not replayed here.
    fn awaits_others(&self, _: Duration, _: &[(u64, String)], _: &[PeerWait]) {}
    /// The same for longer than is waited: the process is to be ended.
    fn gives_up(&self, _: Duration, _: &[(u64, String)]) {}
    /// The driver has not started, or recorded addresses have not been taken, for longer than is waited: the
    /// process is to be ended.
    fn does_not_begin(&self, _: Duration) {}
    /// Something that may spoil the replay, found before it begins.
    fn warn(&self, _: &str) {}
}

/// No report of progress.
impl Progress for () {
    fn advance(&self, _: u64) {}
}
