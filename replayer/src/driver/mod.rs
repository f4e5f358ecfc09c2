//! The target driver: any `libcuda.so.1`, opened by path, with its functions by the ids of the table.
//!
//! Imports `base/`.

pub(crate) mod calls;
pub(crate) mod guard;
pub(crate) mod stream;
pub(crate) mod thunk;

use crate::base::error::Error;
use crate::driver::thunk::{THUNKS, Thunk};
use std::path::Path;
use trace::api::types::Typed;
use trace::api::{FUNCTIONS, Function, by_name, enums::CUresult};

/// A function's position in the table.
pub(crate) fn id(function: &'static Function) -> usize {
    let (base, at) = (FUNCTIONS.as_ptr() as usize, std::ptr::from_ref(function) as usize);
    (at - base) / size_of::<Function>()
}

/// The header's name for a result code.
pub(crate) fn result_name(code: u32) -> String {
    let trace::api::types::Form::Enum(names) = CUresult::TYPE.form else { return code.to_string() };
    names.name_of(code.into()).map_or_else(|| format!("CUresult {code}"), str::to_owned)
}

/// Results that the code of this crate needs to know.
pub(crate) mod result {
    pub(crate) use trace::api::results::is_sticky;

    pub(crate) const SUCCESS: u32 = 0;
    pub(crate) const INVALID_VALUE: u32 = 1;
    pub(crate) const OUT_OF_MEMORY: u32 = 2;
    pub(crate) const NOT_INITIALIZED: u32 = 3;
    pub(crate) const DEINITIALIZED: u32 = 4;
    pub(crate) const INVALID_CONTEXT: u32 = 201;
    pub(crate) const FILE_NOT_FOUND: u32 = 301;
    pub(crate) const INVALID_HANDLE: u32 = 400;
    pub(crate) const NOT_READY: u32 = 600;
    pub(crate) const CONTEXT_IS_DESTROYED: u32 = 709;
    pub(crate) const ALREADY_REGISTERED: u32 = 712;
}

pub(crate) struct Driver {
    /// Entry points by function id; null where the driver has none.
    entries: Vec<*const ()>,
    _library: libloading::Library,
}

// SAFETY: entry points of a loaded library may be called from any thread.
unsafe impl Send for Driver {}
// SAFETY: as above; nothing here changes after loading.
unsafe impl Sync for Driver {}

impl Driver {
    pub(crate) fn load(path: &Path) -> Result<Driver, Error> {
        let failed = |source| Error::Driver { path: path.to_path_buf(), source };
        // SAFETY: the user names a driver; loading it runs its constructors, as any CUDA program does.
        let library = unsafe { libloading::Library::new(path) }.map_err(failed)?;
        guard::find(&library);
        let entries = FUNCTIONS.iter().map(|function| {
            // SAFETY: the symbol is only ever called through the thunk of its table line.
            let symbol = unsafe { library.get::<*const ()>(function.name.as_bytes()) };
            symbol.map_or(std::ptr::null(), |symbol| *symbol)
        });
        Ok(Driver { entries: entries.collect(), _library: library })
    }

    pub(crate) fn exports(&self, id: usize) -> bool {
        !self.entries[id].is_null()
    }

    /// Calls a function that the driver [exports](Driver::exports).
    ///
    /// # Safety
    /// `words` are the arguments of that function, and what they point to is what it expects.
    pub(crate) unsafe fn call(&self, id: usize, words: &[u64]) -> u32 {
        assert!(self.exports(id) && words.len() >= FUNCTIONS[id].words());
        // SAFETY: the entry point and the thunk belong to the same line; the caller vouches for the
        // arguments.
        unsafe { THUNKS[id](self.entries[id], words.as_ptr()) }
    }

    /// What makes a call of a function that the driver [exports](Driver::exports), and its entry point.
    pub(crate) fn thunk(&self, id: usize) -> (Thunk, *const ()) {
        assert!(self.exports(id));
        (THUNKS[id], self.entries[id])
    }

    /// A call of the replayer's own, by name: see [`calls`].
    ///
    /// # Safety
    /// As for [`call`](Driver::call).
    unsafe fn ask(&self, name: &'static str, words: &[u64]) -> Result<(), Failure> {
        let id = by_name(name).map(id).filter(|id| self.exports(*id)).ok_or(Failure { name, code: None })?;
        // SAFETY: forwarded.
        match unsafe { self.call(id, words) } {
            result::SUCCESS => Ok(()),
            code => Err(Failure { name, code: Some(code) }),
        }
    }
}

/// A failed call of the replayer's own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failure {
    pub name: &'static str,
    /// None: the driver has no such function.
    pub code: Option<u32>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self.code {
            Some(code) => write!(f, "{}: {}", self.name, result_name(code)),
            None => write!(f, "the driver has no {}", self.name),
        }
    }
}
