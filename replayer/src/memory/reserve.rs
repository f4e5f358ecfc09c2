//! Takes recorded addresses for memory to be put back.

use crate::addresses::BLOCK;
use crate::driver::Driver;
use crate::ranges::{Ranges, widen};
use std::ops::Range;

/// Reserves a run of blocks, as a whole or as much of it as is free: the program's own ranges in one piece
/// each, if they can be had so, for its mappings may lie anywhere in them. What cannot be had is told by
/// `refused`.
pub fn reserve(
    driver: &Driver,
    run: Range<u64>,
    own: &[Range<u64>],
    mut refused: impl FnMut(String),
) -> Vec<Range<u64>> {
    let exactly = |range: Range<u64>| {
        let len = range.end - range.start;
        match driver.reserve_addresses(len, 0, range.start) {
            Ok(got) if got == range.start => Ok(range),
            Ok(got) => {
                let _ = driver.free_addresses(got, len);
                Err(format!("the driver gives {got:#x} in place of {:#x}", range.start))
            }
            Err(failure) => Err(format!("{failure} at {:#x}", range.start)),
        }
    };
    if run.start == 0 {
        return Vec::new();
    }
    if let Ok(whole) = exactly(run.clone()) {
        return vec![whole];
    }
    let mut had = Ranges::default();
    let mut pieces = Vec::new();
    let inside = own.iter().map(|range| widen(range.clone(), BLOCK));
    for range in inside.filter(|range| run.start <= range.start && range.end <= run.end) {
        if !had.overlaps(&range)
            && let Ok(range) = exactly(range)
        {
            had.insert(range.clone());
            pieces.push(range);
        }
    }
    let blocks = (run.end - run.start) / BLOCK;
    // A run without end comes from a damaged trace; its blocks are not worth trying one by one.
    let starts = (0..blocks.min(1 << 16)).map(|n| run.start + n * BLOCK);
    let rest = starts.map(|start| start..start + BLOCK).filter(|block| !had.overlaps(block));
    pieces.extend(rest.filter_map(|block| exactly(block).map_err(&mut refused).ok()));
    pieces
}
