//! Emulation of an older driver: `CUTRACE_SIM_DRIVER_VERSION=12020` removes newer queries about code.
//!
//! A removed function is missing from cuGetProcAddress and from dlsym: its name is overwritten when the
//! library is loaded. Everything else stays, whatever its age, so that programs made with a newer header run.

use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

use crate::base::device;
use crate::base::since::since;

const LATER: &[&str] = &[
    "cuFuncGetName",
    "cuKernelGetName",
    "cuFuncGetParamInfo",
    "cuKernelGetParamInfo",
    "cuFuncIsLoaded",
    "cuFuncLoad",
    "cuModuleEnumerateFunctions",
    "cuModuleGetFunctionCount",
    "cuLibraryEnumerateKernels",
    "cuLibraryGetKernelCount",
    "cuKernelGetLibrary",
];

/// What cuDriverGetVersion says.
pub(crate) fn version() -> i32 {
    static VERSION: OnceLock<i32> = OnceLock::new();
    *VERSION.get_or_init(|| {
        let asked = std::env::var("CUTRACE_SIM_DRIVER_VERSION").ok();
        asked.and_then(|text| text.parse().ok()).unwrap_or(device::DRIVER_VERSION)
    })
}

pub(crate) fn lacks(name: &str) -> bool {
    LATER.contains(&name) && since(name) > version()
}

/// Run by the loader before anybody can look a name up.
#[used]
#[unsafe(link_section = ".init_array")]
static FORGET: extern "C" fn() = forget;

extern "C" fn forget() {
    // SAFETY: plain reading of the environment; the program's other code does not run yet, or knows of no
    // change here.
    if unsafe { libc::getenv(c"CUTRACE_SIM_DRIVER_VERSION".as_ptr()) }.is_null() {
        return;
    }
    if let Some((names, len)) = names() {
        spoil(names, len);
    }
}

/// The names that this library exports: its dynamic string table.
fn names() -> Option<(*mut u8, usize)> {
    struct Search {
        inside: usize,
        found: Option<(*mut u8, usize)>,
    }
    unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> i32 {
        // SAFETY: dl_iterate_phdr passes a valid info with its program headers, and `search` is what it was
        // given.
        let (base, headers, search) = unsafe {
            let info = &*info;
            let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
            (info.dlpi_addr as usize, headers, &mut *search.cast::<Search>())
        };
        let own = |h: &&libc::Elf64_Phdr| {
            (0..h.p_memsz as usize).contains(&search.inside.wrapping_sub(base + h.p_vaddr as usize))
        };
        if !headers.iter().filter(|h| h.p_type == libc::PT_LOAD).any(|h| own(&h)) {
            return 0;
        }
        const STRTAB: i64 = 5;
        const STRSZ: i64 = 10;
        let Some(dynamic) = headers.iter().find(|h| h.p_type == libc::PT_DYNAMIC) else { return 1 };
        let mut entry = (base + dynamic.p_vaddr as usize) as *const (i64, usize);
        let (mut at, mut len) = (0, 0);
        // SAFETY: a loaded library's dynamic section is mapped, and ends with a zero.
        unsafe {
            while (*entry).0 != 0 {
                match *entry {
                    (STRTAB, value) => at = value,
                    (STRSZ, value) => len = value,
                    _ => {}
                }
                entry = entry.add(1);
            }
        }
        // The loader turns offsets into addresses in place, or does not.
        at += if at < base { base } else { 0 };
        search.found = Some((at as *mut u8, len));
        1
    }
    let mut search = Search { inside: forget as *const () as usize, found: None };
    // SAFETY: the callback only reads what the loader hands it, and the search outlives the walk.
    unsafe { libc::dl_iterate_phdr(Some(look), std::ptr::from_mut(&mut search).cast()) };
    search.found
}

/// Changes the first letter of what is to be gone: a lookup compares whole names after their hashes.
fn spoil(names: *mut u8, len: usize) {
    let page = 4096;
    let first = names as usize / page * page;
    let size = names as usize + len - first;
    // SAFETY: the string table is mapped, privately; only bytes within it change, and what reads it (the
    // loader) is not at it: constructors run under its lock.
    unsafe {
        if libc::mprotect(first as *mut c_void, size, libc::PROT_READ | libc::PROT_WRITE) != 0 {
            return;
        }
        let mut at = 0;
        while at < len {
            let name = CStr::from_ptr(names.add(at).cast());
            let next = at + name.count_bytes() + 1;
            if name.to_str().is_ok_and(lacks) {
                *names.add(at) = b'-';
            }
            at = next;
        }
        libc::mprotect(first as *mut c_void, size, libc::PROT_READ);
    }
}
