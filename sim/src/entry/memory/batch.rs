//! Batches of three-dimensional copies, and single copies with the same parameters.

use super::copy::{later, linear};
use crate::abi::code::{Code, Result};
use crate::abi::structs::CopyAttributes;
use crate::abi::{DevicePointer, Handle, Input, NullStream, Out};
use crate::entry::declare::entries;
use crate::memory::copy::{Copy, Plane, Side};
use crate::objects::array;

/// CUmemcpy3DOperand: memory (address, elements of a row, rows of a layer, a hint), or an array and an offset
/// in it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Operand {
    kind: u32,
    words: [u64; 4],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Operation {
    from: Operand,
    to: Operand,
    extent: [usize; 3],
    order: u32,
    flags: u32,
}

const POINTER: u32 = 1;
const ARRAY: u32 = 2;

impl Operand {
    /// Bytes of an element; memory has them single, unless the other side is an array.
    fn element(&self) -> Result<Option<usize>> {
        match self.kind {
            POINTER => Ok(None),
            ARRAY => array::find(self.words[0] as Handle).map(|array| Some(array.element())),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn plane(&self, element: usize, [width, height, _]: [usize; 3]) -> Result<Plane> {
        let [at, x, y, z] = self.words.map(|word| word as usize);
        if self.kind == POINTER {
            let pitch = if x == 0 { width } else { x } * element;
            return Ok(Plane { side: Side::unified(at as u64), pitch, slice: pitch * if y == 0 { height } else { y } });
        }
        let array = array::find(at)?;
        let (pitch, slice) = (array.pitch(), array.pitch() * array.rows());
        if (x + width) * element > pitch || y + height > array.rows() || z >= array.slices() {
            return Err(Code::INVALID_VALUE);
        }
        Ok(Plane { side: Side::Device(array.base + (x * element + y * pitch + z * slice) as u64), pitch, slice })
    }
}

impl Operation {
    fn copy(&self) -> Result<Copy> {
        CopyAttributes::new(self.order, self.flags).check()?;
        let element = self.from.element()?.or(self.to.element()?).unwrap_or(1);
        let [width, height, depth] = self.extent;
        let (to, from) = (self.to.plane(element, self.extent)?, self.from.plane(element, self.extent)?);
        Ok(Copy { to, from, width: width * element, height, depth })
    }
}

/// Which one failed, and how.
fn all(
    operations: Input<Operation>,
    count: usize,
    flags: u64,
    hstream: Handle,
    null: NullStream,
) -> std::result::Result<(), (usize, Code)> {
    if count == 0 || flags != 0 || hstream == 0 {
        return Err((usize::MAX, Code::INVALID_VALUE));
    }
    (0..count).try_for_each(|at| {
        operations.element(at).and_then(|one| later(one.copy()?, hstream, null)).map_err(|code| (at, code))
    })
}

entries! {
    fn cuMemcpy3DBatchAsync / cuMemcpy3DBatchAsync_ptsz [null] (
        count: usize, operations: Input<Operation>, failed: Out<usize>, flags: u64, hstream: Handle,
    ) {
        let made = all(operations, count, flags, hstream, null);
        // Of no copy, as of errors that are no copy's.
        failed.set_if(made.err().map_or(usize::MAX, |(at, _)| at));
        made.map_err(|(_, code)| code)
    }

    fn cuMemcpy3DBatchAsync_v2 / cuMemcpy3DBatchAsync_v2_ptsz [null] (
        count: usize, operations: Input<Operation>, flags: u64, hstream: Handle,
    ) {
        all(operations, count, flags, hstream, null).map_err(|(_, code)| code)
    }

    fn cuMemcpy3DWithAttributesAsync / cuMemcpy3DWithAttributesAsync_ptsz [null] (
        operation: Input<Operation>, flags: u64, hstream: Handle,
    ) {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        later(operation.get()?.copy()?, hstream, null)
    }

    /// There is no engine for it, as before Blackwell.
    fn cuMemBatchDecompressAsync / cuMemBatchDecompressAsync_ptsz [null] (
        _packed: Input<u8>, _count: usize, _flags: u32, _failed: Out<usize>, hstream: Handle,
    ) {
        crate::streams::stream::find(hstream, null)?;
        Err(Code::NOT_SUPPORTED)
    }

    fn cuMemcpyWithAttributesAsync / cuMemcpyWithAttributesAsync_ptsz [null] (
        to: DevicePointer, from: DevicePointer, bytes: usize, attributes: Input<CopyAttributes>, hstream: Handle,
    ) {
        attributes.get()?.check()?;
        later(linear(Side::unified(to), Side::unified(from), bytes), hstream, null)
    }
}
