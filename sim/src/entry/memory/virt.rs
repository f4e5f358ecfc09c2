//! Virtual memory: reservations, physical allocations, mappings.

use std::collections::BTreeMap;

use crate::abi::code::{Code, Result};
use crate::abi::structs::{AccessDescriptor, AllocationProperties, Location};
use crate::abi::{DevicePointer, Input, Out};
use crate::base::device;
use crate::entry::declare::entries;
use crate::memory::pages::GRANULE;
use crate::memory::virt::FILE_DESCRIPTOR;
use crate::memory::{reserve, virt};

const PINNED: u32 = 1;
const DEVICE: u32 = 1;

fn checked(properties: Input<AllocationProperties>) -> Result<AllocationProperties> {
    let properties = properties.get()?;
    if properties.kind != PINNED || properties.location.kind != DEVICE {
        return Err(Code::INVALID_VALUE);
    }
    device::check(properties.location.id).map_err(|_| Code::INVALID_VALUE)?;
    Ok(properties)
}

entries! {
    fn cuMemAddressReserve(at: Out<DevicePointer>, size: usize, alignment: usize, hint: DevicePointer, flags: u64) {
        if at.is_null() || flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        at.set(reserve::reserve(size as u64, alignment as u64, hint)?)
    }

    fn cuMemAddressFree(at: DevicePointer, size: usize) {
        reserve::free(at, size as u64)
    }

    fn cuMemCreate(handle: Out<u64>, size: usize, properties: Input<AllocationProperties>, flags: u64) {
        if handle.is_null() || flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        handle.set(virt::create(size as u64, checked(properties)?)? as u64)
    }

    fn cuMemRelease(handle: u64) {
        virt::release(handle as usize)
    }

    fn cuMemMap(at: DevicePointer, size: usize, offset: usize, handle: u64, flags: u64) {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        virt::map(at, size as u64, offset as u64, handle as usize)
    }

    fn cuMemUnmap(at: DevicePointer, size: usize) {
        virt::unmap(at, size as u64)
    }

    /// A device that is named twice is refused, as nobody has seen which access it would be given.
    fn cuMemSetAccess(at: DevicePointer, size: usize, descriptors: Input<AccessDescriptor>, count: usize) {
        let all = descriptors.all(count)?;
        if all.is_empty() || all.iter().any(|d| d.location.kind != DEVICE || ![0, 1, 3].contains(&d.flags)) {
            return Err(Code::INVALID_VALUE);
        }
        let mut granted = BTreeMap::new();
        for AccessDescriptor { location, flags } in &all {
            device::check(location.id).map_err(|_| Code::INVALID_DEVICE)?;
            if granted.insert(location.id, *flags).is_some() {
                return Err(Code::INVALID_VALUE);
            }
        }
        virt::set_access(at, size as u64, &granted.into_iter().collect::<Vec<_>>())
    }

    fn cuMemGetAccess(flags: Out<u64>, location: Input<Location>, at: DevicePointer) {
        flags.set(virt::access(at, location.get()?.id)?)
    }

    fn cuMemGetAllocationGranularity(granularity: Out<usize>, properties: Input<AllocationProperties>, option: u32) {
        checked(properties)?;
        if option > 1 {
            return Err(Code::INVALID_VALUE);
        }
        granularity.set(GRANULE as usize)
    }

    fn cuMemGetAllocationPropertiesFromHandle(properties: Out<AllocationProperties>, handle: u64) {
        properties.set(virt::properties(handle as usize)?)
    }

    fn cuMemExportToShareableHandle(shareable: Out<i32>, handle: u64, kind: u32, flags: u64) {
        if shareable.is_null() || kind != FILE_DESCRIPTOR || flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        shareable.set(virt::export(handle as usize)?)
    }

    fn cuMemImportFromShareableHandle(handle: Out<u64>, file: usize, kind: u32) {
        if handle.is_null() || kind != FILE_DESCRIPTOR {
            return Err(Code::INVALID_VALUE);
        }
        handle.set(virt::import(file as i32)? as u64)
    }

    fn cuMemRetainAllocationHandle(handle: Out<u64>, at: DevicePointer) {
        handle.set(virt::retain(at)? as u64)
    }
}
