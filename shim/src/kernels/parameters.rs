//! The parameter layout of launched functions, queried from the driver once per function, at its first
//! launch: an earlier query would defeat lazy loading.
//!
//! Lookups take no lock. Handles are reused after a module is unloaded, which makes the layouts of its
//! functions stale; the end of a library or context makes all layouts stale.

use crate::driver::calls;
use crate::kernels::images::Images;
use crate::os::lock::Lock;
use crate::trace_file::file::TraceFile;
use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::*};
use trace::file::record::Kernel;

const SLOTS: usize = 1 << 16;

/// The parameter layout of one launched function.
pub(crate) struct Layout {
    handle: u64,
    epoch: u32,
    module: u64,
    dead: AtomicBool,
    pub id: u32,
    /// Sizes in bytes by ordinal; none if the driver would not tell.
    pub sizes: Option<Vec<u32>>,
    /// Bytes of all of them, each padded to 8.
    pub packed: usize,
    /// It is one of NCCL's.
    pub is_nccls: bool,
}

/// A hash table by handle, with open addressing. Entries are replaced, never freed (a reader may be looking).
pub(crate) struct Layouts {
    slots: Box<[AtomicPtr<Layout>]>,
    epoch: AtomicU32,
    next: AtomicU32,
    /// Those of the current epoch that are not dead.
    live: Lock<Vec<&'static Layout>>,
    /// Handles that the driver gave out, which can be asked about, each with the CUmodule it was looked up
    /// in; 0 of others.
    given: Lock<HashMap<u64, u64>>,
}

impl Default for Layouts {
    fn default() -> Layouts {
        let slots = (0..SLOTS).map(|_| AtomicPtr::new(std::ptr::null_mut())).collect();
        Layouts {
            slots,
            epoch: AtomicU32::new(0),
            next: AtomicU32::new(0),
            live: Lock::default(),
            given: Lock::default(),
        }
    }
}

impl Layouts {
    /// The layout of a CUfunction or CUkernel; with its record the first time.
    #[inline]
    pub(crate) fn layout_of(
        &self,
        handle: u64,
        images: &Images,
        file: &TraceFile,
    ) -> (&'static Layout, Option<Kernel>) {
        let epoch = self.epoch.load(Acquire);
        match self.find(handle, epoch) {
            Ok(layout) => (layout, None),
            Err(slot) => self.ask((handle, epoch, slot), images, file),
        }
    }

    /// The layout, if the function was launched before.
    pub(crate) fn known_layout(&self, handle: u64) -> Option<&'static Layout> {
        self.find(handle, self.epoch.load(Acquire)).ok()
    }

    /// The layout, or the slot for it.
    #[inline]
    fn find(&self, handle: u64, epoch: u32) -> Result<&'static Layout, usize> {
        let mut slot = (handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize % SLOTS;
        for _ in 0..64 {
            // SAFETY: slots hold null or a leaked layout.
            match unsafe { self.slots[slot].load(Acquire).as_ref() } {
                Some(layout) if layout.handle == handle && layout.epoch == epoch && !layout.dead.load(Acquire) => {
                    return Ok(layout);
                }
                Some(layout) if layout.handle != handle => slot = (slot + 1) % SLOTS,
                _ => break,
            }
        }
        Err(slot)
    }

    /// The driver has handed out this CUfunction or CUkernel.
    pub(crate) fn give(&self, handle: u64, module: u64) {
        self.given.lock().insert(handle, module);
    }

    pub(crate) fn is_handed_out(&self, handle: u64) -> bool {
        self.given.lock().contains_key(&handle)
    }

    /// As [`Layouts::layout_of`], of a launch that failed: the handle may be anything, and the driver may not be
    /// able to tell now what it tells later.
    pub(crate) fn of_failed(
        &self,
        handle: u64,
        images: &Images,
        file: &TraceFile,
    ) -> Option<(&'static Layout, Option<Kernel>)> {
        let known = self.known_layout(handle).map(|layout| (layout, None));
        known.or_else(|| {
            (self.is_handed_out(handle) && tells(handle, images, file)).then(|| self.layout_of(handle, images, file))
        })
    }

    /// Any handle may be reused from now on.
    pub(crate) fn forget(&self) {
        self.epoch.fetch_add(1, AcqRel);
        self.live.lock().clear();
        self.given.lock().clear();
    }

    /// Handles of this module's functions may be reused from now on, and those whose module the driver did
    /// not tell.
    pub(crate) fn forget_module(&self, module: u64) {
        self.given.lock().retain(|_, owner| *owner != module);
        self.live.lock().retain(|layout| {
            let dies = layout.module == module || layout.module == 0;
            layout.dead.fetch_or(dies, AcqRel);
            !dies
        });
    }

    #[cold]
    fn ask(
        &self,
        (handle, epoch, slot): (u64, u32, usize),
        images: &Images,
        file: &TraceFile,
    ) -> (&'static Layout, Option<Kernel>) {
        let id = self.next.fetch_add(1, Relaxed);
        let (is_kernel, params) = parameters(handle);
        let (mut is_kernel, mut module) = (is_kernel, module(handle, is_kernel));
        let mut name = name(handle, is_kernel);
        let params = params.or_else(|| {
            let found = images.function(handle, module);
            let mut owner = module;
            if let Some(found) = found {
                is_kernel = found.is_kernel;
                (owner, name) = (found.owner, found.name);
            }
            images.parameters(owner, &name, file)
        });
        let sizes: Option<Vec<u32>> = params.as_ref().map(|p| p.iter().map(|(_, size)| *size).collect());
        let packed = sizes.iter().flatten().map(|size| size.div_ceil(8) as usize * 8).sum();
        module = if is_kernel { 0 } else { module };
        let is_nccls = trace::read::collective::is_kernel(&name);
        let kernel = Kernel { id, handle, is_kernel, name, params, module };
        let dead = AtomicBool::new(false);
        // A CUkernel belongs to a library: only what ends everything ends it.
        let module = if is_kernel { u64::MAX } else { kernel.module };
        let layout: &'static Layout =
            Box::leak(Box::new(Layout { handle, epoch, module, dead, id, sizes, packed, is_nccls }));
        self.live.lock().push(layout);
        self.slots[slot].store(std::ptr::from_ref(layout).cast_mut(), Release);
        (layout, Some(kernel))
    }
}

type Question = unsafe fn(u64, usize, *mut usize, *mut usize) -> Option<u32>;

const INVALID_VALUE: u32 = 1;
const INVALID_HANDLE: u32 = 400;

/// Offsets and sizes from cuFuncGetParamInfo, or cuKernelGetParamInfo where the handle is a CUkernel (the
/// former answers 400 for those). An index out of range is how the list ends.
fn parameters(handle: u64) -> (bool, Option<Vec<(u32, u32)>>) {
    let questions = [(calls::function_parameter as Question, false), (calls::kernel_parameter as Question, true)];
    for (ask, is_kernel) in questions {
        let mut found = Vec::new();
        loop {
            let (mut offset, mut size) = (0, 0);
            // SAFETY: the handle is one that the application is launching; the outputs are valid.
            match unsafe { ask(handle, found.len(), &mut offset, &mut size) } {
                None => break,
                Some(0) if found.len() < 4096 => found.push((offset as u32, size as u32)),
                Some(INVALID_VALUE) => return (is_kernel, Some(found)),
                Some(INVALID_HANDLE) if !is_kernel => break,
                _ => return (is_kernel, None),
            }
        }
    }
    (false, None)
}

/// Whether the driver or the code tells the parameters of this handle by now.
fn tells(handle: u64, images: &Images, file: &TraceFile) -> bool {
    let (is_kernel, params) = parameters(handle);
    params.is_some() || {
        let module = module(handle, is_kernel);
        let found = images.function(handle, module).map(|found| (found.owner, found.name));
        let (owner, name) = found.unwrap_or_else(|| (module, name(handle, is_kernel)));
        images.parameters(owner, &name, file).is_some()
    }
}

fn name(handle: u64, is_kernel: bool) -> String {
    let ask = if is_kernel { calls::kernel_name } else { calls::function_name };
    let mut text = std::ptr::null();
    // SAFETY: as above; on success the driver hands out a C string of its own.
    unsafe {
        let result = ask(&mut text, handle);
        if result != Some(0) || text.is_null() {
            return String::new();
        }
        CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}

fn module(handle: u64, is_kernel: bool) -> u64 {
    let mut module = 0;
    if is_kernel {
        return 0;
    }
    // SAFETY: the handle is one that the application is launching.
    let result = unsafe { calls::function_module(&mut module, handle) };
    if result == Some(0) { module } else { 0 }
}
