//! Placement of memory at its recorded addresses.
//!
//! Right after cuInit, before any context, whole 32 MiB blocks around all recorded device ranges are
//! reserved, and the pages of pinned host ranges are mapped (inside a reservation too: the driver accepts
//! them there). Device memory is created and mapped piece by piece when the recorded program first allocates
//! it, and stays: a later allocation of the same address finds its piece mapped. Pieces without a live
//! allocation are released when memory runs out, or when something else is recorded at their addresses.
//! Recorded frees change nothing except what they wait for.
//!
//! Ranges that cannot be reserved are allocated elsewhere and translated.

use crate::base::addresses::GRANULE;
use crate::base::error::Error;
use crate::base::ranges::{Ranges, widen};
use crate::driver::stream::{relaxed, synchronize};
use crate::driver::{Driver, Failure, result};
use crate::job::shared_host::SharedHost;
use crate::memory::captures::Captures;
use crate::memory::devices::shortages;
use crate::memory::objects::Objects;
use crate::memory::pieces::Pieces;
use crate::memory::pinned::map_host;
use crate::memory::reserve::reserve;
use crate::memory::stream_ordered::StreamPosition;
use crate::memory::translate::Translation;
use crate::memory::words::unheld;
use crate::plan::Plan;
use crate::plan::memory::allocations::Allocation;
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use trace::base::maps;
use trace::model::stream::StreamHandle;

/// Counts of placed and translated memory.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub placed: AtomicU64,
    pub translated: AtomicU64,
    pub host_placed: AtomicU64,
    pub host_translated: AtomicU64,
    pub bytes: AtomicU64,
    /// Pieces that could not be filled with zeros.
    pub unfilled: AtomicU64,
    /// Allocations of what another stream freed that do not wait for it.
    pub unordered: AtomicU64,
    /// Why the first address could not be had.
    pub why: OnceLock<String>,
}

impl Counts {
    pub(crate) fn is_elsewhere(&self, why: String) {
        let _only_the_first = self.why.set(why);
    }
}

pub(crate) struct Placement<'a> {
    pub(crate) driver: &'a Driver,
    objects: &'a Objects,
    pub(crate) translation: &'a Translation,
    /// Each reservation: a mapping must not cross from one into another.
    reserved: Vec<Range<u64>>,
    pub(crate) held: Ranges,
    /// Pages of ours at recorded addresses of pinned memory.
    pub(crate) pages: Ranges,
    /// Recorded addresses that are neither.
    pub(crate) unheld: Ranges,
    /// Live devices, each once.
    devices: Vec<i32>,
    pub(crate) pieces: Mutex<Pieces>,
    /// Live contexts in which memory was freed in stream order: its last work may be under way there.
    pub(crate) left: Mutex<HashSet<u64>>,
    /// Allocations and reservations that are where they were, start to end. Held for no driver call:
    /// callbacks, which such a call may wait for, look addresses up.
    pub(crate) homes: Mutex<BTreeMap<u64, u64>>,
    /// Allocations that there was no memory for, start to end.
    pub(crate) missing: Mutex<BTreeMap<u64, u64>>,
    /// Pinned memory that is elsewhere, by its recorded start: where it was, and pages of ours where it is.
    pub(crate) elsewhere: Mutex<HashMap<u64, (Range<u64>, u64)>>,
    /// By the recorded free: an event in its stream's order, and how many allocations have to wait for it.
    pub(crate) marks: Mutex<HashMap<u64, (u64, u32)>>,
    /// Pinned memory by its recorded start: its recorded end.
    pub(crate) pinned: Mutex<BTreeMap<u64, u64>>,
    /// Memory of other processes, by its recorded start: how often it was opened.
    pub(crate) imported: Mutex<HashMap<u64, u32>>,
    /// Pinned memory that other processes have, too.
    pub shared_host: SharedHost,
    pub captures: Captures,
    /// Other processes may map the pieces.
    is_shared: bool,
    /// Freed memory is unmapped at once.
    unmaps: bool,
    /// Memory elsewhere has no room behind it: what the recorded program met there is to be met again.
    pub(crate) is_exact: bool,
    /// What memory is filled with each time that it is allocated; none: with zeros, when it is mapped, or
    /// would be anew.
    pub fill: Option<u8>,
    pub counts: Counts,
    /// Devices that may be too small or of another kind, in words.
    pub shortages: Vec<String>,
}

impl<'a> Placement<'a> {
    /// Takes the recorded addresses. To be called after cuInit and before anything else.
    pub(crate) fn prepare(
        driver: &'a Driver,
        objects: &'a Objects,
        translation: &'a Translation,
        plan: &Plan,
        place: bool,
        fill: Option<u8>,
        is_shared: bool,
    ) -> Result<Self, Error> {
        let counts = Counts::default();
        let blocks = plan.addresses.blocks.iter().filter(|_| place);
        let refused = |why| counts.is_elsewhere(why);
        let is_full = Cell::new(false);
        let reserved: Vec<Range<u64>> =
            blocks.flat_map(|run| reserve(driver, run, &plan.addresses.reserved, &is_full, refused)).collect();
        let held = Ranges::union(reserved.iter().cloned(), 1);
        let pages = plan.addresses.pages.iter().filter(|run| place && map_host(&held, run.clone()));
        let pages = Ranges::union(pages, 1);
        let all = |of: &Ranges, and: &Ranges| Ranges::union(of.iter().chain(and.iter()), 1);
        let unheld = unheld(&all(&plan.addresses.blocks, &plan.addresses.pages), &all(&held, &pages));
        Ok(Placement {
            driver,
            objects,
            translation,
            reserved,
            held,
            pages,
            unheld,
            devices: plan
                .devices
                .used
                .iter()
                .map(|device| objects.device(*device))
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
            pieces: Mutex::default(),
            left: Mutex::default(),
            shortages: shortages(driver, objects, plan)?,
            homes: Mutex::default(),
            unmaps: plan.fault.is_some(),
            is_exact: !place && plan.fault.is_some(),
            fill,
            missing: Mutex::default(),
            elsewhere: Mutex::default(),
            marks: Mutex::default(),
            pinned: Mutex::default(),
            imported: Mutex::default(),
            shared_host: SharedHost::default(),
            is_shared,
            captures: Captures::default(),
            counts,
        })
    }

    /// What could not be taken of the recorded addresses, in words.
    pub(crate) fn refused(&self) -> Option<String> {
        let first = self.unheld.iter().next()?;
        let met = |range: Range<u64>| range.start < first.end && first.start < range.end;
        let mapped = maps::find(met).ok().flatten().map(|mapping| format!("in use by {mapping}"));
        let why: Vec<String> = self.counts.why.get().cloned().into_iter().chain(mapped).collect();
        let (of, why) =
            (self.unheld.bytes(), if why.is_empty() { String::new() } else { format!(": {}", why.join("; ")) });
        Some(format!("{of} bytes, the first {} at {:#x}{why}", first.end - first.start, first.start))
    }

    /// Has memory where the recorded allocation had it. Needs a current context.
    pub(crate) fn allocate(&self, allocation: &Allocation, ordered: Option<StreamPosition>) -> Result<(), Failure> {
        let done = self.allocate_at(allocation, ordered);
        match done {
            Ok(()) => self.misses_no_more(&allocation.range),
            Err(_) => self.misses(allocation.range.clone()),
        }
        done
    }

    fn allocate_at(&self, allocation: &Allocation, ordered: Option<StreamPosition>) -> Result<(), Failure> {
        let device = self.objects.device(allocation.device);
        let wide = widen(allocation.range.clone(), GRANULE);
        let len = allocation.range.end - allocation.range.start;
        self.counts.bytes.fetch_add(len, Relaxed);
        if self.held.covers(&wide) && self.put_back(allocation, device, &ordered)? {
            self.counts.placed.fetch_add(1, Relaxed);
            return Ok(());
        }
        let live = self.allocate_elsewhere(len, ordered)?;
        self.translation.bind(allocation.range.start, len, live);
        self.counts.translated.fetch_add(1, Relaxed);
        Ok(())
    }

    /// At its addresses; false if the driver will not have it there.
    fn put_back(
        &self,
        allocation: &Allocation,
        device: i32,
        ordered: &Option<StreamPosition>,
    ) -> Result<bool, Failure> {
        // What was here before may have been elsewhere: a variable of a module that is gone, a neighbour in
        // need of more.
        self.translation.forget(&allocation.range);
        let mut pieces = self.pieces.lock();
        // The address may have been another device's.
        self.unmap(&mut pieces, &allocation.range, Some(device))?;
        // Not where work of what was freed may be under way yet.
        let is_settled = ordered.is_none() && self.left.lock().is_empty();
        if let Some(_none) = self.captures.none().filter(|_| is_settled && self.fill.is_none()) {
            pieces.idle_granules(&allocation.range).into_iter().for_each(|granules| self.put_fill(granules));
        }
        for gap in pieces.gaps(&allocation.range) {
            for block in self.reserved.iter().filter(|block| block.start < gap.end && gap.start < block.end) {
                let piece = gap.start.max(block.start)..gap.end.min(block.end);
                let mut done = self.map(device, piece.clone());
                if matches!(done, Err(Failure { code: Some(result::OUT_OF_MEMORY), .. })) {
                    self.unmap(&mut pieces, &(0..u64::MAX), None)?;
                    done = self.map(device, piece.clone());
                }
                if let Err(failure @ Failure { code: Some(result::INVALID_VALUE), .. }) = done {
                    self.counts.is_elsewhere(format!("{failure} at {:#x}", piece.start));
                    return Ok(false);
                }
                done?;
                pieces.mapped(piece.clone(), device);
                self.put_fill(piece);
            }
        }
        if self.fill.is_some() {
            self.refill(allocation.range.clone(), ordered);
        }
        pieces.allocated(allocation.range.clone());
        self.homes.lock().insert(allocation.range.start, allocation.range.end);
        Ok(true)
    }

    /// Memory at its place belongs to nobody any more.
    pub(crate) fn freed(&self, start: u64) {
        self.homes.lock().remove(&start);
        self.pieces.lock().freed(start);
    }

    /// Frees what is elsewhere, and waits as the driver's own free does. Memory at its place stays mapped,
    /// unless the recorded program met a fault: it may have used what it had freed.
    pub(crate) fn free(&self, start: u64) -> Result<(), Failure> {
        let is_imported = self.gives_up(start);
        if let Some(live) = self.translation.unbind(start) {
            return self.driver.free(live);
        }
        let end = self.homes.lock().get(&start).copied();
        if self.captures.none().is_none() {
            self.left.lock().insert(self.driver.current_context());
        }
        // First: who allocates beside it meanwhile must not take it for given back.
        let waited = self.wait();
        self.freed(start);
        waited?;
        if let Some(end) = end.filter(|_| self.unmaps || is_imported) {
            self.vacate(&(start..end))?;
        }
        Ok(())
    }

    /// The memory of a context that has ended: the driver has freed what is elsewhere.
    pub(crate) fn end(&self, memory: &[u64]) {
        for start in memory {
            self.gives_up(*start);
            self.translation.unbind(*start);
            self.elsewhere.lock().remove(start);
            self.freed(*start);
        }
    }

    /// Unmaps what no recorded allocation needs any more of this range; whether there was anything.
    pub(crate) fn vacate(&self, range: &Range<u64>) -> Result<bool, Failure> {
        self.unmap(&mut self.pieces.lock(), range, None)
    }

    /// Work of freed memory may still be under way in the current context, or where it was freed in stream
    /// order: it is waited for. (Other memory of another context is freed by a call of its own, which has
    /// waited.)
    fn unmap(&self, pieces: &mut Pieces, within: &Range<u64>, but: Option<i32>) -> Result<bool, Failure> {
        let Some(_none) = self.captures.none() else { return Ok(false) };
        let dead = pieces.take_dead(within, but);
        if dead.is_empty() {
            return Ok(false);
        }
        self.wait()?;
        for context in std::mem::take(&mut *self.left.lock()) {
            // Its errors are its own calls' to report.
            let _ = self.relaxed(|| synchronize(self.driver, context));
        }
        for piece in dead {
            self.driver.unmap(piece.start, piece.end - piece.start)?;
        }
        Ok(true)
    }

    /// A live context is about to end, which ends its work.
    pub(crate) fn ends_context(&self, context: u64) {
        self.left.lock().remove(&context);
    }

    /// Waits for all work of the current context, unless a capture is under way, which that would break.
    pub(crate) fn wait(&self) -> Result<(), Failure> {
        let Some(_none) = self.captures.none() else { return Ok(()) };
        // First: what others free meanwhile is not waited for.
        let context = self.driver.current_context();
        let had_left = self.left.lock().remove(&context);
        let waited = self.relaxed(|| self.driver.synchronize_context());
        if had_left && waited.is_err() {
            self.left.lock().insert(context);
        }
        waited
    }

    /// A recorded reservation: its addresses are already held, or others are taken for it.
    pub(crate) fn reserve(&self, range: Range<u64>, alignment: u64) -> Result<(), Failure> {
        self.misses_no_more(&range);
        // A mapping must not cross from one reservation into another.
        if self.reserved.iter().any(|one| one.start <= range.start && range.end <= one.end) {
            self.translation.forget(&range);
            self.homes.lock().insert(range.start, range.end);
            return Ok(());
        }
        let len = range.end - range.start;
        let live = self.driver.reserve_addresses(len, alignment, 0)?;
        self.translation.bind_reserved(range.start, len, live);
        self.counts.translated.fetch_add(1, Relaxed);
        Ok(())
    }

    pub(crate) fn unreserve(&self, start: u64, len: u64) -> Result<(), Failure> {
        self.homes.lock().remove(&start);
        match self.translation.unbind(start) {
            Some(live) => self.driver.free_addresses(live, len),
            None => Ok(()),
        }
    }

    /// Gives everything back. All work must have ended. A context should be current.
    pub(crate) fn release(&self) {
        // The driver does not give up a reservation with pinned memory in it. What went with its context it
        // does not know any more.
        let pinned = std::mem::take(&mut *self.pinned.lock());
        pinned.into_keys().for_each(|start| _ = self.unpin(start));
        let mut pieces = self.pieces.lock();
        pieces.all_freed();
        for piece in pieces.take_dead(&(0..u64::MAX), None) {
            let _ = self.driver.unmap(piece.start, piece.end - piece.start);
        }
        for run in self.pages.iter() {
            // SAFETY: pages this placement mapped; what is still registered goes with the process.
            unsafe { libc::munmap(run.start as *mut _, (run.end - run.start) as usize) };
        }
        for block in &self.reserved {
            let _ = self.driver.free_addresses(block.start, block.end - block.start);
        }
    }

    /// Runs `work` in a mode in which a capture elsewhere neither forbids it nor is broken by it.
    pub(crate) fn relaxed<T>(&self, work: impl FnOnce() -> T) -> T {
        relaxed(self.driver, work)
    }

    fn map(&self, device: i32, piece: Range<u64>) -> Result<(), Failure> {
        let len = piece.end - piece.start;
        self.driver.map_new(device, piece.start, len, self.is_shared)?;
        self.allow(device, piece)
    }

    /// Devices that can reach each other do so as after cuCtxEnablePeerAccess; others keep to their own.
    pub(crate) fn allow(&self, device: i32, piece: Range<u64>) -> Result<(), Failure> {
        let allow = |devices: &[i32]| self.driver.set_access(piece.start, piece.end - piece.start, devices);
        if self.devices.len() > 1 && allow(&self.devices).is_ok() { Ok(()) } else { allow(&[device]) }
    }

    pub(crate) fn reserved(&self) -> impl Iterator<Item = &Range<u64>> {
        self.reserved.iter()
    }

    /// The recorded allocation around an address, if it is where it was.
    pub(crate) fn home(&self, address: u64) -> Option<Range<u64>> {
        let homes = self.homes.lock();
        let (start, end) = homes.range(..=address).next_back()?;
        (address < *end).then_some(*start..*end)
    }

    /// Puts the fill on a stream.
    pub(crate) fn set(&self, start: u64, len: u64, stream: StreamHandle) -> Result<(), Failure> {
        self.driver.fill(start, self.fill.unwrap_or(0), len, stream)
    }

    /// Zeros (or what was asked for), so that what was never written is the same in every replay. On a stream
    /// of its own: the default stream would wait for, or break, what the program has under way.
    pub(crate) fn put_fill(&self, range: Range<u64>) {
        let fill = || {
            let stream = self.driver.create_stream()?;
            let set = self.set(range.start, range.end - range.start, stream);
            let done = self.driver.synchronize_stream(stream);
            self.driver.destroy_stream(stream)?;
            set.and(done)
        };
        if self.relaxed(fill).is_err() {
            self.counts.unfilled.fetch_add(1, Relaxed);
        }
    }
}
