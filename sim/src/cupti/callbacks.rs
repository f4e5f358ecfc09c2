//! Callbacks around driver calls.

use std::collections::HashMap;
use std::ffi::{CString, c_char, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;

use super::activities::{self, CALL};
use crate::abi::Handle;

pub(crate) const DRIVER_API: u32 = 1;

pub(crate) type Callback = extern "C" fn(*const c_void, u32, u32, *const CallbackData);

#[repr(C)]
pub(crate) struct CallbackData {
    site: u32,
    function: *const c_char,
    parameters: *const c_void,
    result: *const c_void,
    symbol: *const c_char,
    context: Handle,
    context_number: u32,
    data: *const c_void,
    correlation: u32,
}

#[derive(Default)]
pub(crate) struct Subscriber {
    pub callback: Option<Callback>,
    pub user: usize,
    /// By id.
    pub enabled: Vec<bool>,
}

/// Anything to do for a call. What sets it has set the names.
static ATTENDS: AtomicBool = AtomicBool::new(false);
pub(crate) static SUBSCRIBER: Mutex<Subscriber> =
    Mutex::new(Subscriber { callback: None, user: 0, enabled: Vec::new() });

/// The driver's functions: names by id, where 0 is no function, and ids by name.
static FUNCTIONS: OnceLock<(Vec<CString>, HashMap<&'static str, u32>)> = OnceLock::new();

/// Names by id; the first call says which there are.
pub(crate) fn names(all: impl FnOnce() -> Vec<&'static str>) -> &'static [CString] {
    let (names, _) = FUNCTIONS.get_or_init(|| {
        let all: Vec<&str> = std::iter::once("").chain(all()).collect();
        let names = all.iter().map(|name| CString::new(*name).unwrap_or_default()).collect();
        (names, all.into_iter().zip(0..).collect())
    });
    names
}

/// From here on calls are looked at.
pub(crate) fn attend() {
    ATTENDS.store(true, Ordering::Relaxed);
}

/// One driver call, as callbacks see it.
pub(crate) struct Call(Option<(u32, u32, u64)>);

impl Call {
    pub(crate) fn enter(name: &'static str) -> Call {
        if !ATTENDS.load(Ordering::Relaxed) {
            return Call(None);
        }
        static CORRELATION: AtomicU32 = AtomicU32::new(1);
        let correlation = CORRELATION.fetch_add(1, Ordering::Relaxed);
        let Some(id) = FUNCTIONS.get().and_then(|(_, ids)| ids.get(name).copied()) else { return Call(None) };
        CALL.set(correlation);
        call_back(id, correlation, 0);
        Call(Some((id, correlation, activities::now())))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some((id, correlation, start)) = self.0 {
            CALL.set(0);
            activities::recorded(id, correlation, start);
            call_back(id, correlation, 1);
        }
    }
}

fn call_back(id: u32, correlation: u32, site: u32) {
    let subscriber = SUBSCRIBER.lock();
    let wanted = subscriber.enabled.get(id as usize).copied().unwrap_or(false);
    let (callback, user) = (subscriber.callback.filter(|_| wanted), subscriber.user);
    drop(subscriber);
    let null: *const c_void = std::ptr::null();
    let data = CallbackData {
        site,
        function: FUNCTIONS.get().map_or(null.cast(), |(names, _)| names[id as usize].as_ptr()),
        parameters: null,
        result: null,
        symbol: null.cast(),
        context: 0,
        context_number: 0,
        data: null,
        correlation,
    };
    if let Some(callback) = callback {
        callback(user as *const c_void, DRIVER_API, id, &raw const data);
    }
}
