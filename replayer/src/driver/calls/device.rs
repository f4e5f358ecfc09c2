//! The driver as a whole, devices, contexts.

use crate::driver::{Driver, Failure};
use trace::api::enums::CUdevice_attribute;

impl Driver {
    pub(crate) fn init(&self) -> Result<(), Failure> {
        // SAFETY: no pointers.
        unsafe { self.ask("cuInit", &[0]) }
    }

    /// As 13000 for 13.0.
    pub(crate) fn version(&self) -> Result<i32, Failure> {
        // SAFETY: an output word.
        unsafe { self.output_of("cuDriverGetVersion", |version| [version]) }
    }

    pub(crate) fn device_count(&self) -> Result<i32, Failure> {
        // SAFETY: an output word.
        unsafe { self.output_of("cuDeviceGetCount", |count| [count]) }
    }

    pub(crate) fn device_name(&self, device: i32) -> Result<String, Failure> {
        let mut name = [0u8; 256];
        // SAFETY: a buffer of this length, and a device's ordinal.
        unsafe { self.ask("cuDeviceGetName", &[name.as_mut_ptr() as u64, name.len() as u64, device as u64]) }?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    pub(crate) fn device_attribute(&self, device: i32, which: CUdevice_attribute) -> Result<i32, Failure> {
        // SAFETY: an output word and plain values.
        unsafe { self.output_of("cuDeviceGetAttribute", |value| [value, which.0.into(), u64::from(device as u32)]) }
    }

    /// In bytes.
    pub(crate) fn total_memory(&self, device: i32) -> Result<u64, Failure> {
        // SAFETY: an output word and a plain value.
        unsafe { self.output_of("cuDeviceTotalMem_v2", |bytes| [bytes, u64::from(device as u32)]) }
    }

    /// Of the calling thread; 0 for none.
    pub(crate) fn current_context(&self) -> u64 {
        // SAFETY: an output word.
        unsafe { self.output_of("cuCtxGetCurrent", |context| [context]) }.unwrap_or(0)
    }

    /// That of the current context.
    pub(crate) fn current_device(&self) -> Result<i32, Failure> {
        // SAFETY: an output word.
        unsafe { self.output_of("cuCtxGetDevice", |device| [device]) }
    }

    pub(crate) fn set_context(&self, context: u64) -> Result<(), Failure> {
        // SAFETY: no pointers.
        unsafe { self.ask("cuCtxSetCurrent", &[context]) }
    }

    pub(crate) fn push_context(&self, context: u64) -> Result<(), Failure> {
        // SAFETY: no pointers.
        unsafe { self.ask("cuCtxPushCurrent_v2", &[context]) }
    }

    pub(crate) fn pop_context(&self) -> Result<u64, Failure> {
        // SAFETY: an output word.
        unsafe { self.output_of("cuCtxPopCurrent_v2", |context| [context]) }
    }

    pub(crate) fn retain_primary_context(&self, device: i32) -> Result<u64, Failure> {
        // SAFETY: an output word and a plain value.
        unsafe { self.output_of("cuDevicePrimaryCtxRetain", |context| [context, u64::from(device as u32)]) }
    }

    /// Whether anybody holds it.
    pub(crate) fn has_primary_context(&self, device: i32) -> Result<bool, Failure> {
        let mut flags = 0u32;
        let words = |active| [u64::from(device as u32), &raw mut flags as u64, active];
        // SAFETY: a plain value and two output words.
        let active: i32 = unsafe { self.output_of("cuDevicePrimaryCtxGetState", words) }?;
        Ok(active != 0)
    }

    /// Waits for all work of the current context.
    pub(crate) fn synchronize_context(&self) -> Result<(), Failure> {
        // SAFETY: no arguments.
        unsafe { self.ask("cuCtxSynchronize", &[]) }
    }

    /// Sets the calling thread's mode to another, and that to what it was.
    pub(crate) fn exchange_capture_mode(&self, mode: &mut u32) -> Result<(), Failure> {
        // SAFETY: one word, read and written.
        unsafe { self.ask("cuThreadExchangeStreamCaptureMode", &[&raw mut *mode as u64]) }
    }

    /// Other tools look from here on, until [`stop_profiler`](Driver::stop_profiler).
    pub(crate) fn start_profiler(&self) -> Result<(), Failure> {
        // SAFETY: no arguments.
        unsafe { self.ask("cuProfilerStart", &[]) }
    }

    pub(crate) fn stop_profiler(&self) -> Result<(), Failure> {
        // SAFETY: no arguments.
        unsafe { self.ask("cuProfilerStop", &[]) }
    }
}
