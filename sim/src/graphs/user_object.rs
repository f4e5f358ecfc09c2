//! Reference-counted objects of the application; the last release calls the application's destructor.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::abi::code::{Code, Result};
use crate::abi::{Handle, HostFunction, Opaque};
use crate::base::registry::Registry;
use crate::streams::context;

struct UserObject {
    destroy: HostFunction,
    data: Opaque,
    count: AtomicU32,
}

static OBJECTS: Registry<UserObject> = Registry::new();

pub(crate) fn create(destroy: HostFunction, data: Opaque, count: u32) -> Handle {
    OBJECTS.insert(Arc::new(UserObject { destroy, data, count: AtomicU32::new(count) }))
}

pub(crate) fn retain(handle: Handle, count: u32) -> Result {
    let object = OBJECTS.get(handle).filter(|_| count > 0).ok_or(Code::INVALID_VALUE)?;
    object.count.fetch_add(count, Ordering::AcqRel);
    Ok(())
}

pub(crate) fn release(handle: Handle, count: u32) -> Result {
    let object = OBJECTS.get(handle).filter(|_| count > 0).ok_or(Code::INVALID_VALUE)?;
    let less = |held: u32| held.checked_sub(count);
    let held = object.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, less).map_err(|_| Code::INVALID_VALUE)?;
    if held == count {
        OBJECTS.remove(handle).ok();
        // Asynchronously, where no driver call is permitted.
        std::thread::spawn(move || {
            context::forbid_calls();
            (object.destroy)(object.data);
        });
    }
    Ok(())
}

/// A graph's references to user objects, with their counts; all are released with the graph.
#[derive(Default)]
pub(crate) struct References(Mutex<BTreeMap<Handle, u32>>);

impl References {
    pub(crate) fn add(&self, object: Handle, count: u32) {
        *self.0.lock().entry(object).or_insert(0) += count;
    }

    pub(crate) fn take(&self, object: Handle, count: u32) -> Result {
        let mut held = self.0.lock();
        let had = held.get_mut(&object).filter(|had| **had >= count).ok_or(Code::INVALID_VALUE)?;
        *had -= count;
        Ok(())
    }

    /// For a copy of the graph, or what was made of it.
    pub(crate) fn retain_all(&self) -> References {
        let held = self.0.lock().clone();
        for (object, count) in &held {
            retain(*object, *count).ok();
        }
        References(Mutex::new(held))
    }
}

impl Drop for References {
    fn drop(&mut self) {
        for (object, count) in self.0.get_mut() {
            release(*object, *count).ok();
        }
    }
}
