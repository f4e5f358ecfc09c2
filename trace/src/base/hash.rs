//! The content hash of blobs and results: XXH3, 128 bits. Not cryptographic: it names bytes, it does not sign
//! them.

#[cfg(target_arch = "x86_64")]
mod wide;

/// Inputs of more bytes are long ones to XXH3.
const LONG: usize = 240;

/// A 128-bit content hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash(pub u128);

impl Hash {
    /// Hashes bytes in one piece.
    pub fn compute(bytes: &[u8]) -> Hash {
        #[cfg(target_arch = "x86_64")]
        if let Some(hash) = wide::hash_long(bytes) {
            return Hash(hash);
        }
        Hash(xxhash_rust::xxh3::xxh3_128(bytes))
    }

    /// Of both, which takes less than one behind the other where they are not in a cache.
    pub fn of_both(one: &[u8], other: &[u8]) -> [Hash; 2] {
        #[cfg(target_arch = "x86_64")]
        if let Some(both) = wide::of_both(one, other) {
            return both.map(Hash);
        }
        [Hash::compute(one), Hash::compute(other)]
    }

    /// A stored hash, little endian.
    pub fn from_bytes(bytes: [u8; 16]) -> Hash {
        Hash(u128::from_le_bytes(bytes))
    }

    /// The hash as it is stored, little endian.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }
}

impl std::fmt::Display for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Hashes bytes in several pieces (the rows of a pitched copy) as if they were contiguous.
#[derive(Default)]
pub struct Hasher(xxhash_rust::xxh3::Xxh3);

impl Hasher {
    /// Appends bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of all bytes so far.
    pub fn finish(&self) -> Hash {
        Hash(self.0.digest128())
    }
}

/// The checksum of bytes that arrive in pieces.
#[derive(Default)]
pub struct Checksum(xxhash_rust::xxh3::Xxh3);

impl Checksum {
    /// Appends bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all bytes so far.
    pub fn finish(&self) -> u64 {
        self.0.digest()
    }
}

/// The hash of a blob, and the seal of its segment.
pub fn sealed(bytes: &[u8]) -> (Hash, u64) {
    let hash = Hash::compute(bytes);
    (hash, shorter(bytes, || hash))
}

/// The 64-bit checksum of segment headers and contents.
pub fn checksum(bytes: &[u8]) -> u64 {
    shorter(bytes, || Hash::compute(bytes))
}

/// XXH3 of 64 bits, which is half of that of 128 bits where the input is long.
fn shorter(bytes: &[u8], hash: impl FnOnce() -> Hash) -> u64 {
    if bytes.len() > LONG { hash().0 as u64 } else { xxhash_rust::xxh3::xxh3_64(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_is_the_checksum() {
        let bytes = [7; 4 * LONG];
        for len in 0..bytes.len() {
            let wanted = xxhash_rust::xxh3::xxh3_64(&bytes[..len]);
            assert_eq!((sealed(&bytes[..len]).1, checksum(&bytes[..len])), (wanted, wanted), "{len}");
        }
    }
}
