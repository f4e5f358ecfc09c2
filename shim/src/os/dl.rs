//! glibc's own dlsym and dlopen, never our interposed ones.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering::*};

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// glibc's own functions; not exported, so that naked code can reach them relative to itself.
pub(crate) static REAL_DLSYM: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
pub(crate) static REAL_DLOPEN: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
/// The handle that dlopen gives for this library.
static OWN: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// What the naked `dlsym` does next: return `found`, or look up in `handle`.
#[repr(C)]
pub(crate) struct Verdict {
    pub found: *mut c_void,
    pub handle: *mut c_void,
}

/// glibc's dlsym, never our net. To it RTLD_NEXT is what comes behind this library.
pub(crate) fn real_dlsym(handle: *mut c_void, name: &CStr) -> *mut c_void {
    discover();
    // SAFETY: `discover` stored glibc's dlsym, whose type this is.
    let function: Dlsym = unsafe { std::mem::transmute(REAL_DLSYM.load(Acquire)) };
    // SAFETY: the name is a C string; any handle is dlsym's to judge.
    unsafe { function(handle, name.as_ptr()) }
}

pub(crate) fn discover() {
    if !REAL_DLOPEN.load(Acquire).is_null() {
        return;
    }
    // dlvsym is not interposed. dlsym moved into libc with glibc 2.34 and kept its old version name beside
    // the new one.
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

/// Whether it is the handle that dlopen gives for this library.
pub(crate) fn is_own_handle(handle: *mut c_void) -> bool {
    handle == OWN.load(Acquire)
}

/// A library that has no name of the driver's or of CUPTI's: it may say so.
pub(crate) fn libc_handle() -> *mut c_void {
    // SAFETY: a C string; the C library is always loaded.
    unsafe { libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) }
}

/// What dlerror has to say; it is then forgotten, as it is not the host's.
pub(crate) fn failure() -> Option<String> {
    // SAFETY: dlerror returns null or a C string valid until the next call on this thread.
    unsafe { libc::dlerror().as_ref().map(|why| CStr::from_ptr(why).to_string_lossy().into_owned()) }
}
