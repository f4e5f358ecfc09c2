//! Results that hold addresses inside the driver ([`trace::model::driver_addresses`]). Their bytes are kept,
//! so that a replay can learn its own addresses from them. A few results are enough for each block.
//!
//! The driver is not queried, because a result may be read within a callback, where it must not be called.
//! Memory is not touched either: managed memory would migrate to the host.

use crate::os::lock::Lock;
use std::collections::BTreeMap;
use trace::model::driver_addresses::{MOST, block_of, closed, may_be};

/// So many results teach a block: not each of them can be compared.
const ENOUGH: u8 = 4;
/// A program's own allocations are closed to the CPU, too, and teach what nobody has to learn.
const MOST_KEPT: usize = 64 << 20;
const MOST_BLOCKS: usize = 1 << 16;
/// Of one result; each costs a system call.
const MOST_ASKED: usize = 16;
/// Numbers may look like addresses again and again: after a look in vain at the mappings, so many results
/// more than after the last.
const MOST_PASSED: u32 = 1 << 12;

#[derive(Default)]
pub(crate) struct Invented(Lock<State>);

#[derive(Default)]
struct State {
    /// With the number of results that have taught them.
    blocks: BTreeMap<u64, u8>,
    /// How many of them need more.
    open: usize,
    kept: usize,
    /// Results that are passed by before mappings are looked at again, and how many that were the last time.
    to_pass: u32,
    passed: u32,
}

impl Invented {
    /// Whether a replay needs these bytes of a result to learn a block.
    pub(crate) fn teaches(&self, bytes: &[u8]) -> bool {
        if bytes.len() > MOST || !words(bytes).any(may_be) {
            return false;
        }
        let mut state = self.0.lock();
        let teaches = state.kept < MOST_KEPT && state.teaches(bytes);
        state.kept += if teaches { bytes.len() } else { 0 };
        teaches
    }
}

impl State {
    fn teaches(&mut self, bytes: &[u8]) -> bool {
        let (mut known, mut strange) = (Vec::new(), Vec::new());
        let mut last = 0;
        for block in words(bytes).filter(|word| may_be(*word)).map(block_of) {
            if std::mem::replace(&mut last, block) == block {
                continue;
            }
            match self.blocks.get(&block) {
                Some(taught) if *taught < ENOUGH => known.push(block),
                None if strange.len() < MOST_ASKED => strange.push(block),
                _ if self.open == 0 && strange.len() == MOST_ASKED => break,
                _ => {}
            }
        }
        if self.blocks.len() < MOST_BLOCKS {
            known.extend(self.drivers(strange));
        }
        known.sort_unstable();
        known.dedup();
        for block in &known {
            let taught = self.blocks.entry(*block).or_default();
            self.open += usize::from(*taught == 0);
            *taught += 1;
            self.open -= usize::from(*taught == ENOUGH);
        }
        !known.is_empty()
    }

    /// Those of these blocks that are the driver's.
    fn drivers(&mut self, mut blocks: Vec<u64>) -> Vec<u64> {
        blocks.retain(|block| is_mapped(*block));
        if blocks.is_empty() {
            return blocks;
        }
        if self.to_pass > 0 {
            self.to_pass -= 1;
            return Vec::new();
        }
        let closed = closed();
        blocks.retain(|block| closed.iter().any(|range| range.contains(block)));
        self.passed = if blocks.is_empty() { (2 * self.passed + 1).min(MOST_PASSED) } else { 0 };
        self.to_pass = self.passed;
        blocks
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
}

fn is_mapped(block: u64) -> bool {
    const PAGE: usize = 4096;
    let mut resident = 0u8;
    // SAFETY: any range may be asked about; the answer for one page is one byte.
    unsafe { libc::mincore(block as *mut libc::c_void, PAGE, &mut resident) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::model::driver_addresses::BLOCK;

    #[test]
    fn a_block_is_taught_by_a_few_results() {
        let map = |access| {
            let (len, kind) = (2 * BLOCK as usize, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
            // SAFETY: a new mapping, wherever Linux likes.
            let at = unsafe { libc::mmap(std::ptr::null_mut(), len, access, kind, -1, 0) };
            (at as u64).next_multiple_of(BLOCK) + 0x200
        };
        let result = |word: u64| {
            let words = [7, word, word + 0x100];
            words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>()
        };
        let (closed, open) = (map(libc::PROT_NONE), map(libc::PROT_READ));
        let invented = Invented::default();
        let taught = |word| (0..10).filter(|_| invented.teaches(&result(word))).count();
        assert!(!invented.teaches(&result(closed).repeat(MOST)), "too long");
        assert_eq!([taught(5), taught(closed)], [0, ENOUGH.into()]);
        assert_eq!(taught(open), 0);
        let another = map(libc::PROT_NONE);
        assert!(!invented.teaches(&result(another)), "passed by, after looks in vain");
        assert_eq!(taught(another), ENOUGH.into());
    }
}
