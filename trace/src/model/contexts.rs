//! Which context and device each thread was on, and the device of each stream and pool.

use super::change::Change;
use crate::api::types::Kind;
use crate::call::Call;
use std::collections::{BTreeMap, HashMap};

#[derive(Default)]
pub struct Contexts {
    device_of: HashMap<u64, i32>,
    /// The current contexts of each thread.
    stacks: BTreeMap<u32, Vec<u64>>,
    /// Devices told where the context's origin is not in the trace.
    told: HashMap<u32, i32>,
    /// By device: its primary context, and how often it is retained.
    primaries: HashMap<i32, (u64, u32)>,
    /// Contexts of the program that were attached to: how often they are yet to be detached until they end.
    attached: HashMap<u64, u32>,
    streams: HashMap<u64, i32>,
    pools: HashMap<u64, i32>,
}

/// The end of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    pub context: u64,
    /// Its streams end with it. Memory, modules and events do with another, not with a green one (driver 580:
    /// tests/gpu/facts/green_context_ends.c).
    pub is_green: bool,
}

impl Contexts {
    /// The device that was current on this thread; device 0 if nothing tells.
    pub fn device(&self, thread: u32) -> i32 {
        let top = self.current(thread);
        top.and_then(|context| self.device_of(context)).or_else(|| self.told.get(&thread).copied()).unwrap_or(0)
    }

    pub fn device_of(&self, context: u64) -> Option<i32> {
        self.device_of.get(&context).copied()
    }

    /// The context that was current on this thread, as far as the trace tells.
    pub fn current(&self, thread: u32) -> Option<u64> {
        self.stacks.get(&thread).and_then(|stack| stack.last()).copied()
    }

    /// Where an allocation went: to the device of its pool or stream, if it has one.
    pub fn device_of_allocation(&self, call: &Call) -> i32 {
        let pool = call.function().and_then(|function| call.argument_of(function.handle(Kind::MemoryPool)?));
        let pool = pool.and_then(|pool| self.pools.get(&pool));
        let stream = || call.stream().and_then(|stream| self.streams.get(&stream));
        pool.or_else(stream).copied().unwrap_or_else(|| self.device(call.thread))
    }

    /// Follows what a call on this thread changed; the context whose life ends with that.
    pub fn follow(&mut self, thread: u32, change: &Change) -> Option<Ended> {
        match *change {
            Change::PrimaryRetained { context, device } => {
                self.device_of.insert(context, device);
                let (primary, count) = self.primaries.entry(device).or_insert((context, 0));
                (*primary, *count) = (context, *count + 1);
            }
            Change::PrimaryReleased { device } => {
                let (primary, count) = self.primaries.get_mut(&device)?;
                let is_last = *count == 1;
                *count = count.saturating_sub(1);
                return is_last.then_some(Ended { context: *primary, is_green: false });
            }
            // Those who retain it do so on.
            Change::PrimaryReset { device } => {
                let (context, _) = *self.primaries.get(&device)?;
                return Some(Ended { context, is_green: false });
            }
            Change::ContextMade { context, device, is_green: false } => {
                self.device_of.insert(context, device);
                self.attached.remove(&context);
                self.push(thread, context);
            }
            Change::ContextMade { context, device, is_green: true } => {
                self.device_of.insert(context, device);
                // It retains the primary one (cuda.h), until it is destroyed.
                self.primaries.get_mut(&device)?.1 += 1;
            }
            Change::ContextEnded { context, is_green } => return Some(self.end(thread, context, is_green)),
            Change::ContextAttached { context } => *self.attached.entry(context).or_default() += 1,
            Change::ContextDetached { context } => match self.attached.get_mut(&context) {
                Some(count @ 1..) => *count -= 1,
                _ => return Some(self.end(thread, context, false)),
            },
            Change::ContextPushed { context } => self.push(thread, context),
            Change::ContextPopped => _ = self.stack(thread)?.pop(),
            Change::ContextSet { context } => {
                self.stack(thread).and_then(Vec::pop);
                if context != 0 {
                    self.push(thread, context);
                }
            }
            Change::DeviceTold { device } => _ = self.told.insert(thread, device),
            Change::StreamMade { stream, green, .. } => {
                let device = green.and_then(|context| self.device_of(context)).unwrap_or_else(|| self.device(thread));
                self.streams.insert(stream, device);
            }
            Change::PoolFound { pool, device } => _ = self.pools.insert(pool, device),
            _ => {}
        }
        None
    }

    fn end(&mut self, thread: u32, context: u64, is_green: bool) -> Ended {
        if is_green {
            let device = self.device_of(context);
            if let Some((_, count)) = device.and_then(|device| self.primaries.get_mut(&device)) {
                *count = count.saturating_sub(1);
            }
        } else if let Some(stack) = self.stack(thread).filter(|stack| stack.last() == Some(&context)) {
            stack.pop();
        }
        Ended { context, is_green }
    }

    fn stack(&mut self, thread: u32) -> Option<&mut Vec<u64>> {
        self.stacks.get_mut(&thread)
    }

    fn push(&mut self, thread: u32, context: u64) {
        self.stacks.entry(thread).or_default().push(context);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_ends_when_it_is_detached_as_often_as_it_was_made_and_attached_to() {
        let mut contexts = Contexts::default();
        let context = 0xc5;
        let ended = Some(Ended { context, is_green: false });
        contexts.follow(0, &Change::ContextMade { context, device: 1, is_green: false });
        contexts.follow(0, &Change::ContextAttached { context });
        assert_eq!(contexts.follow(0, &Change::ContextDetached { context }), None);
        assert_eq!((contexts.current(0), contexts.device(0)), (Some(context), 1));
        assert_eq!(contexts.follow(0, &Change::ContextDetached { context }), ended);
        assert_eq!(contexts.current(0), None);
        // Whoever destroys it does not ask how often.
        contexts.follow(0, &Change::ContextMade { context, device: 1, is_green: false });
        contexts.follow(0, &Change::ContextAttached { context });
        assert_eq!(contexts.follow(0, &Change::ContextEnded { context, is_green: false }), ended);
        contexts.follow(0, &Change::ContextMade { context, device: 1, is_green: false });
        assert_eq!(contexts.follow(0, &Change::ContextDetached { context }), ended);
    }
}
