//! Addresses of functions, for calls by pointer. They lie in a block without access rights that is elsewhere
//! in every process, like the real driver's code.

use crate::memory::pages;
use std::sync::OnceLock;

const BLOCK: u64 = 2 << 20;
/// As far from each other as the real driver aligns them.
const APART: u64 = 128;

fn block() -> u64 {
    static BLOCK_AT: OnceLock<u64> = OnceLock::new();
    *BLOCK_AT.get_or_init(|| pages::closed(2 * BLOCK).expect("cannot reserve addresses").next_multiple_of(BLOCK))
}

pub(super) fn address(number: u32) -> u64 {
    let at = u64::from(number) * APART;
    assert!(at < BLOCK, "too many functions: {number}");
    block() + at
}

pub(super) fn number(address: u64) -> Option<u32> {
    let at = address.checked_sub(block()).filter(|at| *at < BLOCK && at.is_multiple_of(APART))?;
    u32::try_from(at / APART).ok()
}
