//! What the linker says. It writes to buffers that the program gave it when it made it, whichever call is under way.

use crate::lock::Lock;
use crate::memory::{string_at, word_at};
use std::collections::HashMap;
use trace::hash::Hash;

/// Where the program had an option put its log.
pub struct Buffer {
    /// CUjit_option
    option: u16,
    address: u64,
    len: u64,
    /// Where the buffer's size stands, in the place of which the driver puts how much it wrote.
    size: Option<u64>,
    /// What stood in both last: the text may never have been anything but the program's own.
    last: Option<(Hash, Option<u64>)>,
}

/// A log that a call wrote.
pub struct Log {
    pub option: u16,
    pub address: u64,
    pub text: Vec<u8>,
}

#[derive(Default)]
pub struct Logs {
    /// By CUlinkState, which may be reused; a handle stays here until it is.
    linkers: Lock<HashMap<u64, Vec<Buffer>>>,
}

impl Buffer {
    /// `size`: where the buffer's size stands, if it stands anywhere.
    pub fn new(option: u32, address: u64, size: Option<u64>) -> Buffer {
        /// Of a buffer whose size is not known.
        const SOME: u64 = 64 << 10;
        let mut buffer = Buffer { option: option as u16, address, len: SOME, size, last: None };
        buffer.len = buffer.size().filter(|size| *size != 0).unwrap_or(SOME);
        buffer.news();
        buffer
    }

    fn size(&self) -> Option<u64> {
        word_at(self.size?, 4, true)
    }

    fn news(&mut self) -> Option<Log> {
        let text = string_at(self.address, self.len)?;
        let now = Some((Hash::of(&text), self.size()));
        let is_new = std::mem::replace(&mut self.last, now) != now && text.first().is_some_and(|first| *first != 0);
        is_new.then_some(Log { option: self.option, address: self.address, text })
    }
}

impl Logs {
    pub fn made(&self, linker: u64, buffers: Vec<Buffer>) {
        let mut linkers = self.linkers.lock();
        match buffers.is_empty() {
            true => linkers.remove(&linker),
            false => linkers.insert(linker, buffers),
        };
    }

    /// What stands in the buffers of a linker that did not stand there when somebody looked last.
    pub fn news(&self, linker: u64) -> Vec<Log> {
        let mut linkers = self.linkers.lock();
        linkers.get_mut(&linker).into_iter().flatten().filter_map(Buffer::news).collect()
    }
}
