//! The functions that the recorder must do more about than their table line says: the one list of exceptions.

use crate::lane::{self, Lane};
use crate::pending::Queue;
use crate::{adopt, nets, payload, real, start};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::*};
use trace::api::table::same;
use trace::{Function, record};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    None,
    /// Hand out wrappers for the addresses found.
    ProcAddress,
    /// The devices can be described from now on.
    Init,
    /// Function handles may be reused from now on.
    CodeEnds,
    /// A module whose origin is in the trace: its place is the first word, or its handle is.
    ModuleMade,
    ModuleEnds,
    /// A lookup in a module, the second word.
    ModuleUsed,
    /// Pinned memory begins or ends.
    HostRegister,
    HostFree,
    /// What pending copies an event or stream covers.
    EventRecord {
        per_thread: bool,
    },
    StreamWait {
        per_thread: bool,
    },
    /// The handle may be another stream's from now on.
    StreamEnds,
    BeginCapture,
    EndCapture,
}

const HOOKS: &[(&str, Hook)] = &[
    ("cuGetProcAddress", Hook::ProcAddress),
    ("cuGetProcAddress_v2", Hook::ProcAddress),
    ("cuInit", Hook::Init),
    ("cuModuleUnload", Hook::ModuleEnds),
    ("cuModuleLoad", Hook::ModuleMade),
    ("cuModuleLoadData", Hook::ModuleMade),
    ("cuModuleLoadDataEx", Hook::ModuleMade),
    ("cuModuleLoadFatBinary", Hook::ModuleMade),
    ("cuLibraryGetModule", Hook::ModuleMade),
    ("cuFuncGetModule", Hook::ModuleMade),
    ("cuModuleGetFunction", Hook::ModuleUsed),
    ("cuLibraryUnload", Hook::CodeEnds),
    ("cuCtxDestroy", Hook::CodeEnds),
    ("cuCtxDestroy_v2", Hook::CodeEnds),
    ("cuCtxDetach", Hook::CodeEnds),
    ("cuDevicePrimaryCtxReset", Hook::CodeEnds),
    ("cuDevicePrimaryCtxReset_v2", Hook::CodeEnds),
    ("cuDevicePrimaryCtxRelease", Hook::CodeEnds),
    ("cuDevicePrimaryCtxRelease_v2", Hook::CodeEnds),
    ("cuGreenCtxDestroy", Hook::CodeEnds),
    ("cuMemHostRegister", Hook::HostRegister),
    ("cuMemHostRegister_v2", Hook::HostRegister),
    ("cuMemHostUnregister", Hook::HostFree),
    ("cuMemFreeHost", Hook::HostFree),
    ("cuEventRecord", Hook::EventRecord { per_thread: false }),
    ("cuEventRecord_ptsz", Hook::EventRecord { per_thread: true }),
    ("cuEventRecordWithFlags", Hook::EventRecord { per_thread: false }),
    ("cuEventRecordWithFlags_ptsz", Hook::EventRecord { per_thread: true }),
    ("cuStreamWaitEvent", Hook::StreamWait { per_thread: false }),
    ("cuStreamWaitEvent_ptsz", Hook::StreamWait { per_thread: true }),
    ("cuStreamDestroy", Hook::StreamEnds),
    ("cuStreamDestroy_v2", Hook::StreamEnds),
    ("cuStreamBeginCapture", Hook::BeginCapture),
    ("cuStreamBeginCapture_ptsz", Hook::BeginCapture),
    ("cuStreamBeginCapture_v2", Hook::BeginCapture),
    ("cuStreamBeginCapture_v2_ptsz", Hook::BeginCapture),
    ("cuStreamBeginCaptureToGraph", Hook::BeginCapture),
    ("cuStreamBeginCaptureToGraph_ptsz", Hook::BeginCapture),
    ("cuStreamEndCapture", Hook::EndCapture),
    ("cuStreamEndCapture_ptsz", Hook::EndCapture),
];

pub const fn of(name: &str) -> Hook {
    let mut i = 0;
    while i < HOOKS.len() {
        if same(HOOKS[i].0, name) {
            return HOOKS[i].1;
        }
        i += 1;
    }
    Hook::None
}

/// Copies between unified addresses, of which either may be host memory.
const UNIFIED: &[&str] = &["cuMemcpy", "cuMemcpyAsync", "cuMemcpyBatchAsync", "cuMemcpyBatchAsync_v2"];

pub const fn copies_unified(function: &Function) -> bool {
    let name = match function.twin_of {
        Some(name) => name,
        None => function.name,
    };
    let mut i = 0;
    while i < UNIFIED.len() {
        if same(UNIFIED[i], name) {
            return true;
        }
        i += 1;
    }
    false
}

/// Captures that have begun and not ended.
static CAPTURES: AtomicI64 = AtomicI64::new(0);

/// Before the real call. Memory that is about to be freed may be someone else's when the call returns.
#[inline(always)]
pub fn before(hook: Hook, words: &[u64]) -> u64 {
    if matches!(hook, Hook::HostFree) { host_ends(words[0]) } else { 0 }
}

/// Pinned memory is being given back: its length, if it is known. What copies still bring there nobody will look at.
#[cold]
fn host_ends(start: u64) -> u64 {
    let recorder = start::recorder();
    let Some(len) = recorder.pinned.remove(start) else { return 0 };
    if recorder.pending.any() {
        lane::with_lane(|lane| {
            recorder.pending.forget(start, len).iter().for_each(|copy| payload::observed(lane, copy, None));
        });
    }
    len
}

/// After the real call, recorded or not.
#[inline(always)]
pub fn after(hook: Hook, words: &[u64], result: u32, recorded: bool, removed: u64) {
    if matches!(hook, Hook::None) {
        return;
    }
    if matches!(hook, Hook::ProcAddress) && result == 0 {
        hand_out(words[1] as *mut *mut c_void);
    }
    if !recorded {
        return;
    }
    let recorder = start::recorder();
    match (hook, result == 0) {
        (Hook::HostFree, false) if removed != 0 => recorder.pinned.add(words[0], removed),
        (_, false) => {}
        (Hook::CodeEnds, _) => recorder.kernels.forget(),
        (Hook::ModuleEnds, _) => {
            recorder.kernels.forget();
            recorder.modules.remove(words[0]);
        }
        // SAFETY: the driver has just written a handle there for the application.
        (Hook::ModuleMade, _) => recorder.modules.add(unsafe { *(words[0] as *const u64) }),
        (Hook::ModuleUsed, _) => lane::with_lane(|lane| adopt::looked_into(lane, words[1])),
        (Hook::HostRegister, _) => recorder.pinned.add(words[0], words[1]),
        (Hook::EventRecord { per_thread }, _) if recorder.pending.any() => lane::with_lane(|lane| {
            recorder.pending.event_recorded(words[0], Queue::of(words[1], per_thread, lane.index()));
        }),
        (Hook::StreamWait { per_thread }, _) if recorder.pending.any() => lane::with_lane(|lane| {
            recorder.pending.stream_waits(Queue::of(words[0], per_thread, lane.index()), words[1]);
        }),
        (Hook::StreamEnds, _) => recorder.pending.stream_ends(Queue::of(words[0], false, 0)),
        (Hook::BeginCapture, _) => drop(CAPTURES.fetch_add(1, Relaxed)),
        (Hook::EndCapture, _) => drop(CAPTURES.fetch_sub(1, Relaxed)),
        _ => {}
    }
}

fn hand_out(place: *mut *mut c_void) {
    if place.is_null() {
        return;
    }
    // SAFETY: the driver has just written an address there for the application.
    unsafe { *place = nets::substitute(*place) };
}

/// The calling thread's context; 0 if there is none.
pub fn current_context() -> u64 {
    type Current = unsafe extern "C" fn(*mut u64) -> u32;
    let mut context = 0;
    // SAFETY: the signature is that of cuda.h; the call only reads a thread-local of the driver's.
    unsafe { real::function::<Current>("cuCtxGetCurrent").map(|ask| ask(&mut context)) };
    context
}

/// Whether the legacy stream waits for this one.
pub fn is_blocking(stream: u64) -> Option<bool> {
    type Flags = unsafe extern "C" fn(u64, *mut u32) -> u32;
    const NON_BLOCKING: u32 = 1;
    let mut flags = 0;
    // SAFETY: the signature is that of cuda.h; the stream is one that the application has just used.
    let result = unsafe { real::function::<Flags>("cuStreamGetFlags").map(|ask| ask(stream, &mut flags)) };
    (result == Some(0)).then_some(flags & NON_BLOCKING == 0)
}

/// Whether work put on this stream becomes graph nodes. The driver is asked only while some capture is under way.
pub fn is_capturing(stream: u64) -> bool {
    type IsCapturing = unsafe extern "C" fn(u64, *mut u32) -> u32;
    if CAPTURES.load(Relaxed) <= 0 {
        return false;
    }
    let mut status = 0;
    // SAFETY: as above; the question is allowed during capture.
    unsafe { real::function::<IsCapturing>("cuStreamIsCapturing").map(|ask| ask(stream, &mut status)) };
    status != 0
}

/// Whether a unified address is host memory: pinned, or none that the driver knows. Managed memory counts as the device's.
pub fn is_host_memory(address: u64) -> bool {
    type Attribute = unsafe extern "C" fn(*mut u32, u32, u64) -> u32;
    const MEMORY_TYPE: u32 = 2;
    const IS_MANAGED: u32 = 8;
    const HOST: u32 = 1;
    let ask = |attribute| {
        let mut answer = 0;
        // SAFETY: the signature is that of cuda.h; the answers for both attributes fit an unsigned int.
        let result = unsafe {
            real::function::<Attribute>("cuPointerGetAttribute").map(|ask| ask(&mut answer, attribute, address))
        };
        (result == Some(0)).then_some(answer)
    };
    match ask(MEMORY_TYPE) {
        None => true,
        Some(kind) => kind == HOST && ask(IS_MANAGED).unwrap_or(0) & 0xff == 0,
    }
}

/// Bytes of one element of an array, from its descriptor.
pub fn array_element(array: u64) -> Option<u64> {
    use trace::api::{copies, enums::CUarray_format, structs::CUDA_ARRAY3D_DESCRIPTOR};
    type Describe = unsafe extern "C" fn(*mut CUDA_ARRAY3D_DESCRIPTOR, u64) -> u32;
    // SAFETY: as above; the descriptor is plain numbers, and zeros are valid in it.
    let (result, found) = unsafe {
        let ask = real::function::<Describe>("cuArray3DGetDescriptor_v2")?;
        let mut found: CUDA_ARRAY3D_DESCRIPTOR = std::mem::zeroed();
        (ask(&mut found, array), found)
    };
    if result != 0 {
        return None;
    }
    copies::element_bytes(CUarray_format(found.Format.0), found.NumChannels)
}

static DESCRIBED: AtomicBool = AtomicBool::new(false);

/// Describes the devices in the trace, once, after the first cuInit that succeeded.
#[cold]
pub fn describe_devices(lane: &Lane) {
    if DESCRIBED.swap(true, Relaxed) {
        return;
    }
    for ordinal in 0..devices::count() {
        lane.append(&record::with_body(record::DEVICE, &devices::describe(ordinal)));
    }
}

/// A new process describes them anew.
pub fn forget_devices() {
    DESCRIBED.store(false, Relaxed);
}

mod devices {
    use super::real::function;
    use trace::record::Device;

    type Count = unsafe extern "C" fn(*mut i32) -> u32;
    type Name = unsafe extern "C" fn(*mut u8, i32, i32) -> u32;
    type Uuid = unsafe extern "C" fn(*mut [u8; 16], i32) -> u32;
    type Memory = unsafe extern "C" fn(*mut u64, i32) -> u32;
    type Attribute = unsafe extern "C" fn(*mut i32, u32, i32) -> u32;

    pub fn count() -> i32 {
        let mut count = 0;
        // SAFETY: the signature is that of cuda.h.
        unsafe { function::<Count>("cuDeviceGetCount").map(|ask| ask(&mut count)) };
        count
    }

    pub fn describe(ordinal: i32) -> Device {
        let mut name = [0u8; 256];
        let mut device = Device { ordinal, name: String::new(), uuid: [0; 16], memory: 0, compute: (0, 0) };
        // SAFETY: the driver's own functions with the signatures of cuda.h; a CUdevice is its ordinal.
        unsafe {
            function::<Name>("cuDeviceGetName").map(|ask| ask(name.as_mut_ptr(), 256, ordinal));
            function::<Uuid>("cuDeviceGetUuid_v2").map(|ask| ask(&mut device.uuid, ordinal));
            function::<Memory>("cuDeviceTotalMem_v2").map(|ask| ask(&mut device.memory, ordinal));
            if let Some(ask) = function::<Attribute>("cuDeviceGetAttribute") {
                ask(&mut device.compute.0, 75, ordinal);
                ask(&mut device.compute.1, 76, ordinal);
            }
        }
        let end = name.iter().position(|b| *b == 0).unwrap_or(0);
        device.name = String::from_utf8_lossy(&name[..end]).into_owned();
        device
    }
}
