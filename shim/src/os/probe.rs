//! Reads of the application's memory: directly where the driver has just read or written it, elsewhere by a
//! system call that fails instead of faulting.

use crate::os::generation::page;
use std::borrow::Cow;
use std::ffi::CStr;
use std::sync::atomic::Ordering::Relaxed;

/// The kernel reads no more than 2 GiB less a page in one call.
const MOST_AT_ONCE: usize = 1 << 30;

/// `len` bytes at `address`. `careful` makes unreadable memory an answer instead of a fault, and costs a
/// copy.
pub(crate) fn bytes_at(address: u64, len: usize, careful: bool) -> Option<Cow<'static, [u8]>> {
    if len == 0 {
        return Some(Cow::Borrowed(&[]));
    }
    if address == 0 {
        return None;
    }
    if !careful {
        // SAFETY: the driver has just read or written these bytes for the application, which is still inside
        // the call that said so. The slice is used up before the application goes on.
        return Some(Cow::Borrowed(unsafe { std::slice::from_raw_parts(address as *const u8, len) }));
    }
    let mut copy: Vec<u8> = Vec::new();
    copy_of(address, len, &mut copy).then_some(Cow::Owned(copy))
}

/// The same, with care, into memory that is used again. Whether all of it can be read.
pub(crate) fn copy_of(address: u64, len: usize, copy: &mut Vec<u8>) -> bool {
    copy.clear();
    if copy.try_reserve_exact(len).is_err() {
        return false;
    }
    while copy.len() < len {
        let (done, step) = (copy.len(), (len - copy.len()).min(MOST_AT_ONCE));
        let local = libc::iovec { iov_base: copy.spare_capacity_mut().as_mut_ptr().cast(), iov_len: step };
        let remote = libc::iovec { iov_base: (address + done as u64) as *mut libc::c_void, iov_len: step };
        // SAFETY: writes at most `step` bytes into the spare capacity; the remote range is Linux's to check.
        let read = unsafe { libc::process_vm_readv(process(), &local, 1, &remote, 1, 0) };
        if read != step as isize {
            return false;
        }
        // SAFETY: that many more bytes were just written.
        unsafe { copy.set_len(done + step) };
    }
    true
}

/// Several pieces, one behind the other, by one system call for up to 1024 of them; none if any cannot be
/// read.
pub(crate) fn gathered(pieces: &[(u64, usize)]) -> Option<Vec<u8>> {
    /// UIO_MAXIOV
    const MOST_PIECES: usize = 1024;
    let mut copy: Vec<u8> = Vec::with_capacity(pieces.iter().map(|(_, len)| len).sum());
    for pieces in pieces.chunks(MOST_PIECES) {
        let len = pieces.iter().map(|(_, len)| len).sum();
        let remote = |(at, len): &(u64, usize)| libc::iovec { iov_base: *at as *mut libc::c_void, iov_len: *len };
        let remote: Vec<libc::iovec> = pieces.iter().map(remote).collect();
        let local = libc::iovec { iov_base: copy.spare_capacity_mut().as_mut_ptr().cast(), iov_len: len };
        // SAFETY: writes at most `len` bytes into the spare capacity; the remote ranges are Linux's to check.
        let read =
            unsafe { libc::process_vm_readv(process(), &local, 1, remote.as_ptr(), remote.len() as libc::c_ulong, 0) };
        if read != len as isize {
            return None;
        }
        // SAFETY: that many more bytes were just written.
        unsafe { copy.set_len(copy.len() + len) };
    }
    Some(copy)
}

/// This one.
fn process() -> libc::pid_t {
    match page().process.load(Relaxed) {
        // Before recording, and in a child that does not record.
        // SAFETY: a plain question.
        0 => unsafe { libc::getpid() },
        known => known as libc::pid_t,
    }
}

/// A text that the driver has just handed out, with its nul.
pub(crate) fn drivers_text(address: u64) -> &'static [u8] {
    // SAFETY: it is the driver's own, which lasts, or of an object that the program has just asked about.
    unsafe { CStr::from_ptr(address as *const libc::c_char) }.to_bytes_with_nul()
}

/// The string at an address with its nul, or as much of it as so many bytes hold; none if it cannot be read.
pub(crate) fn string_at(address: u64, most: u64) -> Option<Vec<u8>> {
    let mut text: Vec<u8> = Vec::new();
    while (text.len() as u64) < most {
        let at = address.checked_add(text.len() as u64)?;
        // Most end soon; what does not is read up to where something unreadable may begin.
        let step = if text.is_empty() { 256 } else { 4096 };
        let bytes = bytes_at(at, (step - at % step).min(most - text.len() as u64) as usize, true)?;
        match bytes.iter().position(|byte| *byte == 0) {
            Some(nul) => {
                text.extend_from_slice(&bytes[..=nul]);
                break;
            }
            None => text.extend_from_slice(&bytes),
        }
    }
    Some(text)
}

/// The string at an address without its nul, if it can be read and is no longer than 64 KiB.
pub(crate) fn text_at(address: u64) -> Option<Vec<u8>> {
    let mut text = string_at(address, 1 << 16)?;
    (text.pop() == Some(0)).then_some(text)
}

/// Up to 8 bytes as a little-endian word.
#[inline]
pub(crate) fn word_at(address: u64, size: u32, careful: bool) -> Option<u64> {
    let mut word = [0; 8];
    let size = size.min(8) as usize;
    word[..size].copy_from_slice(&bytes_at(address, size, careful)?);
    Some(u64::from_le_bytes(word))
}

/// What a call that succeeded has put there.
pub(crate) fn handed_out(place: u64) -> u64 {
    // SAFETY: the driver has just written a word there for the application.
    unsafe { *(place as *const u64) }
}
