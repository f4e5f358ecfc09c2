//! Live device memory over time: a step function for each device.

use super::column::Column;
use rustc_hash::FxHashMap as HashMap;

const RUN: usize = 64;

/// How many bytes a device held, after each allocation and free.
#[derive(Clone)]
pub struct Memory {
    pub device: i32,
    /// Nanoseconds, rising.
    pub time: Column<u64>,
    pub live: Column<u64>,
    /// The most of every 64 steps.
    runs: Column<u64>,
}

impl Memory {
    pub fn new(device: i32, time: Column<u64>, live: Column<u64>) -> Memory {
        let runs = live.chunks(RUN).map(|run| run.iter().copied().max().unwrap_or(0)).collect::<Vec<_>>().into();
        Memory { device, time, live, runs }
    }

    /// Bytes live at a time.
    pub fn at(&self, time: u64) -> u64 {
        self.time.partition_point(|step| *step <= time).checked_sub(1).map_or(0, |at| self.live[at])
    }

    /// The most bytes at any moment from `from` up to `to`.
    pub fn most(&self, from: u64, to: u64) -> u64 {
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
    pub fn peak(&self) -> (u64, u64) {
        let most = self.runs.iter().copied().max().unwrap_or(0);
        let run = self.runs.iter().position(|run| *run == most).unwrap_or(0) * RUN;
        let at = self.live.iter().skip(run).position(|live| *live == most).map_or(0, |at| run + at);
        (self.time.get(at).copied().unwrap_or(0), most)
    }
}

struct Held {
    device: i32,
    bytes: u64,
    /// The context that it ends with; none for memory that outlives contexts.
    context: Option<u64>,
    call: u32,
}

/// Follows allocations and frees.
#[derive(Default)]
pub struct Usage {
    held: HashMap<u64, Held>,
    steps: HashMap<i32, (Vec<u64>, Vec<u64>)>,
}

impl Usage {
    pub fn add(&mut self, time: u64, address: u64, bytes: u64, device: i32, context: Option<u64>, call: u32) {
        // Still there: its free is under way on another thread, or was not recorded.
        self.remove(time, address);
        self.held.insert(address, Held { device, bytes, context, call });
        self.step(time, device, |live| live.saturating_add(bytes));
    }

    pub fn remove(&mut self, time: u64, address: u64) {
        if let Some(held) = self.held.remove(&address) {
            self.step(time, held.device, |live| live.saturating_sub(held.bytes));
        }
    }

    pub fn end(&mut self, time: u64, ends: impl Fn(u64, i32) -> bool) {
        let ending =
            self.held.iter().filter(|(_, held)| held.context.is_some_and(|context| ends(context, held.device)));
        let mut gone: Vec<u64> = ending.map(|(address, _)| *address).collect();
        gone.sort_unstable();
        gone.into_iter().for_each(|address| self.remove(time, address));
    }

    fn step(&mut self, time: u64, device: i32, change: impl Fn(u64) -> u64) {
        let (times, live) = self.steps.entry(device).or_default();
        let now = change(live.last().copied().unwrap_or(0));
        times.push(time.max(times.last().copied().unwrap_or(0)));
        live.push(now);
    }

    /// What was never freed: how many allocations, their bytes, and the call of the largest.
    pub fn left(&self) -> (u64, u64, Option<u32>) {
        let largest = self.held.values().max_by_key(|held| (held.bytes, std::cmp::Reverse(held.call)));
        let bytes = self.held.values().map(|held| held.bytes).sum();
        (self.held.len() as u64, bytes, largest.map(|held| held.call))
    }

    pub fn into_lanes(self) -> Vec<Memory> {
        let mut devices: Vec<_> = self.steps.into_iter().collect();
        devices.sort_by_key(|(device, _)| *device);
        devices.into_iter().map(|(device, (time, live))| Memory::new(device, time.into(), live.into())).collect()
    }
}
