//! The process's mappings, as Linux reports them.

use crate::os::forks;
use std::ops::Range;
use trace::base::maps::Mapping;

/// Whether part of this memory may be written through other mappings, by other processes or by system calls:
/// none of which shows in this process's page table. What the driver gives is shared with devices, and with
/// no process that is forked.
pub(crate) fn is_shared(pages: &Range<u64>, by_driver: bool) -> bool {
    is_shared_in(&read(), pages, by_driver)
}

/// The same, of mappings that are read once for many questions.
pub(crate) fn is_shared_in(maps: &str, pages: &Range<u64>, by_driver: bool) -> bool {
    // Memory without a name only relatives can have.
    let is_own = by_driver || !forks::has_forked();
    maps.lines().any(|line| shares(line, pages, is_own))
}

/// The mappings that others may have, too; none if they cannot be read.
pub(crate) fn read() -> String {
    let is_open = |line: &&str| line.split(' ').nth(1).is_some_and(|access| access.ends_with('s'));
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.split_inclusive('\n').filter(is_open).collect()
}

fn shares(line: &str, pages: &Range<u64>, is_own: bool) -> bool {
    let is_part = |found: &Mapping| pages.start < found.range.end && found.range.start < pages.end;
    Mapping::parse(line).filter(is_part).is_some_and(|found| is_open_to_others(&found, is_own))
}

/// Whether other processes may have it, too.
/// `is_own`: no other process has memory without a name.
pub(crate) fn is_open_to_others(mapping: &Mapping, is_own: bool) -> bool {
    // Shared memory without a name has that of /dev/zero.
    let is_memory = |path: &str| match path.strip_prefix("/dev/") {
        Some("zero") => !is_own,
        Some(device) => device.starts_with("shm/"),
        None => true,
    };
    mapping.access.ends_with('s') && mapping.path.is_some_and(is_memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_shared_and_the_drivers_memory_is_not() {
        let pages = 0x7f00_0000_1000..0x7f00_0000_2000;
        let shared = |line: &str| shares(line, &pages, true);
        let anonymous = "7f0000000000-7f0000002000 rw-s 00000000 00:01 9      /dev/zero (deleted)";
        assert!(shares(anonymous, &pages, false) && !shared(anonymous));
        assert!(shared("7f0000000000-7f0000002000 rw-s 00000000 00:01 1025    /memfd:buffer (deleted)"));
        assert!(shared("7f0000001000-7f0000005000 rw-s 00000000 00:1a 7       /dev/shm/torch_12"));
        assert!(!shared("7f0000002000-7f0000005000 rw-s 00000000 00:1a 7      /dev/shm/torch_12"));
        assert!(!shared("7f0000000000-7f0000002000 rw-p 00000000 00:1a 7      /lib/libc.so.6"));
        assert!(!shared("7f0000000000-7f0000002000 rw-s 00000000 00:06 9      /dev/nvidiactl"));
        assert!(!shared("7f0000000000-7f0000002000 rw-p 00000000 00:00 0"));
    }
}
