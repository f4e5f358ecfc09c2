//! NCCL's operations, written into the lane of the calling thread: a time stamp and one small record.

use crate::os::generation;
use crate::os::guard::guarded;
use crate::records::lane::{Lane, encode_at};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use trace::file::record::nccl::{self, BEGAN, Began, RETURNED, Returned};
use trace::file::record::{self, HEAD, Head, OPTIONAL};

/// A communicator of this process. NCCL keeps a pointer to it, and may use it at any later time, so it is
/// never freed.
pub(crate) struct Communicator {
    pub number: u32,
    /// The version of the interface by which NCCL told of it.
    pub version: u32,
    /// What NCCL has told of it before any operation.
    pub known: Option<Identity>,
    /// The recording that has been told.
    told: AtomicU64,
}

/// The identity of a communicator, equal at all of its ranks.
#[derive(Default)]
pub(crate) struct Identity {
    pub id: u64,
    pub rank: i32,
    pub ranks: u32,
    pub hosts: u32,
    pub name: Vec<u8>,
}

impl Communicator {
    pub(crate) fn new(version: u32, known: Option<Identity>) -> Communicator {
        static LAST: AtomicU32 = AtomicU32::new(0);
        Communicator { number: LAST.fetch_add(1, Relaxed).wrapping_add(1), version, known, told: AtomicU64::new(0) }
    }

    /// Says what its number stands for, once a recording. `otherwise`: what is known if NCCL had not told.
    #[inline]
    pub(crate) fn tell(&self, lane: &Lane, time: u64, otherwise: impl FnOnce() -> Identity) {
        let generation = generation::generation();
        if self.told.load(Relaxed) != generation && self.told.swap(generation, AcqRel) != generation {
            guarded(|| match &self.known {
                Some(known) => self.append_record(lane, time, known),
                None => self.append_record(lane, time, &otherwise()),
            });
        }
    }

    #[cold]
    fn append_record(&self, lane: &Lane, time: u64, of: &Identity) {
        let name = String::from_utf8_lossy(&of.name).into_owned();
        let &Identity { id, rank, ranks, hosts, .. } = of;
        let (number, version) = (self.number, self.version);
        let body = nccl::Communicator { time, id, number, rank, ranks, hosts, version, name };
        lane.append(&record::with_body(nccl::COMMUNICATOR, &body));
    }
}

#[inline]
pub(crate) fn began(lane: &Lane, about: &Began) {
    append(lane, BEGAN, about);
}

#[inline]
pub(crate) fn returned(lane: &Lane, about: Returned) {
    append(lane, RETURNED, &about);
}

#[inline]
fn append<T: bincode::Encode>(lane: &Lane, kind: u8, body: &T) {
    let size = HEAD + size_of::<T>();
    if lane.room() < size && !lane.refill(size) {
        return;
    }
    let head = Head { size: size as u32, kind, flags: OPTIONAL, function: 0 };
    // SAFETY: `size` bytes from the cursor are in the chunk, and only this thread writes there. Both bodies
    // are whole words.
    unsafe {
        encode_at(lane.cursor(), &head);
        encode_at(lane.cursor().add(HEAD), body);
        lane.commit(size);
    }
}
