//! Streams as the host knows them: when work was submitted, and which wait shows it complete. Captured work
//! is not on the device yet.

use super::event::{Category, Flags};
use super::lane::Queue;
use super::ops::Op;
use analysis::findings::finding::Gap;
use rustc_hash::FxHashMap as HashMap;
use trace::model::change::Change;
use trace::model::order::{Stream, StreamPosition};
use trace::model::stream::StreamId;
use trace::model::streams::{self as model, Followed};

/// The work of one stream so far.
pub(crate) struct Work {
    pub(crate) queue: Queue,
    pub(crate) begin: Vec<u64>,
    pub(crate) name: Vec<u32>,
    pub(crate) flags: Vec<u8>,
    pub(crate) call: Vec<u32>,
    /// When it is known to be done, ns; u64::MAX if nothing tells.
    pub done: Vec<u64>,
    /// The first that is not known to be done.
    pending: usize,
}

impl Work {
    /// Keeps the work of these calls.
    pub(crate) fn retain(&mut self, keeps: impl Fn(u32) -> bool) {
        let kept: Vec<usize> = (0..self.call.len()).filter(|at| keeps(self.call[*at])).collect();
        self.begin = kept.iter().map(|at| self.begin[*at]).collect();
        self.name = kept.iter().map(|at| self.name[*at]).collect();
        self.flags = kept.iter().map(|at| self.flags[*at]).collect();
        self.done = kept.iter().map(|at| self.done[*at]).collect();
        self.call = kept.into_iter().map(|at| self.call[at]).collect();
    }
}

#[derive(Default)]
pub(crate) struct Streams {
    model: model::Streams,
    /// By the index of the stream.
    pub work: Vec<Work>,
    /// Whether a launch is done when it returns.
    launches_wait: bool,
    /// The calls that made streams, by handle.
    made: HashMap<u64, u32>,
    /// What the call followed last tells to be done.
    finished: Vec<StreamPosition>,
    /// By device: since when nothing is outstanding, and the call that said so.
    idle: HashMap<i32, (u64, u32)>,
    pub(crate) gaps: Vec<Gap>,
}

impl Streams {
    pub(crate) fn new(launches_wait: bool) -> Streams {
        Streams { launches_wait, ..Streams::default() }
    }

    /// Follows what a call changed. `name` and `flags`: of its work, if it puts any on a stream.
    pub(crate) fn follow(&mut self, op: &Op, change: &Change, name: u32, flags: Flags) -> Followed {
        let waits = self.launches_wait && flags.own() == Category::Launch;
        let followed = self.model.follow(op.moment(), change, waits);
        if let Change::StreamMade { stream, .. } = *change {
            self.made.insert(stream, op.call);
        }
        for at in self.work.len()..self.model.order.met_so_far() {
            self.meet(at, op.call);
        }
        if let Some(at) = followed.put {
            self.submit(op, at, name, flags.0);
        }
        self.finish(op);
        followed
    }

    fn meet(&mut self, at: usize, call: u32) {
        let Stream { id: StreamId { stream, thread, .. }, context, .. } = *self.model.order.stream(at);
        let made = self.made.get(&stream).filter(|_| thread.is_none()).copied();
        let device = self.model.contexts.device_of(context).unwrap_or(0);
        let queue = Queue { device, context, stream, thread, call: made.unwrap_or(call) };
        self.work.push(Work {
            queue,
            begin: vec![],
            name: vec![],
            flags: vec![],
            call: vec![],
            done: vec![],
            pending: 0,
        });
    }

    fn submit(&mut self, op: &Op, at: usize, name: u32, flags: u8) {
        let device = self.work[at].queue.device;
        if let Some((since, by)) = self.idle.remove(&device)
            && op.begin > since
        {
            self.gaps.push(Gap { device, begin: since, end: op.begin, after: by, before: op.call, causes: None });
        }
        let work = &mut self.work[at];
        // Threads may submit to one stream in overlapping calls; the order of their entries is assumed.
        work.begin.push(op.begin.max(work.begin.last().copied().unwrap_or(0)));
        work.name.push(name);
        work.flags.push(flags);
        work.call.push(op.call);
        work.done.push(u64::MAX);
    }

    /// Takes in what the call told to be done.
    fn finish(&mut self, op: &Op) {
        self.model.order.take_finished(&mut self.finished);
        for (at, until) in &self.finished {
            let work = &mut self.work[*at];
            let before = work.pending;
            while work.call.get(work.pending).is_some_and(|call| u64::from(*call) < *until) {
                work.done[work.pending] = op.end;
                work.pending += 1;
            }
            let device = work.queue.device;
            let is_new = work.pending > before;
            if is_new && !self.model.order.busy().any(|at| self.work[at].queue.device == device) {
                self.idle.insert(device, (op.end, op.call));
            }
        }
    }
}
