//! Memory that several replays share: one exports its pieces, and the others map them.
//!
//! The driver's IPC handles map memory at an address that nobody can choose. Pieces are physical memory, so
//! they are exported as descriptors, and mapped at the address of the recorded process.

use crate::base::addresses::GRANULE;
use crate::base::ranges::widen;
use crate::driver::{Failure, result};
use crate::memory::place::Placement;
use crate::plan::memory::allocations::Allocation;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;

impl Placement<'_> {
    /// The pieces that a recorded allocation lies in, by their recorded addresses.
    pub(crate) fn export(&self, memory: &Range<u64>) -> Result<Vec<(Range<u64>, OwnedFd)>, String> {
        let pieces = self.pieces.lock();
        if !self.is_in_place(memory.start) || !pieces.gaps(memory).is_empty() {
            return Err("it is not at its recorded address in the replay".into());
        }
        let all = pieces.pieces_around(memory).into_iter();
        let exported = all.map(|piece| Ok((piece.clone(), self.driver.export_mapped(piece.start)?)));
        exported.collect::<Result<_, Failure>>().map_err(|failure| failure.to_string())
    }

    /// Maps what another process has at `theirs` where this one had it.
    pub(crate) fn import(
        &self,
        range: Range<u64>,
        device: i32,
        theirs: u64,
        pieces: Vec<(Range<u64>, OwnedFd)>,
    ) -> Result<(), Failure> {
        let len = range.end - range.start;
        self.counts.bytes.fetch_add(len, Relaxed);
        let to_here = range.start.wrapping_sub(theirs);
        let moved = pieces
            .iter()
            .map(|(piece, file)| (piece.start.wrapping_add(to_here)..piece.end.wrapping_add(to_here), file));
        let moved: Vec<(Range<u64>, &OwnedFd)> = moved.collect();
        if self.import_in_place(&range, device, &moved)? {
            self.counts.placed.fetch_add(1, Relaxed);
            return Ok(());
        }
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return Ok(()) };
        let live = self.driver.reserve_addresses(last.0.end - first.0.start, 0, 0)?;
        for (piece, file) in &pieces {
            self.map_imported(live + (piece.start - first.0.start), piece.end - piece.start, device, file)?;
        }
        self.translation.bind(range.start, len, live + (theirs - first.0.start));
        self.counts.translated.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Has memory of this replay's own where the recorded process had that of another, once however often it
    /// was opened.
    pub(crate) fn stand_in(&self, allocation: &Allocation) -> Result<(), Failure> {
        let start = allocation.range.start;
        if let Some(times) = self.imported.lock().get_mut(&start) {
            *times += 1;
            return Ok(());
        }
        self.allocate(allocation, None)?;
        self.imported.lock().insert(start, 1);
        Ok(())
    }

    pub(crate) fn close_stand_in(&self, start: u64) -> Result<(), Failure> {
        if let Some(times @ 2..) = self.imported.lock().get_mut(&start) {
            *times -= 1;
            return Ok(());
        }
        self.free(start)
    }

    /// False if it cannot be had there.
    fn import_in_place(
        &self,
        range: &Range<u64>,
        device: i32,
        moved: &[(Range<u64>, &OwnedFd)],
    ) -> Result<bool, Failure> {
        let is_whole = |(piece, _): &(Range<u64>, _)| {
            piece.start.is_multiple_of(GRANULE)
                && self.reserved().any(|one| one.start <= piece.start && piece.end <= one.end)
        };
        if !self.held.covers(&widen(range.clone(), GRANULE)) || !moved.iter().all(is_whole) {
            return Ok(false);
        }
        self.translation.forget(range);
        // What of this is mapped already came with another allocation of the same exporter, if it lives.
        self.vacate(range)?;
        let mut all = self.pieces.lock();
        for (piece, file) in moved {
            if all.gaps(piece) != [piece.clone()] {
                continue;
            }
            self.map_imported(piece.start, piece.end - piece.start, device, file)?;
            all.mapped(piece.clone(), device);
        }
        all.allocated(range.clone());
        drop(all);
        self.homes.lock().insert(range.start, range.end);
        self.misses_no_more(range);
        *self.imported.lock().entry(range.start).or_default() += 1;
        Ok(true)
    }

    fn map_imported(&self, at: u64, len: u64, device: i32, file: &OwnedFd) -> Result<(), Failure> {
        self.driver.map_imported(file.as_raw_fd(), at, len)?;
        self.allow(device, at..at + len)
    }

    /// Memory that ends, however often it is open: what is allocated there later is not another process's.
    /// Whether this one is.
    pub(crate) fn gives_up(&self, start: u64) -> bool {
        self.imported.lock().remove(&start).is_some()
    }

    /// Memory of another process is given up, by the address where the recorded program had it.
    pub(crate) fn close(&self, address: u64) -> Result<(), Failure> {
        let home = self.homes.lock().range(..=address).next_back().map(|(start, end)| *start..*end);
        let Some(range) = home.filter(|home| home.contains(&address)) else {
            // Its addresses stay taken: nothing else is to be found there.
            return self
                .translation
                .unbind(address)
                .map(|_| ())
                .ok_or(Failure { name: "imported memory", code: Some(result::INVALID_VALUE) });
        };
        let mut imported = self.imported.lock();
        match imported.get_mut(&range.start) {
            Some(times @ 2..) => {
                *times -= 1;
                return Ok(());
            }
            _ => _ = imported.remove(&range.start),
        }
        drop(imported);
        self.wait()?;
        self.freed(range.start);
        self.vacate(&range).map(drop)
    }
}
