//! Stream-ordered memory that one stream frees and another gets. The driver saw to it that the first was done (by an
//! order of its own between the streams, or by looking whether it had finished), which no call of the program shows.
//! Where replay puts the memory back at its address, it has to make that order itself.

use std::collections::{BTreeMap, HashMap};

/// A stream as the program names it, and the thread if it is that thread's own.
type Stream = (u64, Option<u32>);

#[derive(Default)]
pub struct Handovers {
    /// Memory of streams that is free again, by start: end, the stream, and the call.
    freed: BTreeMap<u64, (u64, Stream, u64)>,
    /// Not freed, start to end.
    live: HashMap<u64, u64>,
    /// Frees that have to come first, by the allocation.
    pub after: HashMap<u64, Vec<u64>>,
    /// How many allocations come after a free.
    pub before: HashMap<u64, u32>,
}

impl Handovers {
    /// `stream`: none for memory that is there at once.
    pub fn allocated(&mut self, start: u64, len: u64, stream: Option<Stream>, call: u64) {
        let end = start.saturating_add(len);
        self.live.insert(start, end);
        let overlapping = |(at, (until, ..)): &(&u64, &(u64, Stream, u64))| **at < end && start < *until;
        let found: Vec<u64> = self.freed.range(..end).filter(overlapping).map(|(at, _)| *at).collect();
        for at in found {
            let Some((until, by, free)) = self.freed.remove(&at) else { continue };
            // The rest of it may be the next one's.
            if at < start {
                self.freed.insert(at, (start, by, free));
            }
            if end < until {
                self.freed.insert(end, (until, by, free));
            }
            if stream != Some(by) {
                self.after.entry(call).or_default().push(free);
                *self.before.entry(free).or_default() += 1;
            }
        }
    }

    pub fn freed(&mut self, start: u64, stream: Stream, call: u64) {
        if let Some(end) = self.live.remove(&start) {
            self.freed.insert(start, (end, stream, call));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Stream = (0x50, None);
    const B: Stream = (0x51, None);

    #[test]
    fn only_another_stream_has_to_wait() {
        let mut handovers = Handovers::default();
        handovers.allocated(0x1000, 0x100, Some(A), 1);
        handovers.freed(0x1000, A, 2);
        handovers.allocated(0x1000, 0x80, Some(A), 3);
        assert!(handovers.after.is_empty());
        // The other half.
        handovers.allocated(0x1080, 0x80, Some(B), 4);
        assert_eq!((&handovers.after, &handovers.before), (&HashMap::from([(4, vec![2])]), &HashMap::from([(2, 1)])));
        // Allocated on one stream, freed on another.
        handovers.freed(0x1000, B, 5);
        handovers.allocated(0x1000, 0x10, Some(B), 6);
        handovers.allocated(0x1010, 0x10, Some((0, Some(1))), 7);
        handovers.allocated(0x1020, 0x10, None, 8);
        assert_eq!(
            (handovers.after.get(&6), handovers.after.get(&7), handovers.after.get(&8)),
            (None, Some(&vec![5]), Some(&vec![5]))
        );
        assert_eq!(handovers.before[&5], 2);
    }

    #[test]
    fn plain_memory_may_be_freed_by_a_stream() {
        let mut handovers = Handovers::default();
        handovers.allocated(0x1000, 0x100, None, 1);
        handovers.freed(0x1000, A, 2);
        handovers.freed(0x1000, A, 3);
        handovers.allocated(0x1000, 0x100, None, 4);
        assert_eq!(handovers.after, HashMap::from([(4, vec![2])]));
    }
}
