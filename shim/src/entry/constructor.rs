//! Preparations before the program begins, because it may remove variables, paths, rights and descriptors
//! before its first driver call. A process that never calls the driver pays for a copy of its environment
//! and, under `cutrace record`, a mapping; a program linked with the driver also pays for loading it, as
//! without the recorder.

use crate::driver::{announcement, directory, real_driver};
use crate::os::{config, environment};
use std::ffi::{CStr, c_char, c_int, c_void};

/// Run by the loader, which has loaded what the program is linked with.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

extern "C" fn at_start() {
    crate::os::dl::discover();
    // A panic must not leave through the loader.
    drop(std::panic::catch_unwind(|| {
        crate::os::transparency::unseen(|| {
            environment::keep();
            announcement::map();
            if is_linked_with_driver() {
                driver_is_loaded();
            }
        });
    }));
}

/// Loads the driver when the program does: it may not be found any more at the first call.
pub(crate) fn driver_is_loaded() -> bool {
    config::keep_program();
    let is_there = real_driver::present();
    if is_there {
        directory::keep();
    }
    is_there
}

/// Whether the program, or a library that it has from the start, names the driver as one that it needs.
fn is_linked_with_driver() -> bool {
    let mut found = false;
    // SAFETY: the callback only reads what the loader hands it, and the answer outlives the walk.
    unsafe { libc::dl_iterate_phdr(Some(find_driver), std::ptr::from_mut(&mut found).cast()) };
    found
}

/// An entry of a dynamic section (elf(5)).
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: u64,
}

const NULL: i64 = 0;
const NEEDED: i64 = 1;
const STRINGS: i64 = 5;

unsafe extern "C" fn find_driver(info: *mut libc::dl_phdr_info, _size: usize, found: *mut c_void) -> c_int {
    // SAFETY: dl_iterate_phdr passes a valid info with its program headers; the dynamic section of what is loaded
    // is mapped, ends with NULL, and its strings are C strings.
    unsafe {
        let info = &*info;
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
        let Some(header) = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC) else { return 0 };
        let first = (info.dlpi_addr + header.p_vaddr) as *const Dynamic;
        let entries = || (0..).map(|at| &*first.add(at)).take_while(|entry| entry.tag != NULL);
        let Some(strings) = entries().find(|entry| entry.tag == STRINGS).map(|entry| entry.value) else { return 0 };
        // glibc has made an address of it, but not where the section cannot be written.
        let strings = if strings < info.dlpi_addr { strings + info.dlpi_addr } else { strings };
        let name = |entry: &Dynamic| CStr::from_ptr((strings + entry.value) as *const c_char);
        let is_it = entries().any(|entry| entry.tag == NEEDED && name(entry) == c"libcuda.so.1");
        *found.cast::<bool>() |= is_it;
        is_it.into()
    }
}
