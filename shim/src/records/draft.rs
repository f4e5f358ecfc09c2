//! Drafts: records whose length is not known beforehand.

use crate::os::generation;
use crate::records::lane::{Lane, encode_at};
use trace::file::record::{Attachment, INLINE, NESTED};

/// A record of unknown length, written in place. Moves to a new chunk when it outgrows this one.
pub(crate) struct Draft<'a> {
    lane: &'a Lane,
    written: usize,
    failed: bool,
}

impl<'a> Draft<'a> {
    /// Leaves room for `head` bytes to be filled in at the end.
    pub(crate) fn new(lane: &'a Lane, head: usize) -> Draft<'a> {
        let mut draft = Draft { lane, written: 0, failed: false };
        draft.skip(head);
        draft
    }

    fn skip(&mut self, size: usize) -> Option<*mut u8> {
        if self.failed {
            return None;
        }
        let lane = self.lane;
        if lane.room() < self.written + size && !lane.refill_keeping(size, self.written) {
            self.failed = true;
            return None;
        }
        // SAFETY: within the chunk, as just made sure.
        let at = unsafe { lane.cursor().add(self.written) };
        self.written += size;
        Some(at)
    }

    pub(crate) fn value<T: bincode::Encode>(&mut self, value: &T) {
        if let Some(at) = self.skip(size_of::<T>()) {
            // SAFETY: `skip` made room.
            unsafe { encode_at(at, value) };
        }
    }

    /// Bytes, padded to 8.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let padded = bytes.len().div_ceil(8) * 8;
        if let Some(at) = self.skip(padded) {
            // SAFETY: `skip` made room for the padded length.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len());
                std::ptr::write_bytes(at.add(bytes.len()), 0, padded - bytes.len());
            }
        }
    }

    /// An attachment of `len` bytes of memory at `address`, stood for by `data`.
    pub(crate) fn attach(&mut self, form: u8, address: u64, len: u32, data: &[u8]) {
        self.value(&Attachment { form, field: NESTED, option: 0, len });
        self.value(&address);
        self.bytes(data);
    }

    /// What an option of the compiler or linker had it write to a buffer that no argument of the call leads
    /// to.
    pub(crate) fn attach_log(&mut self, option: u16, address: u64, text: &[u8]) {
        self.value(&Attachment { form: INLINE, field: NESTED, option, len: text.len() as u32 });
        self.value(&address);
        self.bytes(text);
    }

    /// Fills in the head and commits, unless recording has ended meanwhile: the payload that was too much is
    /// not there. `head` gets the size of the whole record.
    pub(crate) fn finish<T: bincode::Encode>(self, head: impl FnOnce(u32) -> T) {
        if self.failed || generation::is_off() {
            return;
        }
        let value = head(self.written as u32);
        // SAFETY: `new` left room for the head at the cursor; everything up to `written` has been written.
        unsafe {
            encode_at(self.lane.cursor(), &value);
            self.lane.commit(self.written);
        }
    }
}
