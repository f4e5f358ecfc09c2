//! CPU writes found in host memory that the device can reach, on their way into the trace.

use crate::os::clock;
use crate::os::probe::bytes_at;
use crate::trace_file::recorder_parts::Surroundings;
use std::ops::Range;
use trace::file::record::{self, HEAD, WRITTEN_HERE, WRITTEN_SIZE, Written};

/// Memory is read and stored in pieces of this size.
pub(crate) const PIECE: u64 = 64 << 10;
/// A record grows to about this size; further pieces go into the next.
const MOST_IN_RECORD: usize = 256 << 10;

pub(crate) struct HostWrites {
    pub around: &'static Surroundings,
    about: Written,
    /// The thread's, if it is asked before a call.
    pub stack: Option<Range<u64>>,
    /// The record being written, of what was written, of what was seen, and of what was told before.
    open: [Vec<u8>; 3],
    records: Vec<Vec<u8>>,
    /// Where something was found to be written.
    pub places: Vec<Range<u64>>,
    /// Addresses of pinned memory that stand in what was found: kernels get to it by them.
    pub named: Vec<u64>,
}

/// What is simply written was, if the scan came behind a wait, written meanwhile.
fn write_kind(about: &Written, how: u32) -> u32 {
    if how == WRITTEN_HERE { about.seen } else { how }
}

impl HostWrites {
    /// Whose call it is.
    pub(crate) fn thread(&self) -> u32 {
        self.about.thread
    }

    pub(crate) fn new(about: Written, around: &'static Surroundings) -> HostWrites {
        HostWrites {
            around,
            about,
            stack: None,
            open: Default::default(),
            records: Vec::new(),
            places: Vec::new(),
            named: Vec::new(),
        }
    }

    /// The scan is over, and what it found was there by now. It may have taken long: what it read last can
    /// have been written after a wait of another thread that ended while it looked. With the lock held:
    /// whoever looks later finds only what is written later.
    pub(crate) fn found_by_now(&mut self) {
        self.about.end = clock::entry();
        if self.about.run == 0 {
            self.about.begin = self.about.end;
        }
        if self.open.iter().all(Vec::is_empty) {
            return;
        }
        for (how, mut record) in self.open.iter_mut().map(std::mem::take).enumerate().filter(|(_, r)| !r.is_empty()) {
            let stamped = record::with_body(
                record::WRITTEN,
                &Written { seen: write_kind(&self.about, how as u32), ..self.about },
            );
            record[HEAD..WRITTEN_SIZE].copy_from_slice(&stamped[HEAD..WRITTEN_SIZE]);
            self.records.push(record);
        }
    }

    /// What the host holds there now.
    pub(crate) fn take(&mut self, range: Range<u64>) {
        for at in range.clone().step_by(PIECE as usize) {
            let step = PIECE.min(range.end - at) as usize;
            match bytes_at(at, step, true) {
                Some(bytes) => self.add(WRITTEN_HERE, at, &bytes),
                None => self.lose(at, step, "pinned memory that could not be read"),
            }
        }
    }

    pub(crate) fn add(&mut self, how: u32, address: u64, bytes: &[u8]) {
        if how == WRITTEN_HERE {
            self.places.push(address..address + bytes.len() as u64);
        }
        // Words stand at multiples of their size.
        let skipped = (address.next_multiple_of(8) - address) as usize;
        let pinned = &self.around.pinned;
        self.named.extend(bytes.get(skipped..).into_iter().flat_map(|bytes| pinned.addresses_in(bytes)));
        if bytes.len() <= record::INLINE_LIMIT {
            return self.attach(how, record::INLINE, address, bytes.len(), bytes);
        }
        match self.around.file.blob(bytes) {
            Some(hash) => self.attach(how, record::BLOB, address, bytes.len(), &hash.to_bytes()),
            None => self.lose(address, bytes.len(), "CPU writes to host memory, for lack of space"),
        }
    }

    pub(crate) fn lose(&mut self, address: u64, len: usize, what: &'static str) {
        self.attach(WRITTEN_HERE, record::LOST, address, len, &[]);
        let count = self.around.lose(what);
        self.records.push(record::with_body(record::LOSS, &record::Loss { what: what.into(), count }));
    }

    /// Nobody will tell what is written there: what was recorded with the call is all there is. Counted
    /// before.
    pub(crate) fn untold(&mut self, address: u64, len: usize) {
        self.attach(WRITTEN_HERE, record::LOST, address, len, &[]);
    }

    fn attach(&mut self, how: u32, form: u8, address: u64, len: usize, data: &[u8]) {
        let seen = write_kind(&self.about, how);
        let record = &mut self.open[how as usize];
        if record.is_empty() {
            *record = record::with_body(record::WRITTEN, &Written { seen, ..self.about });
        }
        record::attach(record, form, address, len as u32, data);
        if record.len() > MOST_IN_RECORD {
            self.records.push(std::mem::take(record));
        }
    }

    /// A run of a callback is written down even if it wrote nothing.
    pub(crate) fn of_run(mut self) -> HostWrites {
        if self.records.is_empty() {
            self.open[0] = record::with_body(record::WRITTEN, &self.about);
        }
        self
    }

    pub(crate) fn into_records(mut self) -> Vec<Vec<u8>> {
        self.records.extend(self.open.into_iter().filter(|record| !record.is_empty()));
        self.records
    }
}
