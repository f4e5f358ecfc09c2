//! Which device each recorded thread was on, and each stream and pool: the stacks of current contexts, followed through
//! the trace.

use crate::Call;
use crate::api::structs::{CUmemLocation, CUmemPoolProps};
use crate::call::When;
use std::collections::HashMap;
use std::mem::offset_of;

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
