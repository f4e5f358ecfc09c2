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
    None,
    /// Gives the stream that the call names, or its default stream, this to do.
    Submit(Work),
    BeginCapture,
    EndCapture,

    /// The primary context of a device: handed out and counted; counted down; ended for all who retain it.
    RetainPrimary,
    ReleasePrimary,
    ResetPrimary,
    /// The usage count of a context that the program made: up; down, and at none it ends.
    AttachContext,
    DetachContext,
    /// The calling thread's stack of contexts.
    PushContext,
    PopContext,
    SetContext,
    /// Tells the device of the current context.
    TellDevice,

    /// Memory, or a range of addresses, that begins where the call says: at its new address, or, of host
    /// memory that the program has already, at the one that it passes.
    Allocate {
        kind: Memory,
        bytes: Bytes,
    },
    /// What ends begins at the address, or is of the handle, whose role is `Destroy`. The kind is the one
    /// that the function is for: cuMemFree is given managed and pooled memory as well.
    Free(Memory),
    /// Physical memory is mapped into a range of addresses, or taken out of it; gets one more handle.
    Map {
        at: Sibling,
        bytes: Sibling,
    },
    Unmap {
        at: Sibling,
        bytes: Sibling,
    },
    RetainPhysical,
    SetAccess,
    /// A texture or surface over memory: its address is this value, or stands in the resource description
    /// there.
    BindTexture(Sibling),

    /// An argument of the launches to come is put into the function.
    SetArgument,

    FindInClone,
    ListNodes,
    ChildGraph,
    /// An executable graph becomes as a graph of the same shape; one node of it does this from now on; one is
    /// left out or not.
    UpdateGraph,
    SetNode(Work),
    EnableNode,

    /// Hands out where a variable begins and its length. Whether it lies in managed memory the driver knows.
    FindVariable {
        at: Sibling,
        bytes: Sibling,
    },
    /// As `FindVariable`, of one in managed memory.
    FindManaged {
        at: Sibling,
        bytes: Sibling,
    },
    FindEntryPoint,

    ProfilerRange {
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
    Kernel,
    /// A kernel for each of several devices.
    KernelOnEach,
    Graph,
    Copy,
    /// Between addresses of which either may be the host's.
    UnifiedCopy,
    Fill,
    /// Where memory is, or what its pages hold: prefetches, discards, attachment.
    Migrate,
    Decompress,
    /// Memory is written, or waited for to hold a value.
    Value,
    HostFunction,
    RecordEvent,
    AwaitEvent,
    Semaphore,
    /// An executable graph is brought to the device.
    Upload,
    /// Arrays or resources of other programming interfaces are mapped.
    MapResource,
    /// One node of a graph, of a kind that its own parameters tell.
    Described,
}

impl Work {
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
    Device,
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
    Of(Sibling),
    /// As many rows, each of at least this width: of the one that the call hands out through `pitch`.
    Rows {
        pitch: Sibling,
        width: Sibling,
        rows: Sibling,
    },
    /// By the description of an array there.
    OfArray(Sibling),
    /// The call does not say.
    Untold,
}
