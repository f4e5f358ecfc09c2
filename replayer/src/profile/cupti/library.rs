//! libcupti: the few functions of it that are used, with the signatures of its headers.

use std::ffi::{CStr, c_char, c_void};
use std::path::Path;

pub type Callback = extern "C" fn(user: *const c_void, domain: u32, id: u32, data: *const u8);
pub type Request = extern "C" fn(buffer: *mut *mut u8, size: *mut usize, most: *mut usize);
pub type Complete = extern "C" fn(context: *const c_void, stream: u32, buffer: *mut u8, size: usize, valid: usize);

/// CUPTI_CB_DOMAIN_DRIVER_API
pub const DRIVER_API: u32 = 1;
/// CUPTI_ERROR_INVALID_PARAMETER: no function has the id.
const INVALID_PARAMETER: u32 = 1;

macro_rules! functions {
    ($($field:ident = $symbol:literal ($($argument:ty),*);)*) => {
        pub struct Library {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> u32,)*
            /// Has no declaration in older headers.
            result_string: Option<unsafe extern "C" fn(u32, *mut *const c_char) -> u32>,
        }

        impl Library {
            /// Loads it for good: its threads outlive any use.
            pub fn load(path: &Path) -> Result<Library, String> {
                let failed = |error: libloading::Error| error.to_string();
                // SAFETY: the user's own tools load the same library; its constructors set up its own state.
                let library = unsafe { libloading::Library::new(path) }.map_err(failed)?;
                let loaded = Library {
                    // SAFETY: the signatures are those of cupti.h, 12.1 to 13.5.
                    $($field: unsafe { *library.get($symbol).map_err(failed)? },)*
                    // SAFETY: as above.
                    result_string: unsafe { library.get(b"cuptiGetResultString\0") }.ok().map(|symbol| *symbol),
                };
                std::mem::forget(library);
                Ok(loaded)
            }
        }
    };
}

functions! {
    version = b"cuptiGetVersion\0" (*mut u32);
    timestamp = b"cuptiGetTimestamp\0" (*mut u64);
    subscribe = b"cuptiSubscribe\0" (*mut *const c_void, Callback, *const c_void);
    unsubscribe = b"cuptiUnsubscribe\0" (*const c_void);
    enable_callback = b"cuptiEnableCallback\0" (u32, *const c_void, u32, u32);
    callback_name = b"cuptiGetCallbackName\0" (u32, u32, *mut *const c_char);
    register = b"cuptiActivityRegisterCallbacks\0" (Request, Complete);
    enable = b"cuptiActivityEnable\0" (u32);
    disable = b"cuptiActivityDisable\0" (u32);
    flush = b"cuptiActivityFlushAll\0" (u32);
    next = b"cuptiActivityGetNextRecord\0" (*mut u8, usize, *mut *const u8);
    dropped = b"cuptiActivityGetNumDroppedRecords\0" (*const c_void, u32, *mut usize);
}

impl Library {
    /// What CUPTI calls a result of its own.
    fn named(&self, result: u32) -> String {
        let mut text = std::ptr::null();
        // SAFETY: an output word.
        let told = self.result_string.map(|ask| unsafe { ask(result, &raw mut text) });
        match told {
            // SAFETY: CUPTI has handed out a string of its own.
            Some(0) if !text.is_null() => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
            _ => format!("CUptiResult {result}"),
        }
    }

    pub fn check(&self, what: &str, result: u32) -> Result<(), String> {
        if result == 0 { Ok(()) } else { Err(format!("{what}: {}", self.named(result))) }
    }

    /// The ids of driver functions that are `wanted` by name.
    pub fn callbacks(&self, wanted: impl Fn(&str) -> bool) -> Vec<u32> {
        // Far beyond what any driver has; ids have gaps, where a function was taken back.
        const MOST: u32 = 4096;
        let mut found = Vec::new();
        let mut unknown = 0;
        for id in 1..MOST {
            let mut name: *const c_char = std::ptr::null();
            // SAFETY: an output word.
            let result = unsafe { (self.callback_name)(DRIVER_API, id, &raw mut name) };
            if result == INVALID_PARAMETER {
                unknown += 1;
                if unknown > 256 {
                    break;
                }
            } else if result == 0 && !name.is_null() {
                unknown = 0;
                // SAFETY: CUPTI has handed out a string of its own.
                let name = unsafe { CStr::from_ptr(name) };
                if name.to_str().is_ok_and(&wanted) {
                    found.push(id);
                }
            }
        }
        found
    }
}
