//! What the recorded CPU wrote without a call, written again before the call that follows.
//!
//! Host memory is written where the replay has it. Managed memory is device memory here: what the CPU had there is compared
//! first, for it may only have looked at what the device had written; then that agrees, and something was checked.

use crate::memory::bound::HeldAddress;
use crate::run::readers::{FLAG, Held};
use crate::run::world::World;
use crate::run::{aside, edges, readers};
use crate::tally::Tally;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};
use trace::call::Image;
use trace::written::{Found, Written};
use trace::{Call, Trace};

/// What a callback has waited for may have been left out, or wait for the callback here.
const PATIENCE: Duration = Duration::from_millis(100);

/// All that was found before calls, in the order in which it was found. What one thread wrote another thread's call may have
/// found, and made its own call later than the writer: each is there for every call that began after it was found.
pub struct Writes<'t> {
    found: Vec<Found<'t>>,
    /// Those before this one are written.
    frontier: AtomicUsize,
    turn: Mutex<()>,
    /// What was written to let kernels go.
    early: Mutex<Tally>,
}

impl<'t> Writes<'t> {
    pub fn of(trace: &'t Trace) -> Writes<'t> {
        Writes { found: trace.found(), frontier: AtomicUsize::new(0), turn: Mutex::default(), early: Mutex::default() }
    }

    pub fn any(&self) -> bool {
        !self.found.is_empty()
    }

    /// How long calls may take before what the CPU wrote while they waited is written again: it may not be what they wait for.
    pub fn patience(&self, trace: &Trace, calls: &[u64]) -> Duration {
        const LEAST: Duration = Duration::from_secs(1);
        let recorded = |call: &u64| {
            let call = trace.call(*call)?;
            let took = trace.nanoseconds(call.end?) - trace.nanoseconds(call.begin);
            Some(Duration::from_nanos(took.max(0) as u64))
        };
        let longest = calls.iter().filter_map(recorded).max().unwrap_or_default();
        LEAST.max(2 * longest)
    }

    /// Once all calls have been made.
    pub fn close(&self, tally: &mut Tally) {
        tally.add(std::mem::take(&mut *self.early.lock()));
    }

    /// Lets kernels go that wait for the CPU, while these calls wait for them. Memory of the host alone: the driver is busy.
    pub fn let_go(&self, world: &World, calls: &[u64]) {
        let _turn = self.turn.lock();
        let mut tally = self.early.lock();
        let is_due = |found: &&Found| found.written.is_meanwhile() && calls.contains(&found.call);
        let due = self.found[self.position()..].iter().filter(is_due);
        due.flat_map(|found| found.written.images()).for_each(|image| on_host_only(world, &image, &mut tally));
    }

    /// Whether any of it was in managed memory.
    pub fn has_seen(&self) -> bool {
        self.found.iter().any(|found| found.written.is_seen())
    }

    /// How much of it is written.
    pub fn position(&self) -> usize {
        self.frontier.load(Acquire)
    }

    /// Whether something is written here that had not been found in this memory by that time when recorded, or the other way round. `position`: from
    /// when on.
    pub fn are_otherwise(&self, time: u64, memory: &Range<u64>, position: usize) -> bool {
        let then = self.found.partition_point(|found| found.time <= time);
        let between = then.min(position)..then.max(self.position());
        let mut images =
            self.found[between].iter().flat_map(|found| found.written.images()).map(|image| image.memory());
        images.any(|written| written.start < memory.end && memory.start < written.end)
    }

    /// Waits until what had been found by that time is written; false if it does not come.
    pub fn wait_until(&self, time: u64) -> bool {
        let then = self.found.partition_point(|found| found.time <= time);
        let until = Instant::now() + PATIENCE;
        while self.position() < then {
            if Instant::now() > until {
                return false;
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        true
    }

    /// Before the call is made, whatever becomes of it.
    pub fn before(&self, world: &World, call: &Call, tally: &mut Tally) {
        let is_due = |at: usize| self.found.get(at).is_some_and(|found| found.time <= call.begin);
        if !is_due(self.frontier.load(Acquire)) {
            return;
        }
        let _turn = self.turn.lock();
        let mut at = self.frontier.load(Acquire);
        while is_due(at) {
            let Found { written, call: finder, .. } = &self.found[at];
            // A program that lets a kernel go by a flag has written all else before.
            let (flags, others): (Vec<Image>, Vec<Image>) = written.images().partition(|image| image.len <= FLAG);
            let places = flags.iter().filter(|_| !others.is_empty()).filter_map(|flag| {
                let live = host(world, &flag.memory())?;
                Some(live..live + flag.len)
            });
            let held = Held::at(places.flat_map(|live| world.sinks.launches_at(&live)).collect());
            for image in others.iter().chain(&flags) {
                write(world, call, *finder, written, image, &held, tally);
            }
            at += 1;
        }
        self.frontier.store(at, Release);
    }
}

/// After all work: what the CPU had of managed memory when the process ended. What differs it may have written itself.
pub fn at_the_end(world: &World, tally: &mut Tally) {
    if world.end < world.trace.len() as u64 || world.is_stopped() || !world.verify {
        return;
    }
    let seen = world.trace.found_at_the_end().filter(Written::is_seen);
    for image in seen.flat_map(|written| written.images()) {
        let Some(bytes) = world.trace.bytes(&image) else { continue };
        if read(world, &extent(image.address, bytes.len())).is_some_and(|live| live == bytes) {
            tally.checked.bytes += bytes.len() as u64;
            tally.compared.insert(world.trace.len() as u64);
        } else {
            tally.others_at_the_end += bytes.len() as u64;
        }
    }
}

/// What a callback did to host memory. To be called from the driver's thread: asks the driver nothing.
pub fn on_host_only(world: &World, image: &Image, tally: &mut Tally) {
    let Some(bytes) = world.trace.bytes(image) else { return };
    let (start, bytes, words) = edges::translated(world, image.address, bytes, |range| read_host(world, range));
    if let Some(live) = host(world, &extent(start, bytes.len())) {
        tally.words.add(words);
        // SAFETY: as in `write`. The device has come to where it waits for this.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), live as *mut u8, bytes.len()) };
        tally.written += bytes.len() as u64;
    }
}

/// The rest of what a callback did, once it has run.
pub fn on_device_only(world: &World, call: &Call, written: &Written, image: &Image, tally: &mut Tally) {
    let len = world.trace.bytes(image).map_or(0, <[u8]>::len);
    if host(world, &extent(image.address, len)).is_none() {
        write(world, call, call.number, written, image, &Held::nowhere(), tally);
    }
}

/// `call` is about to be made; `finder` is the one before which it was found. `held`: see [`readers::release`].
fn write(world: &World, call: &Call, finder: u64, written: &Written, image: &Image, held: &Held, tally: &mut Tally) {
    let Some(bytes) = world.trace.bytes(image) else {
        tally.lost_writes += 1;
        return;
    };
    let (start, bytes, words) = edges::translated(world, image.address, bytes, |range| read(world, range));
    let bytes = &*bytes;
    tally.words.add(words);
    let range = extent(start, bytes.len());
    if let Some(live) = host(world, &range) {
        let live = live..live + bytes.len() as u64;
        // SAFETY: the placement (or the graph whose source it is) holds this memory, readable and writable, until the end.
        let agrees = || unsafe { std::slice::from_raw_parts(live.start as *const u8, bytes.len()) } == bytes;
        // What a copy is still bringing may change what agrees now.
        if !world.sinks.is_landing_in(&live) && agrees() {
            return;
        }
        if world.callbacks.have_brought(written.about.begin, &range) {
            return;
        }
        readers::release(world, call.thread, &live, written.about.begin, held, tally);
        if agrees() {
            return;
        }
        world.callbacks.write(written.about.begin, range.clone(), |part| {
            let from = &bytes[(part.start - range.start) as usize..(part.end - range.start) as usize];
            // SAFETY: as above. What the device still does with it, it did in the recorded program.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    from.as_ptr(),
                    (live.start + part.start - range.start) as *mut u8,
                    from.len(),
                )
            };
        });
        tally.written += bytes.len() as u64;
    } else if let Some(live) = world.placement.bound(&range).map(HeldAddress::word) {
        match world.aside.have(world, call.thread, live, bytes, &mut tally.written_in_use) {
            Some(true) if written.is_seen() => {
                tally.checked.bytes += if world.verify { bytes.len() as u64 } else { 0 };
                tally.compared.insert(finder);
            }
            Some(_) => tally.written += bytes.len() as u64,
            None => tally.lost_writes += 1,
        }
    } else {
        tally.lost_writes += 1;
    }
}

/// An address that no memory can have makes a range that nothing holds.
pub fn extent(start: u64, len: usize) -> Range<u64> {
    start..start.saturating_add(len as u64)
}

/// Host memory of the replay that stands for the recorded one.
pub fn host(world: &World, recorded: &Range<u64>) -> Option<u64> {
    if let Some(live) = world.placement.host(recorded) {
        return Some(live);
    }
    world.graph_memory.live(recorded)
}

/// What the replay has at recorded addresses.
fn read(world: &World, recorded: &Range<u64>) -> Option<Vec<u8>> {
    if let Some(bytes) = read_host(world, recorded) {
        return Some(bytes);
    }
    let len = (recorded.end - recorded.start) as usize;
    let live = world.placement.bound(recorded)?.word();
    let mut found = vec![0u8; len];
    aside::fetch(world, live, &mut found).map(|()| found)
}

fn read_host(world: &World, recorded: &Range<u64>) -> Option<Vec<u8>> {
    let len = (recorded.end - recorded.start) as usize;
    // SAFETY: the placement (or the graph whose source it is) holds this memory, readable, until the end.
    host(world, recorded).map(|live| unsafe { std::slice::from_raw_parts(live as *const u8, len) }.to_vec())
}
