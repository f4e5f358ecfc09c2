//! Properties of addresses that need no query: block sizes, plausibility, ranges.

use std::ops::Range;

/// The driver gives out neighbouring device addresses in blocks of this size, and reserves them exactly
/// (facts of driver 580: a hint is honoured if it is aligned to 32 MiB and the size is about that or more).
pub(crate) const BLOCK: u64 = 32 << 20;
pub(crate) const PAGE: u64 = 4096;
/// Device memory is mapped in multiples of this.
pub(crate) const GRANULE: u64 = 2 << 20;

/// Within what x86-64 gives a process, and too large for a small number.
pub(crate) fn looks_like_address(value: u64) -> bool {
    (1 << 32..1 << 47).contains(&value)
}

/// An address that no memory can have makes a range that nothing holds.
pub(crate) fn extent(start: u64, len: usize) -> Range<u64> {
    start..start.saturating_add(len as u64)
}
