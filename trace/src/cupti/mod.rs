//! CUPTI, NVIDIA's profiling library, as a source of device times: its functions, records and clock.
//!
//! The replay and the recorder both use it. The code that opens the library passes in the lookup of
//! functions.

pub mod activity;
pub mod library;

pub use activity::{Activity, Record};
pub use library::Library;

use std::alloc::Layout;
use std::ffi::c_void;

/// Bytes of a buffer for records; the size that CUPTI's documentation advises.
const BUFFER: usize = 8 << 20;
const ALIGNMENT: usize = 8;
const LAYOUT: Layout = match Layout::from_size_align(BUFFER, ALIGNMENT) {
    Ok(layout) => layout,
    Err(_) => panic!("a power of two"),
};

/// CUPTI asks for a buffer. Without memory it gets none, and counts what it drops.
///
/// # Safety
/// It hands in three output words.
pub unsafe extern "C" fn request(buffer: *mut *mut u8, size: *mut usize, most: *mut usize) {
    // SAFETY: the caller's promise, and the layout is not empty.
    unsafe {
        let memory = std::alloc::alloc(LAYOUT);
        *buffer = memory;
        *size = if memory.is_null() { 0 } else { BUFFER };
        // As many records as fit.
        *most = 0;
    }
}

/// Frees a buffer of [`request`].
///
/// # Safety
/// CUPTI has given it back.
pub unsafe fn release(buffer: *mut u8) {
    if !buffer.is_null() {
        // SAFETY: allocated by `request` with this layout, and nobody uses it any more.
        unsafe { std::alloc::dealloc(buffer, LAYOUT) };
    }
}

/// Two clocks, read together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compared {
    /// CUPTI's time, in nanoseconds.
    pub theirs: i64,
    /// What is to be added to it to make it ours.
    pub offset: i64,
    /// How far apart the readings of our clock were.
    pub apart: u64,
}

impl Library {
    /// Its version, if its records are known. `shown`: how the library is to be named.
    pub fn known_version(&self, shown: &str) -> Result<u32, String> {
        let mut version = 0u32;
        // SAFETY: an output word.
        self.check("cuptiGetVersion", unsafe { (self.version)(&raw mut version) })?;
        if activity::KNOWN.iter().any(|known| known.contains(&version)) {
            return Ok(version);
        }
        let known = "18 to 28 (CUDA 12) or 130000 to 130599 (CUDA 13)";
        Err(format!("{shown} is CUPTI version {version}; expected version {known}"))
    }

    /// Compares CUPTI's clock with ours: the best of some readings.
    pub fn compare(&self, tries: usize, now: impl Fn() -> i64) -> Result<Compared, String> {
        let mut best = Compared { apart: u64::MAX, ..Compared::default() };
        for _ in 0..tries {
            let mut theirs = 0u64;
            let before = now();
            // SAFETY: an output word.
            self.check("cuptiGetTimestamp", unsafe { (self.timestamp)(&raw mut theirs) })?;
            let apart = now().abs_diff(before);
            let theirs = theirs as i64;
            if apart < best.apart {
                best = Compared { theirs, offset: before + (apart / 2) as i64 - theirs, apart };
            }
        }
        Ok(best)
    }

    /// Goes over the records of a buffer; how many CUPTI has dropped.
    ///
    /// # Safety
    /// CUPTI has just handed in the buffer of [`request`], the `valid` bytes in it, and what they are of. The
    /// library's version is a known one.
    pub unsafe fn read(
        &self,
        (context, stream): (*const c_void, u32),
        (buffer, valid): (*mut u8, usize),
        mut see: impl FnMut(Record),
    ) -> u64 {
        let mut at = std::ptr::null();
        // SAFETY: the caller's promise.
        while !buffer.is_null() && unsafe { (self.next)(buffer, valid, &raw mut at) } == 0 {
            // SAFETY: a record of a known version.
            if let Some(record) = unsafe { activity::read(at) } {
                see(record);
            }
        }
        let mut dropped = 0;
        // SAFETY: what CUPTI has just handed in, and an output word.
        let told = unsafe { (self.dropped)(context, stream, &raw mut dropped) };
        if told == 0 { dropped as u64 } else { 0 }
    }
}
