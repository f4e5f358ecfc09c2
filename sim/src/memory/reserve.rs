//! Address reservations. A hint is honoured if it is aligned to 32 MiB, long enough, free, and was free when
//! the driver started: these rules were measured on driver 580.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use parking_lot::Mutex;

use super::pages::{self, GRANULE};
use super::table;
use crate::abi::code::{Code, Result};
use crate::base::state::knobs;

const BLOCK: u64 = 32 << 20;
/// The shortest reservation that is placed where the hint says.
const PLACED: u64 = 30 << 20;
/// More than this is refused at once.
const MOST: u64 = 4 << 40;

static RESERVED: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());
/// Where something else was mapped when the driver started or when a hint failed: never handed out.
static BLOCKED: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());

/// Notes what the process has mapped, for good: the driver never reserves those addresses, even after munmap.
pub(crate) fn remember_mappings() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return };
    let mapped = maps.lines().filter_map(|line| {
        let (start, rest) = line.split_once('-')?;
        let (end, _) = rest.split_once(' ')?;
        Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
    });
    BLOCKED.lock().extend(mapped);
}

/// Mappings of the driver's own, which it makes as it starts: `CUTRACE_SIM_TAKES` names a file with a line
/// for each process that is to come, two hexadecimal addresses. Takes the first line away.
pub(crate) fn take_own() {
    let Some(path) = std::env::var_os("CUTRACE_SIM_TAKES") else { return };
    let all = std::fs::read_to_string(&path).unwrap_or_default();
    let Some((line, rest)) = all.split_once('\n') else { return };
    let address = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = line.split_once('-').and_then(|(start, end)| address(start).zip(address(end))).expect("a range");
    assert!(pages::reserve(start, end - start), "{line} is already in use");
    std::fs::write(&path, rest).expect("CUTRACE_SIM_TAKES can be written");
}

fn blocked(start: u64, size: u64) -> bool {
    BLOCKED.lock().iter().any(|&(from, to)| from < start + size && start < to)
}

/// Where reservations without a usable hint go.
fn next_place() -> &'static Mutex<u64> {
    static NEXT: OnceLock<Mutex<u64>> = OnceLock::new();
    NEXT.get_or_init(|| Mutex::new(0x5000_0000_0000 + (knobs().seed >> 7 & 0xffff) * BLOCK))
}

pub(crate) fn reserve(size: u64, alignment: u64, hint: u64) -> Result<u64> {
    if size == 0 || !size.is_multiple_of(GRANULE) || alignment != 0 && !alignment.is_power_of_two() {
        return Err(Code::INVALID_VALUE);
    }
    if size > MOST {
        return Err(Code::OUT_OF_MEMORY);
    }
    let mut reserved = RESERVED.lock();
    if hint != 0 && size >= PLACED {
        let at = hint.next_multiple_of(BLOCK.max(alignment));
        if !blocked(at, size) {
            if pages::reserve(at, size) {
                reserved.insert(at, size);
                return Ok(at);
            }
            BLOCKED.lock().push((at, at + size));
        }
    }
    let mut next = next_place().lock();
    let align = alignment.max(if size >= PLACED { BLOCK } else { GRANULE });
    for _ in 0..100_000 {
        let at = next.next_multiple_of(align);
        if !blocked(at, size) {
            if pages::reserve(at, size) {
                *next = at + size;
                reserved.insert(at, size);
                return Ok(at);
            }
            if pages::were_refused() {
                break;
            }
        }
        *next = at + align;
    }
    Err(Code::OUT_OF_MEMORY)
}

pub(crate) fn free(at: u64, size: u64) -> Result {
    let mut reserved = RESERVED.lock();
    if reserved.get(&at) != Some(&size) || !table::read().overlapping(at, at + size).is_empty() {
        return Err(Code::INVALID_VALUE);
    }
    reserved.remove(&at);
    pages::unmap(at, size);
    Ok(())
}

/// Whether all of this lies in one reservation.
pub(crate) fn contains(at: u64, size: u64) -> bool {
    let reserved = RESERVED.lock();
    reserved.range(..=at).next_back().is_some_and(|(start, length)| at + size <= start + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x4a00_0000_0000;

    #[test]
    fn hints_are_honoured_in_whole_blocks() {
        assert_eq!(reserve(64 << 20, 0, BASE), Ok(BASE));
        assert_eq!(reserve(PLACED, 0, BASE + (64 << 20)), Ok(BASE + (64 << 20)));
        // Two megabytes off: moved up to the next block.
        assert_eq!(reserve(BLOCK, 0, BASE + (96 << 20) + GRANULE), Ok(BASE + (128 << 20)));
        assert_ne!(reserve(16 << 20, 0, BASE + (256 << 20)), Ok(BASE + (256 << 20)));
        assert_eq!(free(BASE, 64 << 20), Ok(()));
        assert_eq!(free(BASE, 64 << 20), Err(Code::INVALID_VALUE));
    }

    #[test]
    fn a_place_once_blocked_stays_refused() {
        let at = BASE + (1 << 30);
        assert!(pages::reserve(at, GRANULE));
        assert_ne!(reserve(BLOCK, 0, at), Ok(at));
        pages::unmap(at, GRANULE);
        assert_ne!(reserve(BLOCK, 0, at), Ok(at));
    }

    #[test]
    fn sizes_have_limits() {
        assert_eq!(reserve(4096, 0, 0), Err(Code::INVALID_VALUE));
        assert_eq!(reserve(8 << 40, 0, 0), Err(Code::OUT_OF_MEMORY));
        assert!(reserve(1 << 40, 0, 0).is_ok());
    }
}
