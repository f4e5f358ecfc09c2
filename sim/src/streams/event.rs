//! Events: a place in a stream's order, with its time.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::abi::Handle;
use crate::abi::code::{Code, Result};
use crate::base::registry::Registry;
use crate::graphs::capture::Part;
use crate::memory::ipc::IpcHandle;
use crate::streams::context::{self, Context};
use crate::streams::signal::Signal;
use crate::streams::stream::{Point, Stream};
use crate::streams::work::{Stamp, Work};

const DISABLE_TIMING: u32 = 2;
const INTERPROCESS: u32 = 4;
const FLAGS: u32 = 7;

pub(crate) struct Event {
    flags: u32,
    context: Weak<Context>,
    state: Mutex<State>,
    /// Where other processes see it, too, what stands there and not its state counts.
    shared: Option<Arc<Signal>>,
}

#[derive(Clone, Default)]
enum State {
    #[default]
    Fresh,
    Recorded(Point, Arc<Stamp>),
    /// In a capture, after these nodes.
    Captured(Part),
}

static EVENTS: Registry<Event> = Registry::new();

pub(crate) fn create(flags: u32) -> Result<Handle> {
    if flags & !FLAGS != 0 || flags & 4 != 0 && flags & DISABLE_TIMING == 0 {
        return Err(Code::INVALID_VALUE);
    }
    let context = context::usable()?;
    let shared =
        if flags & INTERPROCESS != 0 { Some(Arc::new(Signal::new().ok_or(Code::OUT_OF_MEMORY)?)) } else { None };
    Ok(insert_event(flags, &context, shared))
}

fn insert_event(flags: u32, context: &Arc<Context>, shared: Option<Arc<Signal>>) -> Handle {
    let event = Event { flags, context: Arc::downgrade(context), state: Mutex::default(), shared };
    EVENTS.insert(Arc::new(event))
}

pub(crate) fn export(handle: Handle) -> Result<IpcHandle> {
    let event = find(handle)?;
    event.shared.as_ref().ok_or(Code::INVALID_HANDLE)?.handle().ok_or(Code::OPERATING_SYSTEM)
}

pub(crate) fn open(handle: &IpcHandle) -> Result<Handle> {
    let context = context::usable()?;
    Ok(insert_event(INTERPROCESS | DISABLE_TIMING, &context, Some(Arc::new(Signal::open(handle)?))))
}

pub(crate) fn find(handle: Handle) -> Result<Arc<Event>> {
    context::permitted()?;
    EVENTS.find(handle)
}

pub(crate) fn destroy(handle: Handle) -> Result {
    EVENTS.remove(handle).map(drop)
}

pub(crate) fn close_all(context: &Context) {
    EVENTS.drain(|e| std::ptr::eq(e.context.as_ptr(), context));
}

impl Event {
    pub(crate) fn record(&self, stream: &Arc<Stream>) -> Result {
        if !std::ptr::eq(self.context.as_ptr(), Arc::as_ptr(&stream.context()?)) {
            return Err(Code::INVALID_HANDLE);
        }
        if let Some(part) = stream.part.lock().clone() {
            part.capture.check()?;
            *self.state.lock() = State::Captured(part);
            return Ok(());
        }
        if let Some(signal) = &self.shared {
            return stream.submit(Work::Signal(signal.next()), Vec::new()).map(drop);
        }
        let stamp = Arc::<Stamp>::default();
        let point = stream.submit(Work::Record(stamp.clone()), Vec::new())?;
        self.recorded(point, stamp);
        Ok(())
    }

    /// After all that the context was given.
    pub(crate) fn record_all(&self, context: &Arc<Context>) -> Result {
        context.check()?;
        if let Some(signal) = &self.shared {
            let points = context.lanes.points();
            return context.legacy()?.submit(Work::Signal(signal.next()), points).map(drop);
        }
        let stamp = Arc::<Stamp>::default();
        let point = context.legacy()?.submit(Work::Record(stamp.clone()), context.lanes.points())?;
        self.recorded(point, stamp);
        Ok(())
    }

    pub(crate) fn recorded(&self, point: Point, stamp: Arc<Stamp>) {
        *self.state.lock() = State::Recorded(point, stamp);
    }

    fn context_check(&self) -> Result {
        self.context.upgrade().map_or(Ok(()), |context| context.check())
    }

    pub(crate) fn query(&self) -> Result {
        self.context_check()?;
        match &*self.state.lock() {
            State::Fresh if self.shared.as_ref().is_some_and(|signal| !signal.last().has_completed()) => {
                Err(Code::NOT_READY)
            }
            State::Recorded(point, _) if !point.reached() => Err(Code::NOT_READY),
            State::Captured(_) => Err(Code::CAPTURED_EVENT),
            _ => Ok(()),
        }
    }

    pub(crate) fn synchronize(&self) -> Result {
        if matches!(*self.state.lock(), State::Captured(_)) {
            return Err(Code::CAPTURED_EVENT);
        }
        if let Some(point) = self.point() {
            point.wait();
        }
        self.shared.iter().for_each(|signal| signal.last().wait());
        self.context_check()
    }

    /// Where it was recorded last.
    pub(crate) fn point(&self) -> Option<Point> {
        match &*self.state.lock() {
            State::Recorded(point, _) => Some(point.clone()),
            State::Fresh | State::Captured(_) => None,
        }
    }

    /// Makes a stream wait for it.
    pub(crate) fn hold(&self, stream: &Arc<Stream>) -> Result {
        let state = self.state.lock().clone();
        let mut part = stream.part.lock();
        match (&state, &mut *part) {
            (State::Captured(theirs), Some(ours)) => {
                if !Arc::ptr_eq(&theirs.capture, &ours.capture) {
                    return Err(Code::STREAM_CAPTURE_MERGE);
                }
                ours.join(&theirs.tail);
                return Ok(());
            }
            (State::Captured(theirs), None) => {
                theirs.capture.check()?;
                theirs.capture.has(stream);
                *part = Some(theirs.clone());
                return Ok(());
            }
            (State::Recorded(..), Some(ours)) => {
                ours.capture.invalidate();
                return Err(Code::STREAM_CAPTURE_ISOLATION);
            }
            _ => drop(part),
        }
        if let Some(signal) = &self.shared {
            return stream.submit(Work::Await(signal.last()), Vec::new()).map(drop);
        }
        match self.point() {
            Some(point) => stream.submit(Work::Nothing, vec![point]).map(drop),
            None => Ok(()),
        }
    }

    /// Milliseconds from `self` to `end`.
    pub(crate) fn elapsed(&self, end: &Event) -> Result<f32> {
        if (self.flags | end.flags) & DISABLE_TIMING != 0 {
            return Err(Code::INVALID_HANDLE);
        }
        let times = [self, end].map(|event| match &*event.state.lock() {
            State::Recorded(point, stamp) if point.reached() => Ok(stamp.get()),
            State::Recorded(..) => Err(Code::NOT_READY),
            State::Fresh => Err(Code::INVALID_HANDLE),
            State::Captured(_) => Err(Code::CAPTURED_EVENT),
        });
        let [from, to] = times;
        let (from, to) = (from?, to?);
        Ok((to as i64 - from as i64) as f32 / 1e6)
    }
}
