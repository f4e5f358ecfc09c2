//! NVIDIA's profiling library: its possible paths, and how it is opened.

use crate::os::dl;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use trace::cupti::Library;

/// Where the library lies that was opened.
static FROM: AtomicUsize = AtomicUsize::new(0);
static TO: AtomicUsize = AtomicUsize::new(0);

/// Whether this address is within the library that was opened.
pub(super) fn holds(address: *const c_void) -> bool {
    (FROM.load(Acquire)..TO.load(Acquire)).contains(&(address as usize))
}

pub(super) const BY_NAME: [&CStr; 2] = [c"libcupti.so.13", c"libcupti.so.12"];

/// The libraries to try: what the program has loaded already comes first, then what was found for it. And
/// whether that was so.
pub(super) fn candidates() -> (Vec<CString>, bool) {
    let mut names: Vec<CString> = loaded().into_iter().map(|found| found.name).collect();
    let listed = crate::os::environment::variable("CUTRACE_CUPTI").unwrap_or_default();
    let listed: Vec<&[u8]> = listed.as_bytes().split(|byte| *byte == b':').filter(|path| !path.is_empty()).collect();
    names.extend(listed.iter().filter_map(|path| CString::new(*path).ok()));
    if listed.is_empty() {
        names.extend(BY_NAME.map(CStr::to_owned));
    }
    (names, !listed.is_empty())
}

pub(super) fn open(name: &CStr) -> Result<(Library, u32), String> {
    let shown = Path::new(OsStr::from_bytes(name.to_bytes())).display();
    // SAFETY: the name is a C string. The program's own tools load the same library.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Err(dl::failure().unwrap_or_else(|| format!("{shown} cannot be loaded")));
    }
    // SAFETY: a library of that name, which is never closed.
    let library = unsafe { Library::resolve(|function| dl::real_dlsym(handle, function)) };
    // What was not found is no error of the host's.
    dl::failure();
    let library = library.map_err(|why| format!("{shown}: {why}"))?;
    let version = library.known_version(&shown.to_string())?;
    let place = extent(library.version as *const c_void);
    FROM.store(place.start, Release);
    TO.store(place.end, Release);
    Ok((library, version))
}

/// A libcupti in this process.
pub(super) struct Loaded {
    pub(super) name: CString,
    place: Range<usize>,
}

pub(super) fn loaded() -> Vec<Loaded> {
    let mut found = Vec::new();
    each_object(|name, place| {
        let file = name.to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if file.starts_with(b"libcupti.so") {
            found.push(Loaded { name: name.to_owned(), place });
        }
    });
    found
}

/// Whether it is the one that was opened here.
pub(super) fn is_ours(library: &Loaded) -> bool {
    library.place.start == FROM.load(Acquire)
}

/// The addresses of the library that holds this one.
fn extent(address: *const c_void) -> Range<usize> {
    let mut found = 0..0;
    each_object(|_, place| {
        if place.contains(&(address as usize)) {
            found = place;
        }
    });
    found
}

fn each_object(mut work: impl FnMut(&CStr, Range<usize>)) {
    extern "C" fn one(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: the loader hands in a description of an object, and what was handed to it.
        let (info, work) = unsafe { (&*info, &mut *data.cast::<&mut dyn FnMut(&CStr, Range<usize>)>()) };
        // SAFETY: an object has as many headers as it says.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let end = headers.iter().filter(|header| header.p_type == libc::PT_LOAD).map(|h| h.p_vaddr + h.p_memsz).max();
        let start = info.dlpi_addr as usize;
        let name: *const c_char = info.dlpi_name;
        if !name.is_null() {
            // SAFETY: a C string of the loader's.
            work(unsafe { CStr::from_ptr(name) }, start..start + end.unwrap_or(0) as usize);
        }
        0
    }
    let mut work: &mut dyn FnMut(&CStr, Range<usize>) = &mut work;
    // SAFETY: the function has the loader's signature, and what it is handed lives until this returns.
    unsafe { libc::dl_iterate_phdr(Some(one), (&raw mut work).cast()) };
}
