//! What the streams and the memory of a device can be followed by: each call that matters for them, in a few words.

use super::event::Category;
use super::memory::Origin;
use trace::api::roles::{Class, Extent, Role};
use trace::call::Content;
use trace::hash::Hash;
use trace::model::stream::StreamHandle;
use trace::objects::Objects;
use trace::{Call, Function, Trace};

/// A call that matters for streams or memory.
#[derive(Debug, Clone, Copy)]
pub struct Op {
    pub call: u32,
    pub thread: u32,
    /// Nanoseconds since the start of the trace.
    pub begin: u64,
    pub end: u64,
    /// The function's id in the file.
    pub function: u16,
    pub what: What,
}

#[derive(Debug, Clone, Copy)]
pub enum What {
    /// Work put on a stream; the kernel's id, or u32::MAX.
    Work {
        on: StreamHandle,
        kernel: u32,
        bytes: u64,
    },
    /// A copy that is done when the call returns.
    Copied {
        on: StreamHandle,
        bytes: u64,
    },
    /// A wait or a question that says that the work before is done.
    StreamDone {
        on: StreamHandle,
    },
    EventDone {
        event: u64,
    },
    /// 0 stands for the current one.
    ContextDone {
        context: u64,
    },
    EventRecorded {
        event: u64,
        on: StreamHandle,
    },
    EventAwaited {
        event: u64,
        on: StreamHandle,
    },
    StreamMade {
        stream: u64,
        blocking: bool,
    },
    StreamGone {
        stream: u64,
    },
    CaptureBegun {
        stream: u64,
    },
    CaptureEnded {
        stream: u64,
    },
    ContextOf {
        context: u64,
        device: i32,
        pushed: bool,
    },
    ContextPushed {
        context: u64,
    },
    ContextPopped,
    ContextSet {
        context: u64,
    },
    ContextGone {
        context: u64,
    },
    DeviceReset {
        device: i32,
    },
    Allocated {
        address: u64,
        bytes: u64,
        origin: Origin,
    },
    Freed {
        address: u64,
    },
    /// A module image: the high half of its hash (0 if the trace does not hold it), and its bytes.
    Loaded {
        image: u64,
        bytes: u64,
    },
}

/// What calls of one function are to the viewer.
pub struct Plan {
    pub category: Category,
    /// Whether its calls make, name or end objects.
    pub concerned: bool,
    rule: Rule,
    amount: Amount,
    per_thread: bool,
}

/// Where the number of bytes that a copy or fill moves stands: argument words and factors.
#[derive(Clone, Copy)]
enum Amount {
    Unknown,
    Word(usize, u64),
    Area(usize, usize, u64),
}

#[derive(Clone, Copy, PartialEq)]
enum Taken {
    Context,
    Pool,
    Alone,
}

#[derive(Clone, Copy, PartialEq)]
enum Rule {
    Nothing,
    Work,
    Copied,
    StreamDone,
    EventDone,
    ContextDone,
    EventRecorded,
    EventAwaited,
    StreamMade,
    StreamGone,
    CaptureBegun,
    CaptureEnded,
    Retained,
    ContextMade,
    ContextPushed,
    ContextPopped,
    ContextSet,
    ContextGone,
    DeviceReset,
    /// Where the address and the size stand; from a pool, a context, or neither.
    Allocated(&'static str, &'static str, Taken),
    Pitched,
    Freed(&'static str),
    Loaded,
}

/// The functions that are more to the viewer than their class says.
fn rule(name: &str, class: Class) -> Rule {
    match name {
        "cuStreamSynchronize" | "cuStreamQuery" => Rule::StreamDone,
        "cuEventSynchronize" | "cuEventQuery" => Rule::EventDone,
        "cuCtxSynchronize" | "cuCtxSynchronize_v2" => Rule::ContextDone,
        "cuEventRecord" | "cuEventRecordWithFlags" => Rule::EventRecorded,
        "cuStreamWaitEvent" => Rule::EventAwaited,
        "cuStreamCreate" | "cuStreamCreateWithPriority" | "cuGreenCtxStreamCreate" => Rule::StreamMade,
        "cuStreamDestroy" | "cuStreamDestroy_v2" => Rule::StreamGone,
        "cuStreamBeginCapture" | "cuStreamBeginCapture_v2" | "cuStreamBeginCaptureToGraph" => Rule::CaptureBegun,
        "cuStreamEndCapture" => Rule::CaptureEnded,
        "cuDevicePrimaryCtxRetain" => Rule::Retained,
        "cuCtxCreate" | "cuCtxCreate_v2" | "cuCtxCreate_v3" | "cuCtxCreate_v4" => Rule::ContextMade,
        "cuCtxPushCurrent" | "cuCtxPushCurrent_v2" => Rule::ContextPushed,
        "cuCtxPopCurrent" | "cuCtxPopCurrent_v2" => Rule::ContextPopped,
        "cuCtxSetCurrent" => Rule::ContextSet,
        "cuCtxDestroy" | "cuCtxDestroy_v2" => Rule::ContextGone,
        "cuDevicePrimaryCtxReset" | "cuDevicePrimaryCtxReset_v2" => Rule::DeviceReset,
        "cuMemAlloc_v2" | "cuMemAlloc" | "cuMemAllocManaged" => Rule::Allocated("dptr", "bytesize", Taken::Context),
        "cuMemAllocAsync" | "cuMemAllocFromPoolAsync" => Rule::Allocated("dptr", "bytesize", Taken::Pool),
        // What is mapped is what was made; address ranges alone hold nothing.
        "cuMemCreate" => Rule::Allocated("handle", "size", Taken::Alone),
        "cuMemRelease" => Rule::Freed("handle"),
        "cuMemAllocPitch_v2" | "cuMemAllocPitch" => Rule::Pitched,
        "cuMemFree_v2" | "cuMemFree" | "cuMemFreeAsync" => Rule::Freed("dptr"),
        "cuModuleLoad"
        | "cuModuleLoadData"
        | "cuModuleLoadDataEx"
        | "cuModuleLoadFatBinary"
        | "cuLibraryLoadData"
        | "cuLibraryLoadFromFile" => Rule::Loaded,
        _ => match class {
            Class::submit | Class::launch => Rule::Work,
            Class::copy => Rule::Copied,
            _ => Rule::Nothing,
        },
    }
}

impl Plan {
    /// By function id of the file.
    pub fn all(trace: &Trace) -> Vec<Plan> {
        (0..trace.preamble.functions.len()).map(|id| Plan::of(trace, id as u16)).collect()
    }

    fn of(trace: &Trace, id: u16) -> Plan {
        let Some(function) = trace.function(id) else {
            let (category, amount) = (Category::Other, Amount::Unknown);
            return Plan { category, concerned: false, rule: Rule::Nothing, amount, per_thread: false };
        };
        Plan {
            category: Category::of(function),
            concerned: Objects::concerns(function),
            rule: rule(function.common_name(), function.class),
            amount: amount(function),
            per_thread: function.twin_of.is_some(),
        }
    }

    /// Whether [`Plan::op`] has anything to say.
    pub fn matters(&self) -> bool {
        self.rule != Rule::Nothing
    }

    pub fn op(&self, call: &Call) -> Option<What> {
        if !call.took_effect() {
            return None;
        }
        let argument = |name| call.argument(name).unwrap_or(0);
        let output = |name| call.output(name);
        let named = |handle| StreamHandle { handle, per_thread: self.per_thread };
        let on = || named(call.stream().unwrap_or(0));
        let bytes = match self.amount {
            Amount::Unknown => 0,
            Amount::Word(word, factor) => call.word(word).saturating_mul(factor),
            Amount::Area(width, height, factor) => {
                call.word(width).saturating_mul(call.word(height)).saturating_mul(factor)
            }
        };
        let context_of =
            |name, pushed| Some(What::ContextOf { context: output(name)?, device: argument("dev") as i32, pushed });
        Some(match self.rule {
            Rule::Nothing => return None,
            Rule::Work => {
                let kernel = if self.category == Category::Launch { kernel_of(call) } else { None };
                What::Work { on: on(), kernel: kernel.unwrap_or(u32::MAX), bytes }
            }
            Rule::Copied => What::Copied { on: named(0), bytes },
            Rule::StreamDone => What::StreamDone { on: on() },
            Rule::EventDone => What::EventDone { event: argument("hEvent") },
            Rule::ContextDone => What::ContextDone { context: argument("ctx") },
            Rule::EventRecorded => What::EventRecorded { event: argument("hEvent"), on: on() },
            Rule::EventAwaited => What::EventAwaited { event: argument("hEvent"), on: on() },
            Rule::StreamMade => {
                let flags = call.argument("Flags").or(call.argument("flags")).unwrap_or(0);
                What::StreamMade { stream: output("phStream")?, blocking: flags & 1 == 0 }
            }
            Rule::StreamGone => What::StreamGone { stream: on().handle },
            Rule::CaptureBegun => What::CaptureBegun { stream: on().handle },
            Rule::CaptureEnded => What::CaptureEnded { stream: on().handle },
            Rule::Retained => return context_of("pctx", false),
            Rule::ContextMade => return context_of("pctx", true),
            Rule::ContextPushed => What::ContextPushed { context: argument("ctx") },
            Rule::ContextPopped => What::ContextPopped,
            Rule::ContextSet => What::ContextSet { context: argument("ctx") },
            Rule::ContextGone => What::ContextGone { context: argument("ctx") },
            Rule::DeviceReset => What::DeviceReset { device: argument("dev") as i32 },
            Rule::Allocated(address, size, taken) => {
                let origin = match taken {
                    Taken::Context => Origin::Context,
                    // Without the parameter it is the device's own.
                    Taken::Pool => Origin::Pool(argument("pool")),
                    Taken::Alone => Origin::Physical,
                };
                What::Allocated { address: output(address)?, bytes: argument(size), origin }
            }
            Rule::Pitched => {
                let bytes = output("pPitch")?.saturating_mul(argument("Height"));
                What::Allocated { address: output("dptr")?, bytes, origin: Origin::Context }
            }
            Rule::Freed(name) => What::Freed { address: argument(name) },
            Rule::Loaded => {
                // The first word is where the handle goes.
                let images = call.images().filter(|image| image.address != call.word(0));
                let largest = images.max_by_key(|image| image.len);
                let hash = largest.and_then(|image| match image.content {
                    Content::Blob(hash) => Some(hash),
                    // A short one stands in the call's record.
                    _ => call.trace().bytes(&image).map(Hash::of),
                });
                What::Loaded {
                    image: hash.map_or(0, |Hash(hash)| (hash >> 64) as u64),
                    bytes: largest.map_or(0, |image| image.len),
                }
            }
        })
    }
}

/// The kernel that a launch names.
pub fn kernel_of(call: &Call) -> Option<u32> {
    call.named_kernel().map(|kernel| kernel.id)
}

fn amount(function: &'static Function) -> Amount {
    let word = |sibling: trace::api::roles::Sibling| {
        function.params.get(usize::from(sibling.0)).map_or(0, |p| p.offset as usize / 8)
    };
    let extents = function.params.iter().filter_map(|param| match param.role {
        Role::Source(extent) | Role::Sink(extent) | Role::Writes(extent) | Role::Reads(extent) => Some(extent),
        _ => None,
    });
    let known = extents.map(|extent| match extent {
        Extent::Len(bytes) => Amount::Word(word(bytes), 1),
        Extent::Scaled(count, size) => Amount::Word(word(count), size.into()),
        Extent::Rect { width, height, element, .. } => Amount::Area(word(width), word(height), element.into()),
        _ => Amount::Unknown,
    });
    known.into_iter().find(|amount| !matches!(amount, Amount::Unknown)).unwrap_or(Amount::Unknown)
}
