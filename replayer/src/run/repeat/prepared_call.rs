//! Prepared calls, of which only the driver's own call is left to make.
//!
//! A C loop has its arguments at hand. Those of a repeated range lie one behind the other (those of launches
//! in two arrays of their own), and those of the next call are prefetched while one is made: otherwise a
//! launch would wait for them line by line.

use crate::call::frame::Frame;
use crate::driver::thunk::Thunk;
use crate::driver::{Driver, id};
use crate::memory::buffer::HostBuffer;
use trace::Function;
use trace::api::FUNCTIONS;

/// Bytes that come from memory at once, and how many such lines of a call are asked for.
const LINE: u64 = 64;
const LINES: u64 = 8;
/// Of what lies elsewhere: an array of arguments, and their values.
const LINES_ELSEWHERE: usize = 4;

/// A prepared call. It must not outlive the frame that it was made from.
pub(crate) struct PreparedCall {
    thunk: Thunk,
    entry: *const (),
    words: *const u64,
    lines: u32,
    elsewhere: [*const u64; LINES_ELSEWHERE],
    /// Of the recorded call.
    pub number: u64,
    pub expected: u32,
    /// Pinned memory has to be written before it.
    pub writes: bool,
}

impl PreparedCall {
    pub(crate) fn new(
        driver: &Driver,
        live: &'static Function,
        frame: &Frame,
        number: u64,
        expected: u32,
        writes: bool,
    ) -> PreparedCall {
        let words = &frame.memory[0];
        assert!(words.bytes().len() / 8 >= FUNCTIONS[id(live)].words());
        let start = words.address();
        let end_of = |memory: &HostBuffer| memory.address() + memory.bytes().len() as u64;
        let is_near = |memory: &HostBuffer| (start..start + LINE * LINES).contains(&memory.address());
        let end = frame.memory.iter().filter(|memory| is_near(memory)).map(end_of).max().unwrap_or(start);
        let lines = (end.div_ceil(LINE) - start / LINE).min(LINES) as u32;
        let mut elsewhere = [start as *const u64; LINES_ELSEWHERE];
        let arguments = frame.memory.iter().filter(|memory| memory.holds_arguments());
        let all = arguments.flat_map(|memory| (memory.address() / LINE * LINE..end_of(memory)).step_by(LINE as usize));
        elsewhere.iter_mut().zip(all).for_each(|(line, at)| *line = at as *const u64);
        let (thunk, entry) = driver.thunk(id(live));
        PreparedCall { thunk, entry, words: start as *const u64, lines, elsewhere, number, expected, writes }
    }

    /// Makes the call.
    ///
    /// # Safety
    /// The frame is still there, and built for this function.
    pub(crate) unsafe fn make(&self) -> u32 {
        // SAFETY: the thunk belongs to the entry point, and the words were counted; the caller vouches for
        // the rest.
        unsafe { (self.thunk)(self.entry, self.words) }
    }

    /// Has the memory of the call brought near.
    pub(crate) fn fetch(&self) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let near = (0..self.lines).map(|line| self.words.cast::<i8>().wrapping_add(line as usize * LINE as usize));
            for at in near.chain(self.elsewhere.map(<*const u64>::cast)) {
                // SAFETY: a hint, which reads nothing.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(at) };
            }
        }
    }
}
