//! Sums over every 64 events, over every 64 of those sums, and so on.
//!
//! A node takes 32 bytes, half a byte per event for all levels together; the start time of each run of 64
//! takes an eighth more. With these times a search reads a few adjacent places of memory, and one page of the
//! events themselves.

use super::column::Column;
use super::event::{Category, Flags};
use bytemuck::{Pod, Zeroable};

pub(crate) const FAN_OUT: usize = 64;

/// The sum of a run of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Node {
    /// Sum of the lengths, ns.
    pub busy: u64,
    /// Length of the longest, ns; the first of several.
    pub longest: u64,
    /// Which event that is; u32::MAX of an empty run.
    pub longest_at: u32,
    pub(crate) failed: u32,
    pub(crate) synchronisations: u32,
    pub(crate) loads: u32,
}

impl Node {
    pub(crate) const EMPTY: Node =
        Node { busy: 0, longest: 0, longest_at: u32::MAX, failed: 0, synchronisations: 0, loads: 0 };

    pub(crate) fn event(index: usize, length: u64, flags: u8) -> Node {
        let flags = Flags(flags);
        let category = flags.own();
        Node {
            busy: length,
            longest: length,
            longest_at: index as u32,
            failed: flags.failed().into(),
            synchronisations: (category == Category::Synchronize).into(),
            loads: (category == Category::Load).into(),
        }
    }

    /// Takes in the run that follows.
    pub(crate) fn add(&mut self, next: &Node) {
        self.busy = self.busy.saturating_add(next.busy);
        if self.longest_at == u32::MAX || next.longest > self.longest {
            (self.longest, self.longest_at) = (next.longest, next.longest_at);
        }
        self.failed = self.failed.saturating_add(next.failed);
        self.synchronisations = self.synchronisations.saturating_add(next.synchronisations);
        self.loads = self.loads.saturating_add(next.loads);
    }
}

/// All levels, the finest first. The number of events determines the place of each node.
#[derive(Clone, Default)]
pub struct Pyramid {
    nodes: Column<Node>,
    /// When the first of every 64 events begins.
    firsts: Column<u64>,
    /// Where each level begins among the nodes.
    starts: Vec<usize>,
}

impl Pyramid {
    /// Of events that begin then, by the node of each.
    pub(crate) fn build(begin: &[u64], event: impl Fn(usize) -> Node) -> Pyramid {
        let events = begin.len();
        let firsts: Vec<u64> = begin.iter().step_by(FAN_OUT).copied().collect();
        let (starts, total) = levels(events);
        let mut nodes: Vec<Node> = Vec::with_capacity(total);
        for start in (0..events).step_by(FAN_OUT) {
            let mut sum = Node::EMPTY;
            (start..(start + FAN_OUT).min(events)).for_each(|index| sum.add(&event(index)));
            nodes.push(sum);
        }
        for pair in starts.windows(2) {
            for start in (pair[0]..pair[1]).step_by(FAN_OUT) {
                let mut sum = Node::EMPTY;
                nodes[start..(start + FAN_OUT).min(pair[1])].iter().for_each(|node| sum.add(node));
                nodes.push(sum);
            }
        }
        Pyramid { nodes: nodes.into(), firsts: firsts.into(), starts }
    }

    /// From an index; none if there are not as many nodes as that many events have.
    pub(crate) fn from_columns(nodes: Column<Node>, firsts: Column<u64>, events: usize) -> Option<Pyramid> {
        let (starts, total) = levels(events);
        ((nodes.len(), firsts.len()) == (total, events.div_ceil(FAN_OUT))).then_some(Pyramid { nodes, firsts, starts })
    }

    pub fn nodes(&self) -> &Column<Node> {
        &self.nodes
    }

    pub(crate) fn firsts(&self) -> &Column<u64> {
        &self.firsts
    }

    /// The first event from `start` on that does not begin before `time`, sought near by first.
    pub(crate) fn seek(&self, begin: &[u64], start: usize, time: u64) -> usize {
        let run = start / FAN_OUT;
        let after = gallop(&self.firsts, run, time);
        if after <= run && after < self.firsts.len() {
            return start;
        }
        // The run before holds the last that begins earlier.
        let from = (after.saturating_sub(1) * FAN_OUT).max(start).min(begin.len());
        let to = (after * FAN_OUT).clamp(from, begin.len());
        from + begin[from..to].partition_point(|begin| *begin < time)
    }

    /// What the events from `first` up to `end` amount to; `event` gives the node of one.
    pub(crate) fn sum(&self, first: usize, end: usize, event: impl Fn(usize) -> Node) -> Node {
        self.climb(first, end, usize::MAX, &event)
    }

    fn climb(&self, first: usize, end: usize, level: usize, event: &impl Fn(usize) -> Node) -> Node {
        let at = |index: usize| match level {
            usize::MAX => event(index),
            level => self.nodes.get(self.starts[level] + index).copied().unwrap_or(Node::EMPTY),
        };
        let above = level.wrapping_add(1);
        let (inner_first, inner_end) = (first.div_ceil(FAN_OUT), end / FAN_OUT);
        let mut sum = Node::EMPTY;
        if above >= self.starts.len() || inner_first >= inner_end {
            (first..end).for_each(|index| sum.add(&at(index)));
            return sum;
        }
        (first..inner_first * FAN_OUT).for_each(|index| sum.add(&at(index)));
        sum.add(&self.climb(inner_first, inner_end, above, event));
        (inner_end * FAN_OUT..end).for_each(|index| sum.add(&at(index)));
        sum
    }

    /// The first event from `first` on whose node has what is asked for; nodes that lack it are passed over
    /// whole.
    pub(crate) fn next(
        &self,
        first: usize,
        events: usize,
        event: impl Fn(usize) -> Node,
        has: impl Fn(&Node) -> bool,
    ) -> Option<usize> {
        let mut index = first;
        while index < events {
            if has(&event(index)) {
                return Some(index);
            }
            index += 1;
            index += self.skip(index, &has, true);
        }
        None
    }

    /// As [`Pyramid::next`], backwards from `before`, which is not asked.
    pub(crate) fn previous(
        &self,
        before: usize,
        event: impl Fn(usize) -> Node,
        has: impl Fn(&Node) -> bool,
    ) -> Option<usize> {
        let mut end = before;
        while end > 0 {
            if has(&event(end - 1)) {
                return Some(end - 1);
            }
            end -= 1;
            end -= self.skip(end, &has, false);
        }
        None
    }

    /// How many events from a node's border on, or back from it, lie in nodes that lack what is asked for.
    fn skip(&self, border: usize, has: &impl Fn(&Node) -> bool, forward: bool) -> usize {
        let (mut skipped, mut span) = (0, FAN_OUT);
        for (level, start) in self.starts.iter().enumerate() {
            if !border.is_multiple_of(span) {
                break;
            }
            let index = if forward { border / span } else { (border / span).wrapping_sub(1) };
            let end = self.starts.get(level + 1).copied().unwrap_or(self.nodes.len());
            match self.nodes.get(start.wrapping_add(index)).filter(|_| index < end - start) {
                Some(node) if !has(node) => skipped = span,
                _ => break,
            }
            span *= FAN_OUT;
        }
        skipped
    }
}

/// The first from `start` on that is not less than `value`, sought near by first.
fn gallop(sorted: &[u64], start: usize, value: u64) -> usize {
    let (mut low, mut step) = (start, 1);
    while let Some(found) = sorted.get(low + step - 1) {
        if *found >= value {
            break;
        }
        low += step;
        step *= 2;
    }
    let high = (low + step - 1).min(sorted.len());
    low + sorted[low.min(high)..high].partition_point(|found| *found < value)
}

/// Where the levels of that many events begin, and how many nodes they have in all.
fn levels(events: usize) -> (Vec<usize>, usize) {
    let (mut starts, mut total, mut nodes) = (Vec::new(), 0, events);
    while nodes > 1 || (starts.is_empty() && nodes > 0) {
        nodes = nodes.div_ceil(FAN_OUT);
        starts.push(total);
        total += nodes;
    }
    (starts, total)
}
