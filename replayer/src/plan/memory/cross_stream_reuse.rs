//! Stream-ordered memory that one stream frees and another gets. The driver ensured that the first was
//! complete (by its own order between the streams, or by a check whether it had finished), which no call of
//! the program shows. A replay that places the memory at its address must create that order itself.

use std::collections::{BTreeMap, HashMap};
use trace::model::stream::StreamId;

/// Changes of stream-ordered memory, in the order of the calls; those of several threads overlap.
#[derive(Default)]
pub(crate) struct Changes(Vec<Change>);

struct Change {
    /// When the call began that freed, or returned that allocated. Who gets what another gives up was told of
    /// it after that one began, and who gives up what he got had been told before.
    time: u64,
    call: u64,
    what: ChangeKind,
}

enum ChangeKind {
    /// `stream`: none for memory that is there at once.
    Allocated {
        start: u64,
        len: u64,
        stream: Option<StreamId>,
    },
    Freed {
        start: u64,
        stream: StreamId,
    },
    /// What has this handle from now on is another stream.
    StreamEnds {
        handle: u64,
    },
}

impl Changes {
    /// `stream`: none for memory that is there at once. `end`: when the call returned.
    pub(crate) fn allocated(&mut self, start: u64, len: u64, stream: Option<StreamId>, call: u64, end: u64) {
        self.0.push(Change { time: end, call, what: ChangeKind::Allocated { start, len, stream } });
    }

    /// `begin`: when the call was entered.
    pub(crate) fn freed(&mut self, start: u64, stream: StreamId, call: u64, begin: u64) {
        self.0.push(Change { time: begin, call, what: ChangeKind::Freed { start, stream } });
    }

    pub(crate) fn stream_ends(&mut self, handle: u64, call: u64, begin: u64) {
        self.0.push(Change { time: begin, call, what: ChangeKind::StreamEnds { handle } });
    }

    pub(crate) fn handovers(mut self) -> Handovers {
        self.0.sort_by_key(|change| (change.time, change.call));
        let (mut handovers, mut memory) = (Handovers::default(), StreamMemory::default());
        for Change { call, what, .. } in self.0 {
            match what {
                ChangeKind::Allocated { start, len, stream } => {
                    memory.allocated(start, len, stream, call, &mut handovers)
                }
                ChangeKind::Freed { start, stream } => memory.freed(start, stream, call),
                ChangeKind::StreamEnds { handle } => memory.stream_ends(handle),
            }
        }
        handovers
    }
}

#[derive(Default)]
pub(crate) struct Handovers {
    /// Frees that have to come first, by the allocation.
    pub after: HashMap<u64, Vec<u64>>,
    /// How many allocations come after a free.
    pub before: HashMap<u64, u32>,
}

#[derive(Clone, Copy)]
struct StreamFree {
    end: u64,
    /// None if it has ended.
    by: Option<StreamId>,
    call: u64,
}

#[derive(Default)]
struct StreamMemory {
    /// Memory of streams that is free again, by start.
    freed: BTreeMap<u64, StreamFree>,
    /// Not freed, start to end.
    live: HashMap<u64, u64>,
}

impl StreamMemory {
    fn allocated(&mut self, start: u64, len: u64, stream: Option<StreamId>, call: u64, handovers: &mut Handovers) {
        let end = start.saturating_add(len);
        self.live.insert(start, end);
        // They do not overlap each other.
        let overlapping = self.freed.range(..end).rev().take_while(|(_, freed)| start < freed.end);
        let found: Vec<u64> = overlapping.map(|(at, _)| *at).collect();
        for at in found {
            let Some(freed) = self.freed.remove(&at) else { continue };
            // The rest of it may be the next one's.
            if at < start {
                self.freed.insert(at, StreamFree { end: start, ..freed });
            }
            if end < freed.end {
                self.freed.insert(end, freed);
            }
            if stream.is_none() || stream != freed.by {
                handovers.after.entry(call).or_default().push(freed.call);
                *handovers.before.entry(freed.call).or_default() += 1;
            }
        }
    }

    fn freed(&mut self, start: u64, stream: StreamId, call: u64) {
        if let Some(end) = self.live.remove(&start) {
            self.freed.insert(start, StreamFree { end, by: Some(stream), call });
        }
    }

    fn stream_ends(&mut self, handle: u64) {
        let is_its = |freed: &&mut StreamFree| freed.by.is_some_and(|by| by.stream == handle);
        self.freed.values_mut().filter(is_its).for_each(|freed| freed.by = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::model::stream::PER_THREAD;

    const A: StreamId = StreamId { context: 0, stream: 0x50, thread: None };
    const B: StreamId = StreamId { stream: 0x51, ..A };

    /// Calls one after the other; each is its number's time.
    #[derive(Default)]
    struct Calls(Changes);

    impl Calls {
        fn allocated(&mut self, start: u64, len: u64, stream: Option<StreamId>, call: u64) {
            self.0.allocated(start, len, stream, call, call);
        }

        fn freed(&mut self, start: u64, stream: StreamId, call: u64) {
            self.0.freed(start, stream, call, call);
        }
    }

    #[test]
    fn only_another_stream_has_to_wait() {
        let mut calls = Calls::default();
        calls.allocated(0x1000, 0x100, Some(A), 1);
        calls.freed(0x1000, A, 2);
        calls.allocated(0x1000, 0x80, Some(A), 3);
        // The other half.
        calls.allocated(0x1080, 0x80, Some(B), 4);
        // Allocated on one stream, freed on another.
        calls.freed(0x1000, B, 5);
        calls.allocated(0x1000, 0x10, Some(B), 6);
        calls.allocated(0x1010, 0x10, Some(StreamId { context: 9, stream: PER_THREAD, thread: Some(1) }), 7);
        calls.allocated(0x1020, 0x10, None, 8);
        let handovers = calls.0.handovers();
        assert_eq!(handovers.after, HashMap::from([(4, vec![2]), (7, vec![5]), (8, vec![5])]));
        assert_eq!(handovers.before, HashMap::from([(2, 1), (5, 2)]));
    }

    #[test]
    fn plain_memory_may_be_freed_by_a_stream() {
        let mut calls = Calls::default();
        calls.allocated(0x1000, 0x100, None, 1);
        calls.freed(0x1000, A, 2);
        calls.freed(0x1000, A, 3);
        calls.allocated(0x1000, 0x100, None, 4);
        assert_eq!(calls.0.handovers().after, HashMap::from([(4, vec![2])]));
    }

    #[test]
    fn default_streams_are_their_contexts() {
        let legacy = |context| Some(StreamId::legacy(context));
        let mut calls = Calls::default();
        calls.allocated(0x1000, 0x100, legacy(1), 1);
        calls.freed(0x1000, legacy(1).expect("a stream"), 2);
        calls.allocated(0x1000, 0x100, legacy(2), 3);
        assert_eq!(calls.0.handovers().after, HashMap::from([(3, vec![2])]));
    }

    #[test]
    fn a_handle_may_be_another_streams_later() {
        let mut changes = Changes::default();
        changes.allocated(0x1000, 0x100, Some(A), 1, 1);
        changes.freed(0x1000, A, 2, 2);
        changes.stream_ends(A.stream, 3, 3);
        changes.allocated(0x1000, 0x100, Some(A), 4, 4);
        assert_eq!(changes.handovers().after, HashMap::from([(4, vec![2])]));
    }

    #[test]
    fn who_was_inside_first_may_get_what_is_given_up_meanwhile() {
        let mut changes = Changes::default();
        changes.allocated(0x1000, 0x100, Some(A), 1, 10);
        // Entered before the free, and returned behind its entry.
        changes.allocated(0x1000, 0x100, Some(B), 2, 30);
        changes.freed(0x1000, A, 3, 20);
        changes.freed(0x1000, B, 4, 40);
        changes.allocated(0x1000, 0x100, Some(A), 5, 50);
        assert_eq!(changes.handovers().after, HashMap::from([(2, vec![3]), (5, vec![4])]));
    }
}
