//! The NVTX ranges that are open on a thread at a given time.

use std::collections::HashMap;
use trace::read::annotation::Range;

pub(super) struct Enclosing<'t> {
    pub ranges: Vec<Range<'t>>,
    /// By thread, its ranges by the times at which they were opened.
    threads: HashMap<u32, Vec<Opened>>,
}

struct Opened {
    time: u64,
    /// Among all ranges.
    range: usize,
    /// The one before it on the thread that was open then, by its place there.
    around: Option<usize>,
}

impl<'t> Enclosing<'t> {
    /// `ranges`: by the times at which they were opened.
    pub(super) fn new(ranges: Vec<Range<'t>>) -> Enclosing<'t> {
        let mut threads: HashMap<u32, Vec<Opened>> = HashMap::new();
        for (at, range) in ranges.iter().enumerate() {
            let thread = threads.entry(range.opened.thread).or_default();
            let time = range.opened.about.time;
            let mut around = thread.len().checked_sub(1);
            while let Some(place) = around.filter(|place| has_ended(&ranges[thread[*place].range], time)) {
                around = thread[place].around;
            }
            thread.push(Opened { time, range: at, around });
        }
        Enclosing { ranges, threads }
    }

    /// Numbers of the ranges that are open then, the innermost first.
    pub(super) fn open_at(&self, thread: u32, time: u64) -> impl Iterator<Item = usize> {
        let opened = self.threads.get(&thread).map_or(&[][..], Vec::as_slice);
        let mut next = opened.partition_point(|one| one.time <= time).checked_sub(1);
        let chain = std::iter::from_fn(move || {
            let one = &opened[next?];
            next = one.around;
            Some(one.range)
        });
        chain.filter(move |range| !has_ended(&self.ranges[*range], time))
    }
}

fn has_ended(range: &Range, time: u64) -> bool {
    range.end.is_some_and(|end| end <= time)
}
