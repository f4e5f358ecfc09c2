//! The replay's own reads of device memory, on a stream of its own and in a mode that neither fails because
//! of a capture elsewhere nor breaks it.

use crate::driver::stream::with_context;
use crate::driver::{Failure, result};
use crate::memory::buffer::HostBuffer;
use crate::session::Session;
use std::ops::Range;

/// Bytes read at a time.
const PIECE: u64 = 16 << 20;

/// Hands over the bytes of live device memory, piece by piece.
pub(crate) fn read(session: &Session, live: Range<u64>, mut see: impl FnMut(&[u8])) -> Result<(), Failure> {
    let driver = session.driver;
    let no_memory = |_| Failure { name: "malloc", code: Some(result::OUT_OF_MEMORY) };
    let buffer = HostBuffer::zeroed(PIECE.min(live.end - live.start) as usize).map_err(no_memory)?;
    let mut work = || -> Result<(), Failure> {
        let stream = driver.create_stream()?;
        let mut at = live.start;
        let mut done = Ok(());
        while at < live.end && done.is_ok() {
            let len = PIECE.min(live.end - at);
            // SAFETY: the buffer is as long, and is not looked at before the stream has been waited for.
            done = unsafe { driver.read_ordered(buffer.address() as *mut u8, at, len, stream) }
                .and_then(|()| driver.synchronize_stream(stream));
            if done.is_ok() {
                see(&buffer.bytes()[..len as usize]);
            }
            at += len;
        }
        driver.destroy_stream(stream).and(done)
    };
    let context = context_of(session, live.start)?;
    session.placement.relaxed(|| with_context(driver, context, &mut work))?
}

/// A live context from which the memory can be reached: its own if it has one, else any.
pub(crate) fn context_of(session: &Session, live: u64) -> Result<u64, Failure> {
    let own = session.driver.context_of_memory(live);
    if let Some(context) = own.ok().filter(|context| session.contexts.lock().contains(context)) {
        return Ok(context);
    }
    if let Some(any) = session.contexts.lock().first() {
        return Ok(*any);
    }
    let device = session.plan.devices.used.first().copied().unwrap_or(0);
    let context = session.driver.retain_primary_context(session.objects.device(device))?;
    session.contexts.lock().insert(context);
    Ok(context)
}
