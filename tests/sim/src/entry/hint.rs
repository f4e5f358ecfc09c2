//! Hints, which need no following: where managed memory should be, how a stream should wait.

use super::entries;
use super::structs::Location;
use crate::abi::{DevicePointer, Handle, In, NullStream, Out};
use crate::code::{Code, Result};
use crate::memory::table::{self, Kind};
use crate::{device, stream};

/// Devices have their number, the host -1 in the older forms.
const HOST: i32 = -1;

fn range(at: DevicePointer, count: usize) -> Result {
    let ranges = table::read();
    let managed = ranges.find(at).is_some_and(|r| r.kind == Kind::Managed);
    if managed && count > 0 && ranges.covers(at, count as u64, false) { Ok(()) } else { Err(Code::INVALID_VALUE) }
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

fn advice(which: u32) -> Result {
    if (1..=6).contains(&which) { Ok(()) } else { Err(Code::INVALID_VALUE) }
}

fn usable(hstream: Handle, null: NullStream) -> Result {
    stream::find(hstream, null)?.context()?.check()
}

entries! {
    fn cuMemAdvise(at: DevicePointer, count: usize, which: u32, dev: i32) {
        range(at, count)?;
        advice(which)?;
        older(dev)
    }

    fn cuMemAdvise_v2(at: DevicePointer, count: usize, which: u32, location: Location) {
        range(at, count)?;
        advice(which)?;
        // Advice 2 and 4 take something back, from wherever it was.
        if which == 2 || which == 4 { Ok(()) } else { place(location) }
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

    fn cuStreamSetAttribute / cuStreamSetAttribute_ptsz [null] (hstream: Handle, which: u32, value: In<[u32; 16]>) {
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
