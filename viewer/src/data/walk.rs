//! Data that depends on the order of calls: streams, memory, and the sums of launches, copies and loads.

use super::event::{Category, Flags};
use super::lane::{Lane, Source};
use super::memory::Usage;
use super::ops::{Op, Plan, What};
use super::streams::{Streams, Work};
use super::tables::{Collected, Load};
use super::threads::push;
use std::collections::HashMap;
use trace::Trace;
use trace::api::effect::Work as Submitted;
use trace::model::change::Change;
use trace::model::memory::End;

/// Module loads that the table lists.
const LOADS: usize = 10_000;

pub(crate) struct Walk {
    /// Kernel ids to names.
    kernels: HashMap<u32, u32>,
    pub(crate) streams: Streams,
    pub(crate) memory: Usage,
    /// By name.
    pub launches: Vec<Collected>,
    /// By function.
    pub moves: Vec<Collected>,
    pub(crate) loads: Vec<Load>,
}

impl Walk {
    /// `names`: how many there are; functions come first.
    pub(crate) fn new(trace: &Trace, kernels: HashMap<u32, u32>, names: usize) -> Walk {
        Walk {
            kernels,
            streams: Streams::new(trace.preamble.launches_wait()),
            memory: Usage::default(),
            launches: vec![Collected::default(); names],
            moves: vec![Collected::default(); trace.preamble.functions.len()],
            loads: Vec::new(),
        }
    }

    /// Goes on over what a block holds.
    pub(crate) fn advance(&mut self, ops: &[Op], plans: &[Plan]) {
        for op in ops {
            let category = plans.get(usize::from(op.function)).map_or(Category::Other, |plan| plan.category);
            self.follow(op, category);
        }
    }

    fn follow(&mut self, op: &Op, category: Category) {
        let took = op.end - op.begin;
        match op.what {
            What::Changed { change, kernel, bytes } => {
                let known = self.kernels.get(&kernel).copied();
                let name = known.unwrap_or(op.function.into());
                // A graph is not a kernel.
                let is_kernel =
                    || known.is_some() || !matches!(change, Change::Submitted { work: Submitted::Graph, .. });
                match category {
                    Category::Launch if is_kernel() => self.launches[name as usize].add(op.call, took, false, 0),
                    Category::Copy => self.moves[usize::from(op.function)].add(op.call, took, false, bytes),
                    _ => {}
                }
                let followed = self.streams.follow(op, &change, name, Flags::new(category, false, false));
                for (one, end) in &followed.gone {
                    self.memory.subtract(if *end == End::Freed { op.begin } else { op.end }, one);
                }
                followed.made.iter().for_each(|one| self.memory.add(op.end, one));
            }
            What::Loaded { image, bytes } => {
                if self.loads.len() < LOADS {
                    self.loads.push(Load { call: op.call, name: op.function.into(), bytes, image, took });
                }
            }
        }
    }
}

/// Work lasts until the next of its stream, or until it is known to be done. A stream does one work after the
/// other, so where nothing tells of an end the first is the one that may be under way: it lasts until `end`,
/// of the trace, and what was submitted behind it stands there, as work that has not begun.
pub(crate) fn stream_lane(work: Work, end: u64) -> Lane {
    let Work { queue, begin, name, flags, call, done, .. } = work;
    let mut lane = Lane::empty(Source::Stream(queue));
    let unfinished = done.iter().position(|done| *done == u64::MAX).unwrap_or(done.len());
    for index in 0..begin.len() {
        let (from, until) = match index {
            _ if index > unfinished => (end, end),
            _ if index == unfinished => (begin[index], end),
            _ => (begin[index], done[index].min(begin.get(index + 1).copied().unwrap_or(u64::MAX)).min(end)),
        };
        let open = if index >= unfinished { Flags::OPEN } else { 0 };
        let from = from.max(begin[index]);
        push(&mut lane, from, until.max(from), name[index], flags[index] | open, call[index]);
    }
    lane.done = done.into();
    lane
}
