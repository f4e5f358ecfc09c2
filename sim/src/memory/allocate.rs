//! Ordinary device allocations, and the amount in use on each device.

use std::sync::OnceLock;

use parking_lot::Mutex;

use super::arena::{self, Arena};
use super::table::{self, Access, Kind, Range};
use super::{pages, pinned, pool};
use crate::abi::Handle;
use crate::abi::code::{Code, Result};
use crate::base::state::knobs;

/// Bytes taken of each device.
static USED: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// Takes bytes of a device's memory into account.
pub(crate) fn charge(device: i32, bytes: u64) -> Result {
    let mut used = USED.lock();
    let index = device.max(0) as usize;
    if used.len() <= index {
        used.resize(index + 1, 0);
    }
    let after = used[index].checked_add(bytes).ok_or(Code::OUT_OF_MEMORY)?;
    if after > knobs().memory as u64 {
        return Err(Code::OUT_OF_MEMORY);
    }
    used[index] = after;
    Ok(())
}

pub(crate) fn uncharge(device: i32, bytes: u64) {
    if let Some(used) = USED.lock().get_mut(device.max(0) as usize) {
        *used = used.saturating_sub(bytes);
    }
}

/// Bytes of a device that are free, and all of them.
pub(crate) fn balance(device: i32) -> (u64, u64) {
    let total = knobs().memory as u64;
    let used = USED.lock().get(device.max(0) as usize).copied().unwrap_or(0);
    (total - used.min(total), total)
}

/// One arena for all devices: addresses are unified.
fn arena() -> &'static Mutex<Arena> {
    static ARENA: OnceLock<Mutex<Arena>> = OnceLock::new();
    ARENA.get_or_init(|| {
        // Anywhere in 16 TiB, well below the libraries and above the program.
        let mixed = (knobs().seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let start = 0x6a00_0000_0000 + ((mixed >> 20) & 0x7_ffff) * (32 << 20);
        Mutex::new(Arena::new(start))
    })
}

/// Addresses for memory that is there already.
pub(crate) fn addresses(size: u64) -> Option<u64> {
    arena().lock().take(size.max(arena::WHOLE)).map(|taken| taken.at)
}

/// The pages that memory lies in, where it and who shares them begin and how many bytes they are.
pub(crate) fn block(range: &Range) -> (u64, u64) {
    match range.size > arena::SMALL {
        true => (range.start, range.size.next_multiple_of(pages::GRANULE)),
        false => (range.start / pages::GRANULE * pages::GRANULE, pages::GRANULE),
    }
}

/// Device memory, zeroed. Contents are undefined on a device; zero is as good as any.
pub(crate) fn allocate(size: u64, kind: Kind, device: i32, context: Handle) -> Result<u64> {
    if size == 0 {
        return Err(Code::INVALID_VALUE);
    }
    if size > knobs().memory as u64 {
        return Err(Code::OUT_OF_MEMORY);
    }
    // A graph's is opened and closed by itself; variables lie where no other memory is, as the real driver
    // has it.
    let leaves = kind == Kind::Managed && knobs().migrates;
    let is_apart = leaves || matches!(kind, Kind::Graph | Kind::Module { .. });
    let room = if is_apart { size.max(arena::WHOLE) } else { size };
    let at = {
        let mut arena = arena().lock();
        let need = arena.need(room);
        charge(device, need)?;
        match arena.take(room) {
            Some(taken) => {
                uncharge(device, need - taken.grown.min(need));
                taken.at
            }
            None => {
                uncharge(device, need);
                return Err(Code::OUT_OF_MEMORY);
            }
        }
    };
    if leaves && !pages::keep(at, size) {
        return Err(Code::OUT_OF_MEMORY);
    }
    let id = table::next_id();
    table::insert(Range { start: at, size, kind, device, context, id, access: Access::OF_ALL })?;
    Ok(at)
}

/// A kernel has run, and may have used all managed memory.
pub(crate) fn migrate() {
    if knobs().migrates {
        let all = table::read().overlapping(0, u64::MAX);
        all.iter().filter(|range| range.kind == Kind::Managed).for_each(|range| pages::leave(range.start, range.size));
    }
}

/// Gives back what a range that has left the table occupied.
pub(crate) fn release(range: Range) {
    match range.kind {
        Kind::Device | Kind::Managed | Kind::Module { .. } | Kind::Graph => {
            let freed = arena().lock().give(range.start, range.size);
            uncharge(range.device, freed);
        }
        Kind::Pool(handle) => pool::release(handle, range),
        Kind::Pinned(_) => pinned::release(range),
        Kind::Imported => _ = arena().lock().give(range.start, range.size),
        Kind::Registered(_) | Kind::Mapped(_) => {}
    }
}

/// cuMemFree, once nothing uses the memory any more.
pub(crate) fn free(at: u64) -> Result {
    let freeable = |r: &Range| matches!(r.kind, Kind::Device | Kind::Managed | Kind::Pool(_));
    let range = table::remove(at, freeable).ok_or(Code::INVALID_VALUE)?;
    release(range);
    Ok(())
}
