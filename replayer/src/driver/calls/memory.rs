//! Device memory, ranges of addresses, pinned memory, copies and fills.

use super::stream::twin;
use crate::driver::{Driver, Failure};
use std::os::fd::{FromRawFd, OwnedFd};
use trace::api::enums::{
    CUmemAccess_flags, CUmemAllocationHandleType, CUmemAllocationType, CUmemLocationType, CUmemorytype,
    CUpointer_attribute as Question,
};
use trace::api::structs::{CUmemAccessDesc, CUmemAllocationProp, CUmemPoolProps};
use trace::model::stream::StreamHandle;

/// CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP: what pinned memory is anyway under unified
/// addressing.
const PORTABLE_MAPPED: u64 = 3;

const DESCRIPTOR: CUmemAllocationHandleType = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/// The driver's information on an address.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct AddressInfo {
    pub is_device: bool,
    pub is_managed: bool,
    /// The allocation around it.
    pub start: u64,
    pub len: u64,
}

impl Driver {
    pub(crate) fn allocate(&self, len: u64) -> Result<u64, Failure> {
        // SAFETY: an output word and a plain value.
        unsafe { self.output_of("cuMemAlloc_v2", |start| [start, len]) }
    }

    pub(crate) fn free(&self, start: u64) -> Result<(), Failure> {
        // SAFETY: no pointer is followed.
        unsafe { self.ask("cuMemFree_v2", &[start]) }
    }

    /// In the order of a stream; from the device's own pool, if none is named.
    pub(crate) fn allocate_ordered(&self, len: u64, pool: Option<u64>, stream: StreamHandle) -> Result<u64, Failure> {
        let handle = stream.handle;
        match pool {
            Some(pool) => {
                let name = twin(stream, "cuMemAllocFromPoolAsync", "cuMemAllocFromPoolAsync_ptsz");
                // SAFETY: an output word and plain values.
                unsafe { self.output_of(name, |start| [start, len, pool, handle]) }
            }
            None => {
                let name = twin(stream, "cuMemAllocAsync", "cuMemAllocAsync_ptsz");
                // SAFETY: as above.
                unsafe { self.output_of(name, |start| [start, len, handle]) }
            }
        }
    }

    pub(crate) fn free_ordered(&self, start: u64, stream: StreamHandle) -> Result<(), Failure> {
        // SAFETY: no pointer is followed.
        unsafe { self.ask(twin(stream, "cuMemFreeAsync", "cuMemFreeAsync_ptsz"), &[start, stream.handle]) }
    }

    /// Takes addresses: these, if they can be had and `at` is not 0. Where they begin.
    pub(crate) fn reserve_addresses(&self, len: u64, alignment: u64, at: u64) -> Result<u64, Failure> {
        // SAFETY: an output word and plain values.
        unsafe { self.output_of("cuMemAddressReserve", |start| [start, len, alignment, at, 0]) }
    }

    pub(crate) fn free_addresses(&self, start: u64, len: u64) -> Result<(), Failure> {
        // SAFETY: no pointer is followed.
        unsafe { self.ask("cuMemAddressFree", &[start, len]) }
    }

    /// Physical memory of a device, mapped at reserved addresses, which keep it. Nothing may access it yet.
    /// `is_shared`: other processes may map it, too.
    pub(crate) fn map_new(&self, device: i32, start: u64, len: u64, is_shared: bool) -> Result<(), Failure> {
        let handle = self.create(device, len, is_shared)?;
        self.map_and_release(handle, start, len)
    }

    /// Physical memory of a device.
    pub(crate) fn create_physical(&self, device: i32, len: u64) -> Result<u64, Failure> {
        self.create(device, len, false)
    }

    fn create(&self, device: i32, len: u64, is_shared: bool) -> Result<u64, Failure> {
        // SAFETY: a plain C struct, for which zeros are valid.
        let mut prop = unsafe { std::mem::zeroed::<CUmemAllocationProp>() };
        prop.r#type = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        prop.location.r#type = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        prop.location.id = device;
        if is_shared {
            prop.requestedHandleTypes = DESCRIPTOR;
        }
        // SAFETY: an output word and a struct that outlives the call.
        unsafe { self.output_of("cuMemCreate", |handle| [handle, len, &raw const prop as u64, 0]) }
    }

    /// A pool of a device's memory.
    pub(crate) fn create_pool(&self, device: i32) -> Result<u64, Failure> {
        // SAFETY: a plain C struct, for which zeros are valid.
        let mut props = unsafe { std::mem::zeroed::<CUmemPoolProps>() };
        props.allocType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        props.location.r#type = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        props.location.id = device;
        // SAFETY: an output word and a struct that outlives the call.
        unsafe { self.output_of("cuMemPoolCreate", |pool| [pool, &raw const props as u64]) }
    }

    /// The mapping keeps the memory; the handle is given up.
    fn map_and_release(&self, handle: u64, start: u64, len: u64) -> Result<(), Failure> {
        // SAFETY: no pointers are followed.
        let mapped = unsafe { self.ask("cuMemMap", &[start, len, 0, handle, 0]) };
        // SAFETY: as above.
        unsafe { self.ask("cuMemRelease", &[handle]) }?;
        mapped
    }

    /// A descriptor of the physical memory that is mapped there.
    pub(crate) fn export_mapped(&self, at: u64) -> Result<OwnedFd, Failure> {
        // SAFETY: an output word and a plain value.
        let handle: u64 = unsafe { self.output_of("cuMemRetainAllocationHandle", |handle| [handle, at]) }?;
        let kind = u64::from(DESCRIPTOR.0);
        // SAFETY: an output word and plain values.
        let made = unsafe { self.output_of::<i32, 4>("cuMemExportToShareableHandle", |made| [made, handle, kind, 0]) };
        // SAFETY: no pointers are followed.
        unsafe { self.ask("cuMemRelease", &[handle]) }?;
        // SAFETY: just made, and nobody else's.
        made.map(|made| unsafe { OwnedFd::from_raw_fd(made) })
    }

    /// Maps physical memory of another process, which this descriptor stands for.
    pub(crate) fn map_imported(&self, descriptor: i32, start: u64, len: u64) -> Result<(), Failure> {
        let kind = u64::from(DESCRIPTOR.0);
        // SAFETY: an output word and plain values.
        let handle: u64 =
            unsafe { self.output_of("cuMemImportFromShareableHandle", |handle| [handle, descriptor as u64, kind]) }?;
        self.map_and_release(handle, start, len)
    }

    pub(crate) fn unmap(&self, start: u64, len: u64) -> Result<(), Failure> {
        // SAFETY: no pointer is followed.
        unsafe { self.ask("cuMemUnmap", &[start, len]) }
    }

    /// Lets devices read and write what is mapped there.
    pub(crate) fn set_access(&self, start: u64, len: u64, devices: &[i32]) -> Result<(), Failure> {
        let access = |device: &i32| {
            // SAFETY: a plain C struct, for which zeros are valid.
            let mut access = unsafe { std::mem::zeroed::<CUmemAccessDesc>() };
            access.location.r#type = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
            access.location.id = *device;
            access.flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
            access
        };
        let all: Vec<CUmemAccessDesc> = devices.iter().map(access).collect();
        // SAFETY: an array that outlives the call.
        unsafe { self.ask("cuMemSetAccess", &[start, len, all.as_ptr() as u64, all.len() as u64]) }
    }

    /// Pins pages of this process.
    pub(crate) fn register_host(&self, start: u64, len: u64) -> Result<(), Failure> {
        // SAFETY: no pointer is followed.
        unsafe { self.ask("cuMemHostRegister_v2", &[start, len, PORTABLE_MAPPED]) }
    }

    pub(crate) fn unregister_host(&self, start: u64) -> Result<(), Failure> {
        // SAFETY: no pointer is followed.
        unsafe { self.ask("cuMemHostUnregister", &[start]) }
    }

    /// Whether an address is device memory; not if nothing is known of it.
    pub(crate) fn is_device_memory(&self, address: u64) -> bool {
        let which = Question::CU_POINTER_ATTRIBUTE_MEMORY_TYPE.0.into();
        // SAFETY: an output word; the driver does not follow the address.
        let kind = unsafe { self.output_of::<u32, 3>("cuPointerGetAttribute", |kind| [kind, which, address]) };
        kind.is_ok_and(|kind| kind == CUmemorytype::CU_MEMORYTYPE_DEVICE.0)
    }

    /// The context in which memory was allocated.
    pub(crate) fn context_of_memory(&self, address: u64) -> Result<u64, Failure> {
        let which = Question::CU_POINTER_ATTRIBUTE_CONTEXT.0.into();
        // SAFETY: an output word; the driver does not follow the address.
        unsafe { self.output_of("cuPointerGetAttribute", |context| [context, which, address]) }
    }

    pub(crate) fn pointed(&self, address: u64) -> Result<AddressInfo, Failure> {
        let questions = [
            Question::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
            Question::CU_POINTER_ATTRIBUTE_IS_MANAGED,
            Question::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
            Question::CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        ]
        .map(|question| question.0);
        let (mut kind, mut managed, mut start, mut len) = (0u64, 0u64, 0u64, 0u64);
        let answers = [&raw mut kind, &raw mut managed, &raw mut start, &raw mut len];
        let words = [questions.len() as u64, questions.as_ptr() as u64, answers.as_ptr() as u64, address];
        // SAFETY: questions, and for each answer as much room as the widest takes.
        unsafe { self.ask("cuPointerGetAttributes", &words) }?;
        let is_device = kind == u64::from(CUmemorytype::CU_MEMORYTYPE_DEVICE.0);
        Ok(AddressInfo { is_device, is_managed: managed != 0, start, len })
    }

    /// Has read the bytes when it returns.
    pub(crate) fn write(&self, to: u64, bytes: &[u8]) -> Result<(), Failure> {
        // SAFETY: as many bytes of ours.
        unsafe { self.ask("cuMemcpyHtoD_v2", &[to, bytes.as_ptr() as u64, bytes.len() as u64]) }
    }

    /// # Safety
    /// The bytes stay as they are until the stream has come to the end of the copy.
    pub(crate) unsafe fn write_ordered(&self, to: u64, bytes: &[u8], stream: StreamHandle) -> Result<(), Failure> {
        let (name, words) = ordered_write(to, bytes, stream);
        // SAFETY: forwarded from the caller.
        unsafe { self.ask(name, &words) }
    }

    /// # Safety
    /// Nobody uses the buffer until the stream has come to the end of the copy.
    pub(crate) unsafe fn read_ordered(
        &self,
        into: *mut u8,
        from: u64,
        len: u64,
        stream: StreamHandle,
    ) -> Result<(), Failure> {
        let name = twin(stream, "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoHAsync_v2_ptsz");
        // SAFETY: forwarded from the caller.
        unsafe { self.ask(name, &[into as u64, from, len, stream.handle]) }
    }

    pub(crate) fn fill(&self, start: u64, byte: u8, len: u64, stream: StreamHandle) -> Result<(), Failure> {
        let name = twin(stream, "cuMemsetD8Async", "cuMemsetD8Async_ptsz");
        // SAFETY: no pointer is followed; an address that is no device memory is an error.
        unsafe { self.ask(name, &[start, byte.into(), len, stream.handle]) }
    }
}

/// The call that writes these bytes in a stream's order: its function and arguments.
pub(crate) fn ordered_write(to: u64, bytes: &[u8], stream: StreamHandle) -> (&'static str, [u64; 4]) {
    let name = twin(stream, "cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync_v2_ptsz");
    (name, [to, bytes.as_ptr() as u64, bytes.len() as u64, stream.handle])
}
