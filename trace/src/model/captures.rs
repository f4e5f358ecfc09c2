//! Streams under capture, and the events recorded there.

use super::change::{Change, Scope};
use super::stream::{StreamHandle, StreamId};
use foldhash::HashMap;
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct Captures {
    /// By stream: the one that the capture began on.
    streams: BTreeMap<StreamId, StreamId>,
    events: HashMap<u64, StreamId>,
}

impl Captures {
    pub(crate) fn are_none(&self) -> bool {
        self.streams.is_empty()
    }

    /// Nor any event of one.
    pub(crate) fn are_forgotten(&self) -> bool {
        self.are_none() && self.events.is_empty()
    }

    /// The stream that the capture of this stream began on.
    pub(crate) fn origin(&self, stream: StreamId) -> Option<StreamId> {
        self.streams.get(&stream).copied()
    }

    /// Follows what a call changed. `id`: the stream that a handle is to the call.
    pub(crate) fn follow(&mut self, change: &Change, id: impl Fn(StreamHandle) -> StreamId) {
        match *change {
            Change::CaptureBegun { on } => _ = self.streams.insert(id(on), id(on)),
            Change::CaptureEnded { on, .. } => {
                let ended = id(on);
                self.streams.retain(|_, origin| *origin != ended);
                self.events.retain(|_, origin| *origin != ended);
            }
            Change::EventRecorded { event, behind, is_external } => {
                let origin = match behind {
                    Scope::Stream(on) if !is_external => self.origin(id(on)),
                    // Of a context it fails where one of its streams is under capture (cuda.h).
                    _ => None,
                };
                match origin {
                    Some(origin) => self.events.insert(event, origin),
                    None => self.events.remove(&event),
                };
            }
            // A stream that waits for a capture joins it.
            Change::EventAwaited { event, by: Scope::Stream(on), is_external: false } => {
                let origin = self.events.get(&event).copied();
                self.streams.extend(origin.map(|origin| (id(on), origin)));
            }
            Change::EventEnded { event } => _ = self.events.remove(&event),
            // What has the handle from now on is another stream.
            Change::StreamMade { stream, .. } | Change::StreamEnded { stream } => {
                self.stream_ended(StreamId::created(stream))
            }
            _ => {}
        }
    }

    /// A capture ends with the stream that it began on.
    pub(crate) fn stream_ended(&mut self, stream: StreamId) {
        self.streams.retain(|on, origin| *on != stream && *origin != stream);
        self.events.retain(|_, origin| *origin != stream);
    }

    /// Whether a call that changes this becomes part of a capture, which is asked before it is followed.
    pub(crate) fn takes(&self, change: &Change, id: impl Fn(StreamHandle) -> StreamId) -> bool {
        match *change {
            Change::EventAwaited { event, by, is_external } => {
                !is_external && self.events.contains_key(&event)
                    || matches!(by, Scope::Stream(on) if self.origin(id(on)).is_some())
            }
            Change::Allocated { on: Some(on), .. }
            | Change::Submitted { on, .. }
            | Change::EventRecorded { behind: Scope::Stream(on), .. } => self.origin(id(on)).is_some(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: StreamHandle = StreamHandle { handle: 0x51, per_thread: false };
    const OTHER: StreamHandle = StreamHandle { handle: 0x52, per_thread: false };
    const EVENT: u64 = 0xe0;

    fn id(handle: StreamHandle) -> StreamId {
        handle.resolve(0xc0, 0)
    }

    fn is_captured(captures: &Captures, handle: StreamHandle) -> bool {
        captures.origin(id(handle)).is_some()
    }

    #[test]
    fn a_stream_joins_a_capture_by_waiting_for_it_and_leaves_when_that_ends() {
        let mut captures = Captures::default();
        let mut follow = |change| {
            captures.follow(&change, id);
            [STREAM, OTHER].map(|handle| is_captured(&captures, handle))
        };
        let recorded = Change::EventRecorded { event: EVENT, behind: Scope::Stream(STREAM), is_external: false };
        let awaited = Change::EventAwaited { event: EVENT, by: Scope::Stream(OTHER), is_external: false };
        assert_eq!(follow(recorded), [false; 2]);
        assert_eq!(follow(Change::CaptureBegun { on: STREAM }), [true, false]);
        // As it was recorded before.
        assert_eq!(follow(awaited), [true, false]);
        follow(recorded);
        assert_eq!(follow(awaited), [true, true]);
        assert_eq!(follow(Change::CaptureEnded { on: STREAM, graph: None }), [false; 2]);
        assert_eq!(follow(awaited), [false; 2]);
    }

    #[test]
    fn an_event_of_a_whole_context_is_of_no_capture() {
        let mut captures = Captures::default();
        captures.follow(&Change::CaptureBegun { on: STREAM }, id);
        captures.follow(&Change::EventRecorded { event: EVENT, behind: Scope::Stream(STREAM), is_external: false }, id);
        captures.follow(&Change::EventRecorded { event: EVENT, behind: Scope::Context(0xc1), is_external: false }, id);
        captures.follow(&Change::EventAwaited { event: EVENT, by: Scope::Stream(OTHER), is_external: false }, id);
        assert!(!is_captured(&captures, OTHER));
    }

    #[test]
    fn a_thread_captures_its_own_default_stream_by_any_of_its_names() {
        let mut captures = Captures::default();
        captures.follow(&Change::CaptureBegun { on: StreamHandle { handle: 0, per_thread: true } }, id);
        assert!(is_captured(&captures, StreamHandle { handle: 2, per_thread: false }));
        assert!(!is_captured(&captures, StreamHandle { handle: 0, per_thread: false }));
        assert!(captures.origin(StreamHandle { handle: 2, per_thread: false }.resolve(0xc0, 1)).is_none());
    }
}
