//! Streams and events.

use crate::driver::{Driver, Failure, result};
use trace::api::enums::{CUevent_flags, CUstream_flags};
use trace::model::stream::StreamHandle;

impl Driver {
    /// One that no default stream waits for, in the current context.
    pub(crate) fn create_stream(&self) -> Result<StreamHandle, Failure> {
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING.0.into();
        // SAFETY: an output word and a plain value.
        let handle = unsafe { self.output_of("cuStreamCreate", |stream| [stream, flags]) }?;
        Ok(StreamHandle { handle, per_thread: false })
    }

    pub(crate) fn destroy_stream(&self, stream: StreamHandle) -> Result<(), Failure> {
        // SAFETY: no pointers.
        unsafe { self.ask("cuStreamDestroy_v2", &[stream.handle]) }
    }

    pub(crate) fn context_of_stream(&self, stream: u64) -> Result<u64, Failure> {
        // SAFETY: an output word and a handle.
        unsafe { self.output_of("cuStreamGetCtx", |context| [stream, context]) }
    }

    /// Whether all of its work is done.
    pub(crate) fn query_stream(&self, stream: StreamHandle) -> Result<bool, Failure> {
        // SAFETY: no pointers.
        is_ready(unsafe { self.ask(twin(stream, "cuStreamQuery", "cuStreamQuery_ptsz"), &[stream.handle]) })
    }

    pub(crate) fn synchronize_stream(&self, stream: StreamHandle) -> Result<(), Failure> {
        let name = twin(stream, "cuStreamSynchronize", "cuStreamSynchronize_ptsz");
        // SAFETY: no pointers.
        unsafe { self.ask(name, &[stream.handle]) }
    }

    pub(crate) fn is_capturing(&self, stream: StreamHandle) -> Result<bool, Failure> {
        let name = twin(stream, "cuStreamIsCapturing", "cuStreamIsCapturing_ptsz");
        // SAFETY: an output word and a handle.
        unsafe { self.output_of::<u32, 2>(name, |status| [stream.handle, status]) }.map(|status| status != 0)
    }

    pub(crate) fn create_event(&self, is_timed: bool) -> Result<u64, Failure> {
        let flags = if is_timed { 0 } else { CUevent_flags::CU_EVENT_DISABLE_TIMING.0.into() };
        // SAFETY: an output word and a plain value.
        unsafe { self.output_of("cuEventCreate", |event| [event, flags]) }
    }

    /// What waits for it goes on waiting.
    pub(crate) fn destroy_event(&self, event: u64) -> Result<(), Failure> {
        // SAFETY: no pointers.
        unsafe { self.ask("cuEventDestroy_v2", &[event]) }
    }

    pub(crate) fn record_event(&self, event: u64, stream: StreamHandle) -> Result<(), Failure> {
        // SAFETY: no pointers.
        unsafe { self.ask(twin(stream, "cuEventRecord", "cuEventRecord_ptsz"), &[event, stream.handle]) }
    }

    /// Has the stream wait for it.
    pub(crate) fn await_event(&self, event: u64, stream: StreamHandle) -> Result<(), Failure> {
        let name = twin(stream, "cuStreamWaitEvent", "cuStreamWaitEvent_ptsz");
        // SAFETY: no pointers.
        unsafe { self.ask(name, &[stream.handle, event, 0]) }
    }

    /// Whether it has happened.
    pub(crate) fn query_event(&self, event: u64) -> Result<bool, Failure> {
        // SAFETY: no pointers.
        is_ready(unsafe { self.ask("cuEventQuery", &[event]) })
    }

    pub(crate) fn synchronize_event(&self, event: u64) -> Result<(), Failure> {
        // SAFETY: no pointers.
        unsafe { self.ask("cuEventSynchronize", &[event]) }
    }

    /// Bytes by which other processes open it.
    pub(crate) fn export_event(&self, event: u64) -> Result<[u8; 64], Failure> {
        let mut bytes = [0; 64];
        // SAFETY: as much room as the handle takes.
        unsafe { self.ask("cuIpcGetEventHandle", &[bytes.as_mut_ptr() as u64, event]) }?;
        Ok(bytes)
    }

    /// An event of another process.
    pub(crate) fn open_event(&self, bytes: &[u8]) -> Result<u64, Failure> {
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
        }
        let [a, b, c, d, e, f, g, h] = words;
        // SAFETY: an output word and a plain value of eight words.
        unsafe { self.output_of("cuIpcOpenEventHandle", |event| [event, a, b, c, d, e, f, g, h]) }
    }

    /// Milliseconds between two events that have happened.
    pub(crate) fn elapsed(&self, from: u64, to: u64) -> Result<f32, Failure> {
        let name = self.newest("cuEventElapsedTime_v2", "cuEventElapsedTime");
        // SAFETY: an output word and two handles.
        unsafe { self.output_of(name, |milliseconds| [milliseconds, from, to]) }
    }
}

/// Of two names the one by which handle 0 means the same.
pub(super) fn twin(stream: StreamHandle, plain: &'static str, per_thread: &'static str) -> &'static str {
    if stream.per_thread { per_thread } else { plain }
}

fn is_ready(asked: Result<(), Failure>) -> Result<bool, Failure> {
    match asked {
        Err(Failure { code: Some(result::NOT_READY), .. }) => Ok(false),
        asked => asked.map(|()| true),
    }
}
