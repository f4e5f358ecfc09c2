//! CUPTI's functions. `CUTRACE_SIM_CUPTI_VERSION` sets the version that it reports.

use std::ffi::{CString, c_char};

use crate::abi::{Handle, Out};
use crate::cupti::activities::{self, ACTIVITIES, Complete, DRIVER, MEMCPY2, NUMBERS, Request, size_of};
use crate::cupti::callbacks::{self, Callback, DRIVER_API, SUBSCRIBER, Subscriber};

const VERSION: u32 = 130_001;
/// The first that records calls of single functions: that of CUDA 12.8.
const SINGLE_CALLS: u32 = 26;

const SUCCESS: u32 = 0;
const INVALID_PARAMETER: u32 = 1;
const MAX_LIMIT_REACHED: u32 = 12;
const INVALID_KIND: u32 = 21;
const QUEUE_EMPTY: u32 = 36;
const MULTIPLE_SUBSCRIBERS: u32 = 39;

/// By id; 0 is no function.
fn names() -> &'static [CString] {
    callbacks::names(|| super::all().into_iter().map(|(name, _)| name).collect())
}

fn attend() {
    names();
    callbacks::attend();
}

macro_rules! exported {
    ($($name:ident($($argument:ident: $type:ty),*) $body:block)*) => {
        $(#[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name($($argument: $type),*) -> u32 $body)*
    };
}

fn version() -> u32 {
    let told = std::env::var("CUTRACE_SIM_CUPTI_VERSION").ok().and_then(|told| told.parse().ok());
    told.unwrap_or(VERSION)
}

fn set<T>(out: Out<T>, value: T) -> u32 {
    out.set(value).map_or(INVALID_PARAMETER, |()| SUCCESS)
}

exported! {
    cuptiGetVersion(version: Out<u32>) {
        set(version, self::version())
    }

    cuptiGetTimestamp(timestamp: Out<u64>) {
        set(timestamp, activities::now())
    }

    cuptiGetResultString(result: u32, text: Out<*const c_char>) {
        set(text, match result {
            SUCCESS => c"CUPTI_SUCCESS",
            INVALID_PARAMETER => c"CUPTI_ERROR_INVALID_PARAMETER",
            MAX_LIMIT_REACHED => c"CUPTI_ERROR_MAX_LIMIT_REACHED",
            INVALID_KIND => c"CUPTI_ERROR_INVALID_KIND",
            MULTIPLE_SUBSCRIBERS => c"CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",
            _ => return INVALID_PARAMETER,
        }.as_ptr())
    }

    cuptiSubscribe(subscriber: Out<usize>, callback: Callback, user: usize) {
        let mut known = SUBSCRIBER.lock();
        if known.callback.is_some() {
            return MULTIPLE_SUBSCRIBERS;
        }
        *known = Subscriber { callback: Some(callback), user, enabled: vec![false; names().len()] };
        attend();
        set(subscriber, 1)
    }

    cuptiUnsubscribe(_subscriber: usize) {
        *SUBSCRIBER.lock() = Subscriber::default();
        SUCCESS
    }

    cuptiEnableCallback(enable: u32, _subscriber: usize, domain: u32, id: u32) {
        match SUBSCRIBER.lock().enabled.get_mut(id as usize).filter(|_| domain == DRIVER_API) {
            Some(enabled) => {
                *enabled = enable != 0;
                SUCCESS
            }
            None => INVALID_PARAMETER,
        }
    }

    cuptiGetCallbackName(domain: u32, id: u32, name: Out<*const c_char>) {
        match names().get(id as usize).filter(|_| domain == DRIVER_API && id > 0) {
            Some(known) => set(name, known.as_ptr()),
            None => INVALID_PARAMETER,
        }
    }

    cuptiActivityRegisterCallbacks(request: Request, complete: Complete) {
        ACTIVITIES.lock().functions = Some((request, complete));
        SUCCESS
    }

    cuptiActivityEnable(kind: u32) {
        if kind != MEMCPY2 && size_of(kind).is_none() {
            return INVALID_KIND;
        }
        attend();
        ACTIVITIES.lock().kinds.push(kind);
        SUCCESS
    }

    cuptiActivityDisable(kind: u32) {
        let mut activities = ACTIVITIES.lock();
        activities.kinds.retain(|enabled| *enabled != kind);
        if kind == DRIVER {
            activities.calls.clear();
        }
        SUCCESS
    }

    cuptiActivityEnableDriverApi(id: u32, enable: u32) {
        // Older versions have no such function.
        let older = version() < SINGLE_CALLS;
        if older || id == 0 || id as usize >= names().len() {
            return INVALID_PARAMETER;
        }
        let mut activities = ACTIVITIES.lock();
        activities.calls.retain(|known| *known != id);
        // An argument of one byte: the rest of its register means nothing.
        if enable as u8 != 0 {
            activities.calls.push(id);
        }
        SUCCESS
    }

    cuptiActivityPushExternalCorrelationId(kind: u32, number: u64) {
        NUMBERS.with_borrow_mut(|numbers| numbers.push((kind, number)));
        SUCCESS
    }

    cuptiActivityPopExternalCorrelationId(kind: u32, number: Out<u64>) {
        let popped = NUMBERS.with_borrow_mut(|numbers| {
            let at = numbers.iter().rposition(|(known, _)| *known == kind)?;
            Some(numbers.remove(at).1)
        });
        popped.map_or(QUEUE_EMPTY, |popped| set(number, popped))
    }

    cuptiActivityFlushAll(_flag: u32) {
        let mut activities = ACTIVITIES.lock();
        let (buffer, functions) = (activities.buffer.take(), activities.functions);
        drop(activities);
        if let Some(((buffer, size, used), (_, complete))) = buffer.zip(functions) {
            complete(0, 0, buffer as *mut u8, size, used);
        }
        SUCCESS
    }

    cuptiActivityGetNextRecord(buffer: usize, valid: usize, record: Out<usize>) {
        let kind = |at: usize| {
            // SAFETY: records lie one behind the other in the buffer, each beginning with its kind.
            unsafe { (at as *const u32).read_unaligned() }
        };
        let next = match record.get() {
            Ok(0) => buffer,
            Ok(last) => last + size_of(kind(last)).unwrap_or(valid),
            Err(_) => return INVALID_PARAMETER,
        };
        if next >= buffer + valid {
            return MAX_LIMIT_REACHED;
        }
        set(record, next)
    }

    cuptiActivityGetNumDroppedRecords(_context: Handle, _stream: u32, dropped: Out<usize>) {
        set(dropped, 0)
    }
}
