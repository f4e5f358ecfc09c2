//! What chunks hold, found out by several threads ahead of the one that puts it together: whether it is what
//! they were sealed with, and the stretches of their records.

use crate::base::parallel::processors;
use crate::file::mapping::Mapping;
use crate::file::segment::{HEADER, Header};
use crate::read::record_runs::Stretches;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// As many chunks are worth a thread.
const MANY: usize = 16;

/// More threads than one can put their finds together for.
const HELPERS: usize = 8;

/// Chunks that may be looked at before they are asked for, and their bytes.
const WINDOW: usize = 64;
const BYTES: u64 = 256 << 20;

pub(crate) struct Ahead {
    map: Arc<Mapping>,
    chunks: Vec<(u64, Header)>,
    /// How many arguments the entry of each function has.
    words: Vec<usize>,
    state: Mutex<State>,
    /// One more chunk may be looked at; the chunk that is asked for has been.
    more_room: Condvar,
    wanted_found: Condvar,
}

#[derive(Default)]
struct State {
    /// The first chunk that nobody looks at yet.
    next: usize,
    /// The one that is asked for.
    wanted: usize,
    /// What was looked at and has not been asked for.
    found: HashMap<usize, Looked>,
    /// Bytes of chunks that somebody looks at or has looked at, and that have not been asked for.
    bytes: u64,
    /// Threads that wait for room.
    waiting: usize,
}

/// What a chunk holds.
#[derive(Default)]
pub(crate) struct Looked {
    /// Something else than it was sealed with.
    pub(crate) is_unsound: bool,
    /// None of one that is open, which is copied before it is read, nor of an unsound one.
    pub(crate) stretches: Option<Stretches>,
}

/// Nobody waits any more once this is gone.
pub(crate) struct Asking<'a>(&'a Ahead);

/// Puts something into the place of a chunk's content, whatever becomes of the thread that looks.
struct Looking<'a>(&'a Ahead, usize, Looked);

impl Ahead {
    /// Of chunks in the order in which they are read.
    pub(crate) fn of(map: Arc<Mapping>, chunks: Vec<(u64, Header)>, words: Vec<usize>) -> Ahead {
        Ahead { map, chunks, words, state: Mutex::default(), more_room: Condvar::new(), wanted_found: Condvar::new() }
    }

    pub(crate) fn chunks(&self) -> &[(u64, Header)] {
        &self.chunks
    }

    pub(crate) fn words(&self) -> &[usize] {
        &self.words
    }

    /// Threads that may look ahead.
    pub(crate) fn helpers(&self) -> usize {
        (processors() - 1).min(HELPERS).min(self.chunks.len() / MANY)
    }

    /// Looks at chunks until all are taken.
    pub(crate) fn look_ahead(&self) {
        let mut state = self.state();
        while state.next < self.chunks.len() {
            match self.claim(&mut state) {
                Some(at) => {
                    drop(state);
                    self.look_for_others(at);
                    state = self.state();
                }
                None => {
                    state.waiting += 1;
                    state = self.more_room.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.waiting -= 1;
                }
            }
        }
    }

    pub(crate) fn asking(&self) -> Asking<'_> {
        Asking(self)
    }

    /// What the chunk at this place holds. Asked of each once, in order: whoever asks looks at others meanwhile.
    pub(crate) fn take(&self, at: usize) -> Looked {
        let mut state = self.state();
        state.wanted = at;
        loop {
            if let Some(looked) = state.found.remove(&at) {
                state.bytes -= self.bytes_of(at);
                self.tell_of_room(&state);
                return looked;
            }
            match self.claim(&mut state) {
                Some(next) if next == at => {
                    state.bytes -= self.bytes_of(at);
                    self.tell_of_room(&state);
                    drop(state);
                    return self.look(at);
                }
                Some(next) => {
                    drop(state);
                    self.look_for_others(next);
                    state = self.state();
                }
                None if state.next <= at => return Looked::default(),
                None => state = self.wanted_found.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn claim(&self, state: &mut State) -> Option<usize> {
        let at = state.next;
        self.has_room(state).then(|| state.next += 1)?;
        state.bytes += self.bytes_of(at);
        self.tell_of_room(state);
        Some(at)
    }

    fn has_room(&self, state: &State) -> bool {
        let at = state.next;
        let is_near = at < state.wanted.saturating_add(WINDOW) && state.bytes < BYTES;
        at < self.chunks.len() && (at <= state.wanted || is_near)
    }

    /// To one of those that wait; it tells the next.
    fn tell_of_room(&self, state: &State) {
        if state.waiting > 0 && self.has_room(state) {
            self.more_room.notify_one();
        }
    }

    fn bytes_of(&self, at: usize) -> u64 {
        self.chunks[at].1.length.min(self.map.len() as u64)
    }

    fn look_for_others(&self, at: usize) {
        let mut looking = Looking(self, at, Looked::default());
        looking.2 = self.look(at);
    }

    fn look(&self, at: usize) -> Looked {
        let (offset, header) = &self.chunks[at];
        if header.seal == 0 {
            return Looked::default();
        }
        let start = offset + HEADER as u64;
        let held = || {
            let content = self.map.held(start, start.checked_add(header.length)?)?;
            (content.len() as u64 == header.length && header.length <= header.room()).then_some(content)
        };
        let is_sealed = |content: &&[u8]| self.map.checksum(start, content.len() as u64) == Some(header.seal);
        let Some(content) = held().filter(is_sealed) else {
            return Looked { is_unsound: true, stretches: None };
        };
        let stretches = Stretches::of(content, header.first_call() as u32, &self.words);
        Looked { is_unsound: false, stretches: Some(stretches) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        let Looking(ahead, at, looked) = self;
        let mut state = ahead.state();
        state.found.insert(*at, std::mem::take(looked));
        if *at == state.wanted {
            ahead.wanted_found.notify_one();
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.next = self.0.chunks.len();
        self.0.more_room.notify_all();
    }
}
