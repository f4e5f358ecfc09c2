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
    pub time: u64,
    /// NCCL's own: the same at all of its ranks.
    pub id: u64,
    /// Unique in the file; operations name it.
    pub number: u32,
    pub rank: i32,
    /// How many ranks, and on how many hosts; 0: NCCL's plugin interface does not tell before version 4.
    pub ranks: u32,
    pub hosts: u32,
    /// Of NCCL's plugin interface.
    pub version: u32,
    /// As the program calls it; empty if it does not.
    pub name: String,
}

/// An operation as NCCL describes it. NCCL's names are truncated to their fields and padded with zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub struct Began {
    pub time: u64,
    /// Unique in the file.
    pub operation: u64,
    /// The operation as the program asked for it, of one that is given to the device; 0: not known.
    pub parent: u64,
    /// Elements.
    pub count: u64,
    /// NCCL's own count of its function on its communicator.
    pub sequence: u64,
    pub stream: u64,
    pub source: u64,
    pub destination: u64,
    pub communicator: u32,
    /// The other rank of a send or receive, the root of a collective; -1: not told.
    pub peer: i32,
    pub what: u8,
    pub captured: bool,
    pub channels: u8,
    pub warps: u8,
    pub zero: u32,
    pub function: Name,
    pub datatype: Name,
    pub algorithm: Name,
    pub protocol: Name,
}

pub type Name = [u8; 16];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Returned {
    pub time: u64,
    pub operation: u64,
}

/// What an operation brought to this rank.
pub const DELIVERED: u8 = 25;

/// The result of an operation at this rank, with `record --collectives`: once for each operation that was
/// submitted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Delivered {
    pub operation: u64,
    /// The launch that it is part of: thread index and call number on that thread. Several operations may be
    /// part of one.
    pub launch: Option<(u32, u32)>,
    /// Where it brought bytes, and how many: none to a rank that only sends.
    pub address: u64,
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
