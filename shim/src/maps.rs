//! What the kernel says about the process's mappings.

use std::ops::Range;

/// Whether part of this memory is a file's, so that it may be written through other mappings, by other processes or by system
/// calls: none of which shows in this process's page table.
pub fn is_shared(pages: &Range<u64>) -> bool {
    std::fs::read_to_string("/proc/self/maps").is_ok_and(|maps| maps.lines().any(|line| shares(line, pages)))
}

fn shares(line: &str, pages: &Range<u64>) -> bool {
    let mut words = line.split_ascii_whitespace();
    let (Some((start, end)), Some(access)) = (words.next().and_then(|range| range.split_once('-')), words.next())
    else {
        return false;
    };
    let address = |text| u64::from_str_radix(text, 16).unwrap_or(0);
    if !access.ends_with('s') || address(end) <= pages.start || pages.end <= address(start) {
        return false;
    }
    // Devices give pinned memory that is the driver's own.
    words.nth(3).is_some_and(|path| !path.starts_with("/dev/") || path.starts_with("/dev/shm/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_shared_and_the_drivers_memory_is_not() {
        let shared = |line: &str| shares(line, &(0x7f00_0000_1000..0x7f00_0000_2000));
        assert!(shared("7f0000000000-7f0000002000 rw-s 00000000 00:01 1025    /memfd:buffer (deleted)"));
        assert!(shared("7f0000001000-7f0000005000 rw-s 00000000 00:1a 7       /dev/shm/torch_12"));
        assert!(!shared("7f0000002000-7f0000005000 rw-s 00000000 00:1a 7      /dev/shm/torch_12"));
        assert!(!shared("7f0000000000-7f0000002000 rw-p 00000000 00:1a 7      /lib/libc.so.6"));
        assert!(!shared("7f0000000000-7f0000002000 rw-s 00000000 00:05 9      /dev/zero (deleted)"));
        assert!(!shared("7f0000000000-7f0000002000 rw-s 00000000 00:06 9      /dev/nvidiactl"));
        assert!(!shared("7f0000000000-7f0000002000 rw-p 00000000 00:00 0"));
    }
}
