//! Registered host memory that other processes may also have mapped, and the identity of its file.

use crate::os::maps::is_open_to_others;
use crate::os::transparency::unseen;
use crate::records::lane::Lane;
use std::ops::Range;
use trace::base::maps::Mapping;
use trace::file::record::{SHARED, Shared, with_body};

/// Behind the call that has registered this memory, which is the program's own.
#[cold]
pub(crate) fn registered(lane: &Lane, memory: Range<u64>) {
    let maps = unseen(|| std::fs::read("/proc/self/maps")).unwrap_or_default();
    let lines = maps.split(|byte| *byte == b'\n').filter_map(|line| str::from_utf8(line).ok());
    let is_part = |found: &Mapping| found.range.start < memory.end && memory.start < found.range.end;
    for found in lines.filter_map(Mapping::parse).filter(|found| is_part(found) && is_open_to_others(found, false)) {
        let (start, end) = (found.range.start.max(memory.start), found.range.end.min(memory.end));
        let offset = found.offset + (start - found.range.start);
        // The call's entry has been written: it is the latest.
        let call = lane.sequence().wrapping_sub(1);
        let Mapping { device, inode, .. } = found;
        lane.append(&with_body(SHARED, &Shared { call, zero: 0, start, len: end - start, device, inode, offset }));
    }
}
