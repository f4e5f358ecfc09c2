//! NCCL's own reports: its communicators and the operations on them.

use bincode::{Decode, Encode};

/// A communicator, before the first operation on it.
pub const COMMUNICATOR: u8 = 21;
/// An operation began.
pub const BEGAN: u8 = 22;
/// NCCL's call returned that an operation is, or what it stands in for.
pub const RETURNED: u8 = 23;

/// A communicator, as seen by one rank.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Communicator {
    /// Ticks of the recording's clock.
    pub time: u64,
    /// NCCL's own: the same at all of its ranks.
    pub id: u64,
    /// Unique in the file; operations name it.
    pub number: u32,
    /// Rank of this process in the communicator.
    pub rank: i32,
    /// How many ranks, and on how many hosts; 0: NCCL's plugin interface does not tell before version 4.
    pub ranks: u32,
    /// Number of hosts, or 0.
    pub hosts: u32,
    /// Of NCCL's plugin interface.
    pub version: u32,
    /// As the program calls it; empty if it does not.
    pub name: String,
}

/// An operation as NCCL describes it. NCCL's names are truncated to their fields and padded with zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub struct Began {
    /// Ticks of the recording's clock.
    pub time: u64,
    /// Unique in the file.
    pub operation: u64,
    /// The operation as the program asked for it, of one that is given to the device; 0: not known.
    pub parent: u64,
    /// Elements.
    pub count: u64,
    /// NCCL's own count of its function on its communicator.
    pub sequence: u64,
    /// The CUstream; 0 before version 5 of the plugin interface.
    pub stream: u64,
    /// Address of the send buffer.
    pub source: u64,
    /// Address of the receive buffer.
    pub destination: u64,
    /// Number of the communicator's record.
    pub communicator: u32,
    /// The other rank of a send or receive, the root of a collective; -1: not told.
    pub peer: i32,
    /// One of the constants in [`began`].
    pub what: u8,
    /// Whether the call was captured into a graph.
    pub captured: bool,
    /// Channels that NCCL uses, 0 if it does not report them.
    pub channels: u8,
    /// Warps of a block, 0 if NCCL does not report them.
    pub warps: u8,
    /// Always 0.
    pub zero: u32,
    /// NCCL's name of the operation: `AllReduce`.
    pub function: Name,
    /// NCCL's name of the element type: `ncclFloat32`.
    pub datatype: Name,
    /// NCCL's name of the algorithm: `RING`.
    pub algorithm: Name,
    /// NCCL's name of the protocol: `LL`.
    pub protocol: Name,
}

/// A name of NCCL's, cut to 16 bytes and filled with zeros.
pub type Name = [u8; 16];

/// The NCCL call of an operation returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Returned {
    /// Ticks of the recording's clock.
    pub time: u64,
    /// The operation's number.
    pub operation: u64,
}

/// What an operation brought to this rank.
pub const DELIVERED: u8 = 25;

/// The result of an operation at this rank, with `record --collectives`: once for each operation that was
/// submitted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Delivered {
    /// The operation's number.
    pub operation: u64,
    /// The launch that it is part of: thread index and call number on that thread. Several operations may be
    /// part of one.
    pub launch: Option<(u32, u32)>,
    /// Where it brought bytes, and how many: none to a rank that only sends.
    pub address: u64,
    /// Bytes of the result.
    pub len: u64,
    /// The bytes, by the hashes of blobs of [`PIECE`](super::PIECE) bytes, the last one shorter.
    pub pieces: Vec<[u8; 16]>,
    /// Why they are not in the trace; empty if they are.
    pub lost: String,
}

/// What began.
pub mod began {
    /// The program called a collective; versions 5 and later of the interface tell that.
    pub const COLLECTIVE_CALL: u8 = 1;
    /// The program called a send or receive; likewise.
    pub const TRANSFER_CALL: u8 = 2;
    /// NCCL has given a collective to the device, or does so next.
    pub const COLLECTIVE: u8 = 3;
    /// NCCL has given a send or receive to the device, or does so next.
    pub const TRANSFER: u8 = 4;
}
