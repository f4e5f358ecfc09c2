//! Modules and their functions.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::abi::Handle;
use crate::abi::code::{Code, Result};
use crate::base::device;
use crate::base::registry::{Registry, handle_of};
use crate::memory::table::{self, Kind};
use crate::memory::{allocate, pages};
use crate::ptx::{Kernel, Layout, Program};
use crate::streams::context::{self, Context};

pub(crate) struct Module {
    context: Weak<Context>,
    pub program: Arc<Program>,
    /// Where the variables lie.
    base: Option<u64>,
    functions: Mutex<BTreeMap<usize, Handle>>,
    /// Set where the module belongs to a library, which unloads it.
    pub library: Handle,
}

pub(crate) struct Function {
    pub module: Handle,
    context: Weak<Context>,
    pub program: Arc<Program>,
    /// Index in `program.kernels`.
    pub kernel: usize,
    pub name: CString,
    pub settings: Arc<Settings>,
    loaded: AtomicBool,
    pub configured: Mutex<Configured>,
}

/// The configuration of a launch in the form before CUDA 4.
#[derive(Clone)]
pub(crate) struct Configured {
    pub threads: [u32; 3],
    pub dynamic_shared: u32,
    pub arguments: Vec<u8>,
    pub size: usize,
}

impl Default for Configured {
    fn default() -> Self {
        Self { threads: [1; 3], dynamic_shared: 0, arguments: Vec::new(), size: 0 }
    }
}

/// The attributes that cuFuncSetAttribute can change.
#[derive(Debug)]
pub(crate) struct Settings {
    max_dynamic_shared: AtomicI32,
    carveout: AtomicI32,
    non_portable_cluster: AtomicI32,
    cluster_policy: AtomicI32,
}

static MODULES: Registry<Module> = Registry::new();
static FUNCTIONS: Registry<Function> = Registry::new();

/// Places a compiled program's variables in the context's memory.
pub(crate) fn load(context: &Arc<Context>, layout: &Layout, library: Handle) -> Result<Handle> {
    let base = match layout.size {
        0 => None,
        size => Some(allocate::allocate(
            size as u64,
            Kind::Module { managed: layout.managed() },
            context.device,
            handle_of(context),
        )?),
    };
    let at = base.unwrap_or(0);
    let program = layout.program(at).and_then(|program| Ok((program, layout.image(at)?)));
    let Ok((program, bytes)) = program else {
        unload_block(base);
        return Err(Code::INVALID_PTX);
    };
    if let Some(base) = base {
        pages::write(base, &bytes);
    }
    let module = Module {
        context: Arc::downgrade(context),
        program: Arc::new(program),
        base,
        functions: Mutex::default(),
        library,
    };
    Ok(MODULES.insert(Arc::new(module)))
}

fn unload_block(base: Option<u64>) {
    if let Some(range) = base.and_then(|base| table::remove(base, |r| matches!(r.kind, Kind::Module { .. }))) {
        allocate::release(range);
    }
}

pub(crate) fn find(handle: Handle) -> Result<Arc<Module>> {
    MODULES.find(handle)
}

/// cuModuleUnload; a library's module goes only with the library.
pub(crate) fn unload(handle: Handle) -> Result {
    if find(handle)?.library != 0 {
        return Err(Code::INVALID_HANDLE);
    }
    discard(handle);
    Ok(())
}

/// Unloads once the context's work is done.
pub(crate) fn discard(handle: Handle) {
    let Ok(module) = MODULES.remove(handle) else { return };
    if let Some(context) = module.context.upgrade() {
        context.lanes.wait_all();
    }
    FUNCTIONS.drain(|f| f.module == handle);
    unload_block(module.base);
}

pub(crate) fn close_all(context: &Context) {
    for module in MODULES.drain(|m| std::ptr::eq(m.context.as_ptr(), context)) {
        let handle = handle_of(&module);
        FUNCTIONS.drain(|f| f.module == handle);
        unload_block(module.base);
    }
}

impl Module {
    /// The handle of a kernel, the same at every call.
    pub(crate) fn function(self: &Arc<Self>, kernel: usize) -> Result<Handle> {
        self.function_with(kernel, &Arc::default())
    }

    /// The same; a function made here shares its settings with the kernel it is made for.
    pub(crate) fn function_with(self: &Arc<Self>, kernel: usize, settings: &Arc<Settings>) -> Result<Handle> {
        let found = self.program.kernels.get(kernel).ok_or(Code::NOT_FOUND)?;
        let mut functions = self.functions.lock();
        if let Some(handle) = functions.get(&kernel) {
            return Ok(*handle);
        }
        let function = Function {
            module: handle_of(self),
            context: self.context.clone(),
            program: self.program.clone(),
            kernel,
            name: CString::new(found.name.as_str()).unwrap_or_default(),
            settings: settings.clone(),
            loaded: AtomicBool::new(false),
            configured: Mutex::default(),
        };
        let handle = FUNCTIONS.insert(Arc::new(function));
        functions.insert(kernel, handle);
        Ok(handle)
    }

    pub(crate) fn function_by_name(self: &Arc<Self>, name: &str) -> Result<Handle> {
        let kernel = self.program.kernels.iter().position(|k| k.name == name).ok_or(Code::NOT_FOUND)?;
        self.function(kernel)
    }

    /// Address and size of a variable.
    pub(crate) fn variable(&self, name: &str) -> Result<(u64, usize)> {
        let found = self.program.variables.iter().find(|v| v.name == name).ok_or(Code::NOT_FOUND)?;
        Ok((found.address, found.size))
    }
}

/// The function of a handle.
pub(crate) fn function(handle: Handle) -> Result<Arc<Function>> {
    FUNCTIONS.find(handle)
}

impl Function {
    pub(crate) fn kernel(&self) -> &Kernel {
        &self.program.kernels[self.kernel]
    }

    /// Its code is put on the device at the first launch, or when asked for.
    pub(crate) fn load(&self) {
        self.loaded.store(true, Ordering::Relaxed);
    }

    pub(crate) fn loaded(&self) -> bool {
        self.loaded.load(Ordering::Relaxed)
    }

    pub(crate) fn context(&self) -> Option<Arc<Context>> {
        self.context.upgrade()
    }

    /// Whether it belongs to a context.
    pub(crate) fn is_in(&self, context: &Arc<Context>) -> bool {
        std::ptr::eq(self.context.as_ptr(), Arc::as_ptr(context))
    }
}

const MAX_DYNAMIC_SHARED: u32 = 8;
const CARVEOUT: u32 = 9;
const NON_PORTABLE_CLUSTER: u32 = 14;
const CLUSTER_POLICY: u32 = 15;

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_dynamic_shared: AtomicI32::new(-1),
            carveout: AtomicI32::new(-1),
            non_portable_cluster: AtomicI32::new(0),
            cluster_policy: AtomicI32::new(0),
        }
    }
}

impl Settings {
    /// Dynamic shared memory that a launch may ask for.
    pub(crate) fn max_dynamic(&self, kernel: &Kernel) -> i32 {
        match self.max_dynamic_shared.load(Ordering::Relaxed) {
            -1 => device::SHARED_PER_BLOCK as i32 - kernel.static_shared as i32,
            set => set,
        }
    }

    pub(crate) fn get(&self, kernel: &Kernel, which: u32) -> Result<i32> {
        Ok(match which {
            0 => kernel.max_threads.unwrap_or(device::MAX_THREADS) as i32,
            1 => kernel.static_shared as i32,
            2 => 0,
            3 => kernel.local as i32,
            4 => kernel.registers as i32,
            5 | 6 => 90,
            7 => 0,
            MAX_DYNAMIC_SHARED => self.max_dynamic(kernel),
            CARVEOUT => self.carveout.load(Ordering::Relaxed),
            10..=13 => 0,
            NON_PORTABLE_CLUSTER => self.non_portable_cluster.load(Ordering::Relaxed),
            CLUSTER_POLICY => self.cluster_policy.load(Ordering::Relaxed),
            _ => return Err(Code::INVALID_VALUE),
        })
    }

    pub(crate) fn set(&self, kernel: &Kernel, which: u32, value: i32) -> Result {
        let most = (device::SHARED_OPT_IN as i32) - kernel.static_shared as i32;
        let place = match which {
            MAX_DYNAMIC_SHARED if (0..=most).contains(&value) => &self.max_dynamic_shared,
            CARVEOUT if (-1..=100).contains(&value) => &self.carveout,
            NON_PORTABLE_CLUSTER if (0..=1).contains(&value) => &self.non_portable_cluster,
            CLUSTER_POLICY if (0..=2).contains(&value) => &self.cluster_policy,
            _ => return Err(Code::INVALID_VALUE),
        };
        place.store(value, Ordering::Relaxed);
        Ok(())
    }
}

/// Loads into the current context.
pub(crate) fn load_current(layout: &Layout) -> Result<Handle> {
    load(&context::usable()?, layout, 0)
}
