//! Hints, which may be ignored: the location of managed memory, the way a stream waits.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::abi::code::{Code, Result};
use crate::abi::structs::Location;
use crate::abi::{DevicePointer, Handle, Input, NullStream, Out};
use crate::base::device;
use crate::entry::declare::entries;
use crate::memory::table::{self, Kind};
use crate::streams::stream;

/// Devices have their number, the host -1 in the older forms.
const HOST: i32 = -1;

fn range(at: DevicePointer, count: usize) -> Result {
    let ranges = table::read();
    let managed = ranges.find(at).is_some_and(|r| r.kind == Kind::Managed);
    if managed && count > 0 && ranges.covers(at, count as u64, false) { Ok(()) } else { Err(Code::INVALID_VALUE) }
}

fn ranges(at: Input<DevicePointer>, sizes: Input<usize>, count: usize, flags: u64) -> Result {
    if count == 0 || flags != 0 {
        return Err(Code::INVALID_VALUE);
    }
    (0..count).try_for_each(|index| range(at.element(index)?, sizes.element(index)?))
}

fn place(location: Location) -> Result {
    match location.kind {
        1 => device::check(location.id),
        2..=4 => Ok(()),
        _ => Err(Code::INVALID_VALUE),
    }
}

fn older(dev: i32) -> Result {
    if dev == HOST { Ok(()) } else { device::check(dev) }
}

/// By the start of an allocation: whether it is read mostly, and the device where it should be.
static ADVICE: Mutex<BTreeMap<u64, (bool, i32)>> = Mutex::new(BTreeMap::new());

/// No device, or none was named.
const NOWHERE: i32 = -2;

/// Keeps what can be asked for again.
fn advise(at: DevicePointer, which: u32, dev: i32) -> Result {
    let start = table::read().find(at).map_or(at, |range| range.start);
    let mut all = ADVICE.lock();
    let (mostly, preferred) = all.entry(start).or_insert((false, NOWHERE));
    match which {
        1 | 2 => *mostly = which == 1,
        3 => *preferred = dev,
        4 => *preferred = NOWHERE,
        5 | 6 => {}
        _ => return Err(Code::INVALID_VALUE),
    }
    Ok(())
}

/// Read mostly, and the preferred location.
fn advised(at: DevicePointer, count: usize, which: u32) -> Result<i32> {
    range(at, count)?;
    let start = table::read().find(at).map_or(at, |range| range.start);
    let (mostly, preferred) = ADVICE.lock().get(&start).copied().unwrap_or((false, NOWHERE));
    match which {
        1 => Ok(mostly.into()),
        2 => Ok(preferred),
        _ => Err(Code::NOT_SUPPORTED),
    }
}

fn usable(hstream: Handle, null: NullStream) -> Result {
    stream::find(hstream, null)?.context()?.check()
}

entries! {
    fn cuMemAdvise(at: DevicePointer, count: usize, which: u32, dev: i32) {
        range(at, count)?;
        older(dev)?;
        advise(at, which, dev)
    }

    fn cuMemAdvise_v2(at: DevicePointer, count: usize, which: u32, location: Location) {
        range(at, count)?;
        // Advice 2 and 4 take something back, from wherever it was.
        if which != 2 && which != 4 {
            place(location)?;
        }
        advise(at, which, if location.kind == 1 { location.id } else { HOST })
    }

    /// All of a range is in one place here.
    fn cuMemGetLocationInfo(at: DevicePointer, size: usize, _summary: usize, _sampling: usize, location: Out<Location>) {
        let id = table::read().find(at).map(|range| range.device).ok_or(Code::INVALID_VALUE)?;
        if size == 0 {
            return Err(Code::INVALID_VALUE);
        }
        location.set(Location { kind: 1, id })
    }

    fn cuMemRangeGetAttribute(data: Out<i32>, size: usize, which: u32, at: DevicePointer, count: usize) {
        if size != 4 {
            return Err(Code::INVALID_VALUE);
        }
        data.set(advised(at, count, which)?)
    }

    fn cuMemRangeGetAttributes(
        data: Input<Out<i32>>, sizes: Input<usize>, which: Input<u32>, number: usize, at: DevicePointer, count: usize,
    ) {
        for index in 0..number {
            if sizes.element(index)? != 4 {
                return Err(Code::INVALID_VALUE);
            }
            data.element(index)?.set(advised(at, count, which.element(index)?)?)?;
        }
        Ok(())
    }

    fn cuMemPrefetchAsync / cuMemPrefetchAsync_ptsz [null] (
        at: DevicePointer, count: usize, dev: i32, hstream: Handle,
    ) {
        usable(hstream, null)?;
        range(at, count)?;
        older(dev)
    }

    fn cuMemPrefetchAsync_v2 / cuMemPrefetchAsync_v2_ptsz [null] (
        at: DevicePointer, count: usize, location: Location, flags: u32, hstream: Handle,
    ) {
        usable(hstream, null)?;
        range(at, count)?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        place(location)
    }

    fn cuMemPrefetchBatchAsync / cuMemPrefetchBatchAsync_ptsz [null] (
        at: Input<DevicePointer>, sizes: Input<usize>, count: usize, locations: Input<Location>, starts: Input<usize>,
        location_count: usize, flags: u64, hstream: Handle,
    ) {
        usable(hstream, null)?;
        let _ = starts;
        (0..location_count).try_for_each(|index| place(locations.element(index)?))?;
        ranges(at, sizes, count, flags)
    }

    /// What is discarded may as well stay.
    fn cuMemDiscardBatchAsync / cuMemDiscardBatchAsync_ptsz [null] (
        at: Input<DevicePointer>, sizes: Input<usize>, count: usize, flags: u64, hstream: Handle,
    ) {
        usable(hstream, null)?;
        ranges(at, sizes, count, flags)
    }

    fn cuMemDiscardAndPrefetchBatchAsync / cuMemDiscardAndPrefetchBatchAsync_ptsz [null] (
        at: Input<DevicePointer>, sizes: Input<usize>, count: usize, locations: Input<Location>, starts: Input<usize>,
        location_count: usize, flags: u64, hstream: Handle,
    ) {
        usable(hstream, null)?;
        let _ = starts;
        (0..location_count).try_for_each(|index| place(locations.element(index)?))?;
        ranges(at, sizes, count, flags)
    }

    fn cuStreamSetAttribute / cuStreamSetAttribute_ptsz [null] (hstream: Handle, which: u32, value: Input<[u32; 16]>) {
        let stream = stream::find(hstream, null)?;
        if ![1, 3, 8, 9, 10].contains(&which) {
            return Err(Code::INVALID_VALUE);
        }
        stream.attributes.lock().insert(which, value.get()?);
        Ok(())
    }

    fn cuStreamGetAttribute / cuStreamGetAttribute_ptsz [null] (hstream: Handle, which: u32, value: Out<[u32; 16]>) {
        let stream = stream::find(hstream, null)?;
        let mut default = [0; 16];
        default[0] = match which {
            3 => 1,
            8 => stream.priority as u32,
            1 | 9 | 10 => 0,
            _ => return Err(Code::INVALID_VALUE),
        };
        let set = stream.attributes.lock().get(&which).copied();
        value.set(set.unwrap_or(default))
    }

    fn cuStreamCopyAttributes / cuStreamCopyAttributes_ptsz [null] (to: Handle, from: Handle) {
        let (to, from) = (stream::find(to, null)?, stream::find(from, null)?);
        let all = from.attributes.lock().clone();
        *to.attributes.lock() = all;
        Ok(())
    }
}
