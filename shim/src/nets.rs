//! The nets: ways to the driver that go past the dynamic linker's symbol resolution.
//!
//! `dlopen` and `dlsym` are naked functions that ask a filter and then *jump* to the real function, so that glibc finds
//! the true caller's return address: it derives RUNPATH and the start of RTLD_NEXT from it. The filter acts on the
//! address found, never on how the library was spelled.

use crate::manners::{guarded, unseen};
use crate::{real, times};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// glibc's own functions; private, so that the naked code can reach them relative to itself.
static REAL_DLSYM: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static REAL_DLOPEN: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
/// The handle that dlopen gives for this library.
static OWN: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Lookups of driver names that this table does not know: handed out unwrapped, and counted.
pub static UNKNOWN_NAMES: AtomicU64 = AtomicU64::new(0);

/// What the naked `dlsym` does next: return `found`, or look up in `handle`.
#[repr(C)]
pub struct Verdict {
    pub found: *mut c_void,
    pub handle: *mut c_void,
}

#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
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
        real = sym REAL_DLSYM,
    )
}

#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void {
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
        real = sym REAL_DLOPEN,
    )
}

/// Runs inside the loader, inside malloc, before constructors: no allocation, no logging, no lazy state for names that
/// are not the driver's.
extern "C" fn filter_dlsym(handle: *mut c_void, name: *const c_char, caller: *const c_void) -> Verdict {
    discover();
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
    let Some(id) = is_driver_name.then(|| crate::wrappers::id_of(name.to_bytes())).flatten() else {
        if handle != OWN.load(Acquire) || crate::nvtx::is_entry(name.to_bytes()) || !real::present() {
            return pass;
        }
        // Asked of the driver by its handle, which is ours: a newer driver may have more than this table.
        if is_driver_name && !real_dlsym(real::handle(), name).is_null() {
            UNKNOWN_NAMES.fetch_add(1, Relaxed);
        }
        return Verdict { handle: real::handle(), ..pass };
    };
    unseen(|| driver_name(handle, name, id, caller))
}

/// The answer for a name of the table.
fn driver_name(handle: *mut c_void, name: &CStr, id: u16, caller: *const c_void) -> Verdict {
    let pass = Verdict { found: std::ptr::null_mut(), handle };
    let wrapper = crate::wrappers::address(id);
    let address = real::REAL[id as usize].load(Relaxed);
    if !address.is_null() && times::is_cuptis(caller) {
        // Its questions are not the program's.
        return Verdict { found: address, handle };
    }
    if handle == libc::RTLD_NEXT {
        // Whoever asks for the next definition means the driver's. Ours stands before it, also for a caller that was
        // loaded behind us, where glibc would find nothing.
        return if !is_own(caller) && has(id) { Verdict { found: wrapper, handle } } else { pass };
    }
    let found = real_dlsym(handle, name);
    if found.is_null() {
        return pass;
    }
    if found == wrapper {
        return match (real::present(), has(id)) {
            (_, true) => Verdict { found, handle },
            // A name this driver lacks: let the real library say so.
            (true, false) => Verdict { handle: real::handle(), ..pass },
            // No driver: any library that has no such name may say so.
            (false, false) => Verdict { handle: libc_handle(), ..pass },
        };
    }
    real::load();
    match real::id_at(found) {
        Some(id) => Verdict { found: crate::wrappers::address(id), handle },
        None => pass,
    }
}

/// The name to open in place of `name`. Only a machine without a driver needs another: there, our SONAME would answer
/// for a library that does not exist.
extern "C" fn filter_dlopen(name: *const c_char, _flags: c_int) -> *const c_char {
    discover();
    if name.is_null() {
        return name;
    }
    // SAFETY: dlopen's contract: the name is null or a C string.
    let asked = unsafe { CStr::from_ptr(name) }.to_bytes();
    let is_driver = asked == b"libcuda.so.1" || asked == b"libcuda.so";
    if is_driver && !unseen(real::present) {
        return c"libcuda.so.1 (no driver on this machine)".as_ptr();
    }
    name
}

/// A library that has no name of the driver's or of CUPTI's: it may say so.
pub fn libc_handle() -> *mut c_void {
    // SAFETY: a C string; the C library is always loaded.
    unsafe { libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) }
}

/// Whether it is the handle that dlopen gives for this library.
pub fn is_own_handle(handle: *mut c_void) -> bool {
    handle == OWN.load(Acquire)
}

/// What dlerror has to say; it is then forgotten, as it is not the host's.
pub fn failure() -> Option<String> {
    // SAFETY: dlerror returns null or a C string valid until the next call on this thread.
    unsafe { libc::dlerror().as_ref().map(|why| CStr::from_ptr(why).to_string_lossy().into_owned()) }
}

fn has(id: u16) -> bool {
    real::load();
    !real::REAL[id as usize].load(Relaxed).is_null()
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

/// glibc's dlsym, never our net. To it RTLD_NEXT is what comes behind this library.
pub fn real_dlsym(handle: *mut c_void, name: &CStr) -> *mut c_void {
    discover();
    // SAFETY: `discover` stored glibc's dlsym, whose type this is.
    let function: Dlsym = unsafe { std::mem::transmute(REAL_DLSYM.load(Acquire)) };
    // SAFETY: the name is a C string; any handle is dlsym's to judge.
    unsafe { function(handle, name.as_ptr()) }
}

fn discover() {
    if !REAL_DLOPEN.load(Acquire).is_null() {
        return;
    }
    // dlvsym is not interposed. dlsym moved into libc with glibc 2.34 and kept its old version name beside the new one.
    let find = |name: &CStr| {
        [c"GLIBC_2.34", c"GLIBC_2.2.5"]
            .iter()
            // SAFETY: both names are C strings.
            .map(|version| unsafe { libc::dlvsym(libc::RTLD_NEXT, name.as_ptr(), version.as_ptr()) })
            .find(|address| !address.is_null())
            .unwrap_or(std::ptr::null_mut())
    };
    OWN.store(own_handle(), Release);
    REAL_DLSYM.store(find(c"dlsym"), Release);
    REAL_DLOPEN.store(find(c"dlopen"), Release);
}

/// glibc's handles are its link maps.
fn own_handle() -> *mut c_void {
    const RTLD_DL_LINKMAP: c_int = 2;
    unsafe extern "C" {
        fn dladdr1(address: *const c_void, info: *mut libc::Dl_info, extra: *mut *mut c_void, flags: c_int) -> c_int;
    }
    let mut map = std::ptr::null_mut();
    // SAFETY: dladdr1 accepts any address, fills the struct, and with this flag stores one pointer.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        dladdr1(own_handle as *const c_void, &mut info, &mut map, RTLD_DL_LINKMAP);
    }
    map
}

/// What to hand out for an address that cuGetProcAddress returned.
pub fn substitute(address: *mut c_void) -> *mut c_void {
    match real::id_at(address) {
        Some(id) => crate::wrappers::address(id),
        None => {
            if !address.is_null() {
                UNKNOWN_NAMES.fetch_add(1, Relaxed);
            }
            address
        }
    }
}
