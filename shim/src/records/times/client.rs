//! The program as a user of CUPTI: the calls that reveal it, and how they reach their own library.
//!
//! PyTorch is linked with libcupti, others look its functions up. So the functions that begin a use of it are
//! exported here, and lookups of them arrive through interposition. Each is forwarded to the program's own
//! libcupti after our use of it has stopped.

use super::library::{is_ours, loaded};
use super::{is_cuptis, stand_aside};
use crate::driver::real_driver;
use crate::os::dl::{self, Verdict};
use crate::os::guard::guarded;
use std::ffi::{CStr, CString, c_void};
use std::sync::atomic::{AtomicUsize, Ordering::*};

macro_rules! watched {
    ($($index:literal $name:ident $text:literal)*) => {
        const NAMES: &[&CStr] = &[$($text),*];

        $(
            /// Asks where the program's call is to go, and jumps there.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name() -> u32 {
                std::arch::naked_asm!(
                    "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push rax",
                    "mov edi, {index}",
                    "mov rsi, [rsp + 56]",
                    "call {target}",
                    "mov r11, rax",
                    "pop rax", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
                    "jmp r11",
                    index = const $index,
                    target = sym target,
                )
            }
        )*

        fn is_own(address: *const c_void) -> bool {
            [$($name as *const c_void),*].contains(&address)
        }
    };
}

watched! {
    0 cuptiSubscribe c"cuptiSubscribe"
    1 cuptiSubscribe_v2 c"cuptiSubscribe_v2"
    2 cuptiActivityRegisterCallbacks c"cuptiActivityRegisterCallbacks"
    3 cuptiActivityRegisterCallbacks_v2 c"cuptiActivityRegisterCallbacks_v2"
    4 cuptiActivityEnable c"cuptiActivityEnable"
    5 cuptiActivityEnable_v2 c"cuptiActivityEnable_v2"
    6 cuptiActivityEnableContext c"cuptiActivityEnableContext"
    7 cuptiActivityEnableAndDump c"cuptiActivityEnableAndDump"
    8 cuptiFinalize c"cuptiFinalize"
}

/// One more than the index of the name that the program used first; 0 for none.
static USED: AtomicUsize = AtomicUsize::new(0);

/// By what the program has shown that it uses CUPTI.
pub(super) fn used() -> Option<&'static str> {
    let index = USED.load(SeqCst).checked_sub(1)?;
    NAMES.get(index).and_then(|name| name.to_str().ok())
}

fn uses(index: usize, caller: *const c_void) {
    if is_cuptis(caller) {
        return;
    }
    let _first = USED.compare_exchange(0, index + 1, SeqCst, SeqCst);
    if let Some(name) = NAMES.get(index).and_then(|name| name.to_str().ok()) {
        stand_aside(name);
    }
}

extern "C" fn not_there() -> u32 {
    15 // CUPTI_ERROR_NOT_INITIALIZED
}

extern "C" fn target(index: usize, caller: *const c_void) -> *const c_void {
    let mut found = not_there as *const c_void;
    guarded(|| {
        uses(index, caller);
        let theirs = next_definition(NAMES[index], caller);
        found = if theirs.is_null() { found } else { theirs };
    });
    found
}

/// Where the call would go without us: to the next definition in the program's own scope, or one in reach of
/// the caller's library. Where there is none, to a libcupti that is loaded, one that is not ours first.
fn next_definition(name: &CStr, caller: *const c_void) -> *mut c_void {
    // The search goes on behind whoever asks, and that is this library.
    let next = dl::real_dlsym(libc::RTLD_NEXT, name);
    let in_reach = || file_of(caller).map_or(std::ptr::null_mut(), |file| function_of(&file, name));
    let in_libcupti = || {
        let mut found = loaded();
        found.sort_by_key(is_ours);
        let address = found.iter().map(|library| function_of(&library.name, name)).find(|address| !address.is_null());
        address.unwrap_or(std::ptr::null_mut())
    };
    // A driver may bring its own.
    let in_driver = || match real_driver::present() {
        true => dl::real_dlsym(real_driver::handle(), name),
        false => std::ptr::null_mut(),
    };
    let places: [&dyn Fn() -> *mut c_void; 4] = [&|| next, &in_reach, &in_libcupti, &in_driver];
    let found = places.iter().map(|look| look()).find(|found| !found.is_null() && !is_own(*found));
    // What was not found in between is no error of the host's.
    dl::failure();
    found.unwrap_or(std::ptr::null_mut())
}

/// In a file that is loaded, or in what it depends on; null if that is ours, or nowhere.
fn function_of(file: &CStr, name: &CStr) -> *mut c_void {
    // SAFETY: a C string; nothing is loaded.
    let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        dl::failure();
        return std::ptr::null_mut();
    }
    let found = dl::real_dlsym(handle, name);
    // SAFETY: the handle is ours, and whoever loaded the file has another.
    unsafe { libc::dlclose(handle) };
    if is_own(found) { std::ptr::null_mut() } else { found }
}

fn file_of(address: *const c_void) -> Option<CString> {
    // SAFETY: dladdr accepts any address, and fills the struct with a C string that lives as long as the
    // library.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        (libc::dladdr(address, &mut info) != 0 && !info.dli_fname.is_null())
            .then(|| CStr::from_ptr(info.dli_fname).to_owned())
    }
}

/// The number of a name that shows a use of CUPTI. Runs inside lookups: no allocation.
pub(crate) fn watched(name: &[u8]) -> Option<usize> {
    name.starts_with(b"cupti").then(|| NAMES.iter().position(|known| known.to_bytes() == name)).flatten()
}

/// The program looks such a name up.
pub(crate) fn looked_up(index: usize, handle: *mut c_void, caller: *const c_void) -> Verdict {
    uses(index, caller);
    let ask = |handle| Verdict { found: std::ptr::null_mut(), handle };
    if dl::is_own_handle(handle) {
        // The driver's is meant.
        return ask(if real_driver::present() { real_driver::handle() } else { dl::libc_handle() });
    }
    if handle == libc::RTLD_NEXT {
        // Which is next depends on who asks: glibc sees that.
        return ask(handle);
    }
    let found = dl::real_dlsym(handle, NAMES[index]);
    if !is_own(found) {
        return Verdict { found, handle };
    }
    let found = next_definition(NAMES[index], caller);
    if found.is_null() { ask(dl::libc_handle()) } else { Verdict { found, handle } }
}
