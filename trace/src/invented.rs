//! Addresses of the driver's own that no call hands out: code, tables of virtual functions, variables and texts whose
//! names nobody asked for, windows of shared and local memory. Kernels see them and may bring them to the host, and the
//! program may give them back. They are others in every process; within blocks of 2 MiB all lies as it did
//! (tests/gpu/facts/driver_addresses.cu; driver 580).

/// What lies in a block moves with it.
pub const BLOCK: u64 = 2 << 20;

/// Of results as long as this the bytes are kept if they hold such addresses: what those are when replayed is learned there.
pub const MOST: usize = 64 << 10;

/// Whether a word may be one: where a process has its mappings. (From a third of its addresses on, where its stack may grow without limit.)
pub fn may_be(word: u64) -> bool {
    (1 << 45..1 << 47).contains(&word)
}
