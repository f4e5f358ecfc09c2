//! Events.

use super::declare::entries;
use crate::abi::code::{Code, Result};
use crate::abi::{Handle, NullStream, Out};
use crate::base::state;
use crate::streams::{context, event, stream};

fn record(hevent: Handle, hstream: Handle, flags: u32, null: NullStream) -> Result {
    if flags > 1 {
        return Err(Code::INVALID_VALUE);
    }
    let stream = stream::find(hstream, null)?;
    stream.context()?.check()?;
    event::find(hevent)?.record(&stream)
}

entries! {
    fn cuEventCreate(made: Out<Handle>, flags: u32) {
        if made.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        made.set(event::create(flags)?)
    }

    fn cuEventDestroy_v2(hevent: Handle) {
        context::permitted()?;
        event::destroy(hevent)
    }

    fn cuEventRecord / cuEventRecord_ptsz [null] (hevent: Handle, hstream: Handle) {
        record(hevent, hstream, 0, null)
    }

    fn cuEventRecordWithFlags / cuEventRecordWithFlags_ptsz [null] (hevent: Handle, hstream: Handle, flags: u32) {
        record(hevent, hstream, flags, null)
    }

    fn cuEventQuery(hevent: Handle) {
        event::find(hevent)?.query()
    }

    fn cuEventSynchronize(hevent: Handle) {
        let event = event::find(hevent)?;
        state::slow_down();
        event.synchronize()
    }

    fn cuEventElapsedTime(milliseconds: Out<f32>, start: Handle, end: Handle) {
        milliseconds.set(event::find(start)?.elapsed(&*event::find(end)?)?)
    }

    fn cuEventElapsedTime_v2(milliseconds: Out<f32>, start: Handle, end: Handle) {
        milliseconds.set(event::find(start)?.elapsed(&*event::find(end)?)?)
    }
}
