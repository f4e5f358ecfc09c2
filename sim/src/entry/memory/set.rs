//! Fills.

use crate::abi::code::Result;
use crate::abi::{DevicePointer, Handle, NullStream};
use crate::entry::declare::entries;
use crate::memory::copy::Fill;
use crate::memory::table;
use crate::streams::stream;
use crate::streams::work::Work;

fn later(fill: Fill, hstream: Handle, null: NullStream) -> Result {
    let stream = stream::find(hstream, null)?;
    let context = stream.context()?;
    context.check()?;
    // A captured fill may go anywhere, as long as its graph does not run (seen on driver 580).
    if !stream.capturing() {
        fill.check(stream.submission(), &table::read_on(context.device))?;
    }
    stream.submit(Work::Fill(fill), Vec::new()).map(drop)
}

/// Waits, unless only the device sees what it fills (as driver 580 does).
fn now(fill: Fill, null: NullStream) -> Result {
    let stream = stream::find(0, null)?;
    let context = stream.context()?;
    context.check()?;
    fill.check(stream.submission(), &table::read_on(context.device))?;
    stream.capture_forbids()?;
    if fill.hidden() {
        return stream.submit(Work::Fill(fill), Vec::new()).map(drop);
    }
    stream.perform(Work::Fill(fill))?;
    context.check()
}

fn row(at: DevicePointer, value: u64, element: usize, count: usize) -> Fill {
    Fill { at, pitch: count * element, value, element, width: count, height: 1 }
}

fn rows(at: DevicePointer, pitch: usize, value: u64, element: usize, width: usize, height: usize) -> Fill {
    Fill { at, pitch, value, element, width, height }
}

entries! {
    fn cuMemsetD8_v2 / cuMemsetD8_v2_ptds [null] (at: DevicePointer, value: u8, count: usize) {
        now(row(at, value.into(), 1, count), null)
    }

    fn cuMemsetD16_v2 / cuMemsetD16_v2_ptds [null] (at: DevicePointer, value: u16, count: usize) {
        now(row(at, value.into(), 2, count), null)
    }

    fn cuMemsetD32_v2 / cuMemsetD32_v2_ptds [null] (at: DevicePointer, value: u32, count: usize) {
        now(row(at, value.into(), 4, count), null)
    }

    fn cuMemsetD2D8_v2 / cuMemsetD2D8_v2_ptds [null] (
        at: DevicePointer, pitch: usize, value: u8, width: usize, height: usize,
    ) {
        now(rows(at, pitch, value.into(), 1, width, height), null)
    }

    fn cuMemsetD2D16_v2 / cuMemsetD2D16_v2_ptds [null] (
        at: DevicePointer, pitch: usize, value: u16, width: usize, height: usize,
    ) {
        now(rows(at, pitch, value.into(), 2, width, height), null)
    }

    fn cuMemsetD2D32_v2 / cuMemsetD2D32_v2_ptds [null] (
        at: DevicePointer, pitch: usize, value: u32, width: usize, height: usize,
    ) {
        now(rows(at, pitch, value.into(), 4, width, height), null)
    }

    fn cuMemsetD8Async / cuMemsetD8Async_ptsz [null] (at: DevicePointer, value: u8, count: usize, hstream: Handle) {
        later(row(at, value.into(), 1, count), hstream, null)
    }

    fn cuMemsetD16Async / cuMemsetD16Async_ptsz [null] (at: DevicePointer, value: u16, count: usize, hstream: Handle) {
        later(row(at, value.into(), 2, count), hstream, null)
    }

    fn cuMemsetD32Async / cuMemsetD32Async_ptsz [null] (at: DevicePointer, value: u32, count: usize, hstream: Handle) {
        later(row(at, value.into(), 4, count), hstream, null)
    }

    fn cuMemsetD2D8Async / cuMemsetD2D8Async_ptsz [null] (
        at: DevicePointer, pitch: usize, value: u8, width: usize, height: usize, hstream: Handle,
    ) {
        later(rows(at, pitch, value.into(), 1, width, height), hstream, null)
    }

    fn cuMemsetD2D16Async / cuMemsetD2D16Async_ptsz [null] (
        at: DevicePointer, pitch: usize, value: u16, width: usize, height: usize, hstream: Handle,
    ) {
        later(rows(at, pitch, value.into(), 2, width, height), hstream, null)
    }

    fn cuMemsetD2D32Async / cuMemsetD2D32Async_ptsz [null] (
        at: DevicePointer, pitch: usize, value: u32, width: usize, height: usize, hstream: Handle,
    ) {
        later(rows(at, pitch, value.into(), 4, width, height), hstream, null)
    }
}
