//! Events that several processes share: the number of recordings of each and of those completed, in a memory
//! file.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::abi::code::{Code, Result};
use crate::base::state;
use crate::memory::ipc::IpcHandle;
use crate::memory::{pages, shared_file};

const SIZE: u64 = 4096;
const MARK: &[u8; 8] = b"sim-evt\0";

#[derive(Debug)]
pub(crate) struct Signal {
    file: File,
    at: u64,
}

/// One recording of the event.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    signal: Arc<Signal>,
    number: u64,
}

impl Drop for Signal {
    fn drop(&mut self) {
        pages::unmap(self.at, SIZE);
    }
}

impl Signal {
    pub(crate) fn new() -> Option<Signal> {
        Signal::map(shared_file::create(SIZE)?)
    }

    pub(crate) fn open(handle: &IpcHandle) -> Result<Signal> {
        Signal::map(handle.open(MARK)?).ok_or(Code::OUT_OF_MEMORY)
    }

    fn map(file: File) -> Option<Signal> {
        let at = shared_file::map_anywhere(&file, 0, SIZE)?;
        Some(Signal { file, at })
    }

    pub(crate) fn handle(&self) -> Option<IpcHandle> {
        IpcHandle::new(MARK, &self.file, 0, SIZE)
    }

    fn word(&self, index: u64) -> &AtomicU64 {
        // SAFETY: mapped as long as this lives, aligned, and only used so by everybody.
        unsafe { AtomicU64::from_ptr((self.at + 8 * index) as *mut u64) }
    }

    /// It is recorded once more.
    pub(crate) fn next(self: &Arc<Self>) -> Turn {
        Turn { signal: self.clone(), number: self.word(0).fetch_add(1, Ordering::AcqRel) + 1 }
    }

    /// The last time that it was.
    pub(crate) fn last(self: &Arc<Self>) -> Turn {
        Turn { signal: self.clone(), number: self.word(0).load(Ordering::Acquire) }
    }
}

impl Turn {
    pub(crate) fn comes(&self) {
        self.signal.word(1).fetch_max(self.number, Ordering::AcqRel);
    }

    pub(crate) fn has_completed(&self) -> bool {
        self.signal.word(1).load(Ordering::Acquire) >= self.number
    }

    pub(crate) fn wait(&self) {
        while !self.has_completed() && state::ready().is_ok() {
            std::thread::sleep(Duration::from_micros(20));
        }
    }
}
