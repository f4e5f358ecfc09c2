//! The functions that the recorder must do more about than their table line says: the one list of exceptions.

use crate::lane::{self, Lane, Open};
use crate::pending::Queue;
use crate::{adopt, ask, nets, payload, start};
use std::ffi::c_void;
use std::sync::atomic::Ordering::*;
use trace::Function;
use trace::api::table::same;

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
    /// As `ModuleMade`; the second word is its library.
    LibraryModule,
    ModuleEnds,
    /// A lookup in a module, the second word.
    ModuleUsed,
    /// A lookup in a library, the second word.
    KernelFound,
    /// The function of a kernel, the second word.
    KernelFunction,
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
    EventEnds,
    BeginCapture,
}

/// CU_MEMHOSTREGISTER_IOMEMORY
const IO_MEMORY: u64 = 4;

const HOOKS: &[(&str, Hook)] = &[
    ("cuGetProcAddress", Hook::ProcAddress),
    ("cuGetProcAddress_v2", Hook::ProcAddress),
    ("cuInit", Hook::Init),
    ("cuModuleUnload", Hook::ModuleEnds),
    ("cuModuleLoad", Hook::ModuleMade),
    ("cuModuleLoadData", Hook::ModuleMade),
    ("cuModuleLoadDataEx", Hook::ModuleMade),
    ("cuModuleLoadFatBinary", Hook::ModuleMade),
    ("cuLibraryGetModule", Hook::LibraryModule),
    ("cuFuncGetModule", Hook::ModuleMade),
    ("cuModuleGetFunction", Hook::ModuleUsed),
    ("cuLibraryGetKernel", Hook::KernelFound),
    ("cuKernelGetFunction", Hook::KernelFunction),
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
    ("cuStreamBeginRecaptureToGraph", Hook::BeginCapture),
    ("cuStreamBeginRecaptureToGraph_ptsz", Hook::BeginCapture),
    ("cuEventDestroy", Hook::EventEnds),
    ("cuEventDestroy_v2", Hook::EventEnds),
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
const UNIFIED: &[&str] =
    &["cuMemcpy", "cuMemcpyAsync", "cuMemcpyBatchAsync", "cuMemcpyBatchAsync_v2", "cuMemcpyWithAttributesAsync"];

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

/// Before the real call: what is about to be given back may be someone else's when the call returns.
#[inline(always)]
pub fn before(hook: Hook, words: &[u64]) -> u64 {
    match hook {
        Hook::HostFree | Hook::ModuleEnds | Hook::CodeEnds | Hook::StreamEnds => {
            lane::with_lane(|lane| ending(hook, lane, words))
        }
        _ => 0,
    }
}

/// The length of the pinned memory that ends, if it is one.
#[cold]
fn ending(hook: Hook, lane: &Lane, words: &[u64]) -> u64 {
    let recorder = start::recorder();
    match hook {
        Hook::ModuleEnds => {
            recorder.kernels.forget_module(words[0]);
            recorder.images.owner_ends(words[0]);
        }
        Hook::CodeEnds => {
            recorder.kernels.forget();
            recorder.images.owner_ends(words[0]);
        }
        Hook::StreamEnds => {
            recorder.pending.stream_ends(Queue::of(words[0], false, lane.index(), ask::current_context))
        }
        _ => {
            let Some(len) = recorder.pinned.remove(words[0]) else { return 0 };
            // What copies still bring there nobody will look at.
            recorder.pending.forget(words[0], len).iter().for_each(|copy| payload::observed(lane, copy, None));
            return len;
        }
    }
    0
}

/// After the real call, recorded or not.
#[inline(always)]
pub fn after(hook: Hook, words: &[u64], result: u32, open: Option<Open>, removed: u64) {
    if matches!(hook, Hook::None) {
        return;
    }
    if matches!(hook, Hook::ProcAddress) && result == 0 {
        hand_out(words[1] as *mut *mut c_void);
    }
    if let Some(open) = open {
        lane::with_lane(|lane| ended(hook, lane, words, result == 0, open.position, removed));
    }
}

fn ended(hook: Hook, lane: &Lane, words: &[u64], succeeded: bool, position: u64, removed: u64) {
    let recorder = start::recorder();
    match (hook, succeeded) {
        // Whether or not it succeeded: a reset that failed may have ended something all the same.
        (Hook::CodeEnds, _) => {
            recorder.kernels.forget();
            recorder.modules.owner_ends(words[0]);
            recorder.pinned.drop_gone(ask::is_not_pinned);
        }
        (Hook::ModuleEnds, _) => {
            recorder.kernels.forget_module(words[0]);
            recorder.modules.remove(words[0]);
        }
        (Hook::HostFree, false) if removed != 0 => recorder.pinned.add(words[0], removed),
        (_, false) => {}
        (Hook::ModuleMade | Hook::LibraryModule, _) => {
            // SAFETY: the driver has just written a handle there for the application.
            let module = unsafe { *(words[0] as *const u64) };
            let library = if matches!(hook, Hook::LibraryModule) { words[1] } else { 0 };
            recorder.images.library_module(module, library);
            recorder.modules.add(module, library, ask::current_context());
        }
        (Hook::ModuleUsed, _) => {
            adopt::looked_into(lane, words[1]);
            recorder.images.function_found(words[0], words[1], words[2], false);
        }
        (Hook::KernelFound, _) => recorder.images.function_found(words[0], words[1], words[2], true),
        (Hook::KernelFunction, _) => recorder.images.kernel_function(words[0], words[1]),
        // Memory of devices is never read by the CPU: it may have side effects.
        (Hook::HostRegister, _) if words[2] & IO_MEMORY == 0 => recorder.pinned.add(words[0], words[1]),
        (Hook::EventRecord { per_thread }, _) if recorder.pending.any() => {
            let queue = Queue::of(words[1], per_thread, lane.index(), ask::current_context);
            recorder.pending.event_recorded(words[0], queue, position);
        }
        (Hook::EventEnds, _) => recorder.pending.event_ends(words[0]),
        (Hook::StreamWait { per_thread }, _) if recorder.pending.any() => {
            let queue = Queue::of(words[0], per_thread, lane.index(), ask::current_context);
            recorder.pending.stream_waits(queue, words[1]);
        }
        (Hook::BeginCapture, _) => ask::CAPTURES.store(true, Relaxed),
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
