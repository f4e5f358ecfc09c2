//! XXH3 of long inputs with AVX2. The library selects its instructions at compile time, and our builds target
//! every x86-64; but a program waits while the recorder hashes its copies.
//!
//! The crate twox-hash selects at run time, too. It is as fast within 10 % on cached input; from memory it
//! takes a quarter longer than [`hash_long`], which prefetches, and 1.7 times as long as [`of_both`] (64 MiB,
//! Xeon).
//!
//! The algorithm is that of <https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md>, with the
//! default secret and no seed, for inputs longer than 240 bytes.

use super::LONG;
use std::arch::x86_64::*;

const STRIPE: usize = 64;
/// Each stripe of a block takes a secret that begins so many bytes further on.
const STEP: usize = 8;
const STRIPES: usize = (SECRET.len() - STRIPE) / STEP;
const BLOCK: usize = STRIPES * STRIPE;

const PRIME32_1: u64 = 0x9E37_79B1;
const PRIME32_2: u64 = 0x85EB_CA77;
const PRIME32_3: u64 = 0xC2B2_AE3D;
const PRIME64_1: u64 = 0x9E37_79B1_85EB_CA87;
const PRIME64_2: u64 = 0xC2B2_AE3D_27D4_EB4F;
const PRIME64_3: u64 = 0x1656_67B1_9E37_79F9;
const PRIME64_4: u64 = 0x85EB_CA77_C2B2_AE63;
const PRIME64_5: u64 = 0x27D4_EB2F_1656_67C5;
const START: [u64; 8] = [PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1];

#[rustfmt::skip]
const SECRET: [u8; 192] = [
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
];

/// The hash of 128 bits; none if this processor has not the instructions, or the input is not long.
#[inline]
pub(super) fn hash_long(bytes: &[u8]) -> Option<u128> {
    let is_possible = bytes.len() > LONG && is_x86_feature_detected!("avx2");
    // SAFETY: the processor has the instructions.
    is_possible.then(|| unsafe { long(bytes) })
}

/// The same of two inputs at once. Where they come from memory, one thread waits for less: it has twice as
/// many lines on their way.
#[inline]
pub(super) fn of_both(one: &[u8], other: &[u8]) -> Option<[u128; 2]> {
    let is_possible = one.len().min(other.len()) > LONG && is_x86_feature_detected!("avx2");
    // SAFETY: the processor has the instructions.
    is_possible.then(|| unsafe { both(one, other) })
}

/// Four of the eight sums each.
type Sums = [__m256i; 2];

#[target_feature(enable = "avx2")]
fn long(bytes: &[u8]) -> u128 {
    rest(start(), bytes, 0)
}

#[target_feature(enable = "avx2")]
fn both(one: &[u8], other: &[u8]) -> [u128; 2] {
    let (mut sums, mut others) = (start(), start());
    let shared = whole_blocks(one).min(whole_blocks(other));
    let blocks = one.as_chunks::<BLOCK>().0.iter().zip(other.as_chunks::<BLOCK>().0);
    for (block, other) in blocks.take(shared) {
        let stripes = block.as_chunks::<STRIPE>().0.iter().zip(other.as_chunks::<STRIPE>().0);
        for (at, (stripe, other)) in stripes.enumerate() {
            add_next(&mut sums, stripe, at);
            add_next(&mut others, other, at);
        }
        scramble(&mut sums);
        scramble(&mut others);
    }
    [rest(sums, one, shared), rest(others, other, shared)]
}

/// The last byte is never in a whole block.
fn whole_blocks(bytes: &[u8]) -> usize {
    (bytes.len() - 1) / BLOCK
}

#[inline]
#[target_feature(enable = "avx2")]
fn start() -> Sums {
    [half(as_bytes(&START), 0), half(as_bytes(&START), 1)]
}

/// The hash, of whose blocks so many have been added.
#[inline]
#[target_feature(enable = "avx2")]
fn rest(mut sums: Sums, bytes: &[u8], added: usize) -> u128 {
    let (blocks, rest) = bytes.split_at(whole_blocks(bytes) * BLOCK);
    for block in &blocks.as_chunks::<BLOCK>().0[added..] {
        add(&mut sums, block.as_chunks::<STRIPE>().0);
        scramble(&mut sums);
    }
    add(&mut sums, rest[..(rest.len() - 1) / STRIPE * STRIPE].as_chunks::<STRIPE>().0);
    let last = bytes.last_chunk::<STRIPE>().expect("longer than a stripe");
    add_stripe(&mut sums, last, secret(SECRET.len() - STRIPE - 7));
    let mut words = [0; 8];
    for (at, sum) in sums.into_iter().enumerate() {
        // SAFETY: half of the words, wherever they lie.
        unsafe { _mm256_storeu_si256(words.as_mut_ptr().add(4 * at).cast(), sum) };
    }
    let len = bytes.len() as u64;
    let low = merge(&words, secret(11), len.wrapping_mul(PRIME64_1));
    let high = merge(&words, secret(SECRET.len() - STRIPE - 11), !len.wrapping_mul(PRIME64_2));
    u128::from(high) << 64 | u128::from(low)
}

fn as_bytes(words: &[u64; 8]) -> &[u8; STRIPE] {
    // SAFETY: as many bytes, which may be read as such.
    unsafe { &*std::ptr::from_ref(words).cast() }
}

#[inline]
fn secret(at: usize) -> &'static [u8; STRIPE] {
    SECRET[at..].first_chunk().expect("within the secret")
}

#[inline]
#[target_feature(enable = "avx2")]
fn half(bytes: &[u8; STRIPE], which: usize) -> __m256i {
    // SAFETY: 32 of the 64 bytes, wherever they lie.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().add(32 * which).cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn add(sums: &mut Sums, stripes: &[[u8; STRIPE]]) {
    for (at, stripe) in stripes.iter().enumerate() {
        add_next(sums, stripe, at);
    }
}

/// Adds a stripe of a block, by its number there.
#[inline]
#[target_feature(enable = "avx2")]
fn add_next(sums: &mut Sums, stripe: &[u8; STRIPE], at: usize) {
    /// Memory is asked for so far ahead.
    const AHEAD: usize = 1024;
    // A hint, of any address.
    _mm_prefetch::<_MM_HINT_T0>(stripe.as_ptr().wrapping_add(AHEAD).cast());
    add_stripe(sums, stripe, secret(at * STEP));
}

#[inline]
#[target_feature(enable = "avx2")]
fn add_stripe(sums: &mut Sums, stripe: &[u8; STRIPE], secret: &[u8; STRIPE]) {
    for (which, sum) in sums.iter_mut().enumerate() {
        let data = half(stripe, which);
        let keyed = _mm256_xor_si256(data, half(secret, which));
        let product = _mm256_mul_epu32(keyed, _mm256_srli_epi64::<32>(keyed));
        let swapped = _mm256_shuffle_epi32::<0b01_00_11_10>(data);
        *sum = _mm256_add_epi64(product, _mm256_add_epi64(*sum, swapped));
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn scramble(sums: &mut Sums) {
    let prime = _mm256_set1_epi64x(PRIME32_1 as i64);
    for (which, sum) in sums.iter_mut().enumerate() {
        let shifted = _mm256_xor_si256(*sum, _mm256_srli_epi64::<47>(*sum));
        let keyed = _mm256_xor_si256(shifted, half(secret(SECRET.len() - STRIPE), which));
        let (low, high) = (_mm256_mul_epu32(keyed, prime), _mm256_mul_epu32(_mm256_srli_epi64::<32>(keyed), prime));
        *sum = _mm256_add_epi64(low, _mm256_slli_epi64::<32>(high));
    }
}

fn merge(sums: &[u64; 8], secret: &[u8; STRIPE], start: u64) -> u64 {
    let keyed = |at: usize| sums[at] ^ u64::from_le_bytes(secret.as_chunks::<8>().0[at]);
    let folded = |at: usize| {
        let product = u128::from(keyed(at)) * u128::from(keyed(at + 1));
        product as u64 ^ (product >> 64) as u64
    };
    let sum = [0, 2, 4, 6].into_iter().map(folded).fold(start, u64::wrapping_add);
    let mixed = (sum ^ sum >> 37).wrapping_mul(0x1656_6791_9E37_79F9);
    mixed ^ mixed >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh3::xxh3_128;

    #[test]
    fn it_is_the_librarys() {
        if !is_x86_feature_detected!("avx2") {
            return;
        }
        let bytes: Vec<u8> = (0..4 * BLOCK as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for len in LONG + 1..bytes.len() {
            // Wherever it lies.
            let bytes = &bytes[len % 3..len];
            assert_eq!(hash_long(bytes), (bytes.len() > LONG).then(|| xxh3_128(bytes)), "{} bytes", bytes.len());
            let other = &bytes[..bytes.len() / 2 + 1];
            let wanted = [bytes, other].map(xxh3_128);
            let is_long = other.len() > LONG;
            assert_eq!(of_both(bytes, other), is_long.then_some(wanted), "{} bytes", bytes.len());
            assert_eq!(of_both(other, bytes), is_long.then_some([wanted[1], wanted[0]]), "{} bytes", bytes.len());
        }
    }
}
