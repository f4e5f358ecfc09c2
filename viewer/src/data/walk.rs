//! What depends on the order of calls: streams, memory, and the sums of launches, copies and loads.

use super::event::{Category, Flags};
use super::lane::{Lane, Source};
use super::memory::{DEFAULT, Held, Pool, Usage};
use super::ops::{Op, Plan, What};
use super::streams::{Streams, Work};
use super::tables::{Collected, Load};
use super::threads::push;
use std::collections::HashMap;
use trace::Trace;
use trace::api::effect::{Memory, Work as Submitted};
use trace::model::change::Change;
use trace::model::contexts::Ended;
use trace::model::physical::{Physical, Pieces};
use trace::model::streams::Followed;

/// Module loads that the table lists.
const LOADS: usize = 10_000;

pub struct Walk {
    /// Kernel ids to names.
    kernels: HashMap<u32, u32>,
    pub streams: Streams,
    pub memory: Usage,
    physical: Physical,
    /// By name.
    pub launches: Vec<Collected>,
    /// By function.
    pub moves: Vec<Collected>,
    pub loads: Vec<Load>,
}

impl Walk {
    /// `names`: how many there are; functions come first.
    pub fn new(trace: &Trace, kernels: HashMap<u32, u32>, names: usize) -> Walk {
        Walk {
            kernels,
            streams: Streams::new(trace.preamble.launches_wait()),
            memory: Usage::default(),
            physical: Physical::default(),
            launches: vec![Collected::default(); names],
            moves: vec![Collected::default(); trace.preamble.functions.len()],
            loads: Vec::new(),
        }
    }

    /// Goes on over what a block holds.
    pub fn take(&mut self, ops: &[Op], plans: &[Plan]) {
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
                let Followed { ended, is_captured, .. } =
                    self.streams.follow(op, &change, name, Flags::new(category, false, false));
                for Ended { context, .. } in ended.into_iter().filter(|ended| !ended.is_green) {
                    self.memory.end(op.end, context);
                }
                // What is allocated under a capture is there when its graph runs.
                if !is_captured {
                    self.remember(op, change);
                }
            }
            What::Loaded { image, bytes } => {
                if self.loads.len() < LOADS {
                    self.loads.push(Load { call: op.call, name: op.function.into(), bytes, image, took });
                }
            }
        }
    }

    /// Memory that comes or goes. What is mapped is what was made; address ranges alone hold nothing.
    fn remember(&mut self, op: &Op, change: Change) {
        // No address is as high.
        let name = |piece: u64| !piece;
        match self.physical.follow(&change) {
            Some(Pieces::Made(piece, bytes)) => self.made((op, &change), name(piece), bytes, None, None),
            Some(Pieces::Gone(pieces)) => {
                pieces.into_iter().for_each(|piece| self.memory.remove(op.begin, name(piece)));
            }
            None => self.addressed(op, change),
        }
    }

    fn addressed(&mut self, op: &Op, change: Change) {
        match change {
            Change::Allocated { kind: Memory::Device | Memory::Managed, at, bytes, .. } => {
                self.made((op, &change), at, bytes.unwrap_or(0), None, Some(self.streams.context(op.thread)));
            }
            Change::Allocated { kind: Memory::Pooled, at, bytes, pool, .. } => {
                // Without the parameter it is the device's own.
                self.made((op, &change), at, bytes.unwrap_or(0), Some(pool.unwrap_or(DEFAULT)), None);
            }
            Change::Freed { kind: Memory::Device | Memory::Pooled, at } => self.memory.remove(op.begin, at),
            _ => {}
        }
    }

    fn made(&mut self, (op, change): (&Op, &Change), name: u64, bytes: u64, pool: Option<Pool>, context: Option<u64>) {
        let device = self.streams.device_of_allocated(op.thread, change);
        self.memory.add(op.end, name, Held { device, pool, bytes, context, call: op.call });
    }
}

/// Work lasts until the next of its stream, or until it is known to be done. A stream does one work after the
/// other, so where nothing tells of an end the first is the one that may be under way: it lasts until `end`,
/// of the trace, and what was submitted behind it stands there, as work that has not begun.
pub fn stream_lane(work: Work, end: u64) -> Lane {
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
