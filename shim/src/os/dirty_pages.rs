//! The pages that the CPU has touched, as Linux reports them: no signal handler, no thread, no waiting.
//!
//! Pinned memory is write-protected asynchronously (userfaultfd, Linux 6.7): the first write to a page clears
//! its protection and the program continues; a scan queries those pages, and protects them again. Writes by
//! DMA are not visible. For managed memory the page table is enough: a page is present exactly when the CPU
//! has touched it since the device last did. (All measured on driver 580, tests/gpu/facts.)

use crate::os::descriptors::away_from_standard_streams;
use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd};

pub(crate) const PAGE: u64 = 4096;

/// The pages that a range lies on.
pub(crate) fn pages_of(range: &Range<u64>) -> Range<u64> {
    range.start / PAGE * PAGE..range.end.next_multiple_of(PAGE)
}

#[derive(Default)]
pub(crate) struct Tracker {
    faults: Option<File>,
    pagemap: Option<File>,
    /// PAGEMAP_SCAN is younger than the file.
    scans: bool,
}

#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct Register {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct Protect {
    start: u64,
    len: u64,
    mode: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

#[repr(C)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    region_count: u64,
    most_pages: u64,
    inverted: u64,
    all_of: u64,
    any_of: u64,
    returned: u64,
}

// From linux/userfaultfd.h and linux/fs.h.
const USER_MODE_ONLY: libc::c_int = 1;
const API: u64 = 0xaa;
const WP_UNPOPULATED: u64 = 1 << 13;
const WP_ASYNC: u64 = 1 << 15;
const MODE_WP: u64 = 2;
const WRITE_PROTECT: u64 = 1;
const IOCTL_API: u64 = 0xc018_aa3f;
const IOCTL_REGISTER: u64 = 0xc020_aa00;
const IOCTL_UNREGISTER: u64 = 0x8010_aa01;
const IOCTL_PROTECT: u64 = 0xc018_aa06;
const IOCTL_SCAN: u64 = 0xc060_6610;
const SCAN_PROTECT_MATCHING: u64 = 1;
const SCAN_CHECK_ASYNC: u64 = 2;
const IS_WRITTEN: u64 = 1 << 1;
const IS_PRESENT: u64 = 1 << 3;

/// Regions that a call returns where many are expected.
const MANY: usize = 128;

impl Tracker {
    /// What this kernel and its rules allow; the rest has to be compared.
    pub(crate) fn open() -> Tracker {
        let pagemap = File::open("/proc/self/pagemap").and_then(away_from_standard_streams).ok();
        let mut tracker = Tracker { faults: faults(), pagemap, scans: true };
        let probe = std::ptr::from_ref(&tracker) as u64 / PAGE * PAGE;
        tracker.scans = tracker.scan::<1>(probe..probe + PAGE, 0, IS_PRESENT, usize::MAX, &mut Vec::new());
        tracker
    }

    /// Whether writes to the pages of this range will show from now on. Earlier writes show no more.
    pub(crate) fn arm(&self, pages: &Range<u64>) -> bool {
        let mut protect = Protect { start: pages.start, len: pages.end - pages.start, mode: WRITE_PROTECT };
        // SAFETY: the struct is what the call takes, which does not touch the memory itself.
        let protects = |faults: &File| unsafe { libc::ioctl(faults.as_raw_fd(), IOCTL_PROTECT, &mut protect) } == 0;
        self.register(pages) && self.faults.as_ref().is_some_and(protects)
    }

    /// As `arm`, but that pages which were not armed before count as written.
    pub(crate) fn register(&self, pages: &Range<u64>) -> bool {
        let (Some(faults), true) = (&self.faults, self.scans) else { return false };
        let mut register = Register { start: pages.start, len: pages.end - pages.start, mode: MODE_WP, ioctls: 0 };
        // SAFETY: as above.
        unsafe { libc::ioctl(faults.as_raw_fd(), IOCTL_REGISTER, &mut register) == 0 }
    }

    /// Gives the pages back as they were.
    pub(crate) fn disarm(&self, pages: &Range<u64>) {
        let Some(faults) = &self.faults else { return };
        let mut range = [pages.start, pages.end - pages.start];
        // SAFETY: a range of addresses; what is not registered is an error, and no matter.
        unsafe { libc::ioctl(faults.as_raw_fd(), IOCTL_UNREGISTER, range.as_mut_ptr()) };
    }

    /// Adds the pages that the CPU wrote since they were last protected, and protects them again; false if
    /// Linux will not tell.
    ///
    /// Protection is renewed where it has to be: of 33 pages of which one was written that took 5.3 us at
    /// once, and takes 1.4 us to ask and 1.8 us for that page (tests/gpu/facts/scan_cost.c).
    pub(crate) fn written(&self, pages: Range<u64>, found: &mut Vec<Range<u64>>) -> bool {
        const FEW: usize = 4;
        let protects = SCAN_PROTECT_MATCHING | SCAN_CHECK_ASYNC;
        let mut here = Vec::new();
        // Of more than a few the rest is not asked for: they are protected together.
        if !self.scan::<{ FEW + 1 }>(pages.clone(), SCAN_CHECK_ASYNC, IS_WRITTEN, FEW, &mut here) {
            return false;
        }
        if here.len() > FEW {
            return self.scan::<MANY>(pages, protects, IS_WRITTEN, usize::MAX, found);
        }
        let mut again = Vec::new();
        let protect = |pages: &Range<u64>, again: &mut Vec<_>| {
            self.scan::<{ FEW + 1 }>(pages.clone(), protects, IS_WRITTEN, usize::MAX, again)
        };
        let is_told = here.iter().all(|pages| protect(pages, &mut again));
        here.into_iter().for_each(|pages| add(found, pages));
        is_told
    }

    /// As `written`, without protecting anything.
    pub(crate) fn written_so_far(&self, pages: Range<u64>, found: &mut Vec<Range<u64>>) -> bool {
        self.scan::<MANY>(pages, SCAN_CHECK_ASYNC, IS_WRITTEN, usize::MAX, found)
    }

    pub(crate) fn is_written(&self, pages: Range<u64>) -> bool {
        let mut found = Vec::new();
        !self.written_so_far(pages, &mut found) || !found.is_empty()
    }

    /// Adds the pages that are in the process's page table; false if Linux will not tell.
    pub(crate) fn present(&self, pages: Range<u64>, found: &mut Vec<Range<u64>>) -> bool {
        if self.scans {
            return self.scan::<MANY>(pages, 0, IS_PRESENT, usize::MAX, found);
        }
        let Some(pagemap) = &self.pagemap else { return false };
        let mut entries = [0u64; 512];
        let mut at = pages.start;
        while at < pages.end {
            let count = ((pages.end - at) / PAGE).min(entries.len() as u64) as usize;
            let place = (at / PAGE * 8) as libc::off_t;
            // SAFETY: reads at most as many bytes as the array has.
            let read = unsafe { libc::pread(pagemap.as_raw_fd(), entries.as_mut_ptr().cast(), count * 8, place) };
            if read != count as isize * 8 {
                return false;
            }
            for (i, _) in entries[..count].iter().enumerate().filter(|(_, entry)| **entry >> 63 != 0) {
                add(found, at + i as u64 * PAGE..at + (i as u64 + 1) * PAGE);
            }
            at += count as u64 * PAGE;
        }
        true
    }

    /// `N`: regions that one call of Linux may return. No more is asked for once more than `most` are found.
    fn scan<const N: usize>(
        &self,
        pages: Range<u64>,
        flags: u64,
        category: u64,
        most: usize,
        found: &mut Vec<Range<u64>>,
    ) -> bool {
        let Some(pagemap) = &self.pagemap else { return false };
        let mut regions = [Region::default(); N];
        let mut start = pages.start;
        while start < pages.end && found.len() <= most {
            let mut scan = Scan {
                size: size_of::<Scan>() as u64,
                flags,
                start,
                end: pages.end,
                walk_end: 0,
                regions: regions.as_mut_ptr() as u64,
                region_count: regions.len() as u64,
                most_pages: 0,
                inverted: 0,
                all_of: category,
                any_of: 0,
                returned: category,
            };
            // SAFETY: the struct is what the call takes, and the array has as many regions as it says.
            let count = unsafe { libc::ioctl(pagemap.as_raw_fd(), IOCTL_SCAN, &mut scan) };
            if count < 0 || scan.walk_end <= start {
                return false;
            }
            regions[..count as usize].iter().for_each(|region| add(found, region.start..region.end));
            start = scan.walk_end;
        }
        true
    }
}

fn add(found: &mut Vec<Range<u64>>, pages: Range<u64>) {
    match found.last_mut() {
        Some(last) if last.end == pages.start => last.end = pages.end,
        _ => found.push(pages),
    }
}

fn faults() -> Option<File> {
    // SAFETY: makes a descriptor or fails; owned by nobody else.
    let file = unsafe {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | USER_MODE_ONLY;
        let fd = libc::syscall(libc::SYS_userfaultfd, flags) as i32;
        if fd < 0 {
            return None;
        }
        File::from_raw_fd(fd)
    };
    let file = away_from_standard_streams(file).ok()?;
    let mut api = Api { api: API, features: WP_ASYNC | WP_UNPOPULATED, ioctls: 0 };
    // SAFETY: the struct is what the call takes.
    let agreed = unsafe { libc::ioctl(file.as_raw_fd(), IOCTL_API, &mut api) } == 0;
    agreed.then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory of the process that has not been touched yet.
    struct Pages(Range<u64>);

    impl Pages {
        fn new(count: u64) -> Pages {
            let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: a new mapping, which overlaps none.
            let start =
                unsafe { libc::mmap(std::ptr::null_mut(), (count * PAGE) as usize, protection, flags, -1, 0) } as u64;
            Pages(start..start + count * PAGE)
        }

        fn part(&self, pages: Range<u64>) -> Range<u64> {
            self.0.start + pages.start * PAGE..self.0.start + pages.end * PAGE
        }

        fn write(&self, page: u64) {
            // SAFETY: the page is this mapping's, and nobody else knows its address.
            unsafe { ((self.0.start + page * PAGE + 8) as *mut u8).write_volatile(1) };
        }
    }

    impl Drop for Pages {
        fn drop(&mut self) {
            // SAFETY: the mapping is this value's own.
            unsafe { libc::munmap(self.0.start as *mut _, (self.0.end - self.0.start) as usize) };
        }
    }

    fn scan(tracker: &Tracker, pages: Range<u64>) -> Vec<Range<u64>> {
        let mut found = Vec::new();
        assert!(tracker.written(pages, &mut found), "Linux does not tell");
        found
    }

    /// Linux before 6.7, or a sandbox that forbids userfaultfd, tells nothing; then ranges are compared.
    fn armed(pages: &Pages) -> Option<Tracker> {
        let tracker = Tracker::open();
        let is_armed = tracker.arm(&pages.0);
        if !is_armed {
            eprintln!("skipped: this Linux does not track writes");
        }
        is_armed.then_some(tracker)
    }

    #[test]
    fn a_written_page_is_found_once_and_neighbours_together() {
        let pages = Pages::new(8);
        let Some(tracker) = armed(&pages) else { return };
        assert_eq!(scan(&tracker, pages.0.clone()), []);
        [1, 2, 5].iter().for_each(|page| pages.write(*page));
        assert!(tracker.is_written(pages.part(2..3)) && !tracker.is_written(pages.part(3..5)));
        assert_eq!(scan(&tracker, pages.0.clone()), [pages.part(1..3), pages.part(5..6)]);
        assert_eq!(scan(&tracker, pages.0.clone()), []);
        pages.write(2);
        assert_eq!(scan(&tracker, pages.0.clone()), [pages.part(2..3)]);
    }

    #[test]
    fn more_regions_than_one_call_returns_are_all_found() {
        let pages = Pages::new(600);
        let Some(tracker) = armed(&pages) else { return };
        let odd: Vec<u64> = (0..300).map(|i| 2 * i + 1).collect();
        odd.iter().for_each(|page| pages.write(*page));
        let expected: Vec<Range<u64>> = odd.iter().map(|page| pages.part(*page..page + 1)).collect();
        assert_eq!(scan(&tracker, pages.0.clone()), expected);
    }

    #[test]
    fn earlier_writes_show_no_more_once_armed_but_count_when_registered() {
        let pages = Pages::new(4);
        pages.write(0);
        let Some(tracker) = armed(&pages) else { return };
        assert_eq!(scan(&tracker, pages.0.clone()), []);
        tracker.disarm(&pages.part(2..4));
        pages.write(3);
        assert!(tracker.register(&pages.part(2..4)));
        assert!(scan(&tracker, pages.0.clone()).contains(&pages.part(2..4)), "what was not armed counts as written");
    }

    #[test]
    fn a_page_is_present_from_its_first_touch_on() {
        let pages = Pages::new(4);
        for scans in [true, false] {
            let tracker = Tracker { scans, ..Tracker::open() };
            let mut found = Vec::new();
            assert!(tracker.present(pages.0.clone(), &mut found));
            assert_eq!(found, if scans { vec![] } else { vec![pages.part(2..3)] });
            pages.write(2);
        }
    }
}
