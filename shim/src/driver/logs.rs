//! The linker's messages. Any call may make it write them, to buffers that the program passed when it created
//! the linker.

use crate::os::lock::Lock;
use crate::os::probe::{string_at, word_at};
use std::collections::HashMap;
use trace::base::hash::Hash;

/// The program's buffer for a log, set by an option.
pub(crate) struct Buffer {
    /// CUjit_option
    option: u16,
    address: u64,
    len: u64,
    /// Where the buffer's size stands, in the place of which the driver puts how much it wrote.
    size: Option<u64>,
    /// What stood in both last: the text may never have been anything but the program's own.
    last: (Option<Hash>, Option<u64>),
}

/// A log that a call wrote.
pub(crate) struct Log {
    pub option: u16,
    pub address: u64,
    pub text: Vec<u8>,
}

#[derive(Default)]
pub(crate) struct Logs {
    /// By CUlinkState, which may be reused; a handle stays here until it is.
    linkers: Lock<HashMap<u64, Vec<Buffer>>>,
}

impl Buffer {
    /// `size`: where the buffer's size stands, if it stands anywhere.
    pub(crate) fn new(option: u32, address: u64, size: Option<u64>) -> Buffer {
        /// Of a buffer whose size is not known.
        const SOME: u64 = 64 << 10;
        /// No log is longer, whatever the program says of its buffer.
        const MOST: u64 = 16 << 20;
        let mut buffer = Buffer { option: option as u16, address, len: SOME, size, last: (None, None) };
        buffer.len = buffer.size().filter(|size| *size != 0).unwrap_or(SOME).min(MOST);
        buffer.news();
        buffer
    }

    fn size(&self) -> Option<u64> {
        word_at(self.size?, 4, true)
    }

    fn news(&mut self) -> Option<Log> {
        let text = string_at(self.address, self.len)?;
        let (now, size) = (Some(Hash::compute(&text)), self.size());
        let last = std::mem::replace(&mut self.last, (now, size));
        // The same text again has its length put there again. Other words are those of whoever has the stack
        // by now.
        let length = text.len() as u64;
        let tells_length = || size.is_some_and(|size| (length.saturating_sub(1)..=length + 1).contains(&size));
        let is_new = last.0 != now || last.1 != size && tells_length();
        (is_new && text.first().is_some_and(|first| *first != 0)).then_some(Log {
            option: self.option,
            address: self.address,
            text,
        })
    }
}

impl Logs {
    pub(crate) fn linker_created(&self, linker: u64, buffers: Vec<Buffer>) {
        let mut linkers = self.linkers.lock();
        match buffers.is_empty() {
            true => linkers.remove(&linker),
            false => linkers.insert(linker, buffers),
        };
    }

    /// What stands in the buffers of a linker that did not stand there when somebody looked last.
    pub(crate) fn news(&self, linker: u64) -> Vec<Log> {
        let mut linkers = self.linkers.lock();
        linkers.get_mut(&linker).into_iter().flatten().filter_map(Buffer::news).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::SeqCst};

    #[test]
    fn a_text_is_told_once_whatever_becomes_of_the_size_word() {
        let text = b"no such thing\0..".map(AtomicU8::new);
        let size = AtomicU32::new(text.len() as u32);
        let mut buffer = Buffer::new(5, text.as_ptr() as u64, Some(size.as_ptr() as u64));
        let mut tells = |says| {
            size.store(says, SeqCst);
            buffer.news().is_some()
        };
        assert!(!tells(16), "what stood there before is the program's own");
        assert!(tells(14), "the driver has put the same text there");
        assert!(!tells(14));
        // The size stood on a stack.
        assert!(!tells(0x7fff_1234) && !tells(0) && !tells(0xffff_ffff));
        text[0].store(b'N', SeqCst);
        assert!(tells(0xffff_ffff), "another text");
    }

    #[test]
    fn no_more_is_read_than_a_log_may_have() {
        let size = u32::MAX;
        let text = vec![b'x'; (16 << 20) + 4096];
        let mut buffer = Buffer::new(5, text.as_ptr() as u64, Some(&raw const size as u64));
        assert_eq!(buffer.len, 16 << 20);
        buffer.last = (None, None);
        assert_eq!(buffer.news().map(|log| log.text.len()), Some(16 << 20));
    }
}
