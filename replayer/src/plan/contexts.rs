//! Which device each recorded thread was on, and each stream and pool: the stacks of current contexts, followed through
//! the trace.

use std::collections::HashMap;
use std::mem::offset_of;
use trace::Call;
use trace::api::structs::{CUmemLocation, CUmemPoolProps};
use trace::call::When;

const LOCATION_DEVICE: u32 = 1;

#[derive(Default)]
pub struct Contexts {
    device_of: HashMap<u64, i32>,
    stacks: HashMap<u32, Vec<u64>>,
    /// Devices told by cuCtxGetDevice where the context's origin is not in the trace.
    told: HashMap<u32, i32>,
    /// By device: its primary context, and how often it is retained.
    primaries: HashMap<i32, (u64, u32)>,
    streams: HashMap<u64, i32>,
    pools: HashMap<u64, i32>,
}

impl Contexts {
    /// The device that was current on this thread; device 0 if nothing tells.
    pub fn device(&self, thread: u32) -> i32 {
        let top = self.current(thread);
        top.and_then(|context| self.device_of.get(&context)).or_else(|| self.told.get(&thread)).copied().unwrap_or(0)
    }

    /// The context that was current on this thread, as far as the trace tells.
    pub fn current(&self, thread: u32) -> Option<u64> {
        self.stacks.get(&thread).and_then(|stack| stack.last()).copied()
    }

    /// Where an allocation went: to the device of its pool or stream, if it has one.
    pub fn device_of_allocation(&self, call: &Call) -> i32 {
        let pool = call.argument("pool").and_then(|pool| self.pools.get(&pool));
        let stream = || call.argument("hStream").and_then(|stream| self.streams.get(&stream));
        pool.or_else(stream).copied().unwrap_or_else(|| self.device(call.thread))
    }

    /// Follows a call; the context whose life ends with it.
    pub fn see(&mut self, call: &Call) -> Option<u64> {
        if !call.succeeded() {
            return None;
        }
        let current = self.device(call.thread);
        let stack = self.stacks.entry(call.thread).or_default();
        let device = || call.argument("dev").map(|dev| dev as i32);
        let argument = |name| call.argument(name).unwrap_or(0);
        let name = call.name();
        match name {
            "cuDevicePrimaryCtxRetain" => {
                let (context, device) = call.output("pctx").zip(device())?;
                self.device_of.insert(context, device);
                let (primary, count) = self.primaries.entry(device).or_insert((context, 0));
                (*primary, *count) = (context, *count + 1);
            }
            "cuDevicePrimaryCtxRelease" | "cuDevicePrimaryCtxRelease_v2" => {
                let (primary, count) = self.primaries.get_mut(&device()?)?;
                let last = *count == 1;
                *count = count.saturating_sub(1);
                return last.then_some(*primary);
            }
            // Those who retain it do so on.
            "cuDevicePrimaryCtxReset" | "cuDevicePrimaryCtxReset_v2" => {
                return self.primaries.get(&device()?).map(|(primary, _)| *primary);
            }
            "cuCtxCreate" | "cuCtxCreate_v2" | "cuCtxCreate_v3" | "cuCtxCreate_v4" => {
                let context = call.output("pctx");
                self.device_of.extend(context.zip(device()));
                stack.extend(context);
            }
            "cuGreenCtxCreate" => {
                self.device_of.extend(call.output("phCtx").zip(device()));
                // It retains the primary one (cuda.h), until it is destroyed.
                if let Some((_, count)) = self.primaries.get_mut(&device()?) {
                    *count += 1;
                }
            }
            "cuCtxPushCurrent" | "cuCtxPushCurrent_v2" => stack.push(argument("ctx")),
            "cuCtxPopCurrent" | "cuCtxPopCurrent_v2" => {
                stack.pop();
            }
            "cuCtxSetCurrent" => {
                stack.pop();
                match argument("ctx") {
                    0 => {}
                    context => stack.push(context),
                }
            }
            "cuCtxDestroy" | "cuCtxDestroy_v2" => {
                if stack.last() == Some(&argument("ctx")) {
                    stack.pop();
                }
                return call.argument("ctx");
            }
            "cuGreenCtxDestroy" => {
                let device = self.device_of.get(&argument("hCtx"));
                if let Some((_, count)) = device.and_then(|device| self.primaries.get_mut(device)) {
                    *count = count.saturating_sub(1);
                }
                return call.argument("hCtx");
            }
            "cuCtxGetDevice" => {
                self.told.extend(call.output("device").map(|device| (call.thread, device as i32)));
            }
            "cuStreamCreate" | "cuStreamCreateWithPriority" => {
                self.streams.extend(call.output("phStream").map(|stream| (stream, current)));
            }
            "cuGreenCtxStreamCreate" => {
                let device = self.device_of.get(&argument("greenCtx")).copied().unwrap_or(current);
                self.streams.extend(call.output("phStream").map(|stream| (stream, device)));
            }
            "cuDeviceGetMemPool" => self.pools.extend(call.output("pool").zip(device())),
            "cuDeviceGetDefaultMemPool" => self.pools.extend(call.output("pool_out").zip(device())),
            "cuMemPoolCreate" => {
                let props = argument("poolProps").checked_add(offset_of!(CUmemPoolProps, location) as u64);
                self.pools.extend(call.output("pool").zip(props.and_then(|at| located(call, at))));
            }
            "cuMemGetMemPool" | "cuMemGetDefaultMemPool" => {
                let pool = if name == "cuMemGetMemPool" { "pool" } else { "pool_out" };
                self.pools.extend(call.output(pool).zip(located(call, argument("location"))));
            }
            _ => {}
        }
        None
    }
}

/// The device of a CUmemLocation at this address, if it is one's.
fn located(call: &Call, address: u64) -> Option<i32> {
    let location = call.memory(When::Entry, address, size_of::<CUmemLocation>() as u64)?;
    let word = |at: usize| Some(u32::from_le_bytes(location.get(at..at + 4)?.try_into().ok()?));
    let id = word(offset_of!(CUmemLocation, id))? as i32;
    (word(offset_of!(CUmemLocation, r#type))? == LOCATION_DEVICE).then_some(id)
}

#[cfg(test)]
mod tests {
    use crate::plan::plan;
    use crate::sample::Sample;

    const AT: [u64; 3] = [0x7f00_0000_0000, 0x7f10_0000_0000, 0x7f20_0000_0000];

    #[test]
    fn a_green_context_ends_and_memory_stays() {
        let mut sample = Sample::new();
        sample.call(0, "cuInit", 0..1, &[0], &[]);
        sample.call(0, "cuDevicePrimaryCtxRetain", 2..3, &[0x100, 0], &[(0x100, &0xc0u64.to_le_bytes())]);
        sample.call(0, "cuGreenCtxCreate", 4..5, &[0x100, 0x77, 0, 1], &[(0x100, &0xc5u64.to_le_bytes())]);
        sample.call(0, "cuCtxSetCurrent", 6..7, &[0xc5], &[]);
        sample.call(0, "cuMemAlloc_v2", 8..9, &[0x100, 10], &[(0x100, &AT[0].to_le_bytes())]);
        sample.call(0, "cuCtxSetCurrent", 10..11, &[0xc0], &[]);
        // The green one holds it.
        sample.call(0, "cuDevicePrimaryCtxRelease", 12..13, &[0], &[]);
        sample.call(0, "cuGreenCtxDestroy", 14..15, &[0xc5], &[]);
        let plan = plan(&sample.trace());
        let ends: Vec<_> = plan.ends.iter().map(|(call, end)| (*call, end.context, end.memory.len())).collect();
        assert_eq!(ends, [(7, 0xc5, 0)]);
    }

    #[test]
    fn memory_of_a_stream_or_pool_is_on_its_device() {
        let mut sample = Sample::new();
        sample.call(0, "cuInit", 0..1, &[0], &[]);
        sample.call(0, "cuDevicePrimaryCtxRetain", 2..3, &[0x100, 1], &[(0x100, &0xc1u64.to_le_bytes())]);
        sample.call(0, "cuCtxSetCurrent", 4..5, &[0xc1], &[]);
        sample.call(0, "cuStreamCreate", 6..7, &[0x100, 1], &[(0x100, &0x51u64.to_le_bytes())]);
        sample.call(0, "cuDevicePrimaryCtxRetain", 8..9, &[0x100, 0], &[(0x100, &0xc0u64.to_le_bytes())]);
        sample.call(0, "cuCtxSetCurrent", 10..11, &[0xc0], &[]);
        sample.call(0, "cuDeviceGetMemPool", 12..13, &[0x100, 2], &[(0x100, &0x90u64.to_le_bytes())]);
        sample.call(0, "cuMemAllocAsync", 14..15, &[0x100, 10, 0x51], &[(0x100, &AT[0].to_le_bytes())]);
        sample.call(0, "cuMemAllocFromPoolAsync", 16..17, &[0x100, 20, 0x90, 0], &[(0x100, &AT[1].to_le_bytes())]);
        sample.call(0, "cuMemAllocAsync", 18..19, &[0x100, 40, 0], &[(0x100, &AT[2].to_le_bytes())]);
        let plan = plan(&sample.trace());
        assert_eq!([0, 1, 2].map(|device| plan.peak(device)), [40, 10, 20]);
    }

    #[test]
    fn a_primary_context_ends_with_its_last_release() {
        let mut sample = Sample::new();
        sample.call(0, "cuInit", 0..1, &[0], &[]);
        for (n, at) in AT.iter().enumerate() {
            let begin = 10 + 20 * n as u64;
            sample.call(
                0,
                "cuDevicePrimaryCtxRetain",
                begin..begin + 1,
                &[0x100, 0],
                &[(0x100, &0xc0u64.to_le_bytes())],
            );
            sample.call(0, "cuCtxSetCurrent", begin + 2..begin + 3, &[0xc0], &[]);
            sample.call(0, "cuMemAlloc_v2", begin + 4..begin + 5, &[0x100, 100], &[(0x100, &at.to_le_bytes())]);
            if n > 0 {
                sample.call(0, "cuDevicePrimaryCtxRelease_v2", begin + 6..begin + 7, &[0], &[]);
            }
        }
        // Retained once more than released: nothing ends.
        assert_eq!(plan(&sample.trace()).peak(0), 300);
        sample.call(0, "cuDevicePrimaryCtxRelease_v2", 90..91, &[0], &[]);
        sample.call(0, "cuMemAlloc_v2", 92..93, &[0x100, 150], &[(0x100, &AT[0].to_le_bytes())]);
        let plan = plan(&sample.trace());
        assert_eq!(plan.peak(0), 300);
        assert_eq!(plan.ends.values().map(|end| end.memory.clone()).collect::<Vec<_>>(), [AT.to_vec()]);
    }
}
