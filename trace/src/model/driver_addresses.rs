//! Addresses inside the driver that no call returns: code, virtual function tables, variables and strings
//! that were never looked up, windows of shared and local memory. Kernels see them and may copy them to the
//! host, and the program may pass them back. They differ in every process, but within blocks of 2 MiB the
//! layout is the same (tests/gpu/facts/driver_addresses.cu; driver 580).

use crate::base::maps::Mapping;
use std::ops::Range;

/// What lies in a block moves with it.
pub const BLOCK: u64 = 2 << 20;

/// Of results as long as this the bytes are kept if they hold such addresses: what those are when replayed is
/// learned there.
pub const MOST: usize = 64 << 10;

/// Whether a word may be one: where a process has its mappings. (From a third of its addresses on, where its
/// stack may grow without limit.)
pub fn may_be(word: u64) -> bool {
    (1 << 45..1 << 47).contains(&word)
}

/// Where the block begins in which this address lies.
pub fn block_of(address: u64) -> u64 {
    address & !(BLOCK - 1)
}

/// Addresses that this process has and the CPU may not touch: so the driver keeps those of devices.
pub fn closed() -> Vec<Range<u64>> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().filter_map(closed_range).collect()
}

fn closed_range(line: &str) -> Option<Range<u64>> {
    let Mapping { range, access, .. } = Mapping::parse(line)?;
    access.starts_with("---").then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_that_the_cpu_may_not_touch() {
        let line = "7fb5f7600000-7fb5f7800000 ---p 00000000 00:00 0 ";
        assert_eq!(closed_range(line), Some(0x7fb5_f760_0000..0x7fb5_f780_0000));
        assert_eq!(closed_range("7fb5f7600000-7fb5f7800000 rw-p 00000000 00:00 0 "), None);
    }
}
