//! The location of the driver.

pub(crate) mod calls;
pub(crate) mod cupti;
mod embedded;
pub(crate) mod left_memory;
mod libraries;

pub(crate) use libraries::{put_simulated_with_recorder, recorder};

use crate::process::layout;
use crate::terminal::exit::{NO_DRIVER, failure, say};
use anyhow::Result;
use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL, Symbol};
use std::convert::Infallible;
use std::env;
use std::ffi::{CStr, OsStr, OsString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use trace::Trace;

/// The selected driver.
#[derive(Debug, Clone)]
pub(crate) enum Choice {
    /// The one the machine has.
    System,
    /// The simulated one.
    Sim,
    Path(PathBuf),
}

impl Choice {
    /// As an option names it.
    pub(crate) fn as_argument(&self) -> OsString {
        match self {
            Choice::System => OsString::new(),
            Choice::Sim => "sim".into(),
            Choice::Path(path) => path.into(),
        }
    }
}

impl FromStr for Choice {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Choice, Infallible> {
        Ok(if text == "sim" { Choice::Sim } else { Choice::Path(text.into()) })
    }
}

#[derive(Debug)]
pub(crate) struct Found {
    pub path: PathBuf,
    pub how: String,
}

/// Paths at which a file was searched, and the reason why each was rejected.
#[derive(Debug, Default)]
pub(crate) struct Tried(pub Vec<String>);

impl Tried {
    pub(crate) fn as_failure(&self, what: &str) -> anyhow::Error {
        failure(NO_DRIVER, format_args!("{what}; {}", self.told()))
    }

    /// What to do, first: places are many.
    pub(crate) fn told(&self) -> String {
        format!("without a GPU, {SIM_HINT}; tried {}", self.0.join("; "))
    }

    fn candidate(&mut self, path: PathBuf, how: impl Into<String>) -> Option<Found> {
        let how = how.into();
        let why_not = match std::fs::metadata(&path) {
            Err(error) => why(&error),
            Ok(found) if !found.is_file() => "not a file".into(),
            Ok(_) if libraries::is_recorder(&path) => "cutrace's own recorder".into(),
            Ok(_) if path.components().any(|c| c.as_os_str() == "stubs") => "a stub for linking".into(),
            Ok(_) => return Some(Found { path, how }),
        };
        self.0.push(format!("{} ({how}): {why_not}", path.display()));
        None
    }
}

/// Directories that hold a driver where the loader does not look: containers, WSL, NixOS.
const DIRECTORIES: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/lib64/nvidia",
    "/usr/lib/nvidia",
    "/run/opengl-driver/lib",
    "/usr/local/cuda/compat",
];

pub(crate) const SIM_HINT: &str = "--driver sim is the simulated driver";

const NAME: &str = "libcuda.so.1";

/// Whether a driver is ours.
pub(crate) fn is_simulated(driver: &Path) -> bool {
    driver.file_name() == Some(OsStr::new(libraries::SIM))
}

/// What a trace is replayed on if no driver is named: the simulated one, if it was recorded on that.
pub(crate) fn of_recording(trace: &Trace) -> Choice {
    let path = Path::new(&trace.preamble.driver_path);
    let is_sim = is_simulated(path) || trace.is_simulated();
    let is_named = env::var_os("CUTRACE_LIBCUDA").is_some_and(|path| !path.is_empty());
    if !is_sim || is_named {
        return Choice::System;
    }
    if layout::is_first() {
        say("replaying on the simulated driver, as recorded (--driver chooses another)");
    }
    Choice::Sim
}

/// The driver that is meant, or everything that was tried.
pub(crate) fn find(choice: &Choice) -> Result<Found, Tried> {
    let mut tried = Tried::default();
    let found = match choice {
        Choice::Path(path) => {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            tried.candidate(path, "--driver")
        }
        Choice::Sim => return libraries::simulated(),
        Choice::System => system(&mut tried),
    };
    found.ok_or(tried)
}

/// Whether the loader takes it for a library; it is not asked for anything.
pub(crate) fn loads(found: &Found) -> Result<()> {
    // SAFETY: as for `by_loader`.
    let library = unsafe { Library::open(Some(&found.path), RTLD_LAZY | RTLD_LOCAL) };
    match library {
        Ok(library) => {
            // Its threads may run its code.
            std::mem::forget(library);
            Ok(())
        }
        Err(error) => {
            let path = found.path.display();
            Err(failure(NO_DRIVER, format_args!("{path} ({}): cannot load the driver: {error}", found.how)))
        }
    }
}

fn system(tried: &mut Tried) -> Option<Found> {
    if let Some(path) = env::var_os("CUTRACE_LIBCUDA").filter(|path| !path.is_empty()) {
        return tried.candidate(path.into(), "CUTRACE_LIBCUDA");
    }
    let listed = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    for directory in env::split_paths(&listed).filter(|d| !d.as_os_str().is_empty()) {
        if let found @ Some(_) = tried.candidate(directory.join(NAME), "LD_LIBRARY_PATH") {
            return found;
        }
    }
    match by_loader() {
        Ok(path) => {
            if let found @ Some(_) = tried.candidate(path, "the loader") {
                return found;
            }
        }
        Err(why) => tried.0.push(format!("the loader: {why}")),
    }
    let (with, without): (Vec<_>, Vec<_>) = DIRECTORIES.iter().partition(|d| Path::new(d).join(NAME).exists());
    tried.0.push(format!("no {NAME} in {}", without.join(", ")));
    with.into_iter().find_map(|directory| tried.candidate(Path::new(directory).join(NAME), "usual directory"))
}

/// What the dynamic loader takes for the driver: by its cache and its directories.
fn by_loader() -> Result<PathBuf, String> {
    // SAFETY: the driver's constructors only set up its own state; nothing of it is called before cuInit.
    let library = unsafe { Library::open(Some(NAME), RTLD_LAZY | RTLD_LOCAL) }.map_err(|error| error.to_string())?;
    // SAFETY: the symbol is only looked at, never called by this type.
    let init: Symbol<*mut c_void> = unsafe { library.get(calls::INIT) }.map_err(|error| error.to_string())?;
    // SAFETY: dladdr fills the struct; the name it gives is valid while the library is loaded.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(init.into_raw() as *const c_void, &mut info) == 0 || info.dli_fname.is_null() {
            return Err(format!("{NAME} was loaded, but its path is unknown"));
        }
        let name = OsStr::from_bytes(CStr::from_ptr(info.dli_fname).to_bytes()).to_owned();
        std::fs::canonicalize(&name).map_err(|error| format!("{}: {error}", name.display()))
    }
}

fn why(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file".into(),
        kind => kind.to_string(),
    }
}
