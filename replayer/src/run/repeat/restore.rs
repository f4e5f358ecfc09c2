//! The memory that a range of calls writes, found by running it once: all memory is read before and after,
//! and the old contents of every difference are kept.

use crate::driver::Failure;
use crate::memory::live_address::LiveAddress;
use crate::plan::memory::allocation_names::AllocationNames;
use crate::session::Session;
use crate::session::device_memory::read;
use std::ops::Range;
use trace::base::free_memory;
use trace::base::hash::Hash;

/// Bytes that are compared, kept and restored together.
const PIECE: usize = 1 << 20;

/// The contents of all the program's memory before the range.
pub(crate) struct Snapshot {
    regions: Vec<Region>,
    /// Allocations that could not be read.
    pub unread: u64,
}

struct Region {
    live: u64,
    is_host: bool,
    bytes: Vec<u8>,
}

/// A piece of memory that the range writes.
struct WrittenPiece {
    live: u64,
    is_host: bool,
    before: Vec<u8>,
    /// What it holds when the range has been done.
    after: Hash,
}

/// The memory that the range writes.
#[derive(Default)]
pub(crate) struct RangeWrites {
    pieces: Vec<WrittenPiece>,
    pub bytes: u64,
    pub unread: u64,
}

impl Snapshot {
    /// To be called when nothing is under way. `at`: the first call of the range.
    pub(crate) fn read(session: &Session, at: u64) -> Result<Snapshot, String> {
        let named = AllocationNames::before_call(session.trace, at);
        let needed: u64 = named.ranges().map(|range| range.len).sum();
        let free = free_memory::memory().unwrap_or(u64::MAX);
        if needed > free / 2 {
            return Err(format!(
                "the program has {needed} bytes allocated at the start of the range; saving them needs host memory, {free} bytes are free"
            ));
        }
        let mut snapshot = Snapshot { regions: Vec::new(), unread: 0 };
        for range in named.ranges().filter(|range| range.len > 0) {
            let is_host = range.label == "host";
            let live = match is_host {
                true => session.placement.host(&(range.base..range.base + range.len)),
                false => session.placement.bound(&(range.base..range.base + range.len)).map(LiveAddress::word),
            };
            match live.and_then(|live| Some((live, contents(session, live..live + range.len, is_host).ok()?))) {
                Some((live, bytes)) => snapshot.regions.push(Region { live, is_host, bytes }),
                None => snapshot.unread += 1,
            }
        }
        Ok(snapshot)
    }

    /// What differs now.
    pub(crate) fn written(self, session: &Session) -> RangeWrites {
        let mut written = RangeWrites { unread: self.unread, ..RangeWrites::default() };
        for region in self.regions {
            let len = region.bytes.len() as u64;
            let Ok(now) = contents(session, region.live..region.live + len, region.is_host) else {
                written.unread += 1;
                continue;
            };
            let pieces = region.bytes.chunks(PIECE).zip(now.chunks(PIECE)).enumerate();
            for (at, (before, after)) in pieces.filter(|(_, (before, after))| before != after) {
                let live = region.live + (at * PIECE) as u64;
                let (before, after) = (before.to_vec(), Hash::compute(after));
                written.bytes += before.len() as u64;
                written.pieces.push(WrittenPiece { live, is_host: region.is_host, before, after });
            }
        }
        written
    }
}

impl RangeWrites {
    /// Puts everything back, and reads it to see that it is there.
    pub(crate) fn restore(&self, session: &Session) -> Result<(), String> {
        for piece in &self.pieces {
            let bytes = &piece.before;
            if piece.is_host {
                // SAFETY: the placement holds this memory, writable, until the end, and nothing is under way.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), piece.live as *mut u8, bytes.len()) };
                continue;
            }
            session.driver.write(piece.live, bytes).map_err(|failure| format!("{:#x}: {failure}", piece.live))?;
        }
        for piece in &self.pieces {
            let held = contents(session, piece.live..piece.live + piece.before.len() as u64, piece.is_host);
            if !held.is_ok_and(|held| held == piece.before) {
                return Err(format!("{:#x}: restored bytes differ", piece.live));
            }
        }
        Ok(())
    }

    /// How many pieces hold something else than after the first time.
    pub(crate) fn differing(&self, session: &Session) -> u64 {
        let differs = |piece: &&WrittenPiece| {
            let held = contents(session, piece.live..piece.live + piece.before.len() as u64, piece.is_host);
            !held.is_ok_and(|held| Hash::compute(&held) == piece.after)
        };
        self.pieces.iter().filter(differs).count() as u64
    }

    /// What stands before the range at live host memory that the range writes, or that it leaves alone.
    pub(crate) fn holds(&self, host: &Range<u64>) -> bool {
        self.pieces
            .iter()
            .any(|piece| piece.is_host && piece.live < host.end && host.start < piece.live + piece.before.len() as u64)
    }
}

fn contents(session: &Session, live: Range<u64>, is_host: bool) -> Result<Vec<u8>, Failure> {
    if is_host {
        // SAFETY: the placement holds this memory, readable, until the end, and nothing that writes it is
        // under way.
        return Ok(
            unsafe { std::slice::from_raw_parts(live.start as *const u8, (live.end - live.start) as usize) }.to_vec()
        );
    }
    let mut bytes = Vec::new();
    read(session, live, |piece| bytes.extend_from_slice(piece)).map(|()| bytes)
}
