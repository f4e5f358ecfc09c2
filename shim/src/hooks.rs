//! What the recorder must do at the calls of some functions, beyond what their table lines say.

use crate::callback::{self, Substitute};
use crate::finds::Finds;
use crate::lane::{self, Lane, Open};
use crate::manners::guarded;
use crate::memory::word_at;
use crate::nodes::Nodes;
use crate::queue::Queue;
use crate::shape::Site;
use crate::{adopt, arrived, ask, nets, picture, range, start, times};
use std::ffi::c_void;
use std::sync::atomic::Ordering::*;
use trace::Function;
use trace::api::table::{BROKEN_CAPTURE, same};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    None,
    /// Hand out wrappers for the addresses found.
    ProcAddress,
    /// The devices can be described from now on.
    Init,
    /// Function handles may be reused from now on.
    CodeEnds {
        /// With a context: what is known of its work is asked for now.
        context: bool,
    },
    /// A module whose origin is in the trace: its place is the first word, or its handle is.
    ModuleMade,
    /// As `ModuleMade`; the second word is its library.
    LibraryModule,
    ModuleEnds,
    /// A lookup in a module, the second word, of a function.
    ModuleUsed,
    /// Managed memory: its place is the first word, its length the second.
    ManagedMade,
    /// This function has found a variable of a module or library.
    VariableFound(&'static str),
    /// Device memory, maybe managed, is given back.
    MemoryFree,
    /// A lookup in a library, the second word.
    KernelFound,
    /// The function of a kernel, the second word.
    KernelFunction,
    /// A function is asked about or set up. The driver is asked who it is, if it handed it out through a hidden table.
    FunctionUsed {
        word: usize,
    },
    /// Pinned memory begins or ends.
    HostRegister,
    HostFree {
        /// The memory itself, not only its being pinned.
        gone: bool,
    },
    /// What pending copies an event or stream covers.
    EventRecord {
        per_thread: bool,
    },
    StreamWait {
        per_thread: bool,
    },
    /// An event that covers all of a context, the first word.
    ContextRecord,
    /// The handle may be another stream's from now on.
    StreamEnds,
    EventEnds,
    BeginCapture,
    GraphMade,
    /// An executable graph is made, whose place is the first word, of the second, or changed to be as that.
    Instantiated,
    GraphUpdated,
    GraphEnds,
    EndCapture,
    /// A capture range begins, or ends.
    Profiler {
        starts: bool,
    },
    /// A callback is handed over, as an argument or in a struct.
    HandsOver,
    /// A callback that was handed over may be handed back.
    HandsBack,
    /// It may be shown in a file, whose name is the second word.
    Draws,
    /// A texture or surface over memory: its address is this word, or stands there in what the word points to.
    Textured {
        word: usize,
        within: Option<u64>,
    },
}

/// Where CUDA_RESOURCE_DESC has the address of linear and of pitched memory.
const OF_RESOURCE: Option<u64> = Some(8);

/// CU_MEMHOSTREGISTER_IOMEMORY
const IO_MEMORY: u64 = 4;

/// By the name of the line: per-thread-stream twins share it.
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
    ("cuFuncGetAttribute", Hook::FunctionUsed { word: 2 }),
    ("cuFuncSetAttribute", Hook::FunctionUsed { word: 0 }),
    ("cuFuncSetCacheConfig", Hook::FunctionUsed { word: 0 }),
    ("cuFuncSetSharedMemConfig", Hook::FunctionUsed { word: 0 }),
    ("cuFuncLoad", Hook::FunctionUsed { word: 0 }),
    ("cuOccupancyMaxActiveBlocksPerMultiprocessor", Hook::FunctionUsed { word: 1 }),
    ("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", Hook::FunctionUsed { word: 1 }),
    ("cuOccupancyAvailableDynamicSMemPerBlock", Hook::FunctionUsed { word: 1 }),
    ("cuOccupancyMaxPotentialClusterSize", Hook::FunctionUsed { word: 1 }),
    ("cuOccupancyMaxActiveClusters", Hook::FunctionUsed { word: 1 }),
    ("cuMemAllocManaged", Hook::ManagedMade),
    ("cuLibraryGetManaged", Hook::VariableFound("cuLibraryGetManaged")),
    ("cuLibraryGetGlobal", Hook::VariableFound("cuLibraryGetGlobal")),
    ("cuModuleGetGlobal_v2", Hook::VariableFound("cuModuleGetGlobal_v2")),
    ("cuMemFree_v2", Hook::MemoryFree),
    ("cuLibraryUnload", Hook::CodeEnds { context: false }),
    ("cuCtxDestroy", Hook::CodeEnds { context: true }),
    ("cuCtxDestroy_v2", Hook::CodeEnds { context: true }),
    ("cuCtxDetach", Hook::CodeEnds { context: true }),
    ("cuDevicePrimaryCtxReset", Hook::CodeEnds { context: true }),
    ("cuDevicePrimaryCtxReset_v2", Hook::CodeEnds { context: true }),
    ("cuDevicePrimaryCtxRelease", Hook::CodeEnds { context: false }),
    ("cuDevicePrimaryCtxRelease_v2", Hook::CodeEnds { context: false }),
    ("cuGreenCtxDestroy", Hook::CodeEnds { context: true }),
    ("cuMemHostRegister", Hook::HostRegister),
    ("cuMemHostRegister_v2", Hook::HostRegister),
    ("cuMemHostUnregister", Hook::HostFree { gone: false }),
    ("cuMemFreeHost", Hook::HostFree { gone: true }),
    ("cuEventRecord", Hook::EventRecord { per_thread: false }),
    ("cuEventRecordWithFlags", Hook::EventRecord { per_thread: false }),
    ("cuCtxRecordEvent", Hook::ContextRecord),
    ("cuGreenCtxRecordEvent", Hook::ContextRecord),
    ("cuStreamWaitEvent", Hook::StreamWait { per_thread: false }),
    ("cuStreamDestroy", Hook::StreamEnds),
    ("cuStreamDestroy_v2", Hook::StreamEnds),
    ("cuStreamBeginCapture", Hook::BeginCapture),
    ("cuStreamBeginCapture_v2", Hook::BeginCapture),
    ("cuStreamBeginCaptureToGraph", Hook::BeginCapture),
    ("cuGraphCreate", Hook::GraphMade),
    ("cuGraphInstantiate", Hook::Instantiated),
    ("cuGraphInstantiate_v2", Hook::Instantiated),
    ("cuGraphInstantiateWithFlags", Hook::Instantiated),
    ("cuGraphInstantiateWithParams", Hook::Instantiated),
    ("cuGraphExecUpdate", Hook::GraphUpdated),
    ("cuGraphExecUpdate_v2", Hook::GraphUpdated),
    ("cuGraphExecDestroy", Hook::GraphEnds),
    ("cuStreamBeginCaptureToCig", Hook::BeginCapture),
    ("cuStreamEndCapture", Hook::EndCapture),
    ("cuStreamEndCaptureToCig", Hook::EndCapture),
    ("cuProfilerStart", Hook::Profiler { starts: true }),
    ("cuProfilerStop", Hook::Profiler { starts: false }),
    ("cuLaunchHostFunc", Hook::HandsOver),
    ("cuLaunchHostFunc_v2", Hook::HandsOver),
    ("cuStreamAddCallback", Hook::HandsOver),
    ("cuGraphAddHostNode", Hook::HandsOver),
    ("cuGraphHostNodeSetParams", Hook::HandsOver),
    ("cuGraphExecHostNodeSetParams", Hook::HandsOver),
    ("cuGraphAddNode", Hook::HandsOver),
    ("cuGraphAddNode_v2", Hook::HandsOver),
    ("cuGraphAddNode_v3", Hook::HandsOver),
    ("cuGraphNodeSetParams", Hook::HandsOver),
    ("cuGraphExecNodeSetParams", Hook::HandsOver),
    ("cuGraphNodeSetParams_v2", Hook::HandsOver),
    ("cuGraphHostNodeGetParams", Hook::HandsBack),
    ("cuGraphNodeGetParams", Hook::HandsBack),
    ("cuGraphDebugDotPrint", Hook::Draws),
    ("cuTexObjectCreate", Hook::Textured { word: 1, within: OF_RESOURCE }),
    ("cuTexRefSetAddress_v2", Hook::Textured { word: 2, within: None }),
    ("cuTexRefSetAddress2D_v2", Hook::Textured { word: 2, within: None }),
    ("cuTexRefSetAddress2D_v3", Hook::Textured { word: 2, within: None }),
    ("cuStreamBeginRecaptureToGraph", Hook::BeginCapture),
    ("cuEventDestroy", Hook::EventEnds),
    ("cuEventDestroy_v2", Hook::EventEnds),
];

pub const fn of(function: &Function) -> Hook {
    let mut i = 0;
    while i < HOOKS.len() {
        if same(HOOKS[i].0, function.common_name()) {
            return match HOOKS[i].1 {
                Hook::EventRecord { .. } => Hook::EventRecord { per_thread: function.twin_of.is_some() },
                Hook::StreamWait { .. } => Hook::StreamWait { per_thread: function.twin_of.is_some() },
                hook => hook,
            };
        }
        i += 1;
    }
    Hook::None
}

/// Copies between unified addresses, of which either may be host memory.
const UNIFIED: &[&str] =
    &["cuMemcpy", "cuMemcpyAsync", "cuMemcpyBatchAsync", "cuMemcpyBatchAsync_v2", "cuMemcpyWithAttributesAsync"];

pub const fn copies_unified(function: &Function) -> bool {
    let mut i = 0;
    while i < UNIFIED.len() {
        if same(UNIFIED[i], function.common_name()) {
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
        Hook::HostFree { .. } | Hook::ModuleEnds | Hook::CodeEnds { .. } | Hook::StreamEnds => {
            if matches!(hook, Hook::CodeEnds { context: true }) && range::takes_times() {
                times::context_ends();
            }
            lane::with_lane(|lane| ending(hook, lane, words))
        }
        Hook::MemoryFree if start::recording() && start::recorder().watch.managed.any() => {
            lane::with_lane(|lane| ending(hook, lane, words))
        }
        _ => 0,
    }
}

/// What the driver is given in the place of some arguments.
#[inline(always)]
pub fn substitute(site: Site, words: &[u64], open: Option<Open>) -> Option<Substitute> {
    match (site.hook, open) {
        (Hook::HandsOver, Some(open)) => callback::hand_over(site.function, words, open.sequence),
        _ => None,
    }
}

/// After the real call, before anything is recorded of what it brought.
#[inline(always)]
pub fn restore(site: Site, words: &[u64], made: Option<Substitute>, result: u32) {
    if matches!(site.hook, Hook::HandsOver)
        && let Some(made) = made
    {
        callback::handed_over(made, result);
    }
    if matches!(site.hook, Hook::HandsBack) && result == 0 {
        callback::give_back(site.function, words);
    }
    if matches!(site.hook, Hook::Draws) && result == 0 {
        guarded(|| picture::give_back(words[1]));
    }
}

/// The length of the pinned or managed memory that ends, if it is one.
#[cold]
fn ending(hook: Hook, lane: &Lane, words: &[u64]) -> u64 {
    let recorder = start::recorder();
    match hook {
        Hook::ModuleEnds => {
            recorder.kernels.forget_module(words[0]);
            code_ends(lane, words[0]);
        }
        Hook::CodeEnds { .. } => {
            recorder.kernels.forget();
            code_ends(lane, words[0]);
            if recorder.watch.managed.any() {
                // Its managed memory may end with a context.
                let mut finds = Finds::before(lane, lane.sequence().wrapping_sub(1));
                recorder.watch.look_last(&mut finds);
                finds.append(lane);
            }
        }
        Hook::StreamEnds => {
            recorder.pending.stream_ends(Queue::of(words[0], false, lane.index(), ask::current_context))
        }
        Hook::MemoryFree => return managed_ends(lane, words[0]),
        _ => {
            let Some(len) = recorder.pinned.remove(words[0]) else { return 0 };
            let gone = matches!(hook, Hook::HostFree { gone: true });
            recorder.watch.forget(words[0], len, gone, None);
            // What copies still bring there nobody will look at.
            recorder.pending.forget(words[0], len).iter().for_each(|copy| arrived::observed(lane, copy, None));
            return len;
        }
    }
    0
}

/// A module or library ends, and its variables with it.
fn code_ends(lane: &Lane, owner: u64) {
    let recorder = start::recorder();
    recorder.images.owner_ends(owner);
    recorder.variables.owned(owner).into_iter().for_each(|start| _ = managed_ends(lane, start));
}

/// The length of this managed memory, if it is that. What the CPU has there is told.
fn managed_ends(lane: &Lane, start: u64) -> u64 {
    let watch = &start::recorder().watch;
    let Some(len) = watch.managed.remove(start) else { return 0 };
    // The call's entry has been written: it is the latest.
    let mut finds = Finds::before(lane, lane.sequence().wrapping_sub(1));
    watch.forget(start, len, true, Some(&mut finds));
    finds.append(lane);
    len
}

/// After the real call, recorded or not.
#[inline(always)]
pub fn after(hook: Hook, words: &[u64], result: u32, open: Option<Open>, removed: u64) {
    if matches!(hook, Hook::None) || matches!(hook, Hook::MemoryFree) && (removed == 0 || result == 0) {
        return;
    }
    if let Hook::FunctionUsed { word } = hook
        && (result != 0 || open.is_none() || is_known(words[word]))
    {
        return;
    }
    if matches!(hook, Hook::ProcAddress) && result == 0 {
        hand_out(words[1] as *mut *mut c_void);
    }
    let succeeded = result == 0 || matches!(hook, Hook::EndCapture) && BROKEN_CAPTURE.contains(&result);
    if let Some(open) = open {
        lane::with_lane(|lane| ended(hook, lane, words, succeeded, open.position, removed));
    }
}

/// Whether the trace holds who this function is, or a call that looked it up.
fn is_known(function: u64) -> bool {
    let kernels = &start::recorder().kernels;
    kernels.known(function).is_some() || kernels.is_given(function)
}

fn ended(hook: Hook, lane: &Lane, words: &[u64], succeeded: bool, position: u64, removed: u64) {
    let recorder = start::recorder();
    match (hook, succeeded) {
        // Whether or not it succeeded: a reset that failed may have ended something all the same.
        (Hook::CodeEnds { .. }, _) => {
            recorder.kernels.forget();
            recorder.modules.owner_ends(words[0]);
            recorder.variables.owner_ended(words[0], succeeded);
            recorder.pinned.drop_gone(ask::is_not_pinned);
            recorder.watch.drop_gone();
        }
        (Hook::ModuleEnds, _) => {
            recorder.kernels.forget_module(words[0]);
            recorder.modules.remove(words[0]);
            recorder.variables.owner_ended(words[0], succeeded);
        }
        // A driver under another tool refuses it.
        (Hook::Profiler { starts }, _) => range::profiler(&recorder.range, starts),
        (Hook::MemoryFree, false) if removed != 0 => recorder.watch.managed_made(words[0], removed),
        // How it had been asked for is forgotten.
        (Hook::HostFree { gone: true }, false) if removed != 0 => recorder.pinned.add(words[0], removed, true),
        (Hook::HostFree { gone: false }, false) if removed != 0 => recorder.pinned.register(words[0], removed),
        (_, false) => {}
        (Hook::ModuleMade | Hook::LibraryModule, _) => {
            let module = handed_out(words[0]);
            let library = if matches!(hook, Hook::LibraryModule) { words[1] } else { 0 };
            recorder.images.library_module(module, library);
            recorder.modules.add(module, library, ask::current_context());
        }
        (Hook::ModuleUsed, _) => {
            adopt::looked_into(lane, words[1]);
            recorder.kernels.give(handed_out(words[0]), words[1]);
            recorder.images.function_found(words[0], words[1], words[2], false);
        }
        (Hook::KernelFound, _) => {
            recorder.kernels.give(handed_out(words[0]), 0);
            recorder.images.function_found(words[0], words[1], words[2], true);
        }
        (Hook::KernelFunction, _) => {
            recorder.kernels.give(handed_out(words[0]), 0);
            recorder.images.kernel_function(words[0], words[1]);
        }
        (Hook::FunctionUsed { word }, _) => _ = lane.introduce(words[word]),
        (Hook::ManagedMade, _) => recorder.watch.managed_made(handed_out(words[0]), words[1]),
        (Hook::VariableFound(function), _) => recorder.variables.found(function, words),
        // Memory of devices is never read by the CPU: it may have side effects.
        (Hook::HostRegister, _) if words[2] & IO_MEMORY == 0 => recorder.pinned.register(words[0], words[1]),
        (Hook::EventRecord { per_thread }, _) if orders(recorder) => {
            let queue = Queue::of(words[1], per_thread, lane.index(), ask::current_context);
            recorder.pending.event_recorded(words[0], queue, position);
        }
        (Hook::ContextRecord, _) if orders(recorder) => {
            recorder.pending.context_recorded(words[1], words[0], position);
        }
        (Hook::EventEnds, _) => recorder.pending.event_ends(words[0]),
        (Hook::StreamWait { per_thread }, _) if orders(recorder) => {
            let queue = Queue::of(words[0], per_thread, lane.index(), ask::current_context);
            recorder.pending.stream_waits(queue, words[1]);
        }
        (Hook::Textured { word, within }, _) if recorder.reaches_host() => {
            let address = within.map_or(Some(words[word]), |offset| word_at(words[word] + offset, 8, true));
            // The call's entry has been written: it is the latest.
            let mut finds = Finds::before(lane, lane.sequence().wrapping_sub(1));
            recorder.watch.refer(address.into_iter(), &mut finds);
            finds.append(lane);
        }
        (Hook::Instantiated, _) => instantiated(lane, handed_out(words[0]), words[1]),
        (Hook::GraphUpdated, _) => instantiated(lane, words[0], words[1]),
        (Hook::GraphEnds, _) => {
            recorder.destinations.ends(words[0]);
            recorder.node_runs.ends(words[0]);
        }
        (Hook::BeginCapture, _) => {
            ask::GRAPHS.store(true, Relaxed);
            range::capture_begins();
        }
        (Hook::GraphMade, _) => ask::GRAPHS.store(true, Relaxed),
        (Hook::EndCapture, _) => range::capture_ends(),
        _ => {}
    }
}

/// What a call that succeeded has put there.
pub fn handed_out(place: u64) -> u64 {
    // SAFETY: the driver has just written a word there for the application.
    unsafe { *(place as *const u64) }
}

fn hand_out(place: *mut *mut c_void) {
    if place.is_null() {
        return;
    }
    // SAFETY: the driver has just written an address there for the application.
    unsafe { *place = nets::substitute(*place) };
}

/// Whether anything is under way of which it matters what waits for it.
fn orders(recorder: &start::Recorder) -> bool {
    recorder.pending.any() || callback::any_under_way()
}

/// An executable graph was made of another one, or became like it.
fn instantiated(lane: &Lane, executable: u64, graph: u64) {
    let recorder = lane.recorder();
    let copies = recorder.destinations.any() || recorder.shares_any();
    let nodes = if copies || callback::any_of_nodes() { Nodes::of(graph) } else { Nodes::default() };
    let written = nodes.written();
    let called_back = nodes.called_back(&written);
    let changes = !called_back.is_empty();
    recorder.node_runs.instantiated(executable, called_back);
    recorder.destinations.instantiated(executable, &written);
    if changes {
        // What its callbacks make of that before anybody may look.
        let mut finds = Finds::before(lane, lane.sequence().wrapping_sub(1));
        for (address, len) in recorder.destinations.pageable(executable) {
            recorder.watch.watch(address, len, false, &mut finds);
        }
        finds.append(lane);
    }
}
