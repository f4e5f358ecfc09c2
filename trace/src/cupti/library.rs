//! The few functions of libcupti that cutrace uses.

use std::ffi::{CStr, c_char, c_void};

/// CUpti_CallbackFunc.
pub type Callback = extern "C" fn(user: *const c_void, domain: u32, id: u32, data: *const u8);
/// CUpti_BuffersCallbackRequestFunc.
pub type Request = unsafe extern "C" fn(buffer: *mut *mut u8, size: *mut usize, most: *mut usize);
/// CUpti_BuffersCallbackCompleteFunc.
pub type Complete = extern "C" fn(context: *const c_void, stream: u32, buffer: *mut u8, size: usize, valid: usize);

/// CUPTI_CB_DOMAIN_DRIVER_API
pub const DRIVER_API: u32 = 1;
/// CUPTI_ERROR_INVALID_PARAMETER: no function has the id.
const INVALID_PARAMETER: u32 = 1;

macro_rules! functions {
    (
        all { $($field:ident = $symbol:literal ($($argument:ty),*);)* }
        some { $($later:ident = $name:literal ($($given:ty),*);)* }
    ) => {
        /// CUPTI's functions, with the signatures of cupti.h, 12.1 to 13.5.
        #[allow(missing_docs, reason = "the functions are NVIDIA's: its header documents them")]
        pub struct Library {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> u32,)*
            $(pub $later: Option<unsafe extern "C" fn($($given),*) -> u32>,)*
        }

        impl Library {
            /// `find` tells where a function of the library is, null for nowhere.
            ///
            /// # Safety
            /// What is found are CUPTI's functions, and the library is never unloaded: its threads outlive
            /// any use.
            pub unsafe fn resolve(find: impl Fn(&CStr) -> *const c_void) -> Result<Library, String> {
                Ok(Library {
                    $($field: match find($symbol) {
                        address if address.is_null() => return Err(format!("function {} not found", $symbol.to_string_lossy())),
                        // SAFETY: the caller's promise; the signatures are those of the headers.
                        address => unsafe {
                            std::mem::transmute::<*const c_void, unsafe extern "C" fn($($argument),*) -> u32>(address)
                        },
                    },)*
                    $($later: match find($name) {
                        address if address.is_null() => None,
                        // SAFETY: as above.
                        address => Some(unsafe {
                            std::mem::transmute::<*const c_void, unsafe extern "C" fn($($given),*) -> u32>(address)
                        }),
                    },)*
                })
            }
        }
    };
}

functions! {
    all {
        version = c"cuptiGetVersion" (*mut u32);
        timestamp = c"cuptiGetTimestamp" (*mut u64);
        subscribe = c"cuptiSubscribe" (*mut *const c_void, Callback, *const c_void);
        unsubscribe = c"cuptiUnsubscribe" (*const c_void);
        enable_callback = c"cuptiEnableCallback" (u32, *const c_void, u32, u32);
        callback_name = c"cuptiGetCallbackName" (u32, u32, *mut *const c_char);
        register = c"cuptiActivityRegisterCallbacks" (Request, Complete);
        enable = c"cuptiActivityEnable" (u32);
        disable = c"cuptiActivityDisable" (u32);
        flush = c"cuptiActivityFlushAll" (u32);
        next = c"cuptiActivityGetNextRecord" (*mut u8, usize, *mut *const u8);
        dropped = c"cuptiActivityGetNumDroppedRecords" (*const c_void, u32, *mut usize);
        push = c"cuptiActivityPushExternalCorrelationId" (u32, u64);
        pop = c"cuptiActivityPopExternalCorrelationId" (u32, *mut u64);
    }
    // Those that not all headers of these versions declare.
    some {
        result_string = c"cuptiGetResultString" (u32, *mut *const c_char);
        enable_driver_api = c"cuptiActivityEnableDriverApi" (u32, u8);
    }
}

impl Library {
    /// What CUPTI calls a result of its own.
    fn result_name(&self, result: u32) -> String {
        let mut text = std::ptr::null();
        // SAFETY: an output word.
        let told = self.result_string.map(|ask| unsafe { ask(result, &raw mut text) });
        match told {
            // SAFETY: CUPTI has handed out a string of its own.
            Some(0) if !text.is_null() => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
            _ => format!("CUptiResult {result}"),
        }
    }

    /// Turns a CUptiResult that is no success into a message that begins with `what`.
    pub fn check(&self, what: &str, result: u32) -> Result<(), String> {
        if result == 0 { Ok(()) } else { Err(format!("{what}: {}", self.result_name(result))) }
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
