//! Which results hold addresses of the driver's own ([`trace::invented`]): of those the bytes are kept, so that a replay can learn where they
//! are there. A block is taught by a few results, and then known.

use crate::ask::{self, Place};
use crate::lock::Lock;
use crate::memory::bytes_at;
use std::collections::BTreeMap;
use trace::invented::{BLOCK, MOST, may_be};

/// So many results teach a block: not each of them can be compared.
const ENOUGH: u8 = 4;
const MOST_BLOCKS: usize = 256;
/// Of one result. Each question is two system calls and one to the driver.
const MOST_ASKED: usize = 16;

/// Blocks of the driver's, with the number of results that have taught them.
#[derive(Default)]
pub struct Invented {
    blocks: Lock<BTreeMap<u64, u8>>,
}

impl Invented {
    /// Whether a replay needs these bytes of a result to learn a block.
    pub fn teaches(&self, bytes: &[u8]) -> bool {
        if bytes.len() > MOST || !words(bytes).any(may_be) {
            return false;
        }
        let mut strange: Vec<u64> = Vec::new();
        let mut known: Vec<u64> = Vec::new();
        let mut last = 0;
        let mut blocks = self.blocks.lock();
        let has_room = blocks.len() < MOST_BLOCKS;
        for word in words(bytes).filter(|word| may_be(*word)) {
            let block = word & !(BLOCK - 1);
            if std::mem::replace(&mut last, block) == block {
                continue;
            }
            match blocks.get(&block) {
                Some(taught) if *taught < ENOUGH => known.push(block),
                None if has_room && strange.len() < MOST_ASKED => strange.push(word),
                _ => {}
            }
        }
        known.sort_unstable();
        known.dedup();
        known.iter().for_each(|block| *blocks.entry(*block).or_default() += 1);
        // The driver may be about to call back.
        drop(blocks);
        strange.retain(|word| is_drivers(*word));
        let mut blocks = self.blocks.lock();
        strange.iter().for_each(|word| *blocks.entry(word & !(BLOCK - 1)).or_default() |= 1);
        !known.is_empty() || !strange.is_empty()
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
}

/// The driver knows variables for device memory. For code it has mappings that the CPU may not touch.
fn is_drivers(address: u64) -> bool {
    const PAGE: u64 = 4096;
    let page = address & !(PAGE - 1);
    let mut resident = 0u8;
    // SAFETY: any range may be asked about; the answer for one page is one byte.
    let is_mapped = unsafe { libc::mincore(page as *mut libc::c_void, PAGE as usize, &mut resident) } == 0;
    is_mapped && (bytes_at(page, 1, true).is_none() || ask::place(address) == Place::Device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_taught_by_a_few_results() {
        let len = 2 * BLOCK as usize;
        // SAFETY: a new mapping, wherever the kernel likes.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), len, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        };
        let address = (at as u64).next_multiple_of(BLOCK) + 0x200;
        let result =
            |word: u64| [7, word, word + 0x100].iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let invented = Invented::default();
        let unmapped = address + (1 << 44);
        assert!(!invented.teaches(&result(5)) && !invented.teaches(&result(&raw const invented as u64)));
        assert!(!invented.teaches(&result(unmapped % (1 << 47))));
        let taught = (0..10).filter(|_| invented.teaches(&result(address))).count();
        assert_eq!(taught, usize::from(ENOUGH));
        assert!(!invented.teaches(&result(address).repeat(MOST)), "too long");
    }
}
