//! Host mappings, which represent device memory.

use std::ffi::c_void;

pub(crate) const GRANULE: u64 = 2 << 20;

const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;
const PRIVATE: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
const SHARED: i32 = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

fn map(at: u64, size: u64, access: i32, flags: i32) -> Option<u64> {
    // SAFETY: callers pass MAP_FIXED only for addresses inside a reservation that this driver made; otherwise
    // the kernel replaces nothing.
    let got = unsafe { libc::mmap(at as *mut c_void, size as usize, access, flags, -1, 0) };
    (got != libc::MAP_FAILED).then_some(got as u64)
}

/// Readable, writable, zero pages at exactly this address, if nothing is there.
pub(crate) fn place(at: u64, size: u64) -> bool {
    exact(at, size, READ_WRITE)
}

/// Has pages that can leave the page table and keep what they hold, in the place of those of a mapping of
/// this driver.
pub(crate) fn keep(at: u64, size: u64) -> bool {
    map(at, size, READ_WRITE, SHARED | libc::MAP_FIXED).is_some()
}

/// Such pages leave the page table.
pub(crate) fn leave(at: u64, size: u64) {
    // SAFETY: a shared mapping keeps what it holds.
    unsafe { libc::madvise(at as *mut c_void, size as usize, libc::MADV_DONTNEED) };
}

/// Takes the addresses without giving any access to them, if nothing is there.
pub(crate) fn reserve(at: u64, size: u64) -> bool {
    exact(at, size, libc::PROT_NONE)
}

/// Addresses that give no access to anything, wherever the kernel likes.
pub(crate) fn closed(size: u64) -> Option<u64> {
    map(0, size, libc::PROT_NONE, PRIVATE)
}

/// Whether the last mapping that failed would have failed anywhere: the process may have no more addresses
/// (RLIMIT_AS), or there are no such.
pub(crate) fn were_refused() -> bool {
    std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOMEM)
}

fn exact(at: u64, size: u64, access: i32) -> bool {
    match map(at, size, access, PRIVATE | libc::MAP_FIXED_NOREPLACE) {
        Some(got) if got == at => true,
        Some(got) => {
            // A kernel without MAP_FIXED_NOREPLACE took the address for a wish.
            unmap(got, size);
            false
        }
        None => false,
    }
}

/// Pages that can be mapped at a second address by `alias`.
pub(crate) fn aliasable(size: u64) -> Option<u64> {
    map(0, size, READ_WRITE, SHARED)
}

/// Makes `size` bytes of an aliasable mapping appear at `at` too, inside a reservation of ours, without
/// access.
pub(crate) fn alias(from: u64, at: u64, size: u64) -> bool {
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: an old size of zero duplicates a shared mapping; the target lies in a reservation that this
    // driver made and whose pieces here are unmapped.
    let got = unsafe { libc::mremap(from as *mut c_void, 0, size as usize, flags, at as *mut c_void) };
    got as u64 == at && protect(at, size, false, false)
}

/// The same pages at a second address, wherever the kernel likes.
pub(crate) fn second_view(from: u64, size: u64) -> Option<u64> {
    // SAFETY: an old size of zero duplicates a shared mapping; nothing is replaced.
    let got = unsafe { libc::mremap(from as *mut c_void, 0, size as usize, libc::MREMAP_MAYMOVE) };
    (got != libc::MAP_FAILED).then_some(got as u64)
}

/// Puts the reservation back where something was mapped in it.
pub(crate) fn unalias(at: u64, size: u64) {
    map(at, size, libc::PROT_NONE, PRIVATE | libc::MAP_FIXED);
}

pub(crate) fn protect(at: u64, size: u64, readable: bool, writable: bool) -> bool {
    let access = if writable {
        READ_WRITE
    } else if readable {
        libc::PROT_READ
    } else {
        libc::PROT_NONE
    };
    // SAFETY: the range is a mapping of this driver; its contents are only reached through raw pointers after
    // a lookup.
    unsafe { libc::mprotect(at as *mut c_void, size as usize, access) == 0 }
}

pub(crate) fn unmap(at: u64, size: u64) {
    // SAFETY: the range is a mapping of this driver that has left the table of live ranges.
    unsafe { libc::munmap(at as *mut c_void, size as usize) };
}

/// Whole pages of a live allocation, zeros again without being touched; false if they are not whole.
/// `shared`: they can be mapped twice.
pub(crate) fn empty(at: u64, size: u64, shared: bool) -> bool {
    const PAGE: u64 = 4096;
    let advice = if shared { libc::MADV_REMOVE } else { libc::MADV_DONTNEED };
    let is_whole = at.is_multiple_of(PAGE) && size.is_multiple_of(PAGE);
    // SAFETY: the range is a mapping of this driver, of the kind that the advice is for; its contents are to
    // be zeros.
    is_whole && unsafe { libc::madvise(at as *mut c_void, size as usize, advice) == 0 }
}

/// Fills a range of a live allocation with bytes, to begin with.
pub(crate) fn write(at: u64, bytes: &[u8]) {
    // SAFETY: the caller has just allocated at least this many bytes there and told nobody yet.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) }
}
