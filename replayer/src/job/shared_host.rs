//! Registered host memory that other processes of a job also have: all their replays map one file.
//!
//! A change that the recorder found there may be a write by the program's CPU, by another process, or by a
//! device. Devices write again by themselves, at another moment, and a second write on their behalf could
//! undo later ones. So a byte is written only if it still has the value that this process last found there,
//! and only if nobody else has written it within a moment; once it is known that nobody else does, changes on
//! that line are written at once.

use crate::base::addresses::PAGE;
use crate::base::ranges::widen;
use crate::driver::guard;
use crate::job::peers::HostPart;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// So long others are waited for, at most, and in all. Each time that nobody came the next is half as long, down
/// to the least, until somebody does.
const MOMENT: Duration = Duration::from_millis(50);
const LEAST: Duration = Duration::from_millis(3);
const IN_ALL: Duration = Duration::from_secs(5);
/// Bytes that one writes and another does not.
const LINE: u64 = 64;
/// What is longer is data, and tells nothing of who writes a line.
const MOST: usize = 4096;

#[derive(Default)]
pub(crate) struct SharedHost {
    views: Mutex<Vec<View>>,
    /// For others, in all views, where nobody came.
    waited: Mutex<Duration>,
}

/// Memory as this process has it.
struct View {
    live: Range<u64>,
    /// What was found there last when recorded; zeros before.
    found: Vec<u8>,
    /// Lines that nobody else writes.
    own: HashSet<u64>,
    is_found: bool,
    /// So long others are waited for here.
    moment: Duration,
}

impl SharedHost {
    /// Memory that is mapped there from now on. What is mapped again stays known.
    fn add(&self, live: Range<u64>) {
        let mut views = self.views.lock();
        if views.iter().any(|view| view.live == live) {
            return;
        }
        views.retain(|view| !meet(&view.live, &live));
        let Ok(len) = usize::try_from(live.end - live.start) else { return };
        let own = HashSet::new();
        views.push(View { live, found: vec![0; len], own, is_found: false, moment: MOMENT });
    }

    /// Whether part of it was shared until now.
    pub(crate) fn end(&self, live: &Range<u64>) -> bool {
        let mut views = self.views.lock();
        let before = views.len();
        views.retain(|view| !meet(&view.live, live));
        views.len() < before
    }

    pub(crate) fn holds(&self, live: &Range<u64>) -> bool {
        self.views.lock().iter().any(|view| view.live.start <= live.start && live.end <= view.live.end)
    }

    /// Has the memory hold what was found there when recorded, unless it has gone on since. `waits`: for
    /// others to write it. How many bytes were written.
    pub(crate) fn bring(&self, start: u64, bytes: &[u8], waits: bool) -> u64 {
        let mut views = self.views.lock();
        let end = start + bytes.len() as u64;
        let Some(view) = views.iter_mut().find(|view| view.live.start <= start && end <= view.live.end) else {
            return 0;
        };
        let mut waited = self.waited.lock();
        let most = if waits { IN_ALL.saturating_sub(*waited) } else { Duration::ZERO };
        let since = Instant::now();
        let written = view.bring(start, bytes, waits, most);
        // Where others came, waiting for them serves.
        if written > 0 {
            *waited += since.elapsed();
        }
        written
    }
}

impl View {
    /// `most`: others are waited for no longer.
    fn bring(&mut self, start: u64, bytes: &[u8], waits: bool, most: Duration) -> u64 {
        let at = (start - self.live.start) as usize;
        let before = &mut self.found[at..at + bytes.len()];
        let since = Instant::now();
        let limit = self.moment.min(most);
        let mut has_waited = false;
        let line = |at: usize| (start + at as u64) / LINE;
        let mut now = vec![0; bytes.len()];
        let pending = loop {
            // SAFETY: the placement holds this memory, readable and writable, until the end; others write it
            // at any time, and each byte is one that some of them wrote.
            unsafe { std::ptr::copy(start as *const u8, now.as_mut_ptr(), now.len()) };
            let is_open = |at: &usize| now[*at] != bytes[*at] && now[*at] == before[*at];
            let pending: Vec<usize> = (0..bytes.len()).filter(is_open).collect();
            let is_own = pending.iter().all(|at| self.own.contains(&line(*at)));
            if is_own || since.elapsed() >= limit {
                break pending;
            }
            has_waited = true;
            std::thread::sleep(Duration::from_micros(20));
        };
        if has_waited {
            self.moment = if pending.is_empty() { MOMENT } else { (self.moment / 2).max(LEAST) };
        }
        for &at in &pending {
            // SAFETY: as above.
            unsafe { (start as *mut u8).add(at).write_volatile(bytes[at]) };
        }
        if waits && self.is_found && bytes.len() <= MOST {
            self.own.extend(pending.iter().map(|at| line(*at)));
        }
        before.copy_from_slice(bytes);
        self.is_found = true;
        pending.len() as u64
    }
}

fn meet(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

impl SharedHost {
    /// Maps what a call registers, at its recorded addresses; false where some of it cannot be had there.
    pub(crate) fn share(&self, range: &Range<u64>, parts: &[(HostPart, OwnedFd)]) -> bool {
        let is_mapped = parts.iter().all(|(part, file)| {
            let pages = widen(part.memory.clone(), PAGE);
            let is_within = range.start <= part.memory.start && part.memory.end <= range.end;
            let offset = part.offset.checked_sub(part.memory.start - pages.start).filter(|_| is_within);
            offset.and_then(|offset| map(&pages, file, offset, true)).is_some()
        });
        if is_mapped {
            parts.iter().for_each(|(part, _)| self.add(part.memory.clone()));
        }
        is_mapped
    }

    /// The same elsewhere: where it is.
    pub(crate) fn share_elsewhere(&self, range: &Range<u64>, parts: &[(HostPart, OwnedFd)]) -> Option<u64> {
        let [(part, file)] = parts else { return None };
        if part.memory != *range {
            return None;
        }
        let pages = widen(range.clone(), PAGE);
        let lead = range.start - pages.start;
        let live = map(&pages, file, part.offset.checked_sub(lead)?, false)? + lead;
        self.add(live..live + (range.end - range.start));
        Some(live)
    }

    /// Pages that were shared are the replay's own again.
    pub(crate) fn make_own(&self, range: &Range<u64>) {
        if self.end(range) {
            let pages = widen(range.clone(), PAGE);
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: over pages of ours, which the driver has let go.
            unsafe { libc::mmap(pages.start as *mut _, (pages.end - pages.start) as usize, access, flags, -1, 0) };
        }
    }
}

fn map(pages: &Range<u64>, file: &OwnedFd, offset: u64, is_there: bool) -> Option<u64> {
    let len = usize::try_from(pages.end - pages.start).ok()?;
    let (at, fixed) = if is_there { (pages.start, libc::MAP_FIXED) } else { (0, 0) };
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let offset = i64::try_from(offset).ok()?;
    // SAFETY: over pages of ours, or over nothing.
    let got = unsafe { libc::mmap(at as *mut _, len, access, libc::MAP_SHARED | fixed, file.as_raw_fd(), offset) };
    (got != libc::MAP_FAILED).then(|| {
        guard::tell(got.cast(), len);
        got as u64
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> (Vec<u8>, View) {
        let memory = vec![0u8; 256];
        let live = memory.as_ptr() as u64..memory.as_ptr() as u64 + 256;
        let view = View { live, found: vec![0; 256], own: HashSet::new(), is_found: false, moment: MOMENT };
        (memory, view)
    }

    #[test]
    fn what_others_have_written_since_stays() {
        let (mut memory, mut view) = view();
        let start = view.live.start;
        view.bring(start, &[1; 8], true, IN_ALL);
        assert_eq!(memory[..8], [1; 8]);
        // Another has gone on to 3 while this one found 2.
        memory[0] = 3;
        assert_eq!((view.bring(start, &[2], true, IN_ALL), memory[0]), (0, 3));
        // What it finds then is what it had found before, and the CPU's.
        memory[1] = 1;
        assert_eq!((view.bring(start + 1, &[7], true, IN_ALL), memory[1]), (1, 7));
        let since = Instant::now();
        assert_eq!((view.bring(start + 1, &[8], true, IN_ALL), memory[1]), (1, 8));
        assert!(since.elapsed() < MOMENT, "nobody else writes that line");
    }

    #[test]
    fn where_nobody_comes_others_are_waited_for_less_and_less() {
        let (mut memory, mut view) = view();
        let start = view.live.start;
        let since = Instant::now();
        // Each on a line of its own, of which nothing is known.
        (0..4).for_each(|line| _ = view.bring(start + line * LINE, &[1], true, IN_ALL));
        assert!(since.elapsed() < 3 * MOMENT);
        assert!(view.moment < MOMENT / 8);
        let before = view.moment;
        assert_eq!((view.bring(start, &[2], true, Duration::ZERO), view.moment), (1, before), "there is no time left");
        // Somebody does.
        memory[1] = 3;
        let address = view.live.start;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(LEAST / 4);
                // SAFETY: memory of this test, which the view looks at byte by byte.
                unsafe { ((address + 2 * LINE + 9) as *mut u8).write_volatile(5) };
            });
            view.own.clear();
            view.moment = MOMENT / 2;
            assert_eq!(view.bring(start + 2 * LINE + 9, &[5], true, IN_ALL), 0);
        });
        assert_eq!(view.moment, MOMENT);
    }
}
