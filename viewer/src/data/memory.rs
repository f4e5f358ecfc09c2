//! Live device memory over time: a step function for each device, and for each of its pools.

use super::column::Column;
use bincode::{Decode, Encode};
use rustc_hash::FxHashMap as HashMap;
use trace::api::effect::Memory as Kind;
use trace::model::memory::Allocation;

const RUN: usize = 64;

/// A pool's handle; [`DEFAULT`] for the one that a device has by itself.
pub(crate) type Pool = u64;
pub(crate) const DEFAULT: Pool = 0;

/// The owner of the counted memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Owner {
    pub device: i32,
    /// None: all of the device's.
    pub pool: Option<Pool>,
    /// The call that first took something from it, to look up its name by.
    pub call: u32,
}

/// The bytes in use on a device, or in a pool of it, after each allocation and free.
#[derive(Clone)]
pub struct Memory {
    pub of: Owner,
    /// Nanoseconds, rising.
    pub time: Column<u64>,
    pub live: Column<u64>,
    /// The most of every 64 steps.
    runs: Column<u64>,
}

impl Memory {
    pub(crate) fn new(of: Owner, time: Column<u64>, live: Column<u64>) -> Memory {
        let runs = live.chunks(RUN).map(|run| run.iter().copied().max().unwrap_or(0)).collect::<Vec<_>>().into();
        Memory { of, time, live, runs }
    }

    /// Bytes live at a time.
    pub fn bytes_at(&self, time: u64) -> u64 {
        self.time.partition_point(|step| *step <= time).checked_sub(1).map_or(0, |at| self.live[at])
    }

    /// The most bytes at any moment from `from` up to `to`.
    pub(crate) fn most(&self, from: u64, to: u64) -> u64 {
        let first = self.time.partition_point(|step| *step <= from);
        let end = self.time.partition_point(|step| *step < to).max(first);
        let mut most = first.checked_sub(1).map_or(0, |at| self.live[at]);
        let mut at = first;
        while at < end {
            if at.is_multiple_of(RUN) && at + RUN <= end {
                most = most.max(self.runs[at / RUN]);
                at += RUN;
            } else {
                most = most.max(self.live[at]);
                at += 1;
            }
        }
        most
    }

    /// The highest step: its time and bytes.
    pub(crate) fn peak(&self) -> (u64, u64) {
        let most = self.runs.iter().copied().max().unwrap_or(0);
        let run = self.runs.iter().position(|run| *run == most).unwrap_or(0) * RUN;
        let at = self.live.iter().skip(run).position(|live| *live == most).map_or(0, |at| run + at);
        (self.time.get(at).copied().unwrap_or(0), most)
    }
}

/// As [`Memory`], while it grows.
struct Steps {
    of: Owner,
    time: Vec<u64>,
    live: Vec<u64>,
}

/// The sum of allocations and frees.
#[derive(Default)]
pub(crate) struct Usage {
    steps: HashMap<(i32, Option<Pool>), Steps>,
}

impl Usage {
    pub(crate) fn add(&mut self, time: u64, one: &Allocation) {
        self.step(time, one, u64::saturating_add);
    }

    pub(crate) fn subtract(&mut self, time: u64, one: &Allocation) {
        self.step(time, one, u64::saturating_sub);
    }

    fn step(&mut self, time: u64, one: &Allocation, change: fn(u64, u64) -> u64) {
        let Some((device, bytes)) = one.device.zip(one.bytes) else { return };
        // A call that names none takes from the device's own.
        let pool = (one.kind == Kind::Pooled).then(|| one.pool.unwrap_or(DEFAULT));
        for of in [None].into_iter().chain(pool.map(Some)) {
            let owner = Owner { device, pool: of, call: one.call as u32 };
            let begun = || Steps { of: owner, time: Vec::new(), live: Vec::new() };
            let steps = self.steps.entry((device, of)).or_insert_with(begun);
            let now = change(steps.live.last().copied().unwrap_or(0), bytes);
            steps.time.push(time.max(steps.time.last().copied().unwrap_or(0)));
            steps.live.push(now);
        }
    }

    pub(crate) fn into_lanes(self) -> Vec<Memory> {
        let mut all: Vec<Steps> = self.steps.into_values().collect();
        // Pools in the order in which they were first used.
        all.sort_by_key(|steps| (steps.of.device, steps.of.pool.is_some(), steps.of.call, steps.of.pool));
        all.into_iter().map(|steps| Memory::new(steps.of, steps.time.into(), steps.live.into())).collect()
    }
}
