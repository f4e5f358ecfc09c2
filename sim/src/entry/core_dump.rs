//! Notifications of core dumps. No dump is ever made here, so no callback is called.

use std::sync::Arc;

use super::declare::entries;
use crate::abi::code::{Code, Result};
use crate::abi::{Handle, Opaque, Out};
use crate::base::registry::Registry;

/// Whether it is for the start of a dump, or its end.
static NOTICES: Registry<bool> = Registry::new();

fn register(callback: usize, made: Out<Handle>, start: bool) -> Result {
    if callback == 0 || made.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    made.set(NOTICES.insert(Arc::new(start)))
}

fn forget(handle: Handle, start: bool) -> Result {
    match NOTICES.get(handle) {
        Some(notice) if *notice == start => NOTICES.remove(handle).map(drop),
        _ => Err(Code::INVALID_VALUE),
    }
}

entries! {
    fn cuCoredumpRegisterStartCallback(callback: usize, _data: Opaque, made: Out<Handle>) {
        register(callback, made, true)
    }

    fn cuCoredumpRegisterCompleteCallback(callback: usize, _data: Opaque, made: Out<Handle>) {
        register(callback, made, false)
    }

    fn cuCoredumpDeregisterStartCallback(handle: Handle) {
        forget(handle, true)
    }

    fn cuCoredumpDeregisterCompleteCallback(handle: Handle) {
        forget(handle, false)
    }
}
