//! Handles: each is the address of a live object, and is looked up before use.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::abi::Handle;
use crate::abi::code::{Code, Result};

pub(crate) struct Registry<T>(RwLock<BTreeMap<Handle, Arc<T>>>);

impl<T> Registry<T> {
    pub(crate) const fn new() -> Self {
        Self(RwLock::new(BTreeMap::new()))
    }

    pub(crate) fn insert(&self, object: Arc<T>) -> Handle {
        let handle = handle_of(&object);
        self.0.write().insert(handle, object);
        handle
    }

    pub(crate) fn get(&self, handle: Handle) -> Option<Arc<T>> {
        self.0.read().get(&handle).cloned()
    }

    /// The object, or "invalid handle".
    pub(crate) fn find(&self, handle: Handle) -> Result<Arc<T>> {
        self.get(handle).ok_or(Code::INVALID_HANDLE)
    }

    pub(crate) fn remove(&self, handle: Handle) -> Result<Arc<T>> {
        self.0.write().remove(&handle).ok_or(Code::INVALID_HANDLE)
    }

    /// Takes out all that `test` picks.
    pub(crate) fn drain(&self, test: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let mut all = self.0.write();
        let handles: Vec<_> = all.iter().filter(|(_, o)| test(o)).map(|(handle, _)| *handle).collect();
        handles.iter().filter_map(|handle| all.remove(handle)).collect()
    }
}

pub(crate) fn handle_of<T>(object: &Arc<T>) -> Handle {
    Arc::as_ptr(object) as usize
}
