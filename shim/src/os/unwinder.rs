//! The host's unwinder. Code that unwinds through our frames (a C++ exception, pthread_exit) passes Rust's
//! code in them a context of its own, which a second unwinder, linked into this library, would misread. And a
//! program that never unwinds need not load one for us.
//!
//! Rust's library imports these functions. They are defined here, for this library alone; each jumps to that
//! of libgcc_s, which is looked up when the first of them is needed: by then the host unwinds and has loaded
//! it, or we panic.

use crate::os::dl;
use std::arch::global_asm;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering::*};

macro_rules! functions {
    ($($index:literal $name:literal)*) => {
        const NAMES: [&CStr; [$($name),*].len()] =
            [$(match CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name with a zero"),
            }),*];

        $(global_asm!(
            concat!(".globl ", $name),
            concat!(".hidden ", $name),
            concat!(".type ", $name, ",@function"),
            concat!($name, ":"),
            ".cfi_startproc",
            "mov r11, qword ptr [rip + {found} + 8 * {index}]",
            "test r11, r11",
            "jz 2f",
            "jmp r11",
            "2:",
            // Arguments that find does not know of: no more than three.
            "push rdi",
            ".cfi_adjust_cfa_offset 8",
            "push rsi",
            ".cfi_adjust_cfa_offset 8",
            "push rdx",
            ".cfi_adjust_cfa_offset 8",
            "mov edi, {index}",
            "call {find}",
            "pop rdx",
            ".cfi_adjust_cfa_offset -8",
            "pop rsi",
            ".cfi_adjust_cfa_offset -8",
            "pop rdi",
            ".cfi_adjust_cfa_offset -8",
            "jmp rax",
            ".cfi_endproc",
            concat!(".size ", $name, ", . - ", $name),
            found = sym FOUND,
            find = sym find,
            index = const $index,
        );)*
    };
}

functions! {
    0 "_Unwind_Backtrace"
    1 "_Unwind_DeleteException"
    2 "_Unwind_GetDataRelBase"
    3 "_Unwind_GetIP"
    4 "_Unwind_GetIPInfo"
    5 "_Unwind_GetLanguageSpecificData"
    6 "_Unwind_GetRegionStart"
    7 "_Unwind_GetTextRelBase"
    8 "_Unwind_RaiseException"
    9 "_Unwind_Resume"
    10 "_Unwind_SetGR"
    11 "_Unwind_SetIP"
}

static FOUND: [AtomicPtr<c_void>; NAMES.len()] = [const { AtomicPtr::new(std::ptr::null_mut()) }; NAMES.len()];

extern "C" fn find(index: usize) -> *mut c_void {
    // SAFETY: a C string; the library has no constructor that minds when it is loaded.
    let library = unsafe { libc::dlopen(c"libgcc_s.so.1".as_ptr(), libc::RTLD_LAZY) };
    let found = match library.is_null() {
        true => std::ptr::null_mut(),
        false => dl::real_dlsym(library, NAMES[index]),
    };
    let found = if found.is_null() { absent as *mut c_void } else { found };
    FOUND[index].store(found, Release);
    found
}

/// Where there is no libgcc_s, nobody unwinds through us, and a panic ends as one that cannot begin.
extern "C" fn absent() -> usize {
    const FATAL_PHASE1_ERROR: usize = 3;
    FATAL_PHASE1_ERROR
}
