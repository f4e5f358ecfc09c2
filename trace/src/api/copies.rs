//! The host bytes that a copy descriptor covers.
//!
//! The rules are the driver's: those of the header and, where it is silent, those measured on driver 580.159
//! (H200). A pitch of 0 means `XInBytes + WidthInBytes` (not the width alone), a height of 0 means `Y +
//! Height`. A smaller value is refused with `CUDA_ERROR_INVALID_VALUE`, even for a single row or slice. An
//! empty copy succeeds. Operands of batches count in elements: those of the array on the other side, or bytes
//! if there is none.

use super::enums::*;
use super::roles::{Field, Side};
use super::structs::*;
use super::table::same;
use super::types::{CUarray, Form, Type, Typed};
use std::mem::offset_of;

/// A box of bytes in memory: `slices` times `rows` times `row_bytes`, of which the first is at `address`.
///
/// ```text
///   address
///   |<------- pitch ------->|
///   #########...............      # touched: row_bytes of each row
///   #########...............      . left alone
///   .......................       slice_pitch is the distance from slice to slice
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Region {
    /// Address of the first byte.
    pub address: u64,
    /// Bytes of each row.
    pub row_bytes: u64,
    /// Rows of each slice.
    pub rows: u64,
    /// Bytes from one row to the next, never less than `row_bytes`.
    pub pitch: u64,
    /// Number of slices.
    pub slices: u64,
    /// Bytes from one slice to the next, never less than `rows * pitch`.
    pub slice_pitch: u64,
}

impl Region {
    /// A single row of `len` bytes.
    pub fn dense(address: u64, len: u64) -> Region {
        Region { address, row_bytes: len, rows: 1, pitch: len, slices: 1, slice_pitch: len }
    }

    /// Bytes touched.
    pub fn bytes(&self) -> u64 {
        self.row_bytes * self.rows * self.slices
    }

    /// Bytes from the first one touched to the last, both counted.
    pub fn span(&self) -> u64 {
        (self.slices - 1) * self.slice_pitch + (self.rows - 1) * self.pitch + self.row_bytes
    }

    /// Whether all bytes of the span are touched.
    pub fn is_dense(&self) -> bool {
        self.bytes() == self.span()
    }

    /// Where each row starts, slice by slice.
    pub fn row_addresses(&self) -> impl Iterator<Item = u64> + use<> {
        let Region { address, rows, pitch, slices, slice_pitch, .. } = *self;
        (0..slices).flat_map(move |slice| (0..rows).map(move |row| address + slice * slice_pitch + row * pitch))
    }

    /// The region cut up into such as touch no more than `most` bytes, in the order of its rows. It must not
    /// be empty.
    pub fn in_pieces(&self, most: u64) -> impl Iterator<Item = Region> + use<> {
        let whole = *self;
        let slices = (most / (whole.row_bytes * whole.rows)).clamp(1, whole.slices);
        let rows = (most / whole.row_bytes).clamp(1, whole.rows);
        let cut = move |all: u64, at_once: u64| {
            (0..all).step_by(at_once as usize).map(move |from| (from, at_once.min(all - from)))
        };
        cut(whole.slices, slices).flat_map(move |(slice, slices)| {
            cut(whole.rows, rows).flat_map(move |(row, rows)| {
                cut(whole.row_bytes, most).map(move |(byte, row_bytes)| {
                    let address = whole.address + slice * whole.slice_pitch + row * whole.pitch + byte;
                    Region { address, row_bytes, rows, slices, ..whole }
                })
            })
        })
    }
}

/// The host memory at one side of a copy, if there is any.
///
/// `descriptor` holds the bytes of a struct of type `ty`, the one around a field of the role
/// [`CopyHost`](super::roles::Role::CopyHost). `element` is asked for the size in bytes of an array's
/// elements, which only batches need. A unified address is given as well: whether it is on the host, the live
/// ranges must tell. None if the side is an array or device memory, if the copy is empty, or if the driver is
/// bound to refuse it.
pub fn region(
    ty: &Type,
    descriptor: &[u8],
    side: Side,
    element: impl FnOnce(CUarray) -> Option<u64>,
) -> Option<Region> {
    if ty.name == CUDA_MEMCPY3D_BATCH_OP::TYPE.name {
        return batch_region(descriptor, side, element);
    }
    use CUmemorytype as Of;
    linear_region(ty, descriptor, side, |of| matches!(of, Of::CU_MEMORYTYPE_HOST | Of::CU_MEMORYTYPE_UNIFIED))
}

/// The memory at one side of a copy that names it by a device address, which host memory has, too, where the
/// device can reach it.
pub fn device_region(ty: &Type, descriptor: &[u8], side: Side) -> Option<Region> {
    linear_region(ty, descriptor, side, |of| of == CUmemorytype::CU_MEMORYTYPE_DEVICE)
}

/// The memory on one side of a copy, as the copy names it.
pub enum Place {
    /// Host memory at an address of the program's.
    Host,
    /// By an address that may be host memory's too, as the device reaches it.
    Unified(u64),
}

/// None: an array, or nothing.
pub fn place(ty: &Type, descriptor: &[u8], side: Side) -> Option<Place> {
    let host = linear_region(ty, descriptor, side, |of| of == CUmemorytype::CU_MEMORYTYPE_HOST);
    let unified = || linear_region(ty, descriptor, side, |of| of != CUmemorytype::CU_MEMORYTYPE_ARRAY);
    host.map(|_| Place::Host).or_else(|| Some(Place::Unified(unified()?.address)))
}

fn linear_region(ty: &Type, descriptor: &[u8], side: Side, wanted: fn(CUmemorytype) -> bool) -> Option<Region> {
    let layout = &LAYOUTS.iter().find(|(name, _)| *name == ty.name)?.1[side as usize];
    let word = |offset| load(descriptor, offset, layout.word);
    let optional = |offset: Option<usize>, absent| offset.map_or(Some(absent), word);

    let base = match CUmemorytype(load(descriptor, layout.memory_type, 4)? as u32) {
        of if !wanted(of) => return None,
        CUmemorytype::CU_MEMORYTYPE_HOST => load(descriptor, layout.host, 8)?,
        _ => word(layout.device)?,
    };
    Box3D {
        base,
        start: [word(layout.x)?, word(layout.y)?, optional(layout.z, 0)?],
        extent: [word(layout.width)?, word(layout.rows)?, optional(layout.depth, 1)?],
        pitch: word(layout.pitch)?,
        height: optional(layout.height, 0)?,
    }
    .region()
}

/// Bytes of one element of an array, where it has a size of its own: not in block-compressed and planar
/// formats.
pub fn element_bytes(format: CUarray_format, channels: u32) -> Option<u64> {
    use CUarray_format as F;
    let channels = u64::from(channels);
    match format {
        F::CU_AD_FORMAT_UNSIGNED_INT8 | F::CU_AD_FORMAT_SIGNED_INT8 => Some(channels),
        F::CU_AD_FORMAT_UNSIGNED_INT16 | F::CU_AD_FORMAT_SIGNED_INT16 | F::CU_AD_FORMAT_HALF => Some(2 * channels),
        F::CU_AD_FORMAT_UNSIGNED_INT32 | F::CU_AD_FORMAT_SIGNED_INT32 | F::CU_AD_FORMAT_FLOAT => Some(4 * channels),
        F::CU_AD_FORMAT_UNORM_INT8X1 | F::CU_AD_FORMAT_SNORM_INT8X1 => Some(1),
        F::CU_AD_FORMAT_UNORM_INT8X2 | F::CU_AD_FORMAT_SNORM_INT8X2 => Some(2),
        F::CU_AD_FORMAT_UNORM_INT8X4 | F::CU_AD_FORMAT_SNORM_INT8X4 => Some(4),
        F::CU_AD_FORMAT_UNORM_INT16X1 | F::CU_AD_FORMAT_SNORM_INT16X1 => Some(2),
        F::CU_AD_FORMAT_UNORM_INT16X2 | F::CU_AD_FORMAT_SNORM_INT16X2 => Some(4),
        F::CU_AD_FORMAT_UNORM_INT16X4 | F::CU_AD_FORMAT_SNORM_INT16X4 => Some(8),
        _ => None,
    }
}

fn batch_region(op: &[u8], side: Side, element: impl FnOnce(CUarray) -> Option<u64>) -> Option<Region> {
    const TAG: usize = offset_of!(CUmemcpy3DOperand, r#type);
    const MEMBER: usize = offset_of!(CUmemcpy3DOperand, op);
    type Pointer = CUmemcpy3DOperand_op_ptr;

    let operands = [offset_of!(CUDA_MEMCPY3D_BATCH_OP, src), offset_of!(CUDA_MEMCPY3D_BATCH_OP, dst)];
    let (this, other) = match side {
        Side::Source => (operands[0], operands[1]),
        Side::Destination => (operands[1], operands[0]),
    };
    let word = |offset| load(op, offset, 8);
    let kind = |operand| Some(CUmemcpy3DOperandType(load(op, operand + TAG, 4)? as u32));
    if kind(this)? != CUmemcpy3DOperandType::CU_MEMCPY_OPERAND_TYPE_POINTER {
        return None;
    }
    let element = match kind(other)? {
        CUmemcpy3DOperandType::CU_MEMCPY_OPERAND_TYPE_POINTER => 1,
        CUmemcpy3DOperandType::CU_MEMCPY_OPERAND_TYPE_ARRAY => {
            let array = word(other + MEMBER + offset_of!(CUmemcpy3DOperand_op_array, array))?;
            element(CUarray(array as usize))?
        }
        _ => return None,
    };
    let extent = offset_of!(CUDA_MEMCPY3D_BATCH_OP, extent);
    Box3D {
        base: word(this + MEMBER + offset_of!(Pointer, ptr))?,
        start: [0; 3],
        extent: [
            word(extent + offset_of!(CUextent3D, width))?.checked_mul(element)?,
            word(extent + offset_of!(CUextent3D, height))?,
            word(extent + offset_of!(CUextent3D, depth))?,
        ],
        pitch: word(this + MEMBER + offset_of!(Pointer, rowLength))?.checked_mul(element)?,
        height: word(this + MEMBER + offset_of!(Pointer, layerHeight))?,
    }
    .region()
}

/// A copy as descriptors put it: x in bytes, y in rows, z in slices; pitch and height 0 for the least that
/// will do.
struct Box3D {
    base: u64,
    start: [u64; 3],
    extent: [u64; 3],
    pitch: u64,
    height: u64,
}

impl Box3D {
    fn region(&self) -> Option<Region> {
        let ([x, y, z], [row_bytes, rows, slices]) = (self.start, self.extent);
        if row_bytes == 0 || rows == 0 || slices == 0 {
            return None;
        }
        let at_least = |given: u64, least: u64| match given {
            0 => Some(least),
            _ => (given >= least).then_some(given),
        };
        let pitch = at_least(self.pitch, x.checked_add(row_bytes)?)?;
        let height = at_least(self.height, y.checked_add(rows)?)?;
        let slice_pitch = height.checked_mul(pitch)?;
        let before = z.checked_mul(slice_pitch)?.checked_add(y.checked_mul(pitch)?)?.checked_add(x)?;
        let address = self.base.checked_add(before)?;
        // A bound on the span, so that nothing below can overflow.
        address.checked_add(slices.checked_mul(slice_pitch)?)?;
        Some(Region { address, row_bytes, rows, pitch, slices, slice_pitch })
    }
}

/// Where a descriptor keeps what concerns one side: offsets in bytes. The flat ones have no z, height and
/// depth.
struct Layout {
    /// Bytes of every field but the host pointer and the memory type.
    word: usize,
    memory_type: usize,
    host: usize,
    device: usize,
    x: usize,
    y: usize,
    z: Option<usize>,
    pitch: usize,
    height: Option<usize>,
    width: usize,
    rows: usize,
    depth: Option<usize>,
}

static LAYOUTS: [(&str, [Layout; 2]); 5] = [
    layouts(CUDA_MEMCPY2D::TYPE),
    layouts(CUDA_MEMCPY3D::TYPE),
    layouts(CUDA_MEMCPY3D_PEER::TYPE),
    layouts(CUDA_MEMCPY2D_v1::TYPE),
    layouts(CUDA_MEMCPY3D_v1::TYPE),
];

/// By [`Side`].
const fn layouts(ty: &Type) -> (&str, [Layout; 2]) {
    let Form::Struct(fields) = ty.form else { panic!("a descriptor is a struct") };
    let source = Layout {
        word: present(find(fields, "srcY")) - present(find(fields, "srcXInBytes")),
        memory_type: present(find(fields, "srcMemoryType")),
        host: present(find(fields, "srcHost")),
        device: present(find(fields, "srcDevice")),
        x: present(find(fields, "srcXInBytes")),
        y: present(find(fields, "srcY")),
        z: find(fields, "srcZ"),
        pitch: present(find(fields, "srcPitch")),
        height: find(fields, "srcHeight"),
        width: present(find(fields, "WidthInBytes")),
        rows: present(find(fields, "Height")),
        depth: find(fields, "Depth"),
    };
    let destination = Layout {
        memory_type: present(find(fields, "dstMemoryType")),
        host: present(find(fields, "dstHost")),
        device: present(find(fields, "dstDevice")),
        x: present(find(fields, "dstXInBytes")),
        y: present(find(fields, "dstY")),
        z: find(fields, "dstZ"),
        pitch: present(find(fields, "dstPitch")),
        height: find(fields, "dstHeight"),
        ..source
    };
    (ty.name, [source, destination])
}

const fn find(fields: &[Field], name: &str) -> Option<usize> {
    let mut i = 0;
    while i < fields.len() {
        if same(fields[i].name, name) {
            return Some(fields[i].offset as usize);
        }
        i += 1;
    }
    None
}

const fn present(offset: Option<usize>) -> usize {
    match offset {
        Some(offset) => offset,
        None => panic!("the descriptor has no such field"),
    }
}

/// `size` bytes at `offset`, zero-extended.
fn load(bytes: &[u8], offset: usize, size: usize) -> Option<u64> {
    let mut word = [0; 8];
    word[..size].copy_from_slice(bytes.get(offset..offset + size)?);
    Some(u64::from_le_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x7f00_0000_0000;
    const HOST: u64 = 1;
    const DEVICE: u64 = 2;
    const ARRAY: u64 = 3;
    const UNIFIED: u64 = 4;

    #[test]
    fn pieces_hold_the_rows_in_their_order() {
        let region = Region { address: BASE, row_bytes: 5, rows: 3, pitch: 8, slices: 4, slice_pitch: 32 };
        let bytes = |region: &Region| {
            let row = region.row_bytes;
            region.row_addresses().flat_map(|at| at..at + row).collect::<Vec<_>>()
        };
        let counts = [(100, 1), (60, 1), (59, 2), (15, 4), (14, 8), (5, 12), (4, 24), (1, 60)].map(|(most, pieces)| {
            let cut: Vec<Region> = region.in_pieces(most).collect();
            assert!(cut.iter().all(|piece| piece.bytes() <= most), "{cut:?}");
            assert_eq!(cut.iter().flat_map(bytes).collect::<Vec<_>>(), bytes(&region));
            (cut.len(), pieces)
        });
        assert!(counts.iter().all(|(cut, wanted)| cut == wanted), "{counts:?}");
    }

    /// A zeroed struct of this type with some fields set, names of nested ones joined by dots.
    fn descriptor(ty: &Type, values: &[(&str, u64)]) -> Vec<u8> {
        let mut bytes = vec![0; ty.size as usize];
        for (path, value) in values {
            let (mut ty, mut offset) = (ty, 0);
            for name in path.split('.') {
                let Form::Struct(fields) = ty.form else { panic!("{path}: {} is no struct", ty.name) };
                let field = fields.iter().find(|f| f.name == name).unwrap_or_else(|| panic!("no field {path}"));
                offset += field.offset as usize;
                ty = match field.name {
                    "op" => CUmemcpy3DOperand_op_ptr::TYPE,
                    _ => field.ty,
                };
            }
            let size = ty.size as usize;
            bytes[offset..offset + size].copy_from_slice(&value.to_le_bytes()[..size]);
        }
        bytes
    }

    fn source(ty: &Type, values: &[(&str, u64)]) -> Option<Region> {
        region(ty, &descriptor(ty, values), Side::Source, |_| None)
    }

    fn offsets(region: Region) -> Vec<u64> {
        region.row_addresses().map(|row| row - BASE).collect()
    }

    /// Offsets of the rows of an 8 by 3 copy from host memory.
    fn flat(values: &[(&str, u64)]) -> Option<Vec<u64>> {
        let mut all = vec![
            ("srcMemoryType", HOST),
            ("srcHost", BASE),
            ("dstMemoryType", DEVICE),
            ("WidthInBytes", 8),
            ("Height", 3),
        ];
        all.extend(values);
        source(CUDA_MEMCPY2D::TYPE, &all).map(offsets)
    }

    /// Offsets of the rows of a 4 by 2 by 2 copy from host memory.
    fn deep(ty: &Type, values: &[(&str, u64)]) -> Option<Vec<u64>> {
        let mut all = vec![
            ("srcMemoryType", HOST),
            ("srcHost", BASE),
            ("dstMemoryType", DEVICE),
            ("WidthInBytes", 4),
            ("Height", 2),
            ("Depth", 2),
        ];
        all.extend(values);
        source(ty, &all).map(offsets)
    }

    // The expected offsets of the following tests were read off what a real driver copied.

    #[test]
    fn rows_of_rectangles() {
        assert_eq!(flat(&[("srcPitch", 16)]), Some(vec![0, 16, 32]));
        assert_eq!(flat(&[("srcY", 1)]), Some(vec![8, 16, 24]));
        assert_eq!(flat(&[("srcXInBytes", 4), ("srcY", 1)]), Some(vec![16, 28, 40]));
    }

    #[test]
    fn rows_of_boxes() {
        let deep = |values: &[_]| deep(CUDA_MEMCPY3D::TYPE, values);
        assert_eq!(
            deep(&[("srcPitch", 10), ("srcHeight", 3), ("srcXInBytes", 2), ("srcY", 1), ("srcZ", 1)]),
            Some(vec![42, 52, 72, 82])
        );
        assert_eq!(deep(&[("srcPitch", 10), ("srcY", 1), ("srcZ", 1)]), Some(vec![40, 50, 70, 80]));
        assert_eq!(deep(&[("srcPitch", 10), ("srcZ", 1)]), Some(vec![20, 30, 40, 50]));
        assert_eq!(deep(&[("srcPitch", 10), ("srcY", 1), ("srcZ", 1), ("Depth", 1)]), Some(vec![40, 50]));
        assert_eq!(deep(&[("srcXInBytes", 2), ("srcZ", 1)]), Some(vec![14, 20, 26, 32]));
        assert_eq!(deep(&[("srcXInBytes", 2), ("srcHeight", 3), ("srcY", 1)]), Some(vec![8, 14, 26, 32]));
    }

    #[test]
    fn peers_are_boxes() {
        assert_eq!(deep(CUDA_MEMCPY3D_PEER::TYPE, &[("srcXInBytes", 2), ("srcZ", 1)]), Some(vec![14, 20, 26, 32]));
    }

    #[test]
    fn what_the_driver_refuses_or_ignores() {
        assert_eq!(flat(&[("srcXInBytes", 4), ("srcPitch", 10)]), None);
        assert_eq!(flat(&[("srcPitch", 7), ("Height", 1)]), None);
        assert_eq!(flat(&[("WidthInBytes", 0)]), None);
        assert_eq!(flat(&[("Height", 0)]), None);
        assert_eq!(flat(&[("srcMemoryType", 0)]), None);
        let deep = |values: &[_]| deep(CUDA_MEMCPY3D::TYPE, values);
        assert_eq!(deep(&[("srcPitch", 10), ("srcHeight", 2), ("srcY", 1)]), None);
        assert_eq!(deep(&[("srcPitch", 10), ("srcHeight", 1), ("Depth", 1)]), None);
        assert_eq!(deep(&[("Depth", 0)]), None);
    }

    #[test]
    fn operands_of_batches() {
        const POINTER: u64 = 1;
        let op = |row_length, layer_height, to| {
            let values = [
                ("src.type", POINTER),
                ("src.op.ptr", BASE),
                ("src.op.rowLength", row_length),
                ("src.op.layerHeight", layer_height),
                ("dst.type", to),
                ("dst.op.ptr", 0xa44a),
                ("extent.width", 4),
                ("extent.height", 2),
                ("extent.depth", 2),
            ];
            descriptor(CUDA_MEMCPY3D_BATCH_OP::TYPE, &values)
        };
        let rows = |op: &[u8], side| {
            let element = |array| (array == CUarray(0xa44a)).then_some(4);
            region(CUDA_MEMCPY3D_BATCH_OP::TYPE, op, side, element)
        };
        const TO_ARRAY: u64 = 2;
        assert_eq!(rows(&op(0, 0, POINTER), Side::Source).map(offsets), Some(vec![0, 4, 8, 12]));
        assert_eq!(rows(&op(10, 3, POINTER), Side::Source).map(offsets), Some(vec![0, 10, 30, 40]));
        assert_eq!(rows(&op(10, 3, TO_ARRAY), Side::Source).map(offsets), Some(vec![0, 40, 120, 160]));
        assert_eq!(rows(&op(10, 3, TO_ARRAY), Side::Source).map(|r| r.row_bytes), Some(16));
        assert_eq!(rows(&op(3, 0, POINTER), Side::Source), None);
        assert_eq!(rows(&op(0, 0, TO_ARRAY), Side::Destination), None);
        assert_eq!(rows(&op(0, 0, POINTER), Side::Destination).map(|r| r.address), Some(0xa44a));
        assert_eq!(rows(&op(0, 0, 7), Side::Source), None);
        let unknown = region(CUDA_MEMCPY3D_BATCH_OP::TYPE, &op(0, 0, TO_ARRAY), Side::Source, |_| None);
        assert_eq!(unknown, None);
    }

    #[test]
    fn each_side_has_its_own_fields() {
        let values = [
            ("srcMemoryType", ARRAY),
            ("srcHost", 0xbad),
            ("dstMemoryType", UNIFIED),
            ("dstHost", 0xbad),
            ("dstDevice", BASE),
            ("dstXInBytes", 4),
            ("dstY", 1),
            ("dstPitch", 32),
            ("WidthInBytes", 8),
            ("Height", 3),
        ];
        let bytes = descriptor(CUDA_MEMCPY2D::TYPE, &values);
        assert_eq!(region(CUDA_MEMCPY2D::TYPE, &bytes, Side::Source, |_| None), None);
        let destination = region(CUDA_MEMCPY2D::TYPE, &bytes, Side::Destination, |_| None).unwrap();
        assert_eq!(offsets(destination), [36, 68, 100]);
    }

    #[test]
    fn the_ancestors_have_32_bit_words() {
        let common = [("srcMemoryType", HOST), ("srcHost", BASE), ("srcXInBytes", 4), ("srcY", 1), ("WidthInBytes", 8)];
        let flat = [&common[..], &[("Height", 3)]].concat();
        assert_eq!(source(CUDA_MEMCPY2D_v1::TYPE, &flat).map(offsets), Some(vec![16, 28, 40]));
        let deep = [&flat[..], &[("srcPitch", 16), ("Depth", 2)]].concat();
        assert_eq!(source(CUDA_MEMCPY3D_v1::TYPE, &deep).map(offsets), Some(vec![20, 36, 52, 84, 100, 116]));
    }

    #[test]
    fn sizes() {
        let region = Region { address: BASE, row_bytes: 8, rows: 3, pitch: 16, slices: 2, slice_pitch: 64 };
        assert_eq!((region.bytes(), region.span(), region.is_dense()), (48, 64 + 32 + 8, false));
        let dense = Region { pitch: 8, slice_pitch: 24, ..region };
        assert_eq!((dense.bytes(), dense.span(), dense.is_dense()), (48, 48, true));
        let row = Region { rows: 1, slices: 1, ..region };
        assert_eq!((row.bytes(), row.span(), row.is_dense()), (8, 8, true));
    }

    #[test]
    fn nonsense_is_no_region() {
        assert_eq!(flat(&[("WidthInBytes", u64::MAX)]), None);
        assert_eq!(flat(&[("Height", u64::MAX)]), None);
        assert_eq!(flat(&[("srcPitch", u64::MAX)]), None);
        assert_eq!(flat(&[("srcHost", u64::MAX - 4)]), None);
        assert_eq!(deep(CUDA_MEMCPY3D::TYPE, &[("Depth", u64::MAX)]), None);
        assert_eq!(deep(CUDA_MEMCPY3D::TYPE, &[("srcZ", u64::MAX)]), None);
        assert_eq!(region(CUDA_MEMCPY2D::TYPE, &[0; 16], Side::Source, |_| None), None);
        assert_eq!(region(CUextent3D::TYPE, &[0; 24], Side::Source, |_| None), None);
    }

    #[test]
    fn elements_of_arrays() {
        assert_eq!(element_bytes(CUarray_format::CU_AD_FORMAT_FLOAT, 4), Some(16));
        assert_eq!(element_bytes(CUarray_format::CU_AD_FORMAT_HALF, 1), Some(2));
        assert_eq!(element_bytes(CUarray_format::CU_AD_FORMAT_UNORM_INT8X4, 4), Some(4));
        assert_eq!(element_bytes(CUarray_format::CU_AD_FORMAT_BC1_UNORM, 4), None);
    }
}
