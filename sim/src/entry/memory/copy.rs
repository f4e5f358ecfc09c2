//! Copies.

use std::sync::Arc;

use crate::abi::code::{Code, Result};
use crate::abi::structs::{CopyAttributes, Memcpy2d, Memcpy3d};
use crate::abi::{DevicePointer, Handle, Input, NullStream, Out};
use crate::entry::declare::entries;
use crate::memory::copy::{Copy, Plane, Side};
use crate::objects::array;
use crate::streams::stream::{self, Stream};
use crate::streams::work::Work;

/// The default stream, where copies without a stream go.
fn default(null: NullStream) -> Result<Arc<Stream>> {
    stream::find(0, null)
}

/// Copies and returns when the bytes are there, unless only the device sees them (as driver 580 does).
pub(crate) fn now(copy: Copy, null: NullStream) -> Result {
    let stream = default(null)?;
    let context = stream.context()?;
    context.check()?;
    copy.check(stream.submission())?;
    stream.capture_forbids()?;
    if copy.hidden() {
        return stream.submit(Work::Copy(copy), Vec::new()).map(drop);
    }
    stream.perform(Work::Copy(copy))?;
    context.check()
}

/// Seen on driver 580: tests/apps/callbacks/pageable_filled_late.c.
const FIRST: usize = 2 << 20;

/// Copies in the stream's order. Pageable memory is the application's again on return, as with the driver: a
/// source has been read by then, a target been written.
pub(crate) fn later(mut copy: Copy, hstream: Handle, null: NullStream) -> Result {
    let stream = stream::find(hstream, null)?;
    let context = stream.context()?;
    context.check()?;
    copy.check(stream.submission())?;
    if stream.capturing() {
        return stream.submit(Work::Copy(copy), Vec::new()).map(drop);
    }
    if copy.writes_pageable() {
        stream.submit(Work::Copy(copy), Vec::new())?.wait();
        return context.check();
    }
    if copy.reads_pageable() {
        // Of long memory the driver takes the beginning now, and waits for its turn with the rest.
        if let Some(first) = copy.take_first(FIRST)? {
            stream.submit(Work::Copy(first), Vec::new())?.wait();
            context.check()?;
        }
        copy.stage()?;
    }
    stream.submit(Work::Copy(copy), Vec::new()).map(drop)
}

struct Batch {
    to: Input<DevicePointer>,
    from: Input<DevicePointer>,
    bytes: Input<usize>,
    count: usize,
    attributes: Input<CopyAttributes>,
    /// The first copy that each of them is for; it is for all before the next one's first.
    firsts: Input<usize>,
    attribute_count: usize,
}

impl Batch {
    /// Each copy must have attributes (cuda.h).
    fn check(&self) -> Result {
        if self.attribute_count > self.count {
            return Err(Code::INVALID_VALUE);
        }
        let firsts = self.firsts.all(self.attribute_count)?;
        let are_in_order = firsts.first() == Some(&0) && firsts.is_sorted_by(|first, next| first < next);
        if !are_in_order || firsts.last().is_none_or(|last| *last >= self.count) {
            return Err(Code::INVALID_VALUE);
        }
        self.attributes.all(self.attribute_count)?.iter().try_for_each(CopyAttributes::check)
    }

    /// One after the other, in the stream's order. Which one failed, and how.
    fn copy(&self, hstream: Handle, null: NullStream) -> std::result::Result<(), (usize, Code)> {
        // The default streams take no batches.
        if hstream == 0 {
            return Err((usize::MAX, Code::INVALID_VALUE));
        }
        self.check().map_err(|code| (usize::MAX, code))?;
        (0..self.count).try_for_each(|at| {
            let sides = || {
                Ok((
                    Side::unified(self.to.element(at)?),
                    Side::unified(self.from.element(at)?),
                    self.bytes.element(at)?,
                ))
            };
            let one = sides().and_then(|(to, from, bytes)| later(linear(to, from, bytes), hstream, null));
            one.map_err(|code| (at, code))
        })
    }
}

/// A place in an array's memory.
pub(crate) fn array_side(array: Handle, offset: usize, bytes: usize) -> Result<Side> {
    let array = array::find(array)?;
    if offset.checked_add(bytes).is_none_or(|end| end > array.bytes()) {
        return Err(Code::INVALID_VALUE);
    }
    Ok(Side::Device(array.base + offset as u64))
}

pub(crate) fn host(at: u64) -> Result<Side> {
    if at == 0 { Err(Code::INVALID_VALUE) } else { Ok(Side::Host(at)) }
}

/// One side of a structured copy, from its fields.
struct Fields {
    kind: u32,
    host: u64,
    device: u64,
    array: Handle,
    start: [usize; 3],
    pitch: usize,
    height: usize,
}

impl Fields {
    fn plane(&self, width: usize, rows: usize) -> Result<Plane> {
        let [x, y, z] = self.start;
        if self.kind == 3 {
            let array = array::find(self.array)?;
            let (pitch, slice) = (array.pitch(), array.pitch() * array.rows());
            if x + width > pitch || y + rows > array.rows() {
                return Err(Code::INVALID_VALUE);
            }
            return Ok(Plane { side: Side::Device(array.base + (x + y * pitch + z * slice) as u64), pitch, slice });
        }
        let pitch = if self.pitch == 0 { x + width } else { self.pitch };
        let height = if self.height == 0 { y + rows } else { self.height };
        // Even for a single row or slice, seen on driver 580.
        if width * rows != 0 && (pitch < x + width || height < y + rows) {
            return Err(Code::INVALID_VALUE);
        }
        let slice = pitch * height;
        let offset = (x + y * pitch + z * slice) as u64;
        let side = match self.kind {
            1 => host(self.host)?.shifted(offset),
            2 => Side::Device(self.device + offset),
            4 => Side::unified(self.device + offset),
            _ => return Err(Code::INVALID_VALUE),
        };
        Ok(Plane { side, pitch, slice })
    }
}

pub(crate) fn two(m: Memcpy2d) -> Result<Copy> {
    let (start_from, start_to) = ([m.src_x, m.src_y, 0], [m.dst_x, m.dst_y, 0]);
    let from = Fields {
        kind: m.src_type,
        host: m.src_host as u64,
        device: m.src_device,
        array: m.src_array,
        start: start_from,
        pitch: m.src_pitch,
        height: 0,
    };
    let to = Fields {
        kind: m.dst_type,
        host: m.dst_host as u64,
        device: m.dst_device,
        array: m.dst_array,
        start: start_to,
        pitch: m.dst_pitch,
        height: 0,
    };
    Ok(Copy {
        to: to.plane(m.width, m.height)?,
        from: from.plane(m.width, m.height)?,
        width: m.width,
        height: m.height,
        depth: 1,
    })
}

/// A three-dimensional copy as the interface describes it.
pub(crate) fn three(m: &Memcpy3d) -> Result<Copy> {
    let (start_from, start_to) = ([m.src_x, m.src_y, m.src_z], [m.dst_x, m.dst_y, m.dst_z]);
    let from = Fields {
        kind: m.src_type,
        host: m.src_host as u64,
        device: m.src_device,
        array: m.src_array,
        start: start_from,
        pitch: m.src_pitch,
        height: m.src_height,
    };
    let to = Fields {
        kind: m.dst_type,
        host: m.dst_host as u64,
        device: m.dst_device,
        array: m.dst_array,
        start: start_to,
        pitch: m.dst_pitch,
        height: m.dst_height,
    };
    let (to, from) = (to.plane(m.width, m.height)?, from.plane(m.width, m.height)?);
    Ok(Copy { to, from, width: m.width, height: m.height, depth: m.depth })
}

pub(crate) fn linear(to: Side, from: Side, bytes: usize) -> Copy {
    Copy::linear(to, from, bytes)
}

entries! {
    fn cuMemcpy / cuMemcpy_ptds [null] (to: DevicePointer, from: DevicePointer, bytes: usize) {
        now(linear(Side::unified(to), Side::unified(from), bytes), null)
    }

    fn cuMemcpyAsync / cuMemcpyAsync_ptsz [null] (
        to: DevicePointer, from: DevicePointer, bytes: usize, hstream: Handle,
    ) {
        later(linear(Side::unified(to), Side::unified(from), bytes), hstream, null)
    }

    fn cuMemcpyBatchAsync / cuMemcpyBatchAsync_ptsz [null] (
        to: Input<DevicePointer>, from: Input<DevicePointer>, bytes: Input<usize>, count: usize, attributes: Input<CopyAttributes>,
        firsts: Input<usize>, attribute_count: usize, failed: Out<usize>, hstream: Handle,
    ) {
        let made = Batch { to, from, bytes, count, attributes, firsts, attribute_count }.copy(hstream, null);
        failed.set_if(made.err().map_or(usize::MAX, |(at, _)| at));
        made.map_err(|(_, code)| code)
    }

    fn cuMemcpyBatchAsync_v2 / cuMemcpyBatchAsync_v2_ptsz [null] (
        to: Input<DevicePointer>, from: Input<DevicePointer>, bytes: Input<usize>, count: usize, attributes: Input<CopyAttributes>,
        firsts: Input<usize>, attribute_count: usize, hstream: Handle,
    ) {
        let batch = Batch { to, from, bytes, count, attributes, firsts, attribute_count };
        batch.copy(hstream, null).map_err(|(_, code)| code)
    }

    fn cuMemcpyHtoD_v2 / cuMemcpyHtoD_v2_ptds [null] (to: DevicePointer, from: u64, bytes: usize) {
        now(linear(Side::Device(to), host(from)?, bytes), null)
    }

    fn cuMemcpyDtoH_v2 / cuMemcpyDtoH_v2_ptds [null] (to: u64, from: DevicePointer, bytes: usize) {
        now(linear(host(to)?, Side::Device(from), bytes), null)
    }

    fn cuMemcpyDtoD_v2 / cuMemcpyDtoD_v2_ptds [null] (to: DevicePointer, from: DevicePointer, bytes: usize) {
        now(linear(Side::Device(to), Side::Device(from), bytes), null)
    }

    fn cuMemcpyHtoDAsync_v2 / cuMemcpyHtoDAsync_v2_ptsz [null] (
        to: DevicePointer, from: u64, bytes: usize, hstream: Handle,
    ) {
        later(linear(Side::Device(to), host(from)?, bytes), hstream, null)
    }

    fn cuMemcpyDtoHAsync_v2 / cuMemcpyDtoHAsync_v2_ptsz [null] (
        to: u64, from: DevicePointer, bytes: usize, hstream: Handle,
    ) {
        later(linear(host(to)?, Side::Device(from), bytes), hstream, null)
    }

    fn cuMemcpyDtoDAsync_v2 / cuMemcpyDtoDAsync_v2_ptsz [null] (
        to: DevicePointer, from: DevicePointer, bytes: usize, hstream: Handle,
    ) {
        later(linear(Side::Device(to), Side::Device(from), bytes), hstream, null)
    }

    fn cuMemcpyPeer / cuMemcpyPeer_ptds [null] (
        to: DevicePointer, to_context: Handle, from: DevicePointer, from_context: Handle, bytes: usize,
    ) {
        crate::streams::context::find(to_context)?;
        crate::streams::context::find(from_context)?;
        now(linear(Side::Device(to), Side::Device(from), bytes), null)
    }

    fn cuMemcpyPeerAsync / cuMemcpyPeerAsync_ptsz [null] (
        to: DevicePointer, to_context: Handle, from: DevicePointer, from_context: Handle, bytes: usize, hstream: Handle,
    ) {
        crate::streams::context::find(to_context)?;
        crate::streams::context::find(from_context)?;
        later(linear(Side::Device(to), Side::Device(from), bytes), hstream, null)
    }

    fn cuMemcpy2D_v2 / cuMemcpy2D_v2_ptds [null] (copy: Input<Memcpy2d>) {
        now(two(copy.get()?)?, null)
    }

    fn cuMemcpy2DUnaligned_v2 / cuMemcpy2DUnaligned_v2_ptds [null] (copy: Input<Memcpy2d>) {
        now(two(copy.get()?)?, null)
    }

    fn cuMemcpy2DAsync_v2 / cuMemcpy2DAsync_v2_ptsz [null] (copy: Input<Memcpy2d>, hstream: Handle) {
        later(two(copy.get()?)?, hstream, null)
    }

    fn cuMemcpy3D_v2 / cuMemcpy3D_v2_ptds [null] (copy: Input<Memcpy3d>) {
        now(three(&copy.get()?)?, null)
    }

    fn cuMemcpy3DAsync_v2 / cuMemcpy3DAsync_v2_ptsz [null] (copy: Input<Memcpy3d>, hstream: Handle) {
        later(three(&copy.get()?)?, hstream, null)
    }

    fn cuMemcpy3DPeer / cuMemcpy3DPeer_ptds [null] (copy: Input<Memcpy3d>) {
        now(three(&copy.get()?)?, null)
    }

    fn cuMemcpy3DPeerAsync / cuMemcpy3DPeerAsync_ptsz [null] (copy: Input<Memcpy3d>, hstream: Handle) {
        later(three(&copy.get()?)?, hstream, null)
    }

    fn cuMemcpyHtoA_v2 / cuMemcpyHtoA_v2_ptds [null] (to: Handle, offset: usize, from: u64, bytes: usize) {
        now(linear(array_side(to, offset, bytes)?, host(from)?, bytes), null)
    }

    fn cuMemcpyAtoH_v2 / cuMemcpyAtoH_v2_ptds [null] (to: u64, from: Handle, offset: usize, bytes: usize) {
        now(linear(host(to)?, array_side(from, offset, bytes)?, bytes), null)
    }

    fn cuMemcpyDtoA_v2 / cuMemcpyDtoA_v2_ptds [null] (to: Handle, offset: usize, from: DevicePointer, bytes: usize) {
        now(linear(array_side(to, offset, bytes)?, Side::Device(from), bytes), null)
    }

    fn cuMemcpyAtoD_v2 / cuMemcpyAtoD_v2_ptds [null] (to: DevicePointer, from: Handle, offset: usize, bytes: usize) {
        now(linear(Side::Device(to), array_side(from, offset, bytes)?, bytes), null)
    }

    fn cuMemcpyAtoA_v2 / cuMemcpyAtoA_v2_ptds [null] (
        to: Handle, to_offset: usize, from: Handle, from_offset: usize, bytes: usize,
    ) {
        now(linear(array_side(to, to_offset, bytes)?, array_side(from, from_offset, bytes)?, bytes), null)
    }

    fn cuMemcpyHtoAAsync_v2 / cuMemcpyHtoAAsync_v2_ptsz [null] (
        to: Handle, offset: usize, from: u64, bytes: usize, hstream: Handle,
    ) {
        later(linear(array_side(to, offset, bytes)?, host(from)?, bytes), hstream, null)
    }

    fn cuMemcpyAtoHAsync_v2 / cuMemcpyAtoHAsync_v2_ptsz [null] (
        to: u64, from: Handle, offset: usize, bytes: usize, hstream: Handle,
    ) {
        later(linear(host(to)?, array_side(from, offset, bytes)?, bytes), hstream, null)
    }
}
