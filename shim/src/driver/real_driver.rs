//! The real driver: its file, and the address of each of its functions.

use crate::os::environment::variable;
use crate::os::log::tell;
use std::cell::Cell;
use std::ffi::{CStr, CString, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};
use trace::api::FUNCTIONS;

pub(crate) const COUNT: usize = FUNCTIONS.len();

/// Entry points of the real driver by function id. Null until the driver is loaded.
pub(crate) static REAL: [AtomicPtr<c_void>; COUNT] = [const { AtomicPtr::new(std::ptr::null_mut()) }; COUNT];

static HANDLE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static PATH: AtomicPtr<String> = AtomicPtr::new(std::ptr::null_mut());
/// Real addresses, sorted, each with its id; never freed.
static BY_ADDRESS: AtomicPtr<Vec<(usize, u16)>> = AtomicPtr::new(std::ptr::null_mut());

const UNTRIED: u32 = 0;
const PRESENT: u32 = 2;
const ABSENT: u32 = 3;
static STATE: AtomicU32 = AtomicU32::new(UNTRIED);
thread_local! {
    /// Set while this thread opens the driver, whose constructors may look names up through our net.
    static OPENING: Cell<bool> = const { Cell::new(false) };
}

extern "C" fn no_driver() -> u32 {
    100 // CUDA_ERROR_NO_DEVICE
}

extern "C" fn no_function() -> u32 {
    500 // CUDA_ERROR_NOT_FOUND
}

/// The entry point of a function; something that returns an error if the driver or the function is missing.
#[inline(always)]
pub(crate) fn entry(id: u16) -> *const c_void {
    let address = REAL[id as usize].load(Relaxed);
    if address.is_null() { late(id) } else { address }
}

#[cold]
#[inline(never)]
fn late(id: u16) -> *const c_void {
    crate::os::transparency::unseen(load);
    let address = REAL[id as usize].load(Relaxed);
    if !address.is_null() {
        return address;
    }
    let stand_in = if present() { no_function as extern "C" fn() -> u32 } else { no_driver };
    stand_in as *const c_void
}

pub(crate) fn present() -> bool {
    load();
    STATE.load(Acquire) == PRESENT
}

pub(crate) fn path() -> String {
    // SAFETY: once published the string is never changed nor freed.
    unsafe { PATH.load(Acquire).as_ref() }.cloned().unwrap_or_default()
}

pub(crate) fn handle() -> *mut c_void {
    HANDLE.load(Acquire)
}

/// A function of the real driver by its id, for questions of the recorder's own; none if this driver lacks
/// it.
///
/// # Safety
/// `F` must be the function's type: an `extern "C"` function pointer with the signature of cuda.h.
#[inline]
pub(crate) unsafe fn function<F: Copy>(id: u16) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*const c_void>()) };
    let address = REAL[id as usize].load(Relaxed);
    // SAFETY: a function pointer is an address, and the caller vouches for its type.
    (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
}

/// Whether this driver has the function.
pub(crate) fn has(name: &str) -> bool {
    id_of(name.as_bytes()).is_some_and(|id| !REAL[id as usize].load(Relaxed).is_null())
}

/// The id of the function at this address of the real driver.
pub(crate) fn id_at(address: *const c_void) -> Option<u16> {
    // SAFETY: once published the vector is never changed nor freed.
    let sorted = unsafe { BY_ADDRESS.load(Acquire).as_ref() }?;
    let at = sorted.binary_search_by_key(&(address as usize), |(a, _)| *a).ok()?;
    Some(sorted[at].1)
}

/// Finds and opens the real driver. Two threads may do so at once, and come to the same: no lock is
/// held over dlopen, or a library whose constructor calls the driver, and so holds the loader's own lock,
/// would wait for us and we for it.
pub(crate) fn load() {
    if STATE.load(Acquire) != UNTRIED || OPENING.replace(true) {
        return;
    }
    crate::os::transparency::with_descriptors(find);
    OPENING.set(false);
}

fn find() {
    let mut tried = Vec::new();
    for candidate in candidates() {
        if !candidate.exists() || is_ourselves(&candidate) {
            continue;
        }
        match open(&candidate) {
            Ok(()) => return,
            Err(why) => tried.push(why),
        }
    }
    for why in tried {
        tell(&format!("cannot open the driver: {why}"));
    }
    let _another_was_luckier = STATE.compare_exchange(UNTRIED, ABSENT, AcqRel, Acquire);
}

fn open(path: &Path) -> Result<(), String> {
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|e| e.to_string())?;
    // SAFETY: the name is a C string. RTLD_LOCAL keeps the driver's names out of the global scope, where ours
    // stand.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Err(crate::os::dl::failure().unwrap_or_else(|| "?".into()));
    }
    HANDLE.store(handle, Release);
    let mut sorted = Vec::with_capacity(COUNT);
    for (id, function) in FUNCTIONS.iter().enumerate() {
        let name = CString::new(function.name).expect("names have no NUL");
        // The net's own dlsym must not be asked: it would hand out our wrapper.
        let address = crate::os::dl::real_dlsym(handle, &name);
        if !address.is_null() {
            REAL[id].store(address, Relaxed);
            sorted.push((address as usize, id as u16));
        }
    }
    // Names that this driver lacks have left an error behind, which is not the host's.
    crate::os::dl::failure();
    sorted.sort_unstable();
    BY_ADDRESS.store(Box::into_raw(Box::new(sorted)), Release);
    PATH.store(Box::into_raw(Box::new(path.to_string_lossy().into_owned())), Release);
    STATE.store(PRESENT, Release);
    Ok(())
}

fn is_ourselves(path: &Path) -> bool {
    let Some(own) = own_path() else { return false };
    match (std::fs::metadata(path), std::fs::metadata(own)) {
        (Ok(a), Ok(b)) => a.dev() == b.dev() && a.ino() == b.ino(),
        _ => false,
    }
}

/// The file this library was loaded from.
pub(crate) fn own_path() -> Option<PathBuf> {
    // SAFETY: dladdr fills the struct for an address inside this library; dli_fname is then a C string that
    // lives as long as the library.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(own_path as *const c_void, &mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        Some(PathBuf::from(OsStr::from_bytes(CStr::from_ptr(info.dli_fname).to_bytes())))
    }
}

/// Where a driver may be, in the order the loader would have looked, then where containers and WSL put it.
fn candidates() -> Vec<PathBuf> {
    const NAME: &str = "libcuda.so.1";
    const DIRECTORIES: &[&str] = &[
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/lib/x86_64-linux-gnu",
        "/usr/local/nvidia/lib64",
        "/usr/local/nvidia/lib",
        "/usr/lib/wsl/lib",
        "/run/opengl-driver/lib",
        "/usr/local/cuda/compat",
    ];
    let mut all: Vec<PathBuf> = Vec::new();
    if let Some(path) = variable("CUTRACE_LIBCUDA").filter(|p| !p.is_empty()) {
        let path = PathBuf::from(path);
        if !path.exists() {
            tell(&format!("CUTRACE_LIBCUDA={}: no such file; looking elsewhere", path.display()));
        } else if is_ourselves(&path) {
            tell(&format!("CUTRACE_LIBCUDA={} is cutrace itself; looking elsewhere", path.display()));
        }
        all.push(path);
    }
    if let Some(list) = variable("LD_LIBRARY_PATH") {
        all.extend(std::env::split_paths(&list).map(|d| d.join(NAME)));
    }
    all.extend(loader_cache(NAME));
    all.extend(DIRECTORIES.iter().map(|d| Path::new(d).join(NAME)));
    all
}

/// Paths that the loader's cache gives for a name (format "glibc-ld.so.cache1.1", as ld.so(8) reads it).
fn loader_cache(name: &str) -> Vec<PathBuf> {
    const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
    let Ok(cache) = std::fs::read("/etc/ld.so.cache") else { return Vec::new() };
    let Some(start) = cache.windows(MAGIC.len()).position(|w| w == MAGIC) else { return Vec::new() };
    let cache = &cache[start..];
    let word = |at: usize| cache.get(at..at + 4).map(|b| u32::from_le_bytes(b.try_into().expect("4 bytes")) as usize);
    let text = |at: usize| cache.get(at..).and_then(|rest| CStr::from_bytes_until_nul(rest).ok());
    let count = word(20).unwrap_or(0).min(1 << 20);
    (0..count)
        .filter_map(|i| {
            let entry = 48 + i * 24;
            let key = text(word(entry + 4)?)?;
            let value = text(word(entry + 8)?)?;
            (key.to_bytes() == name.as_bytes()).then(|| PathBuf::from(OsStr::from_bytes(value.to_bytes())))
        })
        .collect()
}

/// The id of an exported name. Runs inside lookups: no allocation.
pub(crate) fn id_of(name: &[u8]) -> Option<u16> {
    static SORTED: [u16; COUNT] = sorted();
    SORTED
        .binary_search_by(|id| trace::api::FUNCTIONS[*id as usize].name.as_bytes().cmp(name))
        .ok()
        .map(|at| SORTED[at])
}

/// Ids by name, sorted at compile time.
const fn sorted() -> [u16; COUNT] {
    let mut ids = [0; COUNT];
    let mut i = 0;
    while i < ids.len() {
        ids[i] = i as u16;
        i += 1;
    }
    // A shell sort: few steps, and simple enough for a constant.
    let mut gap = ids.len() / 2;
    while gap > 0 {
        let mut i = gap;
        while i < ids.len() {
            let mut j = i;
            while j >= gap && is_name_before(ids[j], ids[j - gap]) {
                (ids[j], ids[j - gap]) = (ids[j - gap], ids[j]);
                j -= gap;
            }
            i += 1;
        }
        gap /= 2;
    }
    ids
}

/// The id of an exported name that is known at compile time.
pub(crate) const fn id_named(name: &str) -> u16 {
    let mut id = 0;
    while !is_same(trace::api::NAMES[id].as_bytes(), name.as_bytes()) {
        id += 1;
    }
    id as u16
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

const fn is_name_before(a: u16, b: u16) -> bool {
    let (a, b) = (trace::api::NAMES[a as usize].as_bytes(), trace::api::NAMES[b as usize].as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() {
        if a[i] != b[i] {
            return a[i] < b[i];
        }
        i += 1;
    }
    a.len() < b.len()
}
