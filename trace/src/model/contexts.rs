//! The current context and device of each thread, and the device of each stream and pool.

use super::change::{Change, located};
use crate::api::effect::Effect;
use crate::api::types::Kind;
use crate::base::by_thread::ByThread;
use crate::read::call::Call;
use foldhash::HashMap;

/// The current contexts of threads, and devices by context, stream and pool.
#[derive(Default)]
pub struct Contexts {
    device_of: HashMap<u64, i32>,
    /// The current contexts of each thread.
    stacks: ByThread<Vec<u64>>,
    /// Devices told where the context's origin is not in the trace.
    told: HashMap<u32, i32>,
    /// By device.
    primaries: HashMap<i32, Primary>,
    /// Green contexts, and their devices.
    greens: HashMap<u64, i32>,
    /// Contexts of the program that were attached to: how often they are yet to be detached until they end.
    attached: HashMap<u64, u32>,
    streams: HashMap<u64, i32>,
    pools: HashMap<u64, i32>,
}

#[derive(Default)]
struct Primary {
    /// Known once the program has retained it.
    context: Option<u64>,
    /// How often it is retained: by the program, and by each green context (cuda.h).
    count: u32,
}

impl Primary {
    /// Whether nobody retains it any more.
    fn release(&mut self) -> bool {
        let is_last = self.count == 1;
        self.count = self.count.saturating_sub(1);
        is_last
    }
}

/// A context whose end ends other objects. Green contexts own only streams: memory, modules and events
/// outlive them (driver 580: tests/gpu/facts/green_context_ends.c).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owner {
    /// The primary one of this device. Green contexts retain it, whether the program knows its handle or not.
    Primary(i32),
    /// Another, by its handle.
    Other(u64),
}

/// The end of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The context that ended.
    pub owner: Owner,
    /// Its handle, if the program knows one.
    pub context: Option<u64>,
}

impl Contexts {
    /// The device that was current on this thread; device 0 if nothing tells.
    pub fn device(&self, thread: u32) -> i32 {
        let top = self.current(thread);
        top.and_then(|context| self.device_of(context)).or_else(|| self.told.get(&thread).copied()).unwrap_or(0)
    }

    /// Whether it is a green context of the program.
    pub fn is_green(&self, context: u64) -> bool {
        self.greens.contains_key(&context)
    }

    /// Ordinal of the context's device, if its making is in the trace.
    pub fn device_of(&self, context: u64) -> Option<i32> {
        self.device_of.get(&context).copied()
    }

    /// The context that was current on this thread, as far as the trace tells.
    #[inline]
    pub fn current(&self, thread: u32) -> Option<u64> {
        self.stacks.get(thread).and_then(|stack| stack.last()).copied()
    }

    /// The context that ends with what is made on this thread, streams aside: a green one has the device's
    /// primary for that.
    pub fn owner(&self, thread: u32) -> Option<Owner> {
        let current = self.current(thread)?;
        Some(self.greens.get(&current).map_or_else(|| self.of_streams(current), |device| Owner::Primary(*device)))
    }

    /// The context itself, as streams end with it.
    pub fn of_streams(&self, context: u64) -> Owner {
        let is_primary = |device: &i32| self.primaries.get(device).is_some_and(|one| one.context == Some(context));
        self.device_of(context).filter(is_primary).map_or(Owner::Other(context), Owner::Primary)
    }

    /// The context, and if it is primary, the green ones of its device: a wait for it covers those as well
    /// (cuda.h).
    pub fn waited_with(&self, context: u64) -> Vec<u64> {
        let is_primary = |device: &i32| self.primaries.get(device).is_some_and(|one| one.context == Some(context));
        let greens = self.greens.iter().filter(|(_, device)| is_primary(device)).map(|(green, _)| *green);
        std::iter::once(context).chain(greens).collect()
    }

    /// Where an allocation went, or was to go: to the device that it names, or to that of its pool or stream,
    /// if it has one.
    pub fn device_of_allocation(&self, call: &Call) -> i32 {
        let function = call.function();
        let pool = function.and_then(|function| call.argument_of(function.handle(Kind::MemoryPool)?));
        let allocates = function.filter(|function| matches!(function.effect, Effect::Allocate { .. }));
        let told = allocates.and_then(|function| located(call, function));
        self.device_by(call.thread, told, pool, call.stream())
    }

    /// The same, by what the call of this thread changed; that of the thread where it was something else.
    pub fn device_of_allocated(&self, thread: u32, change: &Change) -> i32 {
        match *change {
            Change::Allocated { device, pool, on, .. } => {
                self.device_by(thread, device, pool, on.map(|stream| stream.handle))
            }
            _ => self.device(thread),
        }
    }

    fn device_by(&self, thread: u32, told: Option<i32>, pool: Option<u64>, stream: Option<u64>) -> i32 {
        let pool = || self.pools.get(&pool?).copied();
        let stream = || self.streams.get(&stream?).copied();
        told.or_else(pool).or_else(stream).unwrap_or_else(|| self.device(thread))
    }

    /// Follows what a call on this thread changed; the contexts whose lives end with that.
    pub fn follow(&mut self, thread: u32, change: &Change) -> Vec<Ended> {
        match *change {
            Change::PrimaryRetained { context, device } => {
                self.device_of.insert(context, device);
                let primary = self.primaries.entry(device).or_default();
                (primary.context, primary.count) = (Some(context), primary.count + 1);
            }
            Change::PrimaryReleased { device } => return self.release_primary(device).into_iter().collect(),
            // Those who retain it do so on.
            Change::PrimaryReset { device } => return vec![self.primary_ended(device)],
            Change::ContextMade { context, device, is_green: false } => {
                self.device_of.insert(context, device);
                self.attached.remove(&context);
                self.push(thread, context);
            }
            Change::ContextMade { context, device, is_green: true } => {
                self.device_of.insert(context, device);
                self.greens.insert(context, device);
                self.primaries.entry(device).or_default().count += 1;
            }
            Change::ContextEnded { context, is_green: false } => return vec![self.end(thread, context)],
            Change::ContextEnded { context, is_green: true } => {
                let primary = self.greens.remove(&context).and_then(|device| self.release_primary(device));
                let green = Ended { owner: Owner::Other(context), context: Some(context) };
                return std::iter::once(green).chain(primary).collect();
            }
            Change::ContextAttached { context } => *self.attached.entry(context).or_default() += 1,
            Change::ContextDetached { context } => match self.attached.get_mut(&context) {
                Some(count @ 1..) => *count -= 1,
                _ => return vec![self.end(thread, context)],
            },
            Change::ContextPushed { context } => self.push(thread, context),
            Change::ContextPopped => _ = self.stack(thread).and_then(Vec::pop),
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
        Vec::new()
    }

    fn release_primary(&mut self, device: i32) -> Option<Ended> {
        let is_last = self.primaries.get_mut(&device)?.release();
        is_last.then(|| self.primary_ended(device))
    }

    fn primary_ended(&self, device: i32) -> Ended {
        let context = self.primaries.get(&device).and_then(|primary| primary.context);
        Ended { owner: Owner::Primary(device), context }
    }

    fn end(&mut self, thread: u32, context: u64) -> Ended {
        if let Some(stack) = self.stack(thread).filter(|stack| stack.last() == Some(&context)) {
            stack.pop();
        }
        Ended { owner: self.of_streams(context), context: Some(context) }
    }

    fn stack(&mut self, thread: u32) -> Option<&mut Vec<u64>> {
        self.stacks.get_mut(thread)
    }

    fn push(&mut self, thread: u32, context: u64) {
        self.stacks.get_or_insert_with(thread, Vec::new).push(context);
    }
}

#[cfg(test)]
mod tests {
    use super::super::stream::StreamHandle;
    use super::*;
    use crate::api::effect::Memory;

    #[test]
    fn memory_goes_where_it_is_told_to_or_its_pool_or_stream_is() {
        let mut contexts = Contexts::default();
        contexts.follow(0, &Change::ContextMade { context: 0xc1, device: 1, is_green: false });
        contexts.follow(0, &Change::StreamMade { stream: 0x51, green: None, is_blocking: true });
        contexts.follow(0, &Change::PoolFound { pool: 0x90, device: 2 });
        contexts.follow(0, &Change::ContextMade { context: 0xc4, device: 4, is_green: false });
        let device = |device, pool, stream: Option<u64>| {
            let on = stream.map(|handle| StreamHandle { handle, per_thread: false });
            let made = Change::Allocated { kind: Memory::Pooled, at: 1, bytes: None, device, pool, on };
            contexts.device_of_allocated(0, &made)
        };
        assert_eq!(device(None, None, None), 4);
        assert_eq!(device(None, None, Some(0x51)), 1);
        assert_eq!(device(None, Some(0x90), Some(0x51)), 2);
        assert_eq!(device(Some(3), Some(0x90), Some(0x51)), 3);
    }

    #[test]
    fn a_context_ends_when_it_is_detached_as_often_as_it_was_made_and_attached_to() {
        let mut contexts = Contexts::default();
        let context = 0xc5;
        let ended = [Ended { owner: Owner::Other(context), context: Some(context) }];
        contexts.follow(0, &Change::ContextMade { context, device: 1, is_green: false });
        contexts.follow(0, &Change::ContextAttached { context });
        assert_eq!(contexts.follow(0, &Change::ContextDetached { context }), []);
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

    #[test]
    fn a_green_context_retains_the_primary_one() {
        let (primary, green, device) = (0xc0, 0xc5, 1);
        let retained = Change::PrimaryRetained { context: primary, device };
        let made = Change::ContextMade { context: green, device, is_green: true };
        for order in [[made, retained], [retained, made]] {
            let mut contexts = Contexts::default();
            order.iter().for_each(|change| assert_eq!(contexts.follow(0, change), []));
            contexts.follow(0, &Change::ContextSet { context: green });
            assert_eq!((contexts.current(0), contexts.owner(0)), (Some(green), Some(Owner::Primary(device))));
            assert_eq!(contexts.waited_with(primary), [primary, green]);
            assert_eq!(contexts.waited_with(green), [green]);
            assert_eq!(contexts.follow(0, &Change::PrimaryReleased { device }), []);
            let ended = contexts.follow(0, &Change::ContextEnded { context: green, is_green: true });
            assert_eq!(ended.iter().map(|ended| ended.context).collect::<Vec<_>>(), [Some(green), Some(primary)]);
        }
    }
}
