//! Identities of descriptors that calls export and import: the number identifies nothing, because descriptors
//! are passed between processes.
//!
//! All of them may refer to one device file (NVIDIA's driver opens its control device for each), so file
//! system and inode do not identify them either. The exporter therefore marks the open file, and every copy
//! of the descriptor shows the mark: owner and signal of fcntl(2), which have no effect unless somebody asks
//! for signals (O_ASYNC). A file that already has any is left unchanged.

use crate::os::transparency::unseen;
use crate::records::lane::Lane;
use libc::c_int;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use trace::file::record::{PASSED, Passed, with_body};

/// Signals that fcntl takes.
const SIGNALS: u32 = 64;

/// Behind the call that has exported or imported it.
#[cold]
pub(crate) fn passed(lane: &Lane, descriptor: c_int, is_exported: bool) {
    let Some(passed) = unseen(|| identify(descriptor, is_exported)) else { return };
    // The call's entry has been written: it is the latest.
    let passed = Passed { call: lane.sequence().wrapping_sub(1), ..passed };
    lane.append(&with_body(PASSED, &passed));
}

/// None if it is no descriptor.
fn identify(descriptor: c_int, is_exported: bool) -> Option<Passed> {
    // SAFETY: a plain C struct, for which zeros are valid.
    let mut about: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: fills the struct; a number that is no descriptor is an error.
    if unsafe { libc::fstat(descriptor, &raw mut about) } != 0 {
        return None;
    }
    // SAFETY: asks, and sets what no address is in.
    let (owner, signal) = unsafe {
        let marks = || (libc::fcntl(descriptor, libc::F_GETOWN), libc::fcntl(descriptor, F_GETSIG));
        if is_exported && marks() == (0, 0) {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let signal = COUNT.fetch_add(1, Relaxed) % SIGNALS + 1;
            libc::fcntl(descriptor, libc::F_SETOWN, libc::getpid());
            libc::fcntl(descriptor, F_SETSIG, signal);
        }
        marks()
    };
    Some(Passed { call: 0, owner, signal, zero: 0, device: about.st_dev, inode: about.st_ino })
}

/// fcntl(2), which the C library names for programs of its own extensions alone.
const F_SETSIG: c_int = 10;
const F_GETSIG: c_int = 11;
