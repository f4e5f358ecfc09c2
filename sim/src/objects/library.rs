//! Libraries and their kernels. Their code belongs to no context until a context uses it.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::abi::Handle;
use crate::abi::code::{Code, Result};
use crate::base::registry::{Registry, handle_of};
use crate::objects::module::{self, Function, Settings};
use crate::ptx::{Kernel as Compiled, Layout, Program};
use crate::streams::context::{self, Context};

pub(crate) struct Library {
    layout: Layout,
    /// Decoded once without addresses, for questions about kernels.
    program: Arc<Program>,
    kernels: Mutex<BTreeMap<usize, Handle>>,
    /// By context: the module loaded there.
    modules: Mutex<BTreeMap<Handle, Handle>>,
}

pub(crate) struct Kernel {
    pub library: Handle,
    program: Arc<Program>,
    index: usize,
    pub name: CString,
    pub settings: Arc<Settings>,
}

static LIBRARIES: Registry<Library> = Registry::new();
static KERNELS: Registry<Kernel> = Registry::new();

pub(crate) fn load(layout: Layout) -> Result<Handle> {
    let program = Arc::new(layout.program(0).map_err(|_| Code::INVALID_PTX)?);
    let library = Library { layout, program, kernels: Mutex::default(), modules: Mutex::default() };
    Ok(LIBRARIES.insert(Arc::new(library)))
}

pub(crate) fn find(handle: Handle) -> Result<Arc<Library>> {
    LIBRARIES.find(handle)
}

pub(crate) fn unload(handle: Handle) -> Result {
    let library = LIBRARIES.remove(handle)?;
    KERNELS.drain(|k| k.library == handle);
    let modules = std::mem::take(&mut *library.modules.lock());
    modules.into_values().for_each(module::discard);
    Ok(())
}

impl Library {
    pub(crate) fn kernel_count(&self) -> usize {
        self.program.kernels.len()
    }

    pub(crate) fn kernel(self: &Arc<Self>, index: usize) -> Result<Handle> {
        let found = self.program.kernels.get(index).ok_or(Code::NOT_FOUND)?;
        let mut kernels = self.kernels.lock();
        if let Some(handle) = kernels.get(&index) {
            return Ok(*handle);
        }
        let kernel = Kernel {
            library: handle_of(self),
            program: self.program.clone(),
            index,
            name: CString::new(found.name.as_str()).unwrap_or_default(),
            settings: Arc::default(),
        };
        let handle = KERNELS.insert(Arc::new(kernel));
        kernels.insert(index, handle);
        Ok(handle)
    }

    pub(crate) fn kernel_by_name(self: &Arc<Self>, name: &str) -> Result<Handle> {
        let index = self.program.kernels.iter().position(|k| k.name == name).ok_or(Code::NOT_FOUND)?;
        self.kernel(index)
    }

    /// The module of this library in a context.
    pub(crate) fn module(self: &Arc<Self>, context: &Arc<Context>) -> Result<Handle> {
        let key = handle_of(context);
        let mut modules = self.modules.lock();
        // A context that was destroyed took its modules along; its handle may have come back.
        if let Some(module) = modules.get(&key).copied().filter(|m| module::find(*m).is_ok()) {
            return Ok(module);
        }
        let module = module::load(context, &self.layout, handle_of(self))?;
        modules.insert(key, module);
        Ok(module)
    }

    pub(crate) fn managed(&self, name: &str) -> bool {
        self.program.variables.iter().any(|v| v.name == name && v.managed)
    }
}

pub(crate) fn kernel(handle: Handle) -> Result<Arc<Kernel>> {
    KERNELS.find(handle)
}

impl Kernel {
    pub(crate) fn code(&self) -> &Compiled {
        &self.program.kernels[self.index]
    }

    /// Its function in the current context.
    pub(crate) fn function(&self) -> Result<Handle> {
        let library = find(self.library)?;
        let module = library.module(&context::usable()?)?;
        module::find(module)?.function_with(self.index, &self.settings)
    }
}

/// The function that a handle of either kind means: a CUkernel stands for its function in the current
/// context.
pub(crate) fn function(handle: Handle) -> Result<Arc<Function>> {
    match module::function(handle) {
        Ok(function) => Ok(function),
        Err(_) => module::function(kernel(handle)?.function()?),
    }
}
