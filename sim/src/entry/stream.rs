//! Streams.

use std::sync::Arc;

use super::declare::entries;
use crate::abi::code::{Code, Result};
use crate::abi::{DevicePointer, Handle, HostFunction, NullStream, Opaque, Out, StreamCallback};
use crate::base::state;
use crate::graphs::capture::{check_legacy, check_unsafe_call};
use crate::streams::context;
use crate::streams::event;
use crate::streams::stream::{self, Lane, Stream};
use crate::streams::work::Work;

/// Refuses on a stream whose context a kernel has spoilt.
fn usable(hstream: Handle, null: NullStream) -> Result<Arc<Stream>> {
    let stream = stream::find(hstream, null)?;
    stream.context()?.check()?;
    Ok(stream)
}

/// A stream that is asked about: for the legacy stream that is a use of it.
fn described(hstream: Handle, null: NullStream) -> Result<Arc<Stream>> {
    let stream = stream::find(hstream, null)?;
    if stream.lane == Lane::Legacy {
        check_legacy(stream.context_handle)?;
    }
    Ok(stream)
}

entries! {
    fn cuStreamCreate(made: Out<Handle>, flags: u32) {
        if made.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        made.set(stream::create(flags, 0)?)
    }

    fn cuStreamCreateWithPriority(made: Out<Handle>, flags: u32, priority: i32) {
        if made.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        made.set(stream::create(flags, priority)?)
    }

    fn cuStreamDestroy_v2(hstream: Handle) {
        context::permitted()?;
        stream::destroy(hstream)
    }

    fn cuStreamQuery / cuStreamQuery_ptsz [null] (hstream: Handle) {
        let stream = stream::find(hstream, null)?;
        stream.capture_forbids()?;
        check_unsafe_call()?;
        let context = stream.context()?;
        let reached = context.lanes.waited_for(&stream).is_empty();
        context.check()?;
        if reached { Ok(()) } else { Err(Code::NOT_READY) }
    }

    fn cuStreamSynchronize / cuStreamSynchronize_ptsz [null] (hstream: Handle) {
        let stream = stream::find(hstream, null)?;
        stream.capture_forbids()?;
        state::slow_down();
        let context = stream.context()?;
        context.lanes.waited_for(&stream).iter().for_each(|point| point.wait());
        context.check()
    }

    fn cuStreamWaitEvent / cuStreamWaitEvent_ptsz [null] (hstream: Handle, hevent: Handle, flags: u32) {
        if flags > 1 {
            return Err(Code::INVALID_VALUE);
        }
        let stream = usable(hstream, null)?;
        event::find(hevent)?.hold(&stream)
    }

    fn cuStreamGetPriority / cuStreamGetPriority_ptsz [null] (hstream: Handle, priority: Out<i32>) {
        priority.set(described(hstream, null)?.priority)
    }

    fn cuStreamGetFlags / cuStreamGetFlags_ptsz [null] (hstream: Handle, flags: Out<u32>) {
        flags.set(described(hstream, null)?.flags)
    }

    fn cuStreamGetId / cuStreamGetId_ptsz [null] (hstream: Handle, id: Out<u64>) {
        id.set(described(hstream, null)?.id)
    }

    fn cuStreamGetDevice / cuStreamGetDevice_ptsz [null] (hstream: Handle, dev: Out<i32>) {
        dev.set(described(hstream, null)?.device)
    }

    fn cuStreamGetCtx / cuStreamGetCtx_ptsz [null] (hstream: Handle, ctx: Out<Handle>) {
        ctx.set(described(hstream, null)?.context_handle)
    }

    fn cuStreamGetCtx_v2 / cuStreamGetCtx_v2_ptsz [null] (hstream: Handle, ctx: Out<Handle>, green: Out<Handle>) {
        let found = described(hstream, null)?.context_handle;
        ctx.set(found)?;
        green.set_if(context::green(found).map_or(0, |_| found));
        Ok(())
    }

    fn cuLaunchHostFunc / cuLaunchHostFunc_ptsz [null] (hstream: Handle, f: Option<HostFunction>, data: Opaque) {
        let stream = usable(hstream, null)?;
        let f = f.ok_or(Code::INVALID_VALUE)?;
        stream.submit(Work::Host { f, data }, Vec::new()).map(drop)
    }

    /// Waiting for more of them in another way changes nothing here.
    fn cuLaunchHostFunc_v2 / cuLaunchHostFunc_v2_ptsz [null] (
        hstream: Handle, f: Option<HostFunction>, data: Opaque, mode: u32,
    ) {
        let stream = usable(hstream, null)?;
        let f = f.filter(|_| mode <= 1).ok_or(Code::INVALID_VALUE)?;
        stream.submit(Work::Host { f, data }, Vec::new()).map(drop)
    }

    fn cuStreamAddCallback / cuStreamAddCallback_ptsz [null] (
        hstream: Handle, f: Option<StreamCallback>, data: Opaque, flags: u32,
    ) {
        let stream = usable(hstream, null)?;
        let f = f.filter(|_| flags == 0).ok_or(Code::INVALID_VALUE)?;
        stream.capture_forbids()?;
        stream.submit(Work::Callback { f, stream: hstream, data }, Vec::new()).map(drop)
    }

    /// Managed memory is where it is.
    fn cuStreamAttachMemAsync / cuStreamAttachMemAsync_ptsz [null] (
        hstream: Handle, at: DevicePointer, _length: usize, flags: u32,
    ) {
        let stream = usable(hstream, null)?;
        crate::entry::memory::allocate::managed(at)?;
        if ![1, 2, 4].contains(&flags) || flags == 4 && stream.lane == Lane::Legacy {
            return Err(Code::INVALID_VALUE);
        }
        Ok(())
    }
}
