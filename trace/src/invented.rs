//! Addresses of the driver's own that no call hands out: code, tables of virtual functions, variables and texts whose
//! names nobody asked for, windows of shared and local memory. Kernels see them and may bring them to the host, and the
//! program may give them back. They are others in every process; within blocks of 2 MiB all lies as it did
//! (tests/gpu/facts/driver_addresses.cu; driver 580).

/// What lies in a block moves with it.
pub const BLOCK: u64 = 2 << 20;

/// Of results as long as this the bytes are kept if they may hold such addresses: what they are when replayed is learned there.
pub const MOST: usize = 4096;

/// Whether a word may be one: where a process has its mappings. (From a third of its addresses on, where its stack may grow without limit.)
pub fn may_be(word: u64) -> bool {
    (1 << 45..1 << 47).contains(&word)
}

/// Whether a result may hold some.
pub fn are_in(bytes: &[u8]) -> bool {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    bytes.len() <= MOST && bytes.chunks_exact(8).any(|bytes| may_be(word(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_numbers() {
        let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        assert!(are_in(&bytes(&[7, 0x7fb5_f77a_c200])));
        assert!(!are_in(&bytes(&[0, 1 << 40, u64::MAX, 1.5f64.to_bits()])));
        assert!(!are_in(&bytes(&[0x7fb5_f77a_c200])[..7]));
        assert!(!are_in(&bytes(&vec![0x7fb5_f77a_c200; MOST / 8 + 1])));
    }
}
