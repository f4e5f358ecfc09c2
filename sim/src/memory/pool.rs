//! Pools of stream-ordered memory. Their addresses are fixed, as measured on the real driver.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

use super::allocate;
use super::arena::Arena;
use super::table::{self, Access, Kind, Range};
use crate::abi::Handle;
use crate::abi::code::{Code, Result};
use crate::base::registry::{Registry, handle_of};

const FIRST: u64 = 0x3_0200_0000;
const STRIDE: u64 = 0x45_ec00_0000;

pub(crate) struct Pool {
    pub device: i32,
    /// A device's own pool cannot be destroyed.
    default: bool,
    /// Which of the places for pools it has.
    slot: u64,
    /// The most bytes that it may have allocated.
    most: u64,
    inner: Mutex<Inner>,
}

struct Inner {
    arena: Arena,
    used: u64,
    used_high: u64,
    reserved: u64,
    reserved_high: u64,
    threshold: u64,
    /// Follow events, opportunistic, internal dependencies.
    reuse: [i32; 3],
}

static POOLS: Registry<Pool> = Registry::new();
/// Places that pools have; a later pool comes to have that of one which was destroyed when it was empty.
static TAKEN: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

/// By device: its own pool and the one in use.
static DEVICES: Mutex<Vec<(Handle, Handle)>> = Mutex::new(Vec::new());

fn make(device: i32, default: bool, most: u64) -> Handle {
    let slot = {
        let mut taken = TAKEN.lock();
        let free = (0..).find(|slot| !taken.contains(slot)).expect("some number is free");
        taken.insert(free);
        free
    };
    let inner = Inner {
        arena: Arena::new(FIRST + slot * STRIDE),
        used: 0,
        used_high: 0,
        reserved: 0,
        reserved_high: 0,
        threshold: 0,
        reuse: [1; 3],
    };
    POOLS.insert(Arc::new(Pool { device, default, slot, most, inner: Mutex::new(inner) }))
}

/// One of `most` bytes, or of as many as the device has.
pub(crate) fn create(device: i32, most: Option<u64>) -> Handle {
    of_device(device);
    make(device, false, most.unwrap_or(u64::MAX))
}

/// The device's own pool and its current one.
pub(crate) fn of_device(device: i32) -> (Handle, Handle) {
    let mut devices = DEVICES.lock();
    while devices.len() <= device as usize {
        let pool = make(devices.len() as i32, true, u64::MAX);
        devices.push((pool, pool));
    }
    devices[device as usize]
}

pub(crate) fn set_current(device: i32, pool: Handle) -> Result {
    if POOLS.get(pool).is_none_or(|p| p.device != device) {
        return Err(Code::INVALID_VALUE);
    }
    of_device(device);
    DEVICES.lock()[device as usize].1 = pool;
    Ok(())
}

pub(crate) fn find(pool: Handle) -> Result<Arc<Pool>> {
    POOLS.get(pool).ok_or(Code::INVALID_VALUE)
}

pub(crate) fn destroy(handle: Handle) -> Result {
    if find(handle)?.default {
        return Err(Code::INVALID_VALUE);
    }
    let pool = POOLS.remove(handle)?;
    for (own, current) in DEVICES.lock().iter_mut() {
        if *current == handle {
            *current = *own;
        }
    }
    // What is still allocated stays until it is freed: `release` then finds no pool and leaves the pages be.
    if pool.inner.lock().used == 0 {
        TAKEN.lock().remove(&pool.slot);
    }
    Ok(())
}

impl Pool {
    pub(crate) fn allocate(self: &Arc<Self>, size: u64, context: Handle) -> Result<u64> {
        if size == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let at = {
            let mut inner = self.inner.lock();
            if inner.used.checked_add(size).is_none_or(|used| used > self.most) {
                return Err(Code::OUT_OF_MEMORY);
            }
            let need = inner.arena.need(size);
            allocate::charge(self.device, need)?;
            let Some(taken) = inner.arena.take(size) else {
                allocate::uncharge(self.device, need);
                return Err(Code::OUT_OF_MEMORY);
            };
            inner.used += size;
            inner.used_high = inner.used_high.max(inner.used);
            inner.reserved += taken.grown;
            inner.reserved_high = inner.reserved_high.max(inner.reserved);
            taken.at
        };
        let (id, kind) = (table::next_id(), Kind::Pool(handle_of(self)));
        let device = self.device;
        table::insert(Range { start: at, size, kind, device, context, id, access: Access::OF_ALL })?;
        Ok(at)
    }

    /// The attribute's value: four bytes for the first three, eight for the rest.
    pub(crate) fn attribute(&self, which: u32) -> Result<u64> {
        let inner = self.inner.lock();
        Ok(match which {
            1..=3 => inner.reuse[which as usize - 1] as u64,
            4 => inner.threshold,
            5 => inner.reserved,
            6 => inner.reserved_high,
            7 => inner.used,
            8 => inner.used_high,
            _ => return Err(Code::INVALID_VALUE),
        })
    }

    pub(crate) fn set_attribute(&self, which: u32, value: u64) -> Result {
        let mut inner = self.inner.lock();
        match which {
            1..=3 => inner.reuse[which as usize - 1] = value as i32,
            4 => inner.threshold = value,
            6 if value == 0 => inner.reserved_high = inner.reserved,
            8 if value == 0 => inner.used_high = inner.used,
            _ => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    }
}

pub(crate) fn release(handle: Handle, range: Range) {
    let Some(pool) = POOLS.get(handle) else { return };
    let mut inner = pool.inner.lock();
    let freed = inner.arena.give(range.start, range.size);
    inner.used -= range.size;
    inner.reserved -= freed;
    allocate::uncharge(pool.device, freed);
}
