//! Attaches a call's memory to its record: inline, as a blob, or as lost.

use super::{Capture, Moment};
use crate::kernels::images::{Content, Piece};
use crate::os::probe::bytes_at;
use crate::submission::copy_endpoints;
use trace::api::roles::Class;
use trace::file::record;

/// What describes a call that the driver has not accepted is not followed if it is longer: the length may be
/// any number.
const MOST_UNACCEPTED: u64 = 64 << 20;

/// In what is longer nobody looks for addresses.
pub(crate) const MOST_FOLLOWED: usize = 64 << 10;

impl Capture<'_> {
    /// Whether this is too long to be believed.
    pub(crate) fn is_doubtful(&self, bytes: u64) -> bool {
        self.careful() && bytes > MOST_UNACCEPTED
    }

    pub(crate) fn lose_doubtful(&mut self, address: u64) {
        self.lost(address, 0, "structures of more than 64 MiB in calls that the driver had not accepted");
    }

    /// Memory as it is; structures inline, payloads as blobs when they are long.
    pub(crate) fn attach(&mut self, address: u64, len: u64, small: bool) {
        if len == 0 || address == 0 {
            return;
        }
        if small && self.is_doubtful(len) {
            return self.lose_doubtful(address);
        }
        let careful = if small { self.careful() } else { !self.is_sure(address, len) };
        let mut done = 0;
        while done < len {
            let step = (len - done).min(record::LONGEST as u64);
            match bytes_at(address + done, step as usize, careful) {
                Some(bytes) => {
                    if self.is_early && self.moment == Moment::Entry && step == len {
                        self.early.keep(address, &bytes);
                    }
                    self.payload(address + done, &bytes, 0, small);
                }
                // Nor is what may lie behind it looked for: a node may have been given any length.
                None => return self.lost(address + done, step as u32, "memory that could not be read"),
            }
            done += step;
        }
    }

    /// `small`: a structure, in which the call names things.
    pub(crate) fn payload(&mut self, address: u64, bytes: &[u8], rows: u8, small: bool) {
        let len = bytes.len() as u32;
        if self.moment != Moment::Failure && matches!(self.function.class, Class::copy | Class::submit | Class::graph) {
            self.follow(bytes, small);
        }
        if bytes.len() <= record::INLINE_LIMIT {
            self.draft.attach(record::INLINE | rows, address, len, bytes);
            self.keep(address, bytes.len(), || Content::Bytes(bytes.to_vec()));
        } else if let Some(hash) = self.lane.recorder().around.file.blob(bytes) {
            self.draft.attach(record::BLOB | rows, address, len, &hash.to_bytes());
            self.keep(address, bytes.len(), || Content::Blob(hash));
        } else {
            self.lost(address, len, "payloads not stored for lack of space");
        }
    }

    /// What a device is given may hold addresses of pinned memory, by which kernels get to it.
    pub(crate) fn follow(&mut self, bytes: &[u8], by_name: bool) {
        let known: Vec<u64> = if bytes.len() <= MOST_FOLLOWED {
            self.lane.recorder().around.pinned.addresses_in(bytes).collect()
        } else {
            Vec::new()
        };
        // What a copy's description names was looked at before the call: now the copy may have brought
        // something there.
        let is_copys =
            by_name && self.function.class != Class::graph && copy_endpoints::describes_copies(self.function);
        if !known.is_empty() && !is_copys {
            let mut writes = self.lane.writes_before(self.call);
            let watch = &self.lane.recorder().watch;
            match by_name {
                true => watch.refer(known.into_iter(), &mut writes),
                false => watch.refer_stored(known.into_iter(), &mut writes),
            }
            watch.refer_named(&mut writes);
            self.deferred.extend(writes.into_records());
        }
    }

    fn keep(&mut self, address: u64, len: usize, content: impl FnOnce() -> Content) {
        if let Some(image) = &mut self.image {
            image.push(Piece { address, len, content: content() });
        }
    }

    pub(crate) fn lost(&mut self, address: u64, len: u32, what: &'static str) {
        self.draft.attach(record::LOST, address, len, &[]);
        let count = self.lane.recorder().around.lose(what);
        self.deferred.push(record::with_body(record::LOSS, &record::Loss { what: what.into(), count }));
    }
}
