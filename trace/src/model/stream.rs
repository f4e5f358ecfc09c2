//! The stream that a call means: the handles 0, 1 and 2 name default streams, and 0 can name either.

use crate::api::Function;

/// The handles by which a call names a default stream, whichever twin it is.
pub const LEGACY: u64 = 1;
/// CU_STREAM_PER_THREAD; LEGACY is CU_STREAM_LEGACY.
pub const PER_THREAD: u64 = 2;

/// A stream as a call names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamHandle {
    /// The handle as the program passed it.
    pub handle: u64,
    /// Whether 0 stands for the thread's own default stream, as it does for per-thread twins.
    pub per_thread: bool,
}

impl StreamHandle {
    /// `handle` is an argument of a call of this function.
    pub const fn new(function: &Function, handle: u64) -> StreamHandle {
        StreamHandle { handle, per_thread: function.twin_of.is_some() }
    }

    /// Whether it is a default stream, of which every context has its own.
    pub const fn is_default(self) -> bool {
        self.handle <= PER_THREAD
    }

    /// The stream that this is to a thread while that context is current.
    pub const fn resolve(self, context: u64, thread: u32) -> StreamId {
        match self.handle {
            0 if self.per_thread => StreamId { context, stream: PER_THREAD, thread: Some(thread) },
            PER_THREAD => StreamId { context, stream: PER_THREAD, thread: Some(thread) },
            0 | LEGACY => StreamId::legacy(context),
            stream => StreamId::created(stream),
        }
    }
}

/// A stream in the sense of stream order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId {
    /// Of a default stream; else 0.
    pub context: u64,
    /// The handle: [`LEGACY`] or [`PER_THREAD`] of a default stream.
    pub stream: u64,
    /// Whose, if it is a thread's own default stream.
    pub thread: Option<u32>,
}

impl StreamId {
    /// The legacy stream of this context.
    pub const fn legacy(context: u64) -> StreamId {
        StreamId { context, stream: LEGACY, thread: None }
    }

    /// One that has a handle of its own.
    pub const fn created(handle: u64) -> StreamId {
        StreamId { context: 0, stream: handle, thread: None }
    }

    /// Whether it is a legacy stream.
    pub const fn is_legacy(self) -> bool {
        self.stream == LEGACY
    }

    /// A number whose lower bits differ between most streams.
    pub(super) const fn spread(self) -> u64 {
        let thread = match self.thread {
            Some(thread) => thread as u64,
            None => 0,
        };
        let mixed = (self.stream ^ self.context.rotate_left(32) ^ thread << 8).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed >> 56
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::by_name;

    #[test]
    fn a_default_stream_has_several_names() {
        let id =
            |name, handle| StreamHandle::new(by_name(name).expect("a function of the table"), handle).resolve(0xc0, 3);
        let legacy = StreamId { context: 0xc0, stream: LEGACY, thread: None };
        let own = StreamId { context: 0xc0, stream: PER_THREAD, thread: Some(3) };
        let [plain, twin] = ["cuStreamSynchronize", "cuStreamSynchronize_ptsz"];
        assert_eq!([id(plain, 0), id(plain, 1), id(twin, 1)], [legacy; 3]);
        assert_eq!([id(plain, 2), id(twin, 0), id(twin, 2)], [own; 3]);
        assert_eq!([id(plain, 0x50), id(twin, 0x50)], [StreamId { context: 0, stream: 0x50, thread: None }; 2]);
    }
}
