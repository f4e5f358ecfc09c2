//! A copy in flight, or other work that may write or read host memory.

use super::row::Row;
use crate::driver::queue::Queue;
use crate::in_flight::landing_range::Landing;
use crate::in_flight::node_runs::Turn;
use crate::in_flight::users::Users;
use crate::os::intervals::{at_most, intersections, joined};
use std::ops::Range;
use trace::api::copies::Region;
use trace::base::hash::Hash;

/// The kind of work that writes the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// A copy to the host, whose bytes are the program's to see.
    Copy,
    /// A launch, which was given the memory and may write there.
    Launch,
    /// A fill, or a copy within the device's reach.
    Fill,
    /// A graph that may copy there, and what was there before: if that has changed it did.
    Graph(Hash),
    /// A copy that reads there, or a launch of which no more is looked at, while callbacks may write.
    Read,
    /// A graph, which may read anything.
    Any,
    /// A launch that was given managed memory: when it is done something else may be there.
    Given,
    /// A launch, which may have used memory that it was not given: small managed memory (a variable, an
    /// element of a list), and pinned memory whose address stands somewhere. Or a graph: any managed memory,
    /// and pinned memory that other threads use, too.
    Unnamed { any: bool },
}

impl Work {
    /// Whether it brings bytes in one piece, once.
    pub(super) fn lands(self) -> bool {
        matches!(self, Work::Copy | Work::Fill | Work::Graph(_))
    }

    /// Whether it may have used any memory, if it is one that may have used what it was not given.
    pub(crate) fn unnamed(self) -> Option<bool> {
        if let Work::Unnamed { any } = self { Some(any) } else { None }
    }

    /// Whether it may write there at all.
    pub(crate) fn writes(self) -> bool {
        !matches!(self, Work::Read | Work::Any | Work::Given | Work::Unnamed { .. })
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Copy {
    pub landing: Landing,
    pub context: u64,
    /// The call that started it.
    pub thread: u32,
    pub call: u32,
    /// A synchronisation went by that may have covered it, for all that could be told.
    pub late: bool,
    /// Whether the legacy stream waits for its queue; none if the driver would not tell.
    pub blocking: Option<bool>,
    pub work: Work,
    /// It goes from host memory to host memory: the driver may have the CPU make it when its turn comes (seen
    /// on driver 580).
    pub by_cpu: bool,
    pub(super) position: u64,
    /// Work behind this launch was found done earlier, for all that is known, and has written there: its
    /// result is what stands there.
    pub is_superseded: bool,
    /// It is being looked at, and what it brought others may be replacing.
    pub(super) is_overwritten: bool,
    /// When work behind this launch was found done that may have written there.
    pub(super) overwritten: u64,
    /// The call has not returned: what other threads wait for meanwhile may have come before it.
    pub is_being_put: bool,
    /// The position by which it had been put.
    pub(super) put: u64,
    /// Whose copies, fills and launches have worked in its memory, too, since it was put, each in no order to
    /// it.
    other_writers: Users,
    /// Whose graphs were done meanwhile, or put behind it if it is a copy: they may have worked there if it
    /// is memory that several threads use.
    graphs: Users,
    /// What it stands for, itself the last.
    pub(super) row: Row,
}

impl Copy {
    pub(crate) fn new(landing: Landing, context: u64, blocking: Option<bool>, thread: u32, call: u32) -> Copy {
        Copy {
            landing,
            context,
            thread,
            call,
            late: false,
            blocking,
            work: Work::Copy,
            by_cpu: false,
            position: 0,
            is_superseded: false,
            is_overwritten: false,
            overwritten: 0,
            is_being_put: false,
            put: 0,
            other_writers: Users::Nobody,
            graphs: Users::Nobody,
            row: Row::default(),
        }
    }

    pub(super) fn is_put_before(&self, position: u64) -> bool {
        !self.is_being_put && self.put < position
    }

    /// Whether its call has put the callback, too.
    pub(super) fn is_of(&self, turn: &Turn) -> bool {
        (self.thread, self.call) == turn.by
    }

    /// Whether it is what a node of the callback's own graph brings before that begins.
    pub(super) fn is_done_before(&self, queue: Queue, turn: &Turn) -> bool {
        let is_own = self.is_of(turn) && queue == turn.queue && (turn.before..turn.behind).contains(&self.position);
        let is_among = |regions: &[Region]| regions.iter().any(|region| self.landing.is_at(region));
        self.work == Work::Fill && is_own && is_among(&turn.around.before) && !is_among(&turn.around.after)
    }

    /// Of another place.
    pub(crate) fn with_landing(self, landing: Landing) -> Copy {
        Copy { landing, ..self }
    }

    /// Whether they share memory.
    pub(super) fn meets(&self, start: u64, end: u64) -> bool {
        self.landing.address() < end && start < self.landing.end()
    }

    /// Where the CPU wrote while the launch was under way; some of what lies between, too, if that is very
    /// much in pieces. `waiter`: the thread whose call has waited.
    pub(super) fn concurrent_writes(
        &self,
        written: &[(u64, u32, Range<u64>)],
        waiter: Option<u32>,
    ) -> ConcurrentWrites {
        const MOST: usize = 256;
        if self.work != Work::Launch || written.is_empty() {
            return ConcurrentWrites::default();
        }
        let found = |is_meant: &dyn Fn(u32) -> bool| {
            let since = written.iter().filter(|(tick, thread, _)| *tick > self.row.first() && is_meant(*thread));
            at_most(MOST, &joined(intersections(&self.landing.extent(), since.map(|(.., place)| place))))
        };
        ConcurrentWrites {
            own: found(&|thread| Some(thread) == waiter),
            others: found(&|thread| Some(thread) != waiter),
        }
    }

    /// Others of this thread have worked there, beside it.
    pub(super) fn meets_other_writer(&mut self, thread: Option<u32>) {
        self.other_writers = self.other_writers.and(thread.map_or(Users::Several, Users::One));
    }

    /// Graphs of this thread were done beside it.
    pub(super) fn meets_graphs(&mut self, thread: Option<u32>) {
        self.graphs = self.graphs.and(thread.map_or(Users::Several, Users::One));
    }

    /// It stands for this one, too: what its own thread did meanwhile it has done by now.
    pub(super) fn takes_writers_of(&mut self, old: &Copy) {
        let others = |users: Users| if users.are_only(self.thread) { Users::Nobody } else { users };
        (self.other_writers, self.graphs) = (others(old.other_writers), others(old.graphs));
    }

    /// Whether what stands there now stands there in a replay, too, when a call of this thread has waited for
    /// it. `of_several`: whether several threads use the memory.
    pub(crate) fn is_alone(&self, waiter: u32, of_several: bool) -> bool {
        self.other_writers.are_only(waiter) && (!of_several || self.graphs.are_only(waiter))
    }
}

/// CPU writes during a launch, sorted and disjoint.
#[derive(Default)]
pub(crate) struct ConcurrentWrites {
    /// Found by calls of the thread that has waited for the launch: a replay has it by then.
    pub own: Vec<Range<u64>>,
    /// A replay may have it earlier, or later.
    pub others: Vec<Range<u64>>,
}
