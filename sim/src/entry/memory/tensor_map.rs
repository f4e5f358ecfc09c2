//! Tensor maps. Only the first word of the driver's format is known, the address; here a digest of the rest
//! follows it.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::abi::code::{Code, Result};
use crate::abi::{Input, Out};
use crate::entry::declare::entries;

type Map = [u64; 16];

/// Sizes and strides must be there, for one to five dimensions.
fn shape(
    rank: u32,
    sizes: Input<u64>,
    strides: Input<u64>,
    steps: Input<u32>,
) -> Result<(Vec<u64>, Vec<u64>, Vec<u32>)> {
    if !(1..=5).contains(&rank) {
        return Err(Code::INVALID_VALUE);
    }
    let rank = rank as usize;
    Ok((sizes.all(rank)?, strides.all(rank - 1)?, steps.all(rank)?))
}

fn encode(to: Out<Map>, at: u64, what: impl Hash) -> Result {
    if at == 0 || !at.is_multiple_of(16) {
        return Err(Code::INVALID_VALUE);
    }
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    let mut map = [0; 16];
    (map[0], map[1]) = (at, hasher.finish());
    to.set(map)
}

entries! {
    fn cuTensorMapEncodeTiled(
        to: Out<Map>, kind: u32, rank: u32, at: u64, sizes: Input<u64>, strides: Input<u64>, tile: Input<u32>, steps: Input<u32>,
        interleave: u32, swizzle: u32, promotion: u32, fill: u32,
    ) {
        let shape = shape(rank, sizes, strides, steps)?;
        encode(to, at, ("tiled", kind, shape, tile.all(rank as usize)?, interleave, swizzle, promotion, fill))
    }

    fn cuTensorMapEncodeIm2col(
        to: Out<Map>, kind: u32, rank: u32, at: u64, sizes: Input<u64>, strides: Input<u64>, lower: Input<i32>, upper: Input<i32>,
        channels: u32, pixels: u32, steps: Input<u32>, interleave: u32, swizzle: u32, promotion: u32, fill: u32,
    ) {
        if rank < 3 {
            return Err(Code::INVALID_VALUE);
        }
        let (shape, inner) = (shape(rank, sizes, strides, steps)?, rank as usize - 2);
        let (lower, upper) = (lower.all(inner)?, upper.all(inner)?);
        encode(to, at, ("columns", kind, shape, lower, upper, [channels, pixels, interleave, swizzle, promotion, fill]))
    }

    fn cuTensorMapEncodeIm2colWide(
        to: Out<Map>, kind: u32, rank: u32, at: u64, sizes: Input<u64>, strides: Input<u64>, lower: i32, upper: i32,
        channels: u32, pixels: u32, steps: Input<u32>, interleave: u32, mode: u32, swizzle: u32, promotion: u32, fill: u32,
    ) {
        if rank < 3 {
            return Err(Code::INVALID_VALUE);
        }
        let shape = shape(rank, sizes, strides, steps)?;
        let rest = [channels, pixels, interleave, mode, swizzle, promotion, fill];
        encode(to, at, ("wide columns", kind, shape, lower, upper, rest))
    }

    fn cuTensorMapReplaceAddress(map: Out<Map>, at: u64) {
        let [_, digest, rest @ ..] = map.get()?;
        if at == 0 || !at.is_multiple_of(16) {
            return Err(Code::INVALID_VALUE);
        }
        let mut changed = [0; 16];
        (changed[0], changed[1]) = (at, digest);
        changed[2..].copy_from_slice(&rest);
        map.set(changed)
    }

    fn cuTensorMapSetAllocationClass(map: Out<Map>, class: u32, set: Out<u32>) {
        let mut changed = map.get()?;
        changed[2] = class.into();
        map.set(changed)?;
        set.set_if(class);
        Ok(())
    }
}
