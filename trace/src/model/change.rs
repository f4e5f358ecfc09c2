//! The change of the driver's state by a call: the effect of its table line, with the values of its
//! arguments.

use super::graph_node::{self, Node};
use super::stream::StreamHandle;
use super::touched::Touched;
use crate::api::Function;
use crate::api::effect::{Effect, Memory, Work};
use crate::api::roles::{Class, Field, Role, Sibling};
use crate::api::structs::{CUDA_GRAPH_INSTANTIATE_PARAMS, CUmemLocation};
use crate::api::table::Awaited;
use crate::api::types::{Form, Kind, Typed};
use crate::read::call::{Call, When};
use crate::read::requested_size;
use std::mem::offset_of;

/// A call, and the time that it spent in the driver.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// Number of the call.
    pub call: u64,
    /// Number of the recorded thread.
    pub thread: u32,
    /// Ticks at entry.
    pub begin: u64,
    /// Ticks at return.
    pub end: u64,
}

impl Moment {
    /// One that has not returned does so at the end of time.
    pub fn from_call(call: &Call) -> Moment {
        let (begin, end) = (call.begin, call.end.unwrap_or(u64::MAX));
        Moment { call: call.number, thread: call.thread, begin, end }
    }
}

/// A change of the driver's state. Handles and addresses are the program's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The primary context was handed out and counted up.
    PrimaryRetained {
        /// The primary context.
        context: u64,
        /// Ordinal of the device.
        device: i32,
    },
    /// The primary context was counted down.
    PrimaryReleased {
        /// Ordinal of the device.
        device: i32,
    },
    /// The primary context ended for all who retained it.
    PrimaryReset {
        /// Ordinal of the device.
        device: i32,
    },
    /// A green one is not made current.
    ContextMade {
        /// The new context.
        context: u64,
        /// Ordinal of the device.
        device: i32,
        /// Whether it is a green context.
        is_green: bool,
    },
    /// A context of the program was destroyed.
    ContextEnded {
        /// The context.
        context: u64,
        /// Whether it is a green context.
        is_green: bool,
    },
    /// The context's usage count went up.
    ContextAttached {
        /// The context.
        context: u64,
    },
    /// The context's usage count went down.
    ContextDetached {
        /// The context.
        context: u64,
    },
    /// A context was pushed onto the thread's stack.
    ContextPushed {
        /// The context.
        context: u64,
    },
    /// The current context was popped from the thread's stack.
    ContextPopped,
    /// 0: none.
    ContextSet {
        /// The context.
        context: u64,
    },
    /// The device of the current context.
    DeviceTold {
        /// Ordinal of the device.
        device: i32,
    },
    /// A memory pool was created or queried.
    PoolFound {
        /// The pool.
        pool: u64,
        /// Ordinal of the pool's device.
        device: i32,
    },

    /// `green`: the context it is of, if that is not the current one. `is_blocking`: the legacy stream waits
    /// for it, and it for that.
    StreamMade {
        /// The new stream.
        stream: u64,
        /// The green context.
        green: Option<u64>,
        /// Whether stream and legacy stream wait for each other.
        is_blocking: bool,
    },
    /// A stream was destroyed; its work goes on.
    StreamEnded {
        /// The stream.
        stream: u64,
    },
    /// Work was submitted.
    Submitted {
        /// The stream, as the call names it.
        on: StreamHandle,
        /// The kind of work.
        work: Work,
        /// The executable graph, if it is one.
        exec: u64,
    },
    /// By a call without a stream: done when that returns, with what stood before it, if any of this is host
    /// memory (driver 580: tests/gpu/facts/legacy_waits.c).
    Copied {
        /// The stream, as the call names it.
        on: StreamHandle,
        /// The memory that the call read and wrote.
        touched: Touched,
    },
    /// `is_external`: in a capture, as a node that records the event whenever the graph is launched.
    EventRecorded {
        /// The event.
        event: u64,
        /// The work that the event is behind.
        behind: Scope,
        /// Whether it is such a node.
        is_external: bool,
    },
    /// `is_external`: in a capture, as a node that waits for the event whenever the graph is launched.
    EventAwaited {
        /// The event.
        event: u64,
        /// The streams that wait.
        by: Scope,
        /// Whether it is such a node.
        is_external: bool,
    },
    /// An event was destroyed.
    EventEnded {
        /// The event.
        event: u64,
    },
    /// A stream capture began.
    CaptureBegun {
        /// The stream that is captured.
        on: StreamHandle,
    },
    /// A stream capture ended.
    CaptureEnded {
        /// The stream on which it began.
        on: StreamHandle,
        /// The graph; None if the capture failed.
        graph: Option<u64>,
    },

    /// Of such nodes alone as change which memory there is.
    NodeAdded {
        /// The graph.
        graph: u64,
        /// What the node does.
        node: Node,
    },
    /// `frees_first`: a launch frees what the one before it has left of the graph's memory.
    GraphInstantiated {
        /// The executable graph.
        exec: u64,
        /// The graph that it was made from.
        graph: u64,
        /// Whether a launch frees first.
        frees_first: bool,
    },
    /// A graph was destroyed.
    GraphEnded {
        /// The graph.
        graph: u64,
    },

    /// A wait that succeeded, or a question that was answered with yes: all that stood there has finished.
    StreamFinished {
        /// The stream, as the call names it.
        on: StreamHandle,
    },
    /// What stood before both; of most functions they are one.
    EventsFinished {
        /// The events.
        events: [u64; 2],
    },
    /// None: the current one.
    ContextFinished {
        /// The context.
        context: Option<u64>,
    },

    /// By its address, or by its handle if it has none. What the call names: a device, a pool, the stream in
    /// whose order it comes.
    Allocated {
        /// Kind of the memory.
        kind: Memory,
        /// Its address or handle.
        at: u64,
        /// Its size; None if the call does not determine it.
        bytes: Option<u64>,
        /// Ordinal of the device.
        device: Option<i32>,
        /// The memory pool.
        pool: Option<u64>,
        /// The stream.
        on: Option<StreamHandle>,
    },
    /// Memory was freed.
    Freed {
        /// The kind that the function is for; the memory may be of another one.
        kind: Memory,
        /// Its address or handle.
        at: u64,
        /// The stream in whose order it ends.
        on: Option<StreamHandle>,
    },
    /// Physical memory, by its handle: mapped to an address, no more mapped there, and handed out once more
    /// by such an address.
    Mapped {
        /// Address of the mapping.
        at: u64,
        /// Size of the mapping in bytes.
        bytes: u64,
        /// Handle of the physical memory.
        handle: u64,
    },
    /// Mappings were removed from a range.
    Unmapped {
        /// Address of the range.
        at: u64,
        /// Size of the range in bytes.
        bytes: u64,
    },
    /// A mapping's physical memory got one more handle.
    PhysicalRetained {
        /// The new handle.
        handle: u64,
        /// An address within the mapping.
        at: u64,
    },
}

/// The streams whose work a call means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// One stream.
    Stream(StreamHandle),
    /// All streams of a context.
    Context(u64),
}

/// Whether calls of this function may change anything here.
pub fn is_followed(function: &Function) -> bool {
    let is_followed_kind = |kind| function.creates(kind).is_some() || function.ends(kind).is_some();
    matches!(function.class, Class::submit | Class::launch | Class::copy | Class::synchronize | Class::poll)
        || function.effect != Effect::None
        || function.hands_out(Kind::MemoryPool).is_some()
        || [Kind::Context, Kind::GreenContext, Kind::Stream, Kind::Event].into_iter().any(is_followed_kind)
        || [Kind::GraphExec, Kind::GraphNode].into_iter().any(|kind| function.creates(kind).is_some())
        || function.ends(Kind::Graph).is_some()
}

/// What a function gives a stream to do that does nothing besides: most calls of most programs.
pub fn submits(function: &Function) -> Option<Work> {
    match function.effect {
        Effect::Submit(Work::RecordEvent | Work::AwaitEvent) => None,
        Effect::Submit(Work::Copy | Work::UnifiedCopy | Work::Fill) if function.brings_at_once() => None,
        Effect::Submit(work) => Some(work),
        _ => None,
    }
}

/// Of a call of such a function that took effect.
#[inline]
pub fn submitted(call: &Call, function: &Function, work: Work) -> Change {
    let exec = || function.handle(Kind::GraphExec).and_then(|at| call.argument_of(at)).unwrap_or(0);
    let exec = if work == Work::Graph { exec() } else { 0 };
    Change::Submitted { on: StreamHandle::new(function, call.stream().unwrap_or(0)), work, exec }
}

/// Of a call that took effect.
pub fn resolve(call: &Call, function: &Function) -> Option<Change> {
    if let Some(work) = submits(function) {
        return Some(submitted(call, function, work));
    }
    let argument = |Sibling(at)| call.argument_of(at.into());
    let handle = |kind| call.argument_of(function.handle(kind)?);
    let made = |kind| call.output_of(function.creates(kind)?);
    let device = || handle(Kind::Device).map(|device| device as i32);
    let on = || StreamHandle::new(function, call.stream().unwrap_or(0));
    let context = || handle(Kind::Context).or_else(|| handle(Kind::GreenContext));
    let scope = || context().map_or_else(|| Scope::Stream(on()), Scope::Context);
    Some(match function.effect {
        Effect::RetainPrimary => {
            Change::PrimaryRetained { context: call.output_of(function.hands_out(Kind::Context)?)?, device: device()? }
        }
        Effect::ReleasePrimary => Change::PrimaryReleased { device: device()? },
        Effect::ResetPrimary => Change::PrimaryReset { device: device()? },
        Effect::AttachContext => {
            Change::ContextAttached { context: call.output_of(function.hands_out(Kind::Context)?)? }
        }
        Effect::DetachContext => Change::ContextDetached { context: context()? },
        Effect::PushContext => Change::ContextPushed { context: context()? },
        Effect::PopContext => Change::ContextPopped,
        Effect::SetContext => Change::ContextSet { context: context()? },
        Effect::TellDevice => Change::DeviceTold { device: call.output_of(function.hands_out(Kind::Device)?)? as i32 },
        Effect::Submit(Work::RecordEvent) => Change::EventRecorded {
            event: handle(Kind::Event)?,
            behind: scope(),
            is_external: has_flag(call, function),
        },
        Effect::Submit(Work::AwaitEvent) => {
            Change::EventAwaited { event: handle(Kind::Event)?, by: scope(), is_external: has_flag(call, function) }
        }
        // All others are told of above.
        Effect::Submit(_) => Change::Copied { on: on(), touched: Touched::from_call(call, function) },
        Effect::BeginCapture => Change::CaptureBegun { on: on() },
        Effect::EndCapture => Change::CaptureEnded { on: on(), graph: made(Kind::Graph) },
        Effect::Allocate { kind, .. } => Change::Allocated {
            kind,
            at: requested_size::place(call, function)?,
            bytes: requested_size::bytes(call, function),
            device: located(call, function),
            pool: handle(Kind::MemoryPool),
            on: call.stream().map(|stream| StreamHandle::new(function, stream)),
        },
        Effect::Free(kind) => Change::Freed {
            kind,
            at: freed(call, function)?,
            on: call.stream().map(|stream| StreamHandle::new(function, stream)),
        },
        Effect::Map { at, bytes } => {
            Change::Mapped { at: argument(at)?, bytes: argument(bytes)?, handle: handle(Kind::Allocation)? }
        }
        Effect::Unmap { at, bytes } => Change::Unmapped { at: argument(at)?, bytes: argument(bytes)? },
        Effect::RetainPhysical => {
            let at = function.params.iter().position(|param| matches!(param.role, Role::Address))?;
            Change::PhysicalRetained { handle: made(Kind::Allocation)?, at: call.argument_of(at)? }
        }
        _ => return by_objects(call, function),
    })
}

/// Of a call whose line has no effect of its own: what it waited for, made or ended.
fn by_objects(call: &Call, function: &Function) -> Option<Change> {
    let handle = |kind| call.argument_of(function.handle(kind)?);
    let made = |kind| call.output_of(function.creates(kind)?);
    let ended = |kind| call.argument_of(function.ends(kind)?);
    let device = || handle(Kind::Device).map(|device| device as i32);
    let on = || StreamHandle::new(function, call.stream().unwrap_or(0));
    Some(if let Some(awaited) = function.awaited() {
        match awaited {
            Awaited::Events(at) => Change::EventsFinished { events: at.map(|at| call.word(at)) },
            Awaited::Stream(_) => Change::StreamFinished { on: on() },
            Awaited::Context(at) => Change::ContextFinished { context: Awaited::context(at, |at| call.word(at)) },
        }
    } else if let Some(context) = made(Kind::Context) {
        Change::ContextMade { context, device: device()?, is_green: false }
    } else if let Some(context) = made(Kind::GreenContext) {
        Change::ContextMade { context, device: device()?, is_green: true }
    } else if let Some(context) = ended(Kind::Context) {
        Change::ContextEnded { context, is_green: false }
    } else if let Some(context) = ended(Kind::GreenContext) {
        Change::ContextEnded { context, is_green: true }
    } else if let Some(stream) = made(Kind::Stream) {
        Change::StreamMade { stream, green: handle(Kind::GreenContext), is_blocking: !has_flag(call, function) }
    } else if let Some(stream) = ended(Kind::Stream) {
        Change::StreamEnded { stream }
    } else if let Some(event) = ended(Kind::Event) {
        Change::EventEnded { event }
    } else if let Some(exec) = made(Kind::GraphExec) {
        let graph = handle(Kind::Graph)?;
        Change::GraphInstantiated {
            exec,
            graph,
            frees_first: has_flag(call, function) || is_described_so(call, function),
        }
    } else if function.creates(Kind::GraphNode).is_some() {
        Change::NodeAdded { graph: handle(Kind::Graph)?, node: graph_node::added(call, function)? }
    } else if let Some(graph) = ended(Kind::Graph) {
        Change::GraphEnded { graph }
    } else {
        let pool = call.output_of(function.hands_out(Kind::MemoryPool)?)?;
        Change::PoolFound { pool, device: device().or_else(|| located(call, function))? }
    })
}

/// CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH in a description.
fn is_described_so(call: &Call, function: &Function) -> bool {
    let is_it = |param: &Field| matches!(param.ty.form, Form::Pointer(to) if to.name == CUDA_GRAPH_INSTANTIATE_PARAMS::TYPE.name);
    let at = function.params.iter().position(is_it).and_then(|at| call.argument_of(at));
    let flags = |at: u64| call.memory(When::Entry, at + offset_of!(CUDA_GRAPH_INSTANTIATE_PARAMS, flags) as u64, 1);
    at.and_then(flags).is_some_and(|flags| flags.first().is_some_and(|flags| flags & 1 != 0))
}

/// CU_STREAM_NON_BLOCKING, CU_EVENT_RECORD_EXTERNAL, CU_EVENT_WAIT_EXTERNAL,
/// CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH.
fn has_flag(call: &Call, function: &Function) -> bool {
    let flags = function.params.iter().position(|param| matches!(param.role, Role::Bits(_)));
    flags.and_then(|at| call.argument_of(at)).unwrap_or(0) & 1 != 0
}

/// What the call is to end: an address or a handle.
pub fn freed(call: &Call, function: &Function) -> Option<u64> {
    call.argument_of(function.params.iter().position(|param| matches!(param.role, Role::Destroy))?)
}

/// The device of the location that the call is given, by itself or in a description, if it is one's.
pub(super) fn located(call: &Call, function: &Function) -> Option<i32> {
    const OF_DEVICE: u32 = 1;
    let is_location = |ty: &crate::api::types::Type| ty.name == CUmemLocation::TYPE.name;
    let address = function.params.iter().enumerate().find_map(|(at, param)| {
        let Form::Pointer(to) = param.ty.form else { return None };
        let Form::Struct(fields) = to.form else { return None };
        let field = || fields.iter().find(|field: &&Field| is_location(field.ty));
        let offset = if is_location(to) { 0 } else { field()?.offset };
        call.argument_of(at)?.checked_add(offset.into())
    })?;
    let location = call.memory(When::Entry, address, CUmemLocation::TYPE.size.into())?;
    let word = |at: usize| Some(u32::from_le_bytes(location.get(at..at + 4)?.try_into().ok()?));
    let id = word(offset_of!(CUmemLocation, id))? as i32;
    (word(offset_of!(CUmemLocation, r#type))? == OF_DEVICE).then_some(id)
}
