//! Interposition of dlopen and dlsym, through which a program can bypass the linker's symbol resolution.
//!
//! `dlopen` and `dlsym` are naked functions that call a filter and then *jump* to the real function, so that
//! glibc finds the true caller's return address: it derives RUNPATH and the start of RTLD_NEXT from it. The
//! filter acts on the address found, never on the spelling of the library.

use crate::driver::real_driver;
use crate::entry::{constructor, nccl, nvtx};
use crate::os::counters;
use crate::os::dl::{self, Verdict};
use crate::os::guard::guarded;
use crate::os::transparency::unseen;
use crate::records::times;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::Ordering::*;

#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    std::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "mov rdx, [rsp + 24]",
        "call {filter}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "jnz 2f",
        "mov rdi, rdx",
        "jmp qword ptr [rip + {real}]",
        "2: ret",
        filter = sym filter_dlsym,
        real = sym dl::REAL_DLSYM,
    )
}

#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void {
    std::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {filter}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "mov rdi, rax",
        "jmp qword ptr [rip + {real}]",
        filter = sym filter_dlopen,
        real = sym dl::REAL_DLOPEN,
    )
}

/// Runs inside the loader, inside malloc, before constructors: no allocation, no logging, no lazy state for
/// names that are not the driver's.
extern "C" fn filter_dlsym(handle: *mut c_void, name: *const c_char, caller: *const c_void) -> Verdict {
    dl::discover();
    let pass = Verdict { found: std::ptr::null_mut(), handle };
    if name.is_null() {
        return pass;
    }
    // SAFETY: dlsym's contract: the name is a C string.
    let name = unsafe { CStr::from_ptr(name) };
    let is_driver_name = name.to_bytes().starts_with(b"cu");
    if let Some(index) = is_driver_name.then(|| times::watched(name.to_bytes())).flatten() {
        let mut verdict = pass;
        guarded(|| verdict = times::looked_up(index, handle, caller));
        return verdict;
    }
    let Some(id) = is_driver_name.then(|| crate::driver::real_driver::id_of(name.to_bytes())).flatten() else {
        if !dl::is_own_handle(handle) || is_entry(name.to_bytes()) || !real_driver::present() {
            return pass;
        }
        // Asked of the driver by its handle, which is ours: a newer driver may have more than this table.
        if is_driver_name && !dl::real_dlsym(real_driver::handle(), name).is_null() {
            counters::UNKNOWN_NAMES.fetch_add(1, Relaxed);
        }
        return Verdict { handle: real_driver::handle(), ..pass };
    };
    unseen(|| driver_name(handle, name, id, caller))
}

/// Whether the name is ours by which somebody else than the driver's users asks.
fn is_entry(name: &[u8]) -> bool {
    nvtx::is_entry(name) || nccl::is_entry(name)
}

/// The answer for a name of the table.
fn driver_name(handle: *mut c_void, name: &CStr, id: u16, caller: *const c_void) -> Verdict {
    let pass = Verdict { found: std::ptr::null_mut(), handle };
    let wrapper = crate::entry::wrappers::address(id);
    let address = real_driver::REAL[id as usize].load(Relaxed);
    if !address.is_null() && times::is_cuptis(caller) {
        // Its questions are not the program's.
        return Verdict { found: address, handle };
    }
    if handle == libc::RTLD_NEXT {
        // Whoever asks for the next definition means the driver's. Ours stands before it, also for a caller
        // that was loaded behind us, where glibc would find nothing.
        return if !is_own(caller) && is_exported(id) { Verdict { found: wrapper, handle } } else { pass };
    }
    let found = dl::real_dlsym(handle, name);
    if found.is_null() {
        return pass;
    }
    if found == wrapper {
        return match (real_driver::present(), is_exported(id)) {
            (_, true) => Verdict { found, handle },
            // A name this driver lacks: let the real library say so.
            (true, false) => Verdict { handle: real_driver::handle(), ..pass },
            // No driver: any library that has no such name may say so.
            (false, false) => Verdict { handle: dl::libc_handle(), ..pass },
        };
    }
    real_driver::load();
    match real_driver::id_at(found) {
        Some(id) => Verdict { found: crate::entry::wrappers::address(id), handle },
        None => pass,
    }
}

/// The name to open in place of `name`. Only a machine without a driver needs another: there, our SONAME
/// would answer for a library that does not exist.
extern "C" fn filter_dlopen(name: *const c_char, _flags: c_int) -> *const c_char {
    dl::discover();
    if name.is_null() {
        return name;
    }
    // SAFETY: dlopen's contract: the name is null or a C string.
    let asked = unsafe { CStr::from_ptr(name) }.to_bytes();
    let is_driver = asked == b"libcuda.so.1" || asked == b"libcuda.so";
    if is_driver && !unseen(constructor::driver_is_loaded) {
        return c"libcuda.so.1 (no driver on this machine)".as_ptr();
    }
    name
}

fn is_exported(id: u16) -> bool {
    real_driver::load();
    !real_driver::REAL[id as usize].load(Relaxed).is_null()
}

fn is_own(address: *const c_void) -> bool {
    // SAFETY: dladdr accepts any address and fills the struct it is given.
    unsafe {
        let (mut theirs, mut ours): (libc::Dl_info, libc::Dl_info) = (std::mem::zeroed(), std::mem::zeroed());
        libc::dladdr(address, &mut theirs) != 0
            && libc::dladdr(is_own as *const c_void, &mut ours) != 0
            && theirs.dli_fbase == ours.dli_fbase
    }
}

/// What to hand out for an address that cuGetProcAddress returned.
fn substitute(address: *mut c_void) -> *mut c_void {
    match real_driver::id_at(address) {
        Some(id) => crate::entry::wrappers::address(id),
        None => {
            if !address.is_null() {
                counters::UNKNOWN_NAMES.fetch_add(1, Relaxed);
            }
            address
        }
    }
}

/// After cuGetProcAddress, which has written an address there.
#[cold]
pub(crate) fn hand_out(place: u64) {
    let place = place as *mut *mut c_void;
    if place.is_null() {
        return;
    }
    // SAFETY: the driver has just written an address there for the application.
    unsafe { *place = substitute(*place) };
}
