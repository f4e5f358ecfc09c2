//! The order of work, by streams, events and the rules of the legacy stream, and the work that a wait covers.
//!
//! Callers keep the work itself: here work is the number of the call that submitted it, and a stream is an
//! index. A successful wait covers the earlier work of its stream and all work that the stream waits for by
//! events; a wait for the legacy stream also covers the blocking streams of its context.

use super::stream::StreamId;
use foldhash::{HashMap, HashSet};
use std::collections::BTreeSet;

/// The work of a stream up to a call: the index of the stream, and the number of that call, whose own work is
/// behind.
pub type StreamPosition = (usize, u64);

/// Streams, their work, and the events between them.
#[derive(Default)]
pub struct Order {
    streams: Vec<Stream>,
    by_id: HashMap<StreamId, usize>,
    /// Some of these, each where its number puts it: most calls are on a stream that was met just before.
    met_lately: [Option<(StreamId, usize)>; LATELY],
    /// Of streams that were made, by handle.
    made: HashMap<u64, CreatedStream>,
    /// By context, the streams that were made or met in it; some have ended, or are of another by now.
    within: HashMap<u64, HashSet<StreamId>>,
    /// What stood before events when they were recorded.
    events: HashMap<u64, Vec<StreamPosition>>,
    /// What all that comes to a context waits for.
    of_contexts: HashMap<u64, Vec<StreamPosition>>,
    /// Streams with work that is not known to have finished: there may be many that have none.
    busy: BTreeSet<usize>,
    finished: Vec<StreamPosition>,
}

/// A stream with work, or one that waits.
pub struct Stream {
    /// The stream's identity.
    pub id: StreamId,
    /// Which it is of; if its making is not in the trace, the one that was current when it was met.
    pub context: u64,
    is_blocking: bool,
    is_busy: bool,
    /// What its work waits for, and since which call: of each stream, later calls wait for more.
    waits: Vec<(u64, StreamPosition)>,
    /// Its latest work, and up to which call all has finished.
    last: Option<u64>,
    done: u64,
}

/// A power of two.
const LATELY: usize = 32;

/// Of the waits of one stream for another: work older than the oldest of these is taken for unordered.
const MOST_WAITS: usize = 16;

#[derive(Clone, Copy)]
struct CreatedStream {
    context: u64,
    is_blocking: bool,
}

impl Order {
    pub(crate) fn stream_made(&mut self, handle: u64, context: u64, is_blocking: bool) {
        self.made.insert(handle, CreatedStream { context, is_blocking });
        self.within.entry(context).or_default().insert(StreamId::created(handle));
        self.stream_ended(handle);
    }

    /// What has this handle from now on is another stream; work on this one goes on.
    pub fn stream_ended(&mut self, handle: u64) {
        self.met_lately = [None; LATELY];
        self.by_id.remove(&StreamId::created(handle));
    }

    /// A stream that is met while this context is current.
    #[inline]
    pub fn index_or_insert(&mut self, id: StreamId, current: u64) -> usize {
        let lately = id.spread() as usize % LATELY;
        match self.met_lately[lately] {
            Some((known, at)) if known == id => at,
            _ => {
                let at = self.look_up(id, current);
                self.met_lately[lately] = Some((id, at));
                at
            }
        }
    }

    fn look_up(&mut self, id: StreamId, current: u64) -> usize {
        if let Some(known) = self.by_id.get(&id) {
            return *known;
        }
        let CreatedStream { context, is_blocking } = match id.context {
            0 if !id.is_legacy() && id.thread.is_none() => {
                self.made.get(&id.stream).copied().unwrap_or(CreatedStream { context: current, is_blocking: false })
            }
            context => CreatedStream { context, is_blocking: id.thread.is_some() },
        };
        let waits = self.of_contexts.get(&context).into_iter().flatten().map(|until| (0, *until)).collect();
        self.streams.push(Stream { id, context, is_blocking, is_busy: false, waits, last: None, done: 0 });
        self.by_id.insert(id, self.streams.len() - 1);
        self.within.entry(context).or_default().insert(id);
        self.streams.len() - 1
    }

    /// Streams that were met.
    pub fn met_so_far(&self) -> usize {
        self.streams.len()
    }

    /// The stream's index; None if no call has used it.
    pub fn index_of(&self, id: StreamId) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// The context that a stream is of; none if its making is not in the trace.
    pub fn context_of(&self, id: StreamId) -> Option<u64> {
        match id.context {
            0 if id.is_legacy() || id.thread.is_some() => None,
            0 => self.made.get(&id.stream).map(|made| made.context),
            context => Some(context),
        }
    }

    /// The stream at this index.
    pub fn stream(&self, at: usize) -> &Stream {
        &self.streams[at]
    }

    /// Streams with work that is not known to have finished.
    pub fn busy(&self) -> impl Iterator<Item = usize> {
        self.busy.iter().copied()
    }

    /// Appends work to the stream at this index.
    pub fn submitted(&mut self, at: usize, call: u64) {
        let stream = &mut self.streams[at];
        stream.last = Some(call);
        if !std::mem::replace(&mut stream.is_busy, true) {
            self.busy.insert(at);
        }
    }

    pub(crate) fn has_finished(&self) -> bool {
        !self.finished.is_empty()
    }

    /// What finished since that was asked last, in place of what is there.
    pub fn take_finished(&mut self, into: &mut Vec<StreamPosition>) {
        into.clear();
        std::mem::swap(into, &mut self.finished);
    }

    /// What was put on a stream before this call has finished.
    pub fn stream_finished(&mut self, id: StreamId, call: u64) {
        self.finish_all(self.positions_before(self.index_of(id), id, call));
    }

    pub(crate) fn event_finished(&mut self, event: u64) {
        self.finish_all(self.events.get(&event).cloned().unwrap_or_default());
    }

    /// What was put on any stream of a context before this call has finished, or is gone with it.
    pub fn context_finished(&mut self, context: u64, call: u64) {
        for at in self.busy_of(context) {
            self.finish_all(self.waits(at));
            self.finish((at, call));
        }
    }

    /// Its streams end with it; what has their handles from now on, or comes to its default streams, is of
    /// another. Which end.
    pub fn context_ended(&mut self, context: u64, call: u64) -> Vec<StreamId> {
        self.context_finished(context, call);
        self.of_contexts.remove(&context);
        self.met_lately = [None; LATELY];
        // Not all streams: a forged trace has as many contexts.
        let mut ended = Vec::new();
        for id in self.within.remove(&context).unwrap_or_default() {
            let is_made = id == StreamId::created(id.stream);
            if is_made && self.made.get(&id.stream).is_some_and(|made| made.context == context) {
                self.made.remove(&id.stream);
                ended.push(id);
            }
            if self.index_of(id).is_some_and(|at| self.streams[at].context == context) {
                self.by_id.remove(&id);
                ended.push(id);
            }
        }
        ended
    }

    /// Up to where a callback had waited when it began, of its own stream and others.
    pub fn reached(&mut self, all: Vec<StreamPosition>) {
        self.finish_all(all);
    }

    fn finish_all(&mut self, all: Vec<StreamPosition>) {
        all.into_iter().for_each(|until| self.finish(until));
    }

    fn finish(&mut self, (at, until): StreamPosition) {
        let stream = &mut self.streams[at];
        if until <= stream.done {
            return;
        }
        stream.done = until;
        if stream.is_busy {
            self.finished.push((at, until));
            if stream.last < Some(until) {
                stream.is_busy = false;
                self.busy.remove(&at);
            }
        }
    }

    /// By a call on a stream.
    pub fn event_recorded(&mut self, event: u64, at: usize, call: u64) {
        let before = self.positions_before(Some(at), self.streams[at].id, call);
        self.events.insert(event, before);
    }

    /// The same, behind all work of a context.
    pub fn event_recorded_in(&mut self, event: u64, context: u64, call: u64) {
        let before = self.all_before(self.busy_of(context), call);
        self.events.insert(event, before);
    }

    /// What stands before a call on this stream, as its own; on the legacy stream also what stands on
    /// blocking ones (driver 580: tests/gpu/facts/legacy_waits.c).
    fn positions_before(&self, at: Option<usize>, id: StreamId, call: u64) -> Vec<StreamPosition> {
        let blocking = if id.is_legacy() { self.blocking_of(id.context) } else { Vec::new() };
        self.all_before(at.into_iter().chain(blocking), call)
    }

    fn all_before(&self, streams: impl IntoIterator<Item = usize>, call: u64) -> Vec<StreamPosition> {
        let mut before = Vec::new();
        for at in streams {
            join(&mut before, (at, call));
            self.waits(at).into_iter().for_each(|until| join(&mut before, until));
        }
        before
    }

    /// What has this handle from now on is another event, and not recorded yet.
    pub fn event_ended(&mut self, event: u64) {
        self.events.remove(&event);
    }

    /// What comes to the stream waits for the event.
    pub fn event_awaited(&mut self, event: u64, at: usize, call: u64) {
        let awaited = self.open(self.events.get(&event).into_iter().flatten());
        let mut waits = std::mem::take(&mut self.streams[at].waits);
        waits.retain(|(_, until)| self.is_open(until));
        for (other, until) in awaited {
            let known = || waits.iter().filter(|(_, (at, _))| *at == other);
            if known().all(|(_, (_, known))| *known < until) {
                let oldest = waits.iter().position(|(_, (at, _))| *at == other);
                if let Some(oldest) = oldest.filter(|_| known().count() >= MOST_WAITS) {
                    waits.remove(oldest);
                }
                waits.push((call, (other, until)));
            }
        }
        self.streams[at].waits = waits;
    }

    /// What comes to any stream of the context waits for the event.
    pub fn event_awaited_in(&mut self, event: u64, context: u64, call: u64) {
        for at in 0..self.streams.len() {
            if self.streams[at].context == context {
                self.event_awaited(event, at, call);
            }
        }
        let mut waits = self.open(self.of_contexts.get(&context).into_iter().flatten());
        let awaited = self.open(self.events.get(&event).into_iter().flatten());
        awaited.into_iter().for_each(|until| join(&mut waits, until));
        self.of_contexts.insert(context, waits);
    }

    /// What the next work of a stream waits for by events, and is not known to have finished.
    pub fn waits(&self, at: usize) -> Vec<StreamPosition> {
        self.waits_of(at, u64::MAX)
    }

    /// The same, of the work that a call put there.
    pub fn waits_of(&self, at: usize, call: u64) -> Vec<StreamPosition> {
        let mut waits = Vec::new();
        let earlier = self.streams[at].waits.iter().filter(|(since, _)| *since < call);
        self.open(earlier.map(|(_, until)| until)).into_iter().for_each(|until| join(&mut waits, until));
        waits
    }

    /// What work put here waits for without being told to: on the legacy stream for blocking ones of its
    /// context, on those for it.
    pub fn implied(&self, at: usize) -> Vec<usize> {
        let Stream { id, context, is_blocking, .. } = self.streams[at];
        match id.is_legacy() {
            true => self.blocking_of(context),
            false => is_blocking.then(|| self.index_of(StreamId::legacy(context))).flatten().into_iter().collect(),
        }
    }

    fn open<'u>(&self, all: impl Iterator<Item = &'u StreamPosition>) -> Vec<StreamPosition> {
        all.copied().filter(|until| self.is_open(until)).collect()
    }

    fn is_open(&self, (at, until): &StreamPosition) -> bool {
        *until > self.streams[*at].done
    }

    fn busy_of(&self, context: u64) -> Vec<usize> {
        self.busy().filter(|at| self.streams[*at].context == context).collect()
    }

    fn blocking_of(&self, context: u64) -> Vec<usize> {
        let is_meant = |stream: &Stream| stream.is_blocking && stream.context == context;
        self.busy().filter(|at| is_meant(&self.streams[*at])).collect()
    }
}

fn join(all: &mut Vec<StreamPosition>, (at, until): StreamPosition) {
    match all.iter_mut().find(|(known, _)| *known == at) {
        Some((_, known)) => *known = until.max(*known),
        None => all.push((at, until)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_a_context_end_the_streams_that_are_of_it_now() {
        let mut order = Order::default();
        let [kept, gone, again] = [0x70, 0x71, 0x72].map(StreamId::created);
        for stream in [kept, gone, again] {
            order.stream_made(stream.stream, 1, true);
            order.index_or_insert(stream, 1);
        }
        order.stream_ended(again.stream);
        order.stream_made(kept.stream, 2, true);
        order.index_or_insert(kept, 1);
        order.index_or_insert(StreamId::legacy(1), 1);
        let mut ended = order.context_ended(1, 9);
        ended.sort();
        ended.dedup();
        assert_eq!(ended, [gone, again, StreamId::legacy(1)]);
        assert_eq!((order.context_of(kept), order.context_of(gone)), (Some(2), None));
        assert_eq!((order.index_of(kept).is_some(), order.index_of(StreamId::legacy(1))), (true, None));
        assert_eq!(order.context_ended(1, 9), []);
    }
}
