//! What collectives delivered, on its way into the trace.
//!
//! A copy of it is put on the stream behind the collective, into memory of the recorder's own, and behind
//! that a mark that says that it has come: nobody waits for it, and no event is made. The recorder thread
//! looks for marks, stores the bytes as payloads are stored, and writes a record that belongs to no thread.
//! Where more is under way than there is room for, whoever calls NCCL next waits until some of it is in the
//! file.

use crate::driver::calls;
use crate::generation;
use crate::lock::Lock;
use crate::pieces::{self, Lost, Memory};
use crate::staging::{NoRoom, Room, Staging};
use crate::surroundings::Surroundings;
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::{Duration, Instant};
use trace::record::nccl::{DELIVERED, Delivered};
use trace::record::with_body;

/// How often the recorder thread looks.
const OFTEN: Duration = Duration::from_millis(2);
/// So long may nothing come of what is under way while somebody waits for room. What NCCL has not been given
/// yet may be what it waits for: then it is not waited for any more.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Default)]
pub struct Deliveries {
    staging: Staging,
    under_way: Lock<Vec<UnderWay>>,
    /// Waiting for room was in vain.
    is_stuck: AtomicBool,
}

struct UnderWay {
    about: Delivered,
    room: Room,
}

impl Deliveries {
    /// Memory is pinned before it is needed.
    pub fn prepare(&self) {
        relaxed(|| self.staging.prepare());
    }

    /// What was pinned in it is pinned no more.
    pub fn context_ends(&self) {
        self.staging.context_ends();
    }

    /// Has what a collective delivers copied when it has: behind it on its stream.
    pub fn take(&self, around: &'static Surroundings, about: Delivered, stream: u64) -> Result<(), String> {
        let room = self.room(around, about.len)?;
        let (mark, bytes) = room.on_device();
        // SAFETY: the stream and the memory are those of the collective that was just launched, and the room
        // is nobody else's until it is given back.
        let put = relaxed(|| unsafe {
            match calls::copy(bytes, about.address, about.len as usize, stream) {
                Some(0) => calls::write_value(stream, mark, 1, 0),
                failed => failed,
            }
        });
        if put != Some(0) {
            // The copy may be under way: its room is not used again.
            return Err(format!("the driver would not copy it ({})", result(put)));
        }
        self.under_way.lock().push(UnderWay { about, room });
        Ok(())
    }

    /// Waits for it if need be.
    fn room(&self, around: &'static Surroundings, bytes: u64) -> Result<Room, String> {
        let mut since = Instant::now();
        loop {
            match relaxed(|| self.staging.take(bytes)) {
                Ok(room) => return Ok(room),
                Err(NoRoom::Never) => return Err("it is more than the pinned memory that there is for it".into()),
                Err(NoRoom::Yet) if self.is_stuck.load(Relaxed) => break,
                Err(NoRoom::Yet) => match self.store(around) {
                    0 if since.elapsed() > PATIENCE => self.is_stuck.store(true, Relaxed),
                    0 => std::thread::sleep(Duration::from_micros(100)),
                    _ => since = Instant::now(),
                },
            }
        }
        Err("too much was under way".into())
    }

    /// One turn of the recorder thread: how long until the next is due.
    pub fn tend(&self, around: &'static Surroundings) -> Duration {
        self.store(around);
        OFTEN
    }

    /// The process ends: what has not come will not.
    pub fn end(&self, around: &'static Surroundings) {
        self.store(around);
        let left = std::mem::take(&mut *self.under_way.lock());
        let lost = "it was under way when the process ended";
        self.write(around, left.into_iter().map(|one| Delivered { lost: lost.into(), ..one.about }));
    }

    /// Stores what has come; how many.
    fn store(&self, around: &'static Surroundings) -> usize {
        let come: Vec<UnderWay> = {
            let mut under_way = self.under_way.lock();
            under_way.extract_if(.., |one| one.room.is_filled()).collect()
        };
        let count = come.len();
        let stored = come.into_iter().map(|UnderWay { about, room }| {
            // What it lies at is no memory of the program's: never a part of a file.
            let found = pieces::stored(around, 0, Memory::Sure(Cow::Borrowed(room.content())));
            self.staging.give_back(&room);
            self.is_stuck.store(false, Relaxed);
            match found.into_iter().collect::<Result<Vec<_>, Lost>>() {
                Ok(hashes) => Delivered { pieces: hashes.into_iter().map(|hash| hash.to_bytes()).collect(), ..about },
                Err(_) => Delivered { lost: "there was no room for it in the file".into(), ..about },
            }
        });
        self.write(around, stored);
        count
    }

    fn write(&self, around: &Surroundings, all: impl Iterator<Item = Delivered>) {
        let records: Vec<u8> = all.flat_map(|about| with_body(DELIVERED, &about)).collect();
        if records.is_empty() {
            return;
        }
        if let Err(error) = around.file.append_of_no_thread(&records) {
            generation::off(&format!("{}: {error}", around.file.path.display()));
        }
    }
}

fn result(code: Option<u32>) -> String {
    code.map_or("not there".into(), |code| format!("CUresult {code}"))
}

/// Does something that a capture elsewhere neither forbids nor is broken by.
fn relaxed<T>(work: impl FnOnce() -> T) -> T {
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
