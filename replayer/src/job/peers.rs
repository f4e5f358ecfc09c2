//! The other processes of a job that are replayed beside this one: the data that this replay sends to them
//! and receives from them. The command provides the connection.

use std::collections::HashMap;
use std::fmt::Debug;
use std::ops::Range;
use std::os::fd::OwnedFd;

/// The source of an imported handle: the call of another process that exported it, and the object there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// That process, by its place in the job.
    pub process: u32,
    /// The call that exported, by its number in that process's trace.
    pub call: u64,
    /// Of memory: the exporter's recorded allocation, and the address in it that was exported.
    pub memory: Range<u64>,
    /// The exported address within `memory`, as recorded.
    pub address: u64,
}

/// What the recorded calls of one process import, by their numbers.
pub type Imports = HashMap<u64, Source>;

/// The live counterpart of an exported handle.
#[derive(Debug)]
pub enum Live {
    /// Bytes that the driver opens an event by.
    Event(Vec<u8>),
    /// The pieces that an allocation lies in, by the exporter's recorded addresses.
    Memory(Vec<(Range<u64>, OwnedFd)>),
    /// A descriptor of physical memory.
    File(OwnedFd),
    /// Of a pool nothing is needed: other processes use the memory that lies in it alone.
    Pool,
}

/// Host memory that a call registers, and that other processes share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPart {
    /// Recorded addresses of the memory.
    pub memory: Range<u64>,
    /// A file of the job's, and where in it the first byte lies.
    pub file: u32,
    /// Position of the first byte in the file.
    pub offset: u64,
}

/// The connection to the peers. Times are on the recorded clock, which all processes of a host share.
pub trait Peers: Debug + Send + Sync {
    /// The shared handles that this process opens, with their exporters.
    fn imports(&self) -> &Imports;

    /// What a call registers of memory that others have as well.
    fn host_parts(&self, call: u64) -> &[HostPart];

    /// The file of the job's that all map there, or why it is not there.
    fn host_file(&self, file: u32) -> Result<OwnedFd, String>;

    /// The call has exported, or why it has not.
    fn tell(&self, export: u64, live: Result<Live, String>);

    /// What the other process has told, or why it is not there. Waits for it.
    fn ask(&self, source: &Source) -> Result<Live, String>;

    /// The call's outcome is another than recorded, or it was refused. May be told more than once.
    fn differs(&self, call: u64);

    /// All calls have returned that had returned before that time.
    fn advance(&self, to: u64);

    /// Returns when the others have come that far as well; false if they never will.
    fn wait(&self, until: u64) -> bool;
}

/// Why memory or an event cannot be had.
pub(crate) const NOT_EXPORTED: &str = "shared by a process that is not part of this replay";
