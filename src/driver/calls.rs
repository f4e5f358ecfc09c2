//! Driver functions that the command itself calls, with the prototypes of cuda.h.

pub(crate) mod sample;

use libloading::Library;
use std::ffi::{CStr, c_char, c_void};
use std::mem::ManuallyDrop;
use std::path::Path;
use trace::api::enums::{CUdevice_attribute, CUresult};
use trace::show::text::symbol;

/// What every driver has, by which the loader finds one.
pub(crate) const INIT: &[u8] = b"cuInit\0";

/// Of a device's name, the terminating zero included.
const LONGEST_NAME: usize = 256;

/// A loaded driver. It stays loaded, because an initialised driver has threads that run its code.
pub(crate) struct Driver(ManuallyDrop<Library>);

macro_rules! calls {
    ($($call:ident $name:literal ($($argument:ident: $type:ty),*);)*) => {
        impl Driver {
            $(#[allow(clippy::too_many_arguments)] // as many as cuda.h has
            fn $call(&self, $($argument: $type),*) -> Result<(), String> {
                // SAFETY: the prototype is that of cuda.h, and what is pointed to has the size asked for.
                let code = unsafe {
                    let function = self.0.get::<unsafe extern "C" fn($($type),*) -> u32>($name.as_bytes());
                    function.map_err(|error| error.to_string())?($($argument),*)
                };
                match code {
                    0 => Ok(()),
                    code => Err(format!("{} returned {} ({code})", $name, symbol(CUresult::ENUM, code.into()))),
                }
            })*
        }
    };
}

calls! {
    init "cuInit" (flags: u32);
    driver_get_version "cuDriverGetVersion" (version: &mut i32);
    device_get_count "cuDeviceGetCount" (count: &mut i32);
    device_get "cuDeviceGet" (device: &mut i32, ordinal: i32);
    device_get_name "cuDeviceGetName" (name: &mut [c_char; LONGEST_NAME], length: i32, device: i32);
    device_total_mem "cuDeviceTotalMem_v2" (bytes: &mut usize, device: i32);
    device_get_attribute "cuDeviceGetAttribute" (value: &mut i32, attribute: u32, device: i32);
    primary_context_retain "cuDevicePrimaryCtxRetain" (context: &mut usize, device: i32);
    primary_context_release "cuDevicePrimaryCtxRelease_v2" (device: i32);
    set_current "cuCtxSetCurrent" (context: usize);
    module_load "cuModuleLoadData" (module: &mut usize, image: *const c_void);
    module_get_function "cuModuleGetFunction" (function: &mut usize, module: usize, name: *const c_char);
    module_unload "cuModuleUnload" (module: usize);
    allocate "cuMemAlloc_v2" (address: &mut u64, bytes: usize);
    free "cuMemFree_v2" (address: u64);
    fill "cuMemsetD32_v2" (address: u64, value: u32, count: usize);
    copy_in "cuMemcpyHtoD_v2" (to: u64, from: *const c_void, bytes: usize);
    copy_out "cuMemcpyDtoH_v2" (to: *mut c_void, from: u64, bytes: usize);
    launch "cuLaunchKernel" (function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
        block_z: u32, shared: u32, stream: usize, arguments: *const *mut c_void, extra: *const *mut c_void);
}

/// What one of them writes.
fn got<T: Default>(call: impl FnOnce(&mut T) -> Result<(), String>) -> Result<T, String> {
    let mut value = T::default();
    call(&mut value).map(|()| value)
}

impl Driver {
    /// Loads and initialises it.
    pub(crate) fn open(path: &Path) -> Result<Driver, String> {
        // SAFETY: a driver's constructors only set up its own state.
        let library = unsafe { Library::new(path) }.map_err(|error| error.to_string())?;
        let driver = Driver(ManuallyDrop::new(library));
        driver.init(0)?;
        Ok(driver)
    }

    /// `13000` of CUDA 13.0.
    pub(crate) fn version(&self) -> Result<i32, String> {
        got(|version| self.driver_get_version(version))
    }

    pub(crate) fn devices(&self) -> Result<i32, String> {
        got(|count| self.device_get_count(count))
    }

    pub(crate) fn device(&self, ordinal: i32) -> Result<Device<'_>, String> {
        got(|device| self.device_get(device, ordinal)).map(|device| Device(self, device))
    }
}

/// A device of a driver, by its handle.
pub(crate) struct Device<'d>(&'d Driver, i32);

impl Device<'_> {
    pub(crate) fn name(&self) -> Result<String, String> {
        let mut name = [0; LONGEST_NAME];
        self.0.device_get_name(&mut name, LONGEST_NAME as i32 - 1, self.1)?;
        let bytes = name.map(|c| c as u8);
        Ok(CStr::from_bytes_until_nul(&bytes).unwrap_or_default().to_string_lossy().into_owned())
    }

    /// Bytes.
    pub(crate) fn memory(&self) -> Result<usize, String> {
        got(|bytes| self.0.device_total_mem(bytes, self.1))
    }

    /// Its compute capability: major and minor.
    pub(crate) fn compute(&self) -> Result<(i32, i32), String> {
        let attribute = |which: CUdevice_attribute| got(|value| self.0.device_get_attribute(value, which.0, self.1));
        let major = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        Ok((major, attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?))
    }
}
