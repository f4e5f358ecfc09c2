//! Queues: streams, in the order in which the driver executes their work.

/// A stream in the sense of stream order: each context has a legacy stream of its own, and each thread there
/// a default one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Queue {
    stream: u64,
    pub context: u64,
    thread: u32,
}

/// Handles that mean default streams; what 0 means the function decides.
pub(crate) const LEGACY: u64 = 1;
pub(crate) const PER_THREAD: u64 = 2;
const GONE: u64 = 3;

impl Queue {
    /// `per_thread`: the function is one of those for which stream 0 is the calling thread's own.
    pub(crate) fn resolve(stream: u64, per_thread: bool, thread: u32, context: impl FnOnce() -> u64) -> Queue {
        match stream {
            PER_THREAD => Queue { stream: PER_THREAD, context: context(), thread },
            0 if per_thread => Queue { stream: PER_THREAD, context: context(), thread },
            0 | LEGACY => Queue { stream: LEGACY, context: context(), thread: 0 },
            stream => Queue { stream, context: 0, thread: 0 },
        }
    }

    /// A name for one that was destroyed while work of its own was under way.
    pub(crate) fn destroyed(number: u64) -> Queue {
        Queue { stream: GONE, context: number, thread: 0 }
    }

    pub(crate) fn is_legacy(self) -> bool {
        self.stream == LEGACY
    }
}
