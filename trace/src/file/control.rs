//! Requests to a recording process to pause or resume: three words in the first page of its shared memory,
//! behind the page's owner fields. Every process with write access may send one: Linux grants it to the same
//! user and to root.
//!
//! ```text
//! at 64  request u32: its number, and in the low byte the command
//!        answer u32: the number of the request that is answered, and in the low byte what came of it
//!        bell u32: changes when the recorder thread is to look; it waits for that (futex)
//! ```

use crate::file::segment::{HEADER, Header, Kind};
use crate::file::shared_memory::{Attached, PATH_AT, Place};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::time::{Duration, Instant};

/// Where in the first page.
pub const AT: usize = 64;

/// The words of a request and its answer, shared by the recorder and the command.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Control {
    request: AtomicU32,
    answer: AtomicU32,
    bell: AtomicU32,
}

/// A request to the recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Record calls from now on.
    On = 1,
    /// Leave out calls from now on.
    Off = 2,
}

/// The recorder's answer to a [`Command`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The command was carried out.
    Done = 1,
    /// Recording was in this state before.
    Already = 2,
    /// It is switched on, and something else leaves calls out: a range that has not begun, or is over.
    Closed = 3,
    /// The recorder does not know the command.
    Unknown = 4,
    /// Recording has ended, or cannot be switched.
    Ended = 0xff,
}

impl Answer {
    fn decode(word: u32) -> Answer {
        let all = [Answer::Done, Answer::Already, Answer::Closed, Answer::Ended];
        all.into_iter().find(|answer| *answer as u32 == word & 0xff).unwrap_or(Answer::Unknown)
    }
}

const NUMBER: u32 = !0xff;

/// The recorder's side.
impl Control {
    /// What to wait behind: taken before looking for anything to do.
    pub fn heard(&self) -> u32 {
        self.bell.load(Acquire)
    }

    /// Wakes the recorder's thread in [`Control::wait`].
    pub fn ring(&self) {
        self.bell.fetch_add(1, Release);
        wake(&self.bell);
    }

    /// Until it rings, if it has not since.
    pub fn wait(&self, heard: u32, at_most: Duration) {
        wait(&self.bell, heard, at_most);
    }

    /// Answers what is asked, if anything is.
    pub fn serve(&self, work: impl FnOnce(Option<Command>) -> Answer) {
        let request = self.request.load(Acquire);
        if (request ^ self.answer.load(Relaxed)) & NUMBER != 0 {
            let command = [Command::On, Command::Off].into_iter().find(|one| *one as u32 == request & 0xff);
            self.answer.store(request & NUMBER | work(command) as u32, Release);
            wake(&self.answer);
        }
    }

    /// Nobody will answer any more.
    pub fn close(&self) {
        self.answer.store(Answer::Ended as u32, Release);
        wake(&self.answer);
    }
}

/// The other side.
impl Control {
    /// Asks for something, and waits for what comes of it; none if there is no answer for so long.
    fn ask(&self, command: Command, at_most: Duration) -> Option<Answer> {
        const LOOK: Duration = Duration::from_millis(100);
        let until = Instant::now() + at_most;
        let mut mine = None;
        loop {
            let (request, answer) = (self.request.load(Acquire), self.answer.load(Acquire));
            let is_answered = (request ^ answer) & NUMBER == 0;
            match mine {
                _ if answer & 0xff == Answer::Ended as u32 => return Some(Answer::Ended),
                Some(mine) if (answer ^ mine) & NUMBER == 0 => return Some(Answer::decode(answer)),
                // One request at a time.
                None if is_answered => {
                    let next = (request & NUMBER).wrapping_add(0x100) | command as u32;
                    if self.request.compare_exchange(request, next, AcqRel, Relaxed).is_ok() {
                        mine = Some(next);
                        self.ring();
                    }
                    continue;
                }
                // A request that is still its own is withdrawn: whoever gave it is told that it failed.
                Some(mine) if Instant::now() >= until => {
                    let _taken_meanwhile = self.request.compare_exchange(mine, mine & NUMBER, AcqRel, Relaxed);
                    return None;
                }
                None if Instant::now() >= until => return None,
                _ => wait(&self.answer, answer, LOOK),
            }
        }
    }
}

/// The control words of a recording process, as another process sees them.
pub struct Remote(Attached);

impl Remote {
    /// Of the process that writes this trace; none if it keeps its memory to itself, or in a place that
    /// cannot be seen from here.
    pub fn find(trace: &File) -> std::io::Result<Option<Remote>> {
        let header = |at: u64| -> std::io::Result<Option<Header>> {
            let mut bytes = [0; HEADER];
            trace.read_exact_at(&mut bytes, at)?;
            Ok(Header::decode(&bytes))
        };
        // Behind both preambles lies the first place that was set aside.
        let Some(first) = header(0)?.filter(|first| first.kind == Kind::Preamble) else { return Ok(None) };
        let Some(behind) = first.size.checked_mul(2) else { return Ok(None) };
        let Some(place) = header(behind)?.as_ref().and_then(Place::from_header) else { return Ok(None) };
        let about = trace.metadata()?;
        let attached = Attached::to_write(place)?;
        Ok(attached.filter(|found| found.is_of((about.dev(), about.ino())) && found.len() >= LEAST).map(Remote))
    }

    /// Asks for something, and waits for what comes of it; none if there is no answer for so long.
    pub fn ask(&self, command: Command, at_most: Duration) -> Option<Answer> {
        self.control().ask(command, at_most)
    }

    fn control(&self) -> &Control {
        // SAFETY: mapped for writing as long as `self`, aligned, and as long as that; any bytes are valid,
        // and all of them are accessed atomically.
        unsafe { &*self.0.address_of(AT).cast::<Control>() }
    }
}

const LEAST: u64 = (AT + size_of::<Control>()) as u64;
const _: () = assert!(LEAST <= PATH_AT as u64);

/// Shared by processes: the word is known by the memory that it lies in.
fn wait(word: &AtomicU32, value: u32, at_most: Duration) {
    let seconds = at_most.as_secs().min(i64::MAX as u64) as libc::time_t;
    let time = libc::timespec { tv_sec: seconds, tv_nsec: at_most.subsec_nanos().into() };
    // SAFETY: the word and the time are valid. It returns early if the word has changed, or a signal has
    // come.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &time) };
}

fn wake(word: &AtomicU32) {
    // SAFETY: the word is valid.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_answered_once() {
        let control = Control::default();
        control.serve(|_| panic!("nothing was asked"));
        for (number, command) in [(1, Command::On), (2, Command::Off)] {
            control.request.store(number << 8 | command as u32, Release);
            control.serve(|found| {
                assert_eq!(found, Some(command));
                Answer::Done
            });
            control.serve(|_| panic!("it was answered"));
            assert_eq!(control.answer.load(Acquire), number << 8 | Answer::Done as u32);
        }
        control.request.store(3 << 8 | 77, Release);
        control.serve(|found| if found.is_none() { Answer::Unknown } else { Answer::Done });
        assert_eq!(Answer::decode(control.answer.load(Acquire)), Answer::Unknown);
    }

    #[test]
    fn what_was_told_to_have_failed_is_not_done_later() {
        let control = Control::default();
        assert_eq!(control.ask(Command::Off, Duration::ZERO), None);
        control.serve(|found| if found.is_none() { Answer::Unknown } else { panic!("{found:?}") });
    }

    #[test]
    fn a_bell_that_rang_is_not_waited_for() {
        let control = Control::default();
        let heard = control.heard();
        control.ring();
        control.wait(heard, Duration::from_secs(3600));
    }
}
