//! The contents of other processes' memory at the moment when this process used it.

use bincode::{Decode, Encode};

/// Kind of the record.
pub const HELD: u8 = 27;

/// Contents of memory that another process had exported, with `record --shared-memory`: once, without pieces,
/// when a call imported it by its address; in parts before each call that may use it, and again behind the
/// call if it may have written there.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct ImportedMemory {
    /// Thread index and call number on that thread.
    pub call: (u32, u32),
    /// Where this process has it, and how many bytes.
    pub address: u64,
    /// Bytes of the memory.
    pub len: u64,
    /// The bytes, by the hashes of blobs of [`PIECE`](super::PIECE) bytes, the last one shorter.
    pub pieces: Vec<[u8; 16]>,
    /// Why they are not in the trace; empty if they are.
    pub lost: String,
    /// When the call's work was done.
    pub is_behind: bool,
}
