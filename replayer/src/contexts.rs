//! Which device each recorded thread was on: the stacks of current contexts, followed through the trace.

use std::collections::HashMap;
use trace::Call;

#[derive(Default)]
pub struct Contexts {
    device_of: HashMap<u64, i32>,
    stacks: HashMap<u32, Vec<u64>>,
    /// Devices told by cuCtxGetDevice where the context's origin is not in the trace.
    told: HashMap<u32, i32>,
}

impl Contexts {
    /// The device that was current on this thread; device 0 if nothing tells.
    pub fn device(&self, thread: u32) -> i32 {
        let top = self.stacks.get(&thread).and_then(|stack| stack.last());
        top.and_then(|context| self.device_of.get(context)).or_else(|| self.told.get(&thread)).copied().unwrap_or(0)
    }

    pub fn see(&mut self, call: &Call) {
        if !call.succeeded() {
            return;
        }
        let stack = self.stacks.entry(call.thread).or_default();
        let device = || call.argument("dev").map(|dev| dev as i32);
        let argument = |name| call.argument(name).unwrap_or(0);
        match call.name() {
            "cuDevicePrimaryCtxRetain" => {
                self.device_of.extend(call.output("pctx").zip(device()));
            }
            "cuCtxCreate" | "cuCtxCreate_v2" | "cuCtxCreate_v3" | "cuCtxCreate_v4" => {
                let context = call.output("pctx");
                self.device_of.extend(context.zip(device()));
                stack.extend(context);
            }
            "cuGreenCtxCreate" => self.device_of.extend(call.output("phCtx").zip(device())),
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
            "cuCtxDestroy" | "cuCtxDestroy_v2" if stack.last() == Some(&argument("ctx")) => {
                stack.pop();
            }
            "cuCtxGetDevice" => {
                self.told.extend(call.output("device").map(|device| (call.thread, device as i32)));
            }
            _ => {}
        }
    }
}
