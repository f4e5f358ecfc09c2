//! The state of a replay that all its workers share.

use crate::call::frame::Frame;
use crate::diagnose::serial_launches::SerialLaunches;
use crate::profile::Profiler;
use crate::run::callbacks::Callbacks;
use crate::run::host_writes::HostWrites;
use crate::run::readbacks::Readbacks;
use crate::run::repeat::gate::RepeatGate;
use crate::run::side_stream::SideStream;
use crate::run::texture_ids::ReservedIds;
use crate::session::Session;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::ops::Deref;
use trace::base::hash::Hash;

/// A session with work in flight.
pub(crate) struct Run<'a> {
    pub session: Session<'a>,
    pub readbacks: Readbacks<'a>,
    /// Memory that the driver may use after the call it was made for: module images, logs, buffers of graph
    /// nodes.
    pub retained: Mutex<Vec<Frame<'a>>>,
    pub reserved_ids: ReservedIds,
    /// Live host memory that graphs may read.
    pub graph_reads: Mutex<BTreeSet<(u64, u64)>>,
    pub callbacks: Callbacks<'a>,
    pub host_writes: HostWrites<'a>,
    pub side_stream: SideStream,
    pub before_launches: Mutex<BeforeLaunches>,
    /// Calls from this number on are not made.
    pub end: u64,
    /// If the device's times are taken.
    pub profiler: Option<Profiler<'a>>,
    /// Launches that other tools are to look at.
    pub marked: Option<BTreeSet<u64>>,
    /// If a range of calls is to be made again and again.
    pub repeats: Option<RepeatGate>,
    /// If launches go one at a time.
    pub watch: Option<SerialLaunches>,
}

/// What host memory held when a launch was given it, and how many times what it made of that is still to be
/// compared: by the launch's number, the recorded address and the length.
pub(crate) type BeforeLaunches = HashMap<(u64, u64, u64), (Hash, u64)>;

impl<'a> Deref for Run<'a> {
    type Target = Session<'a>;

    fn deref(&self) -> &Session<'a> {
        &self.session
    }
}

impl Run<'_> {
    /// Whether what was looked for is found: no further call is made.
    pub(crate) fn is_stopped(&self) -> bool {
        self.watch.as_ref().is_some_and(SerialLaunches::is_found)
    }
}
