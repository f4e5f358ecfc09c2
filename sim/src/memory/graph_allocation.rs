//! Memory that graphs allocate. Its address lasts as long as the graph, or longer if a launch has left it
//! allocated; its contents last from the allocating node to the freeing one.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::abi::Handle;
use crate::abi::code::{Code, Result};
use crate::memory::allocate;
use crate::memory::pages::{self, GRANULE};
use crate::memory::table::{self, Access, Kind};

/// An allocation of a graph. Nodes refer to it, and so does the work that allocates or frees it.
#[derive(Debug)]
pub(crate) struct Memory {
    pub at: u64,
    pub size: u64,
    pub device: i32,
    context: Handle,
    /// Of its range: a later one may begin at the same address.
    id: u64,
}

/// What has been allocated by launches so far and not been freed by a launch or a call, in the order of the
/// calls.
static LIVE: Mutex<BTreeMap<u64, Arc<Memory>>> = Mutex::new(BTreeMap::new());

/// Physical memory comes in blocks of this size.
const BLOCK: u64 = 32 << 20;

/// By device.
static ACCOUNTS: Mutex<BTreeMap<i32, Account>> = Mutex::new(BTreeMap::new());

/// What is reserved: until it is trimmed, memory that is free stays for later launches, and an H200 counts it as
/// used, in blocks. The most of both, since that was asked for anew.
#[derive(Clone, Copy, Default)]
struct Account {
    used_high: u64,
    reserved: u64,
    reserved_high: u64,
}

impl Memory {
    pub(crate) fn new(size: u64, device: i32, context: Handle) -> Result<Arc<Self>> {
        let at = allocate::allocate(size, Kind::Graph, device, context)?;
        let id = table::read().find(at).ok_or(Code::INVALID_VALUE)?.id;
        let memory = Self { at, size, device, context, id };
        memory.activate(false);
        Ok(Arc::new(memory))
    }

    /// Gives or takes away access, when the node is reached. Without it nobody can read there, the CPU neither.
    pub(crate) fn activate(&self, active: bool) {
        let access = if active { Access::OF_ALL } else { Access::default() };
        table::set_access(self.at, self.at + 1, |of| *of = access);
        pages::protect(self.at, self.size.next_multiple_of(GRANULE), active, active);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(range) = table::remove(self.at, |r| r.id == self.id) {
            allocate::release(range);
        }
    }
}

/// Notes that a launch allocates this. A graph that left it allocated cannot allocate it again.
pub(crate) fn launch(memory: &Arc<Memory>) -> Result {
    match LIVE.lock().entry(memory.at) {
        Entry::Occupied(_) => return Err(Code::INVALID_VALUE),
        Entry::Vacant(free) => _ = free.insert(memory.clone()),
    }
    let used = used(memory.device);
    account(memory.device, |account| {
        account.reserved = account.reserved.max(used.next_multiple_of(BLOCK));
        account.used_high = account.used_high.max(account.reserved);
        account.reserved_high = account.reserved_high.max(account.reserved);
    });
    Ok(())
}

/// Whether a launch has allocated this and nothing has freed it since.
pub(crate) fn live(at: u64) -> bool {
    LIVE.lock().contains_key(&at)
}

/// Notes that a launch or a call frees this; none if it is not allocated.
pub(crate) fn free(at: u64) -> Option<Arc<Memory>> {
    LIVE.lock().remove(&at)
}

/// The context ends, and its memory with it.
pub(crate) fn close_all(context: Handle) {
    let mut ended = Vec::new();
    LIVE.lock().retain(|_, memory| {
        let stays = memory.context != context;
        ended.extend((!stays).then(|| memory.clone()));
        stays
    });
}

/// What launches have allocated on a device, in bytes.
fn used(device: i32) -> u64 {
    LIVE.lock().values().filter(|memory| memory.device == device).map(|memory| memory.size).sum()
}

fn account<T>(device: i32, with: impl FnOnce(&mut Account) -> T) -> T {
    with(ACCOUNTS.lock().entry(device).or_default())
}

/// By the values of CUgraphMem_attribute: used, the most used, and the same of what is reserved.
pub(crate) fn attribute(device: i32, which: u32) -> Result<u64> {
    let account = account(device, |account| *account);
    match which {
        0 => Ok(account.reserved),
        1 => Ok(account.used_high),
        2 => Ok(account.reserved),
        3 => Ok(account.reserved_high),
        _ => Err(Code::INVALID_VALUE),
    }
}

/// Counts one of the highest values anew.
pub(crate) fn reset_high(device: i32, which: u32) -> Result {
    account(device, |account| {
        match which {
            1 => account.used_high = account.reserved,
            3 => account.reserved_high = account.reserved,
            _ => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    })
}

/// Gives back what no graph has allocated.
pub(crate) fn trim(device: i32) {
    let used = used(device);
    account(device, |account| account.reserved = used.next_multiple_of(BLOCK));
}
