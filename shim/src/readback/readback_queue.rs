//! Results of collectives and contents of imported memory, on their way into the trace.
//!
//! A copy is put on the stream, after the collective or before the work that uses the memory, with the
//! recorder's memory as its destination and a completion mark behind it: nobody waits for it, and no event is
//! made. (For collectives in a graph, a clone of the graph copies before the mark.) The recorder thread polls
//! the marks, stores the bytes like payloads, and writes a record that belongs to no thread. If there is no
//! room for another copy, the submitting thread waits until some of them are in the file.

use crate::driver::calls;
use crate::os::generation;
use crate::os::lock::Lock;
use crate::readback::readback_pool::{NoRoom, Room, Staging};
use crate::trace_file::pieces::{self, Lost, Memory};
use crate::trace_file::recorder_parts::Surroundings;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::{Duration, Instant};
use trace::file::record::imported_memory::{HELD, ImportedMemory};
use trace::file::record::nccl::{DELIVERED, Delivered};
use trace::file::record::with_body;

/// How often the recorder thread looks.
const OFTEN: Duration = Duration::from_millis(2);
/// So long may nothing come of what is under way while somebody waits for room. What NCCL has not been given
/// yet may be what it waits for: then it is not waited for any more.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(crate) struct Deliveries {
    staging: Staging,
    under_way: Lock<Vec<UnderWay>>,
    /// Held by whoever stores: when the process ends, what the recorder thread has taken is stored, too.
    turn: Lock<()>,
    /// Waiting for room was in vain.
    is_stuck: AtomicBool,
}

struct UnderWay {
    /// What the room is for, one behind the other: see [`Deliveries::places`].
    about: Vec<Readback>,
    room: Room,
}

/// What is kept in one room begins at multiples of so many bytes.
const ALIGNED: u64 = 256;

/// The subject of a readback.
#[derive(Clone)]
pub(crate) enum Readback {
    Delivered(Delivered),
    Imported(ImportedMemory),
}

impl From<Delivered> for Readback {
    fn from(delivered: Delivered) -> Readback {
        Readback::Delivered(delivered)
    }
}

impl From<ImportedMemory> for Readback {
    fn from(held: ImportedMemory) -> Readback {
        Readback::Imported(held)
    }
}

impl Readback {
    fn place(&self) -> (u64, u64) {
        match self {
            Readback::Delivered(Delivered { address, len, .. })
            | Readback::Imported(ImportedMemory { address, len, .. }) => (*address, *len),
        }
    }

    /// With its bytes, or why they are not in the trace.
    fn with_outcome(mut self, found: Result<Vec<[u8; 16]>, &str>) -> Readback {
        let (Readback::Delivered(Delivered { pieces, lost, .. })
        | Readback::Imported(ImportedMemory { pieces, lost, .. })) = &mut self;
        match found {
            Ok(found) => *pieces = found,
            Err(why) => *lost = why.into(),
        }
        self
    }

    fn record(&self) -> Vec<u8> {
        match self {
            Readback::Delivered(delivered) => with_body(DELIVERED, delivered),
            Readback::Imported(held) => with_body(HELD, held),
        }
    }
}

impl Deliveries {
    /// Memory is pinned before it is needed.
    pub(crate) fn prepare(&self) {
        relaxed(|| self.staging.prepare());
    }

    /// The same, where there is none.
    pub(crate) fn prepare_once(&self) {
        relaxed(|| self.staging.prepare_once());
    }

    /// What was pinned in it is pinned no more.
    pub(crate) fn context_ends(&self) {
        self.staging.context_ends();
    }

    /// Has it copied when the stream has come there.
    pub(crate) fn take(
        &self,
        around: &'static Surroundings,
        about: impl Into<Readback>,
        stream: u64,
    ) -> Result<(), String> {
        let about = about.into();
        let (address, len) = about.place();
        let room = self.room(around, len)?;
        let (_, bytes) = room.on_device();
        // SAFETY: the stream and the memory are those of the collective that was just launched, or of the
        // work that is about to be; the room is nobody else's until it is given back.
        let put = relaxed(|| unsafe { calls::copy(bytes, address, len as usize, stream) });
        match put {
            Some(0) => self.follow_as(room, vec![about], stream),
            // The copy may be under way: its room is not used again.
            failed => Err(format!("the driver refused to copy it ({})", result(failed))),
        }
    }

    /// Where each lies in their common room: bytes from its beginning.
    pub(crate) fn places(kept: &[Readback]) -> Vec<u64> {
        let mut next = 0;
        let mut place = |one: &Readback| {
            let at = next;
            next = one.place().1.saturating_add(at).saturating_add(ALIGNED - 1) / ALIGNED * ALIGNED;
            at
        };
        kept.iter().map(&mut place).collect()
    }

    /// Room for all of these, which somebody else has copied: waits for it if need be.
    pub(crate) fn room_for(&self, around: &'static Surroundings, kept: &[Readback]) -> Result<Room, String> {
        let last = Self::places(kept).last().copied().unwrap_or(0);
        self.room(around, last.saturating_add(kept.last().map_or(0, |one| one.place().1)))
    }

    /// So many bytes of the memory, for a copy that is told where to before it runs.
    pub(crate) fn anywhere(&self, bytes: u64) -> Option<u64> {
        self.staging.anywhere(bytes)
    }

    pub(crate) fn give_back(&self, room: &Room) {
        self.staging.give_back(room);
    }

    /// What the stream was given before copies all of this into the room.
    pub(crate) fn follow(&self, around: &Surroundings, room: Room, kept: Vec<Readback>, stream: u64) {
        let told = kept.clone();
        if let Err(why) = self.follow_as(room, kept, stream) {
            self.write(around, told.into_iter().map(|one| one.with_outcome(Err(&why))));
        }
    }

    fn follow_as(&self, room: Room, about: Vec<Readback>, stream: u64) -> Result<(), String> {
        let (mark, _) = room.on_device();
        // SAFETY: the mark is the room's, which is nobody else's until it is given back.
        match relaxed(|| unsafe { calls::write_value(stream, mark, 1, 0) }) {
            Some(0) => self.under_way.lock().push(UnderWay { about, room }),
            // What copies it may be under way: the room is not used again.
            failed => return Err(format!("the driver refused to signal its completion ({})", result(failed))),
        }
        Ok(())
    }

    /// Waits for it if need be.
    fn room(&self, around: &'static Surroundings, bytes: u64) -> Result<Room, String> {
        let mut since = Instant::now();
        loop {
            match relaxed(|| self.staging.take(bytes)) {
                Ok(room) => return Ok(room),
                Err(NoRoom::Never) => return Err("it does not fit the recorder's pinned memory".into()),
                Err(NoRoom::Yet) if self.is_stuck.load(Relaxed) => break,
                Err(NoRoom::Yet) => match self.store(around) {
                    0 if since.elapsed() > PATIENCE => self.is_stuck.store(true, Relaxed),
                    0 => std::thread::sleep(Duration::from_micros(100)),
                    _ => since = Instant::now(),
                },
            }
        }
        Err("too much was in flight".into())
    }

    /// Waits for what is being copied from there, as far as anything comes: the memory is about to be given
    /// back, or others may write there. The driver unmaps memory that a copy reads, which ruins the context.
    pub(crate) fn settle(&self, memory: &Range<u64>) {
        let since = Instant::now();
        while since.elapsed() < PATIENCE && self.is_reading(memory) {
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    fn is_reading(&self, memory: &Range<u64>) -> bool {
        let meets = |about: &Readback| {
            let (address, len) = about.place();
            address < memory.end && memory.start < address.saturating_add(len)
        };
        self.under_way.lock().iter().any(|one| one.about.iter().any(meets) && !one.room.is_filled())
    }

    /// One turn of the recorder thread: how long until the next is due.
    pub(crate) fn tend(&self, around: &'static Surroundings) -> Duration {
        self.store(around);
        OFTEN
    }

    /// The process ends: what has not come will not.
    pub(crate) fn end(&self, around: &'static Surroundings) {
        self.store(around);
        let left = std::mem::take(&mut *self.under_way.lock());
        let lost = "it was in flight when the process ended";
        self.write(around, left.into_iter().flat_map(|one| one.about).map(|about| about.with_outcome(Err(lost))));
    }

    /// Without bytes.
    pub(crate) fn tell(&self, around: &Surroundings, about: impl Into<Readback>) {
        self.write(around, std::iter::once(about.into()));
    }

    /// Stores what has come; how many.
    fn store(&self, around: &'static Surroundings) -> usize {
        let _turn = self.turn.lock();
        let come: Vec<UnderWay> = {
            let mut under_way = self.under_way.lock();
            under_way.extract_if(.., |one| one.room.is_filled()).collect()
        };
        let count = come.len();
        let stored = come.into_iter().flat_map(|UnderWay { about, room }| {
            let places = Self::places(&about);
            let stored: Vec<Readback> =
                about.into_iter().zip(places).map(|(one, at)| stored(around, one, &room, at)).collect();
            self.staging.give_back(&room);
            self.is_stuck.store(false, Relaxed);
            stored
        });
        self.write(around, stored);
        count
    }

    fn write(&self, around: &Surroundings, all: impl Iterator<Item = Readback>) {
        let records: Vec<u8> = all.flat_map(|about| about.record()).collect();
        if records.is_empty() {
            return;
        }
        if let Err(error) = around.file.append_of_no_thread(&records) {
            generation::off(&format!("{}: {error}", around.file.path.display()));
        }
    }
}

/// With its bytes, which have come there.
fn stored(around: &'static Surroundings, about: Readback, room: &Room, at: u64) -> Readback {
    let (_, len) = about.place();
    let content = &room.content()[at as usize..][..len as usize];
    // What it lies at is no memory of the program's: never a part of a file.
    let found = pieces::stored(around, 0, Memory::Sure(Cow::Borrowed(content)));
    match found.into_iter().collect::<Result<Vec<_>, Lost>>() {
        Ok(hashes) => about.with_outcome(Ok(hashes.into_iter().map(|hash| hash.to_bytes()).collect())),
        Err(_) => about.with_outcome(Err("the trace had no space for it")),
    }
}

fn result(code: Option<u32>) -> String {
    code.map_or("no such function".into(), |code| format!("CUresult {code}"))
}

/// Does something that a capture elsewhere neither forbids nor is broken by.
pub(crate) fn relaxed<T>(work: impl FnOnce() -> T) -> T {
    const RELAXED: u32 = 2;
    let mut mode = RELAXED;
    // SAFETY: the mode is read and written; a driver without such modes has no captures.
    let is_changed = unsafe { calls::exchange_capture_mode(&mut mode) } == Some(0);
    let done = work();
    if is_changed {
        // SAFETY: as above.
        unsafe { calls::exchange_capture_mode(&mut mode) };
    }
    done
}
