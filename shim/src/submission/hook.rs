//! The calls that the recorder follows beyond the recording of their roles: derived from the table at compile
//! time.

mod parameters;

use parameters::{Sought, address_offset, find, holds_callback, word, word_of};
use trace::Function;
use trace::api::effect::{Bytes, Effect, Memory, Work};
use trace::api::roles::{Class, Role, Sibling};
use trace::api::types::{Form, Kind};

/// The action for a followed call, with the numbers of the argument words that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hook {
    None,
    /// Hand out wrappers for the address found, which is to stand in this word's place.
    ProcAddress {
        place: u8,
    },
    /// The devices can be described from now on.
    Init,
    /// Function handles may be reused from now on. With a context: what is known of its work is asked for
    /// now.
    CodeEnds {
        owner: u8,
        context: bool,
    },
    /// A module whose origin is in the trace, maybe that of a library.
    ModuleMade {
        place: u8,
        library: Option<u8>,
    },
    ModuleEnds {
        module: u8,
    },
    /// A lookup of a function in a module.
    ModuleUsed {
        place: u8,
        module: u8,
        name: u8,
    },
    ManagedMade {
        place: u8,
        bytes: u8,
    },
    /// A variable of a module, or of a library.
    VariableFound {
        place: u8,
        bytes: u8,
        owner: u8,
        name: u8,
        in_library: bool,
        managed: bool,
    },
    /// Device memory, maybe managed, is given back.
    MemoryFree {
        address: u8,
    },
    /// A lookup in a library.
    KernelFound {
        place: u8,
        library: u8,
        name: u8,
    },
    /// The function of a kernel.
    KernelFunction {
        place: u8,
        kernel: u8,
    },
    /// A function is asked about or set up. The driver is asked who it is, if it handed it out through a
    /// hidden table.
    FunctionUsed {
        function: u8,
    },
    /// Host memory is pinned from now on.
    HostRegister {
        address: u8,
        bytes: u8,
        flags: u8,
    },
    /// Pinned memory ends: itself, not only its being pinned, if it is gone.
    HostFree {
        address: u8,
        gone: bool,
    },
    /// What pending copies an event or stream covers.
    EventRecord {
        event: u8,
        stream: u8,
        per_thread: bool,
    },
    StreamWait {
        stream: u8,
        event: u8,
        per_thread: bool,
    },
    /// An event that covers all of a context.
    ContextRecord {
        event: u8,
        context: u8,
    },
    /// The handle may be another stream's from now on.
    StreamEnds {
        stream: u8,
    },
    EventEnds {
        event: u8,
    },
    GraphMade,
    /// An executable graph is made of a graph.
    Instantiated {
        place: u8,
        graph: u8,
    },
    /// An executable graph becomes as a graph.
    GraphUpdated {
        executable: u8,
        graph: u8,
    },
    GraphEnds {
        executable: u8,
    },
    /// A graph is launched that may hold collectives, whose results are to be kept.
    GraphLaunched {
        executable: u8,
        stream: u8,
        per_thread: bool,
    },
    /// The handle may be another graph's from now on.
    GraphDestroyed {
        graph: u8,
    },
    NodeDestroyed {
        node: u8,
    },
    BeginCapture,
    /// Where the graph is to stand, if it is handed out.
    EndCapture {
        place: Option<u8>,
    },
    /// A capture range begins, or ends.
    Profiler {
        begins: bool,
    },
    /// A callback is handed over, as an argument or in a struct.
    HandsOver,
    /// A callback that was handed over may be handed back.
    HandsBack,
    /// A callback may be shown in the file of this name.
    Draws {
        path: u8,
    },
    /// Memory is handed out by a descriptor, or taken by one, if `kind` says that it is one.
    FilePassed {
        file: u8,
        kind: u8,
        is_exported: bool,
        /// Where the handle of the physical memory that was taken stands.
        place: Option<u8>,
    },
    /// Memory of another process has an address from now on.
    Opened {
        place: u8,
    },
    /// Such memory is given up, or other memory that is freed in the order of a stream.
    Closed {
        address: u8,
    },
    /// Physical memory has an address, or none any more.
    Mapped {
        at: u8,
        bytes: u8,
        handle: u8,
    },
    Unmapped {
        at: u8,
        bytes: u8,
    },
    Released {
        handle: u8,
    },
    /// A texture or surface over memory: its address is this word, or stands there in what the word points
    /// to.
    Textured {
        address: u8,
        within: Option<u8>,
    },
}

pub(crate) const fn hook_of(function: &Function) -> Hook {
    use Sought::*;
    match function.effect {
        Effect::FindEntryPoint => Hook::ProcAddress { place: word(function, EntryPoint) },
        Effect::Initialize => Hook::Init,
        Effect::ProfilerRange { begins } => Hook::Profiler { begins },
        Effect::WriteFile(path) => Hook::Draws { path: word_of(function, path) },
        Effect::BindTexture(at) => {
            Hook::Textured { address: word_of(function, at), within: address_offset(function, at) }
        }
        Effect::BeginCapture => Hook::BeginCapture,
        Effect::EndCapture => Hook::EndCapture { place: find(function, HandedOut(Kind::Graph)) },
        Effect::UpdateGraph => Hook::GraphUpdated {
            executable: word(function, Handle(Kind::GraphExec)),
            graph: word(function, Handle(Kind::Graph)),
        },
        Effect::ReleasePrimary => Hook::CodeEnds { owner: word(function, Handle(Kind::Device)), context: false },
        Effect::ResetPrimary => Hook::CodeEnds { owner: word(function, Handle(Kind::Device)), context: true },
        Effect::DetachContext => Hook::CodeEnds { owner: word(function, Handle(Kind::Context)), context: true },
        Effect::Allocate { kind: Memory::Managed, bytes: Bytes::Of(bytes) } => {
            Hook::ManagedMade { place: word(function, NewAddress), bytes: word_of(function, bytes) }
        }
        Effect::Allocate { kind: Memory::Registered, bytes: Bytes::Of(bytes) } => Hook::HostRegister {
            address: word(function, HostAddress),
            bytes: word_of(function, bytes),
            flags: word(function, Flags),
        },
        Effect::Free(Memory::Device) => Hook::MemoryFree { address: word(function, Ending) },
        Effect::Free(Memory::Pinned) => Hook::HostFree { address: word(function, Ending), gone: true },
        Effect::Free(Memory::Registered) => Hook::HostFree { address: word(function, Ending), gone: false },
        Effect::Free(Memory::Physical) => Hook::Released { handle: word(function, Ending) },
        Effect::Free(Memory::Imported | Memory::Pooled) if find(function, Ending).is_some() => {
            Hook::Closed { address: word(function, Ending) }
        }
        Effect::Allocate { kind: Memory::Imported, .. } if is_another_processes(function) => {
            Hook::Opened { place: word(function, NewAddress) }
        }
        Effect::Map { at, bytes } => Hook::Mapped {
            at: word_of(function, at),
            bytes: word_of(function, bytes),
            handle: word(function, Handle(Kind::Allocation)),
        },
        Effect::Unmap { at, bytes } => Hook::Unmapped { at: word_of(function, at), bytes: word_of(function, bytes) },
        Effect::FindVariable { at, bytes } if is_wide(function, at) => variable(function, at, bytes, false),
        Effect::FindManaged { at, bytes } => variable(function, at, bytes, true),
        Effect::Submit(Work::HostFunction) => Hook::HandsOver,
        Effect::Submit(Work::Graph) => Hook::GraphLaunched {
            executable: word(function, Handle(Kind::GraphExec)),
            stream: word(function, Handle(Kind::Stream)),
            per_thread: function.twin_of.is_some(),
        },
        Effect::Submit(Work::RecordEvent) => records(function),
        Effect::Submit(Work::AwaitEvent) if function.handle(Kind::Stream).is_some() => Hook::StreamWait {
            stream: word(function, Handle(Kind::Stream)),
            event: word(function, Handle(Kind::Event)),
            per_thread: function.twin_of.is_some(),
        },
        _ => by_parameters(function),
    }
}

/// Whether what it opens is memory of another process, and not of another interface: it is named by a struct
/// among the arguments, or lies in a pool.
const fn is_another_processes(function: &Function) -> bool {
    let mut i = 0;
    while i < function.params.len() {
        if matches!(function.params[i].ty.form, Form::Struct(_)) {
            return true;
        }
        i += 1;
    }
    function.handle(Kind::MemoryPool).is_some()
}

/// Whether addresses of today go there, and not those of CUDA 3, which no device of today has.
const fn is_wide(function: &Function, at: Sibling) -> bool {
    matches!(function.params[at.0 as usize].ty.form, Form::Pointer(to) if to.size == 8)
}

const fn variable(function: &Function, at: Sibling, bytes: Sibling, managed: bool) -> Hook {
    let (in_library, owner) = match find(function, Sought::Handle(Kind::Library)) {
        Some(library) => (true, library),
        None => (false, word(function, Sought::Handle(Kind::Module))),
    };
    let (place, bytes, name) = (word_of(function, at), word_of(function, bytes), word(function, Sought::Name));
    Hook::VariableFound { place, bytes, owner, name, in_library, managed }
}

const fn records(function: &Function) -> Hook {
    use Sought::*;
    let event = word(function, Handle(Kind::Event));
    match (find(function, Handle(Kind::Stream)), find(function, Handle(Kind::Context))) {
        (Some(stream), _) => Hook::EventRecord { event, stream, per_thread: function.twin_of.is_some() },
        (None, Some(context)) => Hook::ContextRecord { event, context },
        (None, None) => Hook::ContextRecord { event, context: word(function, Handle(Kind::GreenContext)) },
    }
}

/// Where no effect says it: what is handed out, what ends, what is used, and callbacks in structs.
const fn by_parameters(function: &Function) -> Hook {
    use Sought::*;
    if let Some(place) = find(function, HandedOut(Kind::Module)) {
        return Hook::ModuleMade { place, library: find(function, Handle(Kind::Library)) };
    }
    if let Some(place) = find(function, HandedOut(Kind::Function)) {
        return match find(function, Handle(Kind::Kernel)) {
            Some(kernel) => Hook::KernelFunction { place, kernel },
            None => {
                let (module, name) = (word(function, Handle(Kind::Module)), word(function, Name));
                Hook::ModuleUsed { place, module, name }
            }
        };
    }
    if let Some(place) = find(function, HandedOut(Kind::Kernel)) {
        let (library, name) = (word(function, Handle(Kind::Library)), word(function, Name));
        return Hook::KernelFound { place, library, name };
    }
    if let Some(place) = find(function, HandedOut(Kind::GraphExec)) {
        return Hook::Instantiated { place, graph: word(function, Handle(Kind::Graph)) };
    }
    if matches!(function.class, Class::create) && find(function, HandedOut(Kind::Graph)).is_some() {
        return Hook::GraphMade;
    }
    if let Some((at, kind, is_exported)) = function.descriptor() {
        let file = (function.params[at].offset / 8) as u8;
        let place = if is_exported { None } else { find(function, HandedOut(Kind::Allocation)) };
        return Hook::FilePassed { file, kind: word_of(function, kind), is_exported, place };
    }
    if let Some(ending) = find(function, Ending) {
        return ends(function, ending);
    }
    match find(function, Handle(Kind::Function)) {
        Some(used) if matches!(function.class, Class::query | Class::state | Class::load) => {
            Hook::FunctionUsed { function: used }
        }
        _ => callbacks(function),
    }
}

const fn ends(function: &Function, word: u8) -> Hook {
    if function.ends(Kind::Module).is_some() {
        Hook::ModuleEnds { module: word }
    } else if function.ends(Kind::Library).is_some() {
        Hook::CodeEnds { owner: word, context: false }
    } else if function.ends(Kind::Context).is_some() || function.ends(Kind::GreenContext).is_some() {
        Hook::CodeEnds { owner: word, context: true }
    } else if function.ends(Kind::Stream).is_some() {
        Hook::StreamEnds { stream: word }
    } else if function.ends(Kind::Event).is_some() {
        Hook::EventEnds { event: word }
    } else if function.ends(Kind::GraphExec).is_some() {
        Hook::GraphEnds { executable: word }
    } else if function.ends(Kind::Graph).is_some() {
        Hook::GraphDestroyed { graph: word }
    } else if function.ends(Kind::GraphNode).is_some() {
        Hook::NodeDestroyed { node: word }
    } else {
        Hook::None
    }
}

/// The executable graph that a call changes without making it anew.
pub(crate) const fn changed_executable(function: &Function) -> Option<u8> {
    match (function.class, function.effect) {
        (_, Effect::UpdateGraph) => None,
        (Class::graph, _) => find(function, Sought::Handle(Kind::GraphExec)),
        _ => None,
    }
}

/// Callbacks in the structs that a call is given, or fills.
const fn callbacks(function: &Function) -> Hook {
    let mut i = 0;
    while i < function.params.len() {
        if let Form::Pointer(to) = function.params[i].ty.form
            && holds_callback(to)
        {
            match function.params[i].role {
                Role::In(_) | Role::InOut(_) => return Hook::HandsOver,
                _ => return Hook::HandsBack,
            }
        }
        i += 1;
    }
    Hook::None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use trace::api::FUNCTIONS;

    /// Twins aside, in the order of the table.
    const FOLLOWED: &[(&str, &str)] = &[
        (
            "BeginCapture",
            "cuStreamBeginCapture_v2 cuStreamBeginCapture cuStreamBeginCaptureToGraph cuStreamBeginRecaptureToGraph \
            cuStreamBeginCaptureToCig",
        ),
        (
            "CodeEnds { owner: 0, context: false }",
            "cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxRelease cuLibraryUnload",
        ),
        (
            "CodeEnds { owner: 0, context: true }",
            "cuDevicePrimaryCtxReset_v2 cuDevicePrimaryCtxReset cuCtxDestroy_v2 cuCtxDestroy cuCtxDetach \
            cuGreenCtxDestroy",
        ),
        ("Closed { address: 0 }", "cuIpcCloseMemHandle cuMemFreeAsync"),
        ("ContextRecord { event: 1, context: 0 }", "cuCtxRecordEvent cuGreenCtxRecordEvent"),
        ("Draws { path: 1 }", "cuGraphDebugDotPrint"),
        ("EndCapture { place: None }", "cuStreamEndCaptureToCig"),
        ("EndCapture { place: Some(1) }", "cuStreamEndCapture"),
        ("EventEnds { event: 0 }", "cuEventDestroy_v2 cuEventDestroy"),
        ("EventRecord { event: 0, stream: 1, per_thread: false }", "cuEventRecord cuEventRecordWithFlags"),
        (
            "FunctionUsed { function: 0 }",
            "cuFuncGetParamInfo cuFuncGetParamCount cuFuncSetAttribute cuFuncSetCacheConfig cuFuncSetSharedMemConfig \
            cuFuncLoad cuFuncSetBlockShape cuFuncSetSharedSize cuParamSetSize cuParamSeti cuParamSetf cuParamSetv \
            cuParamSetTexRef",
        ),
        (
            "FunctionUsed { function: 1 }",
            "cuFuncGetName cuFuncIsLoaded cuOccupancyMaxActiveBlocksPerMultiprocessor \
            cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cuOccupancyAvailableDynamicSMemPerBlock \
            cuOccupancyMaxPotentialClusterSize cuOccupancyMaxActiveClusters",
        ),
        (
            "FunctionUsed { function: 2 }",
            "cuFuncGetAttribute cuOccupancyMaxPotentialBlockSize cuOccupancyMaxPotentialBlockSizeWithFlags",
        ),
        (
            "FilePassed { file: 0, kind: 2, is_exported: true, place: None }",
            "cuMemPoolExportToShareableHandle cuMemExportToShareableHandle",
        ),
        ("FilePassed { file: 1, kind: 2, is_exported: false, place: None }", "cuMemPoolImportFromShareableHandle"),
        ("FilePassed { file: 1, kind: 2, is_exported: false, place: Some(0) }", "cuMemImportFromShareableHandle"),
        ("GraphDestroyed { graph: 0 }", "cuGraphDestroy"),
        ("GraphEnds { executable: 0 }", "cuGraphExecDestroy"),
        ("GraphLaunched { executable: 0, stream: 1, per_thread: false }", "cuGraphLaunch"),
        ("GraphMade", "cuGraphCreate cuGraphClone"),
        ("GraphUpdated { executable: 0, graph: 1 }", "cuGraphExecUpdate_v2 cuGraphExecUpdate"),
        ("HandsBack", "cuGraphHostNodeGetParams cuGraphNodeGetParams"),
        (
            "HandsOver",
            "cuLaunchHostFunc cuLaunchHostFunc_v2 cuStreamAddCallback cuGraphAddHostNode cuGraphHostNodeSetParams \
            cuGraphAddNode_v3 cuGraphAddNode_v2 cuGraphAddNode cuGraphNodeSetParams_v2 cuGraphNodeSetParams \
            cuGraphExecHostNodeSetParams cuGraphExecNodeSetParams",
        ),
        ("HostFree { address: 0, gone: false }", "cuMemHostUnregister"),
        ("HostFree { address: 0, gone: true }", "cuMemFreeHost"),
        ("HostRegister { address: 0, bytes: 1, flags: 2 }", "cuMemHostRegister_v2 cuMemHostRegister"),
        ("Init", "cuInit"),
        (
            "Instantiated { place: 0, graph: 1 }",
            "cuGraphInstantiateWithParams cuGraphInstantiateWithFlags cuGraphInstantiate_v2 cuGraphInstantiate",
        ),
        ("KernelFound { place: 0, library: 1, name: 2 }", "cuLibraryGetKernel"),
        ("KernelFunction { place: 0, kernel: 1 }", "cuKernelGetFunction"),
        ("ManagedMade { place: 0, bytes: 1 }", "cuMemAllocManaged"),
        ("Mapped { at: 0, bytes: 1, handle: 3 }", "cuMemMap"),
        ("MemoryFree { address: 0 }", "cuMemFree_v2 cuMemFree"),
        ("ModuleEnds { module: 0 }", "cuModuleUnload"),
        (
            "ModuleMade { place: 0, library: None }",
            "cuModuleLoad cuModuleLoadData cuModuleLoadDataEx cuModuleLoadFatBinary cuFuncGetModule",
        ),
        ("ModuleMade { place: 0, library: Some(1) }", "cuLibraryGetModule"),
        ("ModuleUsed { place: 0, module: 1, name: 2 }", "cuModuleGetFunction"),
        ("NodeDestroyed { node: 0 }", "cuGraphDestroyNode"),
        ("Opened { place: 0 }", "cuIpcOpenMemHandle_v2 cuIpcOpenMemHandle cuMemPoolImportPointer"),
        ("ProcAddress { place: 1 }", "cuGetProcAddress_v2 cuGetProcAddress"),
        ("Profiler { begins: false }", "cuProfilerStop"),
        ("Profiler { begins: true }", "cuProfilerStart"),
        ("Released { handle: 0 }", "cuMemRelease"),
        ("StreamEnds { stream: 0 }", "cuStreamDestroy_v2 cuStreamDestroy"),
        ("StreamWait { stream: 0, event: 1, per_thread: false }", "cuStreamWaitEvent"),
        ("Textured { address: 1, within: Some(8) }", "cuTexObjectCreate"),
        (
            "Textured { address: 2, within: None }",
            "cuTexRefSetAddress_v2 cuTexRefSetAddress cuTexRefSetAddress2D_v3 cuTexRefSetAddress2D_v2 \
            cuTexRefSetAddress2D",
        ),
        ("Unmapped { at: 0, bytes: 1 }", "cuMemUnmap"),
        (
            "VariableFound { place: 0, bytes: 1, owner: 2, name: 3, in_library: true, managed: false }",
            "cuLibraryGetGlobal",
        ),
        (
            "VariableFound { place: 0, bytes: 1, owner: 2, name: 3, in_library: true, managed: true }",
            "cuLibraryGetManaged",
        ),
        (
            "VariableFound { place: 0, bytes: 1, owner: 2, name: 3, in_library: false, managed: false }",
            "cuModuleGetGlobal_v2",
        ),
    ];

    #[test]
    fn the_table_says_what_to_follow() {
        let mut found = BTreeMap::<String, Vec<&str>>::new();
        for function in FUNCTIONS.iter().filter(|function| function.twin_of.is_none()) {
            found.entry(format!("{:?}", hook_of(function))).or_default().push(function.name);
        }
        found.remove("None");
        for (hook, names) in FOLLOWED {
            let names: Vec<&str> = names.split_whitespace().collect();
            assert_eq!(found.remove(*hook), Some(names), "{hook}");
        }
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn twins_are_followed_as_their_lines_are() {
        for twin in FUNCTIONS.iter().filter(|function| function.twin_of.is_some()) {
            let line = FUNCTIONS.iter().find(|function| Some(function.name) == twin.twin_of).expect("its line");
            let as_line = match hook_of(twin) {
                Hook::EventRecord { event, stream, .. } => Hook::EventRecord { event, stream, per_thread: false },
                Hook::StreamWait { stream, event, .. } => Hook::StreamWait { stream, event, per_thread: false },
                Hook::GraphLaunched { executable, stream, .. } => {
                    Hook::GraphLaunched { executable, stream, per_thread: false }
                }
                hook => hook,
            };
            assert_eq!(as_line, hook_of(line), "{}", twin.name);
        }
    }
}
