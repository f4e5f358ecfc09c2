//! The effects of a call on the driver's state, beyond the bytes that its roles move.
//!
//! A table line ends with its effect if class, types and roles do not imply it. The roles `Create` and
//! `Destroy` of a handle already say that a stream, event or graph begins or ends, and
//! [`Function::awaited`](super::Function::awaited) says what a wait covers. Operands are found by type
//! ([`Function::handle`](super::Function::handle), [`Function::creates`](super::Function::creates)) if only
//! one parameter fits, and are named otherwise.

use super::roles::Sibling;

/// The effect of a successful call on the driver's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing beyond class, types and roles.
    None,
    /// Gives the stream that the call names, or its default stream, this to do.
    Submit(Work),
    /// A stream capture begins on the stream.
    BeginCapture,
    /// The stream's capture ends and becomes a graph.
    EndCapture,

    /// The primary context of a device is handed out and counted up.
    RetainPrimary,
    /// The primary context is counted down.
    ReleasePrimary,
    /// The primary context ends for all who retain it.
    ResetPrimary,
    /// The usage count of a context that the program made goes up.
    AttachContext,
    /// The usage count goes down; at 0 the context ends.
    DetachContext,
    /// A context is pushed onto the calling thread's stack.
    PushContext,
    /// The current context is popped from the thread's stack.
    PopContext,
    /// The context on top of the thread's stack is replaced.
    SetContext,
    /// Tells the device of the current context.
    TellDevice,

    /// Memory, or a range of addresses, that begins where the call says: at its new address, or, of host
    /// memory that the program has already, at the one that it passes.
    Allocate {
        /// Kind of the memory.
        kind: Memory,
        /// Size of the memory.
        bytes: Bytes,
    },
    /// What ends begins at the address, or is of the handle, whose role is `Destroy`. The kind is the one
    /// that the function is for: cuMemFree is given managed and pooled memory as well.
    Free(Memory),
    /// Physical memory is mapped into a range of addresses.
    Map {
        /// Address within a reserved range.
        at: Sibling,
        /// Size of the mapping in bytes.
        bytes: Sibling,
    },
    /// Physical memory is unmapped from a range of addresses.
    Unmap {
        /// Address of the mapping.
        at: Sibling,
        /// Size of the mapping in bytes.
        bytes: Sibling,
    },
    /// Physical memory gets one more handle.
    RetainPhysical,
    /// Devices get access to a mapped range.
    SetAccess,
    /// A texture or surface over memory: its address is this value, or stands in the resource description
    /// there.
    BindTexture(Sibling),

    /// An argument of the launches to come is put into the function.
    SetArgument,

    /// Hands out the node of a clone that stands for a node of its original.
    FindInClone,
    /// Hands out the nodes of a graph.
    ListNodes,
    /// Hands out the graph within a node.
    ChildGraph,
    /// An executable graph gets the parameters of a graph of the same shape.
    UpdateGraph,
    /// One node of the executable graph has other parameters from now on.
    SetNode(Work),
    /// One node of the executable graph is enabled or disabled.
    EnableNode,

    /// Hands out where a variable begins and its length. Whether it lies in managed memory the driver knows.
    FindVariable {
        /// Address of the variable.
        at: Sibling,
        /// Size of the variable in bytes.
        bytes: Sibling,
    },
    /// As `FindVariable`, of one in managed memory.
    FindManaged {
        /// Address of the variable.
        at: Sibling,
        /// Size of the variable in bytes.
        bytes: Sibling,
    },
    /// Hands out the address of a driver function.
    FindEntryPoint,

    /// A range for profilers begins or ends (cuProfilerStart, cuProfilerStop).
    ProfilerRange {
        /// Whether the range begins.
        begins: bool,
    },
    /// The driver starts.
    Initialize,
    /// The driver writes this file.
    WriteFile(Sibling),
}

impl Effect {
    /// Whether it tells which contexts there are, or which are current.
    pub const fn is_of_contexts(self) -> bool {
        use Effect::*;
        matches!(self, RetainPrimary | ReleasePrimary | ResetPrimary | AttachContext | DetachContext)
            || matches!(self, PushContext | PopContext | SetContext)
    }
}

/// The work that a submission puts on its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Work {
    /// A kernel is launched.
    Kernel,
    /// A kernel for each of several devices.
    KernelOnEach,
    /// An executable graph is launched.
    Graph,
    /// Bytes are copied; the function fixes which side is the host's.
    Copy,
    /// Between addresses of which either may be the host's.
    UnifiedCopy,
    /// Memory is filled with a value.
    Fill,
    /// Where memory is, or what its pages hold: prefetches, discards, attachment.
    Migrate,
    /// Memory is decompressed into other memory.
    Decompress,
    /// Memory is written, or waited for to hold a value.
    Value,
    /// A function of the program runs on the host.
    HostFunction,
    /// An event is recorded.
    RecordEvent,
    /// The stream waits for an event.
    AwaitEvent,
    /// External semaphores are signalled or waited for.
    Semaphore,
    /// An executable graph is brought to the device.
    Upload,
    /// Arrays or resources of other programming interfaces are mapped.
    MapResource,
    /// One node of a graph, of a kind that its own parameters tell.
    Described,
}

impl Work {
    /// Whether it copies bytes between two places.
    pub const fn is_copy(self) -> bool {
        matches!(self, Work::Copy | Work::UnifiedCopy)
    }

    /// Whether it may have a beginning and an end of its own on a device: CUPTI's activities are of these.
    pub const fn is_timed(self) -> bool {
        self.is_copy() || matches!(self, Work::Kernel | Work::KernelOnEach | Work::Graph | Work::Fill)
    }

    /// Whether bytes are what it is about: where they are, or what they are.
    pub const fn moves_memory(self) -> bool {
        self.is_copy() || matches!(self, Work::Fill | Work::Migrate | Work::Decompress)
    }
}

/// Kinds of memory, by its users and by the calls that end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Memory {
    /// Memory of the current device, from cuMemAlloc and its like.
    Device,
    /// Memory that the host and devices use at one address.
    Managed,
    /// Host memory that the driver allocated.
    Pinned,
    /// Host memory of the program, pinned for a time.
    Registered,
    /// In stream order, from a pool; outlives contexts.
    Pooled,
    /// Without an address: named by a handle, which is counted.
    Physical,
    /// Addresses without memory.
    Addresses,
    /// An array or mipmapped array: named by a handle, without an address.
    Array,
    /// Of another process, or of another programming interface.
    Imported,
}

impl Memory {
    /// Whether it is the host's, and devices reach it.
    pub const fn is_host(self) -> bool {
        matches!(self, Memory::Pinned | Memory::Registered)
    }

    /// Whether the host uses it by its address.
    pub const fn is_in_reach(self) -> bool {
        self.is_host() || matches!(self, Memory::Managed)
    }

    /// Whether it is there when the context has ended that was current when it was made.
    pub const fn outlives_contexts(self) -> bool {
        matches!(self, Memory::Pooled | Memory::Physical | Memory::Addresses)
    }
}

/// The size of a requested allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bytes {
    /// The value of the sibling.
    Of(Sibling),
    /// As many rows, each of at least this width: of the one that the call hands out through `pitch`.
    Rows {
        /// The pitch that the call hands out, in bytes.
        pitch: Sibling,
        /// Width of a row in bytes.
        width: Sibling,
        /// Number of rows.
        rows: Sibling,
    },
    /// By the description of an array there.
    OfArray(Sibling),
    /// The call does not say.
    Untold,
}
