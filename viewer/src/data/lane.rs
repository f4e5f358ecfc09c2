//! A lane: events in order of time that do not overlap, with a pyramid over them.

use super::column::Column;
use super::event::{Event, Flags};
use super::pyramid::{Node, Pyramid};
use trace::base::parallel;

/// The subject of a lane.
#[derive(Debug, Clone, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Source {
    /// Calls of a thread; `depth` 0, or made within calls of the lane above.
    Thread {
        /// Index of the thread.
        thread: u32,
        /// Number of calls around these.
        depth: u32,
    },
    /// Work of a stream, from its submission to the next one's, or to when it is known to be done; the first
    /// of which nothing tells, to the end.
    Stream(Queue),
    /// Work of a stream, as a replay measured it. `part` tells apart what the replay's source saw on several
    /// streams: branches of graphs.
    Device {
        /// Device, context and stream, as the source of the times counts them.
        queue: Queue,
        /// Number of the part, from 0.
        part: u32,
    },
    /// What a thread said by NVTX in one domain (an index into
    /// [`Summary::domains`](super::Summary::domains)); `depth` 0, or within the lane above. `thread` none:
    /// ranges that any thread may end.
    Range {
        /// Index of the thread.
        thread: Option<u32>,
        /// Index of the domain.
        domain: u32,
        /// Number of ranges around these.
        depth: u32,
    },
    /// The same of another run: of a second trace, or of the replay that took device times.
    Second(Box<Source>),
    /// The same of another process of the job, by its place behind the first.
    Peer {
        /// Number of the process in the job; the first one is 0.
        process: u32,
        /// The lane within that process.
        inner: Box<Source>,
    },
    /// What a process of the job did on a communicator of NCCL's, by the number that its trace gives it.
    Operations {
        /// Number of the process in the job; the first one is 0.
        process: u32,
        /// Number of the communicator's record.
        communicator: u32,
    },
}

impl Source {
    /// Whether it has the calls of a thread.
    pub fn is_thread(&self) -> bool {
        matches!(self, Source::Thread { .. })
    }

    /// Whether it shows work rather than calls.
    pub fn is_work(&self) -> bool {
        matches!(self, Source::Stream(_) | Source::Device { .. })
    }

    /// What is shown, of whichever run.
    pub fn inner(&self) -> &Source {
        match self {
            Source::Second(inner) | Source::Peer { inner, .. } => inner,
            own => own,
        }
    }

    pub(crate) fn queue(&self) -> Option<&Queue> {
        match self {
            Source::Stream(queue) | Source::Device { queue, .. } => Some(queue),
            _ => None,
        }
    }

    /// Whether it is of the trace itself, rather than of another run or process.
    pub fn is_own(&self) -> bool {
        !matches!(self, Source::Second(_) | Source::Peer { .. } | Source::Operations { .. })
    }
}

/// A stream in the sense of stream order.
#[derive(Debug, Clone, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Queue {
    pub(crate) device: i32,
    pub(crate) context: u64,
    /// The handle; of default streams those of [`stream`](trace::model::stream).
    pub stream: u64,
    /// Whose, if it is a thread's own default stream.
    pub thread: Option<u32>,
    /// A call that used it, to look up names by.
    pub call: u32,
}

/// Events in order of time, by columns, and their sums.
#[derive(Clone)]
pub struct Lane {
    /// The origin of the events.
    pub source: Source,
    /// Nanoseconds since the start of the trace, rising.
    pub begin: Column<u64>,
    /// Nanoseconds; u32::MAX stands for what `long` says.
    pub length: Column<u32>,
    /// Index of the event and its length, for those that take 4.3 s and more.
    pub long: Column<[u64; 2]>,
    pub(crate) name: Column<u32>,
    pub(crate) flags: Column<u8>,
    /// Never falling; equal where a call gave several pieces of work.
    pub call: Column<u32>,
    /// Of streams: when the work is known to be done, ns; u64::MAX if nothing tells.
    pub done: Column<u64>,
    /// Of devices: where the record of the times stands in the trace.
    pub record: Column<u64>,
    /// Sums over groups of events, level by level.
    pub pyramid: Pyramid,
}

/// The events of a lane within a piece of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// Events that touch the piece.
    pub count: u64,
    /// Nanoseconds within the piece.
    pub busy: u64,
    /// The longest of the events, the first of several.
    pub longest: Option<u32>,
    pub(crate) failed: u32,
    pub(crate) synchronisations: u32,
    pub(crate) loads: u32,
}

impl Lane {
    pub(crate) fn empty(source: Source) -> Lane {
        Lane {
            source,
            begin: Column::default(),
            length: Column::default(),
            long: Column::default(),
            name: Column::default(),
            flags: Column::default(),
            call: Column::default(),
            done: Column::default(),
            record: Column::default(),
            pyramid: Pyramid::default(),
        }
    }

    /// Of operations by begin, length, name and flags, in order of time.
    pub(super) fn of_operations(source: Source, all: &[(u64, u64, u32, u8)], call: u32) -> Lane {
        let long = all.iter().enumerate().filter(|(_, (_, length, ..))| *length >= u32::MAX.into());
        let mut lane = Lane {
            begin: all.iter().map(|(begin, ..)| *begin).collect::<Vec<_>>().into(),
            length: all
                .iter()
                .map(|(_, length, ..)| u32::try_from(*length).unwrap_or(u32::MAX))
                .collect::<Vec<_>>()
                .into(),
            long: long.map(|(at, (_, length, ..))| [at as u64, *length]).collect::<Vec<_>>().into(),
            name: all.iter().map(|(_, _, name, _)| *name).collect::<Vec<_>>().into(),
            flags: all.iter().map(|(.., flags)| *flags).collect::<Vec<_>>().into(),
            call: vec![call; all.len()].into(),
            ..Lane::empty(source)
        };
        lane.build_pyramid();
        lane
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.begin.len()
    }

    /// Whether the lane has no event.
    pub fn is_empty(&self) -> bool {
        self.begin.is_empty()
    }

    /// Nanoseconds of the event at this index.
    pub fn length(&self, index: usize) -> u64 {
        match self.length[index] {
            u32::MAX => {
                let at = self.long.partition_point(|[of, _]| *of < index as u64);
                self.long.get(at).filter(|[of, _]| *of == index as u64).map_or(u32::MAX.into(), |[_, length]| *length)
            }
            short => short.into(),
        }
    }

    /// Nanoseconds since the start of the trace at which it ends.
    pub fn end(&self, index: usize) -> u64 {
        self.begin[index].saturating_add(self.length(index))
    }

    pub(crate) fn event(&self, index: usize) -> Event {
        Event {
            begin: self.begin[index],
            end: self.end(index),
            name: self.name[index],
            flags: Flags(self.flags[index]),
            call: self.call[index],
        }
    }

    /// All events in order.
    pub fn events(&self) -> impl ExactSizeIterator<Item = Event> + '_ {
        (0..self.len()).map(|index| self.event(index))
    }

    pub(crate) fn node(&self, index: usize) -> Node {
        Node::event(index, self.length(index), self.flags[index])
    }

    pub(crate) fn build_pyramid(&mut self) {
        self.pyramid = Pyramid::build(&self.begin, |index| self.node(index));
    }

    /// The first event that ends after `time`, or begins then or later.
    pub(crate) fn first_from(&self, time: u64) -> usize {
        let after = self.first_at(time);
        // Events do not overlap: of those that began before, only the last can reach beyond.
        if after > 0 && self.end(after - 1) > time { after - 1 } else { after }
    }

    /// The first event that begins at `time` or later.
    pub(crate) fn first_at(&self, time: u64) -> usize {
        self.pyramid.seek(&self.begin, 0, time)
    }

    /// The event under `time`, if there is one: the last that began by then and is not over.
    pub fn event_at(&self, time: u64) -> Option<usize> {
        let index = self.first_at(time.saturating_add(1)).checked_sub(1)?;
        (self.end(index) > time || self.begin[index] == time).then_some(index)
    }

    /// The first event of a call.
    pub fn of_call(&self, call: u32) -> Option<usize> {
        let at = self.call.partition_point(|other| *other < call);
        self.call.get(at).filter(|other| **other == call).map(|_| at)
    }

    /// What touches the time from `from` up to `to`.
    pub(crate) fn cell(&self, from: u64, to: u64) -> Cell {
        let first = self.first_from(from);
        self.sum(first, self.first_at(to).max(first), from, to)
    }

    fn sum(&self, first: usize, end: usize, from: u64, to: u64) -> Cell {
        let node = self.pyramid.sum(first, end, |index| self.node(index));
        let mut busy = node.busy;
        if first < end {
            busy -= from.saturating_sub(self.begin[first]).min(self.length(first));
            busy -= self.end(end - 1).saturating_sub(to);
        }
        Cell {
            count: (end - first) as u64,
            busy,
            longest: (node.longest_at != u32::MAX).then_some(node.longest_at),
            failed: node.failed,
            synchronisations: node.synchronisations,
            loads: node.loads,
        }
    }

    /// Adds the cells between neighbouring edges, which must rise.
    pub(crate) fn view(&self, edges: &[u64], cells: &mut Vec<Cell>) {
        let Some(&left) = edges.first() else { return };
        let (mut first, mut began) = (self.first_from(left), self.first_at(left));
        for pair in edges.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            began = self.pyramid.seek(&self.begin, began, to);
            cells.push(self.sum(first, began.max(first), from, to));
            first = if began > 0 && self.end(began - 1) > to { began - 1 } else { began };
        }
    }

    /// What [`Lane::view`] looks at: see [`Column::let_go`].
    fn let_go(&self) {
        self.begin.let_go();
        self.length.let_go();
        self.long.let_go();
        self.flags.let_go();
        self.pyramid.nodes().let_go();
        self.pyramid.firsts().let_go();
    }
}

/// Lanes with fewer events than this, all together, are not worth a thread.
const SHARED: usize = 1 << 20;

/// Threads that share long lanes, on however few cores: they wait for memory, and the first time for the
/// disk.
const WORKERS: usize = 8;

/// Columns of a long lane after which it is let go of, when that is asked for. With all workers at it some
/// 200 MB are in view: each column looks at a handful of places, around each of which the kernel has 64 KiB
/// in view.
const STEP: usize = 50;

/// As `Lane::view` of each. `lets_go`: of what was looked at, which otherwise stays in view for the next
/// frame, up to all there is.
pub fn views(lanes: &[&Lane], edges: &[u64], lets_go: bool) -> Vec<Vec<Cell>> {
    let is_long = lanes.iter().map(|lane| lane.len()).sum::<usize>() >= SHARED;
    let step = if is_long && lets_go { STEP } else { edges.len() };
    let view = |lane: &Lane| {
        let mut cells = Vec::with_capacity(edges.len());
        for from in (0..edges.len().saturating_sub(1)).step_by(step) {
            lane.view(&edges[from..=(from + step).min(edges.len() - 1)], &mut cells);
            if is_long && lets_go {
                lane.let_go();
            }
        }
        cells
    };
    parallel::map(if is_long { WORKERS } else { 1 }, lanes.iter().copied(), view)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::event::{Category, Flags};
    use proptest::prelude::*;

    /// A lane of (pause, length, flags), and its events.
    fn lane(events: &[(u64, u64, u8)]) -> Lane {
        let mut lane = Lane::empty(Source::Thread { thread: 0, depth: 0 });
        let (mut begin, mut length, mut long, mut flags) = (vec![], vec![], vec![], vec![]);
        let mut now = 0;
        for (index, (pause, took, bits)) in events.iter().enumerate() {
            now += pause;
            begin.push(now);
            if *took >= u32::MAX.into() {
                long.push([index as u64, *took]);
            }
            length.push((*took).min(u32::MAX.into()) as u32);
            let category = Category::ALL[usize::from(bits % 12)];
            flags.push(Flags::new(category, bits & 0x80 != 0, false).0);
            now += took;
        }
        let calls = (0..events.len() as u32).collect::<Vec<_>>();
        (lane.begin, lane.length, lane.long) = (begin.into(), length.into(), long.into());
        (lane.name, lane.flags, lane.call) = (calls.clone().into(), flags.into(), calls.into());
        lane.build_pyramid();
        lane
    }

    /// The same, event by event.
    fn scan(lane: &Lane, from: u64, to: u64) -> Cell {
        let mut cell = Cell { count: 0, busy: 0, longest: None, failed: 0, synchronisations: 0, loads: 0 };
        for (index, event) in lane.events().enumerate() {
            if event.begin >= to || (event.end <= from && event.begin < from) {
                continue;
            }
            cell.count += 1;
            cell.busy += event.end.min(to) - event.begin.max(from);
            if cell.longest.is_none_or(|longest| event.length() > lane.event(longest as usize).length()) {
                cell.longest = Some(index as u32);
            }
            cell.failed += u32::from(event.flags.failed());
            cell.synchronisations += u32::from(event.flags.category() == Category::Synchronize);
            cell.loads += u32::from(event.flags.category() == Category::Load);
        }
        cell
    }

    fn events() -> impl Strategy<Value = Vec<(u64, u64, u8)>> {
        let length = prop_oneof![8 => 0..50u64, 2 => Just(0), 1 => (1u64 << 31)..(1 << 34)];
        prop::collection::vec((0..20u64, length, any::<u8>()), 0..6000)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn a_view_equals_a_linear_scan(events in events(), cuts in prop::collection::vec(0.0..1.1f64, 2..40)) {
            let lane = lane(&events);
            let end = lane.len().checked_sub(1).map_or(10, |last| lane.end(last) + 1);
            let mut edges: Vec<u64> = cuts.iter().map(|cut| (cut * end as f64) as u64).collect();
            edges.extend(lane.begin.iter().step_by(997).copied());
            edges.sort_unstable();
            edges.dedup();
            let mut cells = Vec::new();
            lane.view(&edges, &mut cells);
            for (pair, cell) in edges.windows(2).zip(&cells) {
                prop_assert_eq!(*cell, scan(&lane, pair[0], pair[1]), "{:?}", pair);
                prop_assert_eq!(*cell, lane.cell(pair[0], pair[1]));
            }
            prop_assert_eq!(cells.len(), edges.len().saturating_sub(1));
        }

        #[test]
        fn the_next_failure_is_the_next_failure(events in events(), from in 0..6000usize) {
            let lane = lane(&events);
            let from = from.min(lane.len());
            let failed = |index: &usize| Flags(lane.flags[*index]).failed();
            let has = |node: &Node| node.failed > 0;
            let next = lane.pyramid.next(from, lane.len(), |index| lane.node(index), has);
            prop_assert_eq!(next, (from..lane.len()).find(failed));
            let previous = lane.pyramid.previous(from, |index| lane.node(index), has);
            prop_assert_eq!(previous, (0..from).rev().find(failed));
        }
    }

    #[test]
    fn an_event_is_found_by_time_and_call() {
        let lane = lane(&[(10, 5, 0), (0, 0, 0), (5, 10, 0)]);
        let under = [9, 10, 14, 15, 16, 20, 29, 30].map(|time| lane.event_at(time));
        assert_eq!(under, [None, Some(0), Some(0), Some(1), None, Some(2), Some(2), None]);
        assert_eq!([0, 2, 3].map(|call| lane.of_call(call)), [Some(0), Some(2), None]);
    }
}
