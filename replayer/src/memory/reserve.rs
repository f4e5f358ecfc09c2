//! Reservation of recorded addresses, for the placement of memory.

use crate::base::addresses::BLOCK;
use crate::base::ranges::{Ranges, widen};
use crate::driver::{Driver, Failure, result};
use std::cell::Cell;
use std::ops::Range;

/// Whether a block can be had anywhere.
fn has_room(driver: &Driver) -> bool {
    driver.reserve_addresses(BLOCK, 0, 0).is_ok_and(|got| driver.free_addresses(got, BLOCK).is_ok())
}

/// Reserves a run of blocks, as a whole or as much of it as is free: the program's own ranges in one piece
/// each, if they can be had so, for its mappings may lie anywhere in them. What cannot be had is told by
/// `refused`. Where there is no room for a block, there is none for another: none is tried any more once
/// `is_full`.
pub(crate) fn reserve(
    driver: &Driver,
    run: Range<u64>,
    own: &[Range<u64>],
    is_full: &Cell<bool>,
    refused: impl Fn(String),
) -> Vec<Range<u64>> {
    let exactly = |range: Range<u64>| {
        let len = range.end - range.start;
        match driver.reserve_addresses(len, 0, range.start) {
            Ok(got) if got == range.start => Ok(range),
            Ok(got) => {
                let _ = driver.free_addresses(got, len);
                Err(format!("the driver returned {got:#x} instead of {:#x}", range.start))
            }
            Err(failure @ Failure { code, .. }) => {
                if len <= BLOCK && code == Some(result::OUT_OF_MEMORY) && !has_room(driver) {
                    is_full.set(true);
                }
                Err(format!("{failure} at {:#x}", range.start))
            }
        }
    };
    if run.start == 0 || is_full.get() {
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
    let rest = rest.take_while(|_| !is_full.get());
    let rest: Vec<Range<u64>> = rest.filter_map(|block| exactly(block).map_err(&refused).ok()).collect();
    if is_full.get() {
        // The process needs addresses for itself, too.
        rest.iter().for_each(|block| _ = driver.free_addresses(block.start, block.end - block.start));
        return pieces;
    }
    pieces.extend(rest);
    pieces
}
