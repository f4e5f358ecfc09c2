//! The rows of the timeline: process, threads, devices, contexts, streams, memory; folded, pinned or hidden.

use crate::data::Model;
use crate::data::device::UNKNOWN;
use crate::data::lane::{Lane, Queue, Source};
use crate::data::memory::{DEFAULT, Pool};
use crate::data::open::Opened;
use crate::text::tame;
use std::collections::HashSet;
use trace::api::types::Kind;
use trace::model::graph_memory::POOL;
use trace::model::stream::{LEGACY, PER_THREAD};

/// The identity of a row, which stays valid when the trace grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Id {
    Process,
    Thread {
        thread: u32,
        depth: u32,
    },
    Device(i32),
    Context(i32, u64),
    /// The first call that used it tells streams apart whose handles are the same.
    Stream {
        stream: u64,
        call: u32,
    },
    /// Work of a stream as a replay measured it.
    Timed {
        stream: u64,
        call: u32,
        part: u32,
    },
    Range {
        thread: Option<u32>,
        domain: u32,
        depth: u32,
    },
    /// Another run's calls of a thread; its streams, and one of them by its place.
    SecondThread(u32),
    Second,
    SecondWork(usize),
    Memory(i32, Option<Pool>),
    /// Another process of the job, by its place behind the first; one of its lanes; and what the first did on
    /// a communicator.
    Peer(u32),
    PeerLane(usize),
    Operations(usize),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub id: Id,
    /// How far it is indented.
    pub level: u16,
    /// Lanes that it shows: its own, or those that are folded into it.
    pub lanes: Vec<usize>,
    /// Index into [`Model::memory`].
    pub memory: Option<usize>,
    /// Some: it can be folded, and whether it is.
    pub folded: Option<bool>,
    pub pinned: bool,
}

impl Row {
    /// Whether this is the lane's own row, rather than a group that it is folded into.
    pub(crate) fn is_of(&self, lane: usize) -> bool {
        self.lanes == [lane]
            && !matches!(self.id, Id::Process | Id::Device(_) | Id::Context(..) | Id::Second | Id::Peer(_))
    }
}

/// The user's arrangement of the rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Arrangement {
    pub(crate) folded: HashSet<Id>,
    pub(crate) pinned: Vec<Id>,
    pub(crate) hidden: HashSet<Id>,
    /// Rows that were moved past a neighbour, up (true) or down, in this order.
    pub moved: Vec<(Id, bool)>,
}

impl Arrangement {
    /// Calls within calls are folded away at first, and ranges nested more than three deep: what is around
    /// them stands for them.
    pub(crate) fn new(model: &Model) -> Arrangement {
        let deep = model.lanes.iter().filter_map(|lane| match lane.source {
            Source::Thread { thread, depth: 1 } => Some(Id::Thread { thread, depth: 0 }),
            _ => None,
        });
        // Ranges that are nested deeper than this would leave no room for anything else.
        let ranges = model.lanes.iter().filter_map(|lane| match lane.source {
            Source::Range { thread, domain, depth: 3 } => Some(Id::Range { thread, domain, depth: 0 }),
            _ => None,
        });
        // The lanes of more would leave no room for each other.
        const PEERS: u32 = 3;
        let peers = model.lanes.iter().filter_map(|lane| match lane.source {
            Source::Peer { process, .. } => Some(process),
            _ => None,
        });
        let last = peers.clone().max().filter(|last| *last > PEERS);
        let folded = peers.filter(|_| last.is_some()).map(Id::Peer);
        Arrangement { folded: deep.chain(ranges).chain(folded).collect(), ..Arrangement::default() }
    }
}

/// The rows to show, from top to bottom: pinned ones first.
pub(crate) fn rows(model: &Model, arrangement: &Arrangement) -> Vec<Row> {
    let mut all = Vec::new();
    let mut folded_at: Option<u16> = None;
    let mut tree = tree(model);
    for (id, up) in &arrangement.moved {
        shift(&mut tree, *id, *up);
    }
    for row in tree {
        let mut row = row;
        if folded_at.is_some_and(|level| row.level > level) {
            continue;
        }
        folded_at = None;
        let is_folded = arrangement.folded.contains(&row.id);
        if let Some(folded) = &mut row.folded {
            *folded = is_folded;
            match row.id {
                // What is made within a call lies within it: the outermost lane stands for all.
                Id::Thread { .. } | Id::Range { .. } => row.lanes.truncate(1),
                _ if !is_folded => row.lanes.clear(),
                _ => {}
            }
            if is_folded {
                folded_at = Some(row.level);
            }
        }
        row.pinned = arrangement.pinned.contains(&row.id);
        if !arrangement.hidden.contains(&row.id) {
            all.push(row);
        }
    }
    let (mut top, rest): (Vec<Row>, Vec<Row>) = all.into_iter().partition(|row| row.pinned);
    top.sort_by_key(|row| arrangement.pinned.iter().position(|id| *id == row.id));
    top.extend(rest);
    top
}

/// Moves a row and what is under it past the neighbour on its level; nothing where there is none.
fn shift(tree: &mut [Row], id: Id, up: bool) {
    let Some(at) = tree.iter().position(|row| row.id == id) else { return };
    let level = tree[at].level;
    let end_of =
        |tree: &[Row], at: usize| at + 1 + tree[at + 1..].iter().take_while(|row| row.level > tree[at].level).count();
    let end = end_of(tree, at);
    let before = tree[..at].iter().rposition(|row| row.level <= level).filter(|before| tree[*before].level == level);
    match (up, before) {
        (true, Some(before)) => tree[before..end].rotate_left(at - before),
        (false, _) if tree.get(end).is_some_and(|next| next.level == level) => {
            let last = end_of(tree, end);
            tree[at..last].rotate_left(end - at);
        }
        _ => {}
    }
}

fn row(id: Id, level: u16, lanes: Vec<usize>, folded: Option<bool>) -> Row {
    Row { id, level, lanes, memory: None, folded, pinned: false }
}

/// A lane of calls or ranges and those within: the outermost stands for all `lanes`, and can be unfolded to
/// show them.
fn nested(id: Id, depth: u32, at: usize, lanes: Vec<usize>) -> Row {
    match depth {
        0 if lanes.len() > 1 => row(id, 1, lanes, Some(false)),
        0 => row(id, 1, vec![at], None),
        _ => row(id, 2, vec![at], None),
    }
}

/// Lanes of a model by what they are of, each with its place there.
#[derive(Default)]
struct Lanes<'m> {
    /// Thread and depth.
    threads: Vec<(u32, u32, usize)>,
    streams: Vec<(&'m Queue, usize)>,
    /// Thread, domain and depth.
    ranges: Vec<(Option<u32>, u32, u32, usize)>,
    /// Of the second trace, or the replay.
    second_threads: Vec<(u32, usize)>,
    second_work: Vec<usize>,
    /// What the process itself did on communicators.
    operations: Vec<usize>,
    /// Of other processes of the job, in order.
    peers: Vec<(u32, usize)>,
}

impl<'m> Lanes<'m> {
    fn from_model(model: &'m Model) -> Lanes<'m> {
        let mut lanes = Lanes::default();
        for (at, lane) in model.lanes.iter().enumerate() {
            match &lane.source {
                Source::Thread { thread, depth } => lanes.threads.push((*thread, *depth, at)),
                Source::Stream(queue) | Source::Device { queue, .. } => lanes.streams.push((queue, at)),
                Source::Range { thread, domain, depth } => lanes.ranges.push((*thread, *domain, *depth, at)),
                Source::Second(inner) => match **inner {
                    Source::Thread { thread, .. } => lanes.second_threads.push((thread, at)),
                    _ => lanes.second_work.push(at),
                },
                Source::Operations { process: 0, .. } => lanes.operations.push(at),
                Source::Peer { process, .. } | Source::Operations { process, .. } => lanes.peers.push((*process, at)),
            }
        }
        lanes
    }

    /// Ranges of a thread: of each domain, all depths fold into the outermost.
    fn ranges_of(&self, wanted: Option<u32>) -> impl Iterator<Item = Row> {
        let own = self.ranges.iter().filter(move |(thread, ..)| *thread == wanted);
        own.map(|(thread, domain, depth, at)| {
            let id = Id::Range { thread: *thread, domain: *domain, depth: *depth };
            let within = self.ranges.iter().filter(|other| (other.0, other.1) == (*thread, *domain));
            nested(id, *depth, *at, within.map(|(.., at)| *at).collect())
        })
    }

    /// The process: its ranges, its threads with theirs, and beside each what another run's thread did.
    fn process(&self) -> Vec<Row> {
        let second = |(thread, at): &(u32, usize)| row(Id::SecondThread(*thread), 1, vec![*at], None);
        let all_threads = self.threads.iter().map(|(_, _, at)| *at).collect();
        let mut all = vec![row(Id::Process, 0, all_threads, Some(false))];
        all.extend(self.ranges_of(None));
        for (thread, depth, at) in &self.threads {
            if *depth == 0 {
                all.extend(self.ranges_of(Some(*thread)));
            }
            let of_thread = self.threads.iter().filter(|(other, ..)| other == thread).map(|(_, _, at)| *at);
            all.push(nested(Id::Thread { thread: *thread, depth: *depth }, *depth, *at, of_thread.collect()));
            let beside = self.second_threads.iter().filter(|(other, _)| other == thread && *depth == 0);
            all.extend(beside.map(second));
        }
        let known = |thread: u32| self.threads.iter().any(|(other, ..)| *other == thread);
        let alone = self.second_threads.iter().filter(|(thread, _)| !known(*thread));
        all.extend(alone.map(second));
        all.extend(self.operations.iter().map(|at| row(Id::Operations(*at), 1, vec![*at], None)));
        all
    }

    /// A device: its contexts with their streams, and its memory.
    fn device(&self, model: &Model, device: i32) -> Vec<Row> {
        let own: Vec<_> = self.streams.iter().filter(|(queue, _)| queue.device == device).collect();
        let mut all = vec![row(Id::Device(device), 0, own.iter().map(|(_, at)| *at).collect(), Some(false))];
        let mut contexts: Vec<u64> = own.iter().map(|(queue, _)| queue.context).collect();
        contexts.dedup();
        for context in &contexts {
            let of_context: Vec<_> = own.iter().filter(|(queue, _)| queue.context == *context).collect();
            let lanes = of_context.iter().map(|(_, at)| *at).collect();
            all.push(row(Id::Context(device, *context), 1, lanes, Some(false)));
            for (queue, at) in of_context {
                let (stream, call) = (queue.stream, queue.call);
                let id = match model.lanes[*at].source {
                    Source::Device { part, .. } => Id::Timed { stream, call, part },
                    _ => Id::Stream { stream, call },
                };
                all.push(row(id, 2, vec![*at], None));
            }
        }
        let memory = model.memory.iter().enumerate().filter(|(_, memory)| memory.of.device == device);
        all.extend(memory.map(|(at, memory)| {
            let level = 1 + u16::from(memory.of.pool.is_some());
            Row { memory: Some(at), ..row(Id::Memory(device, memory.of.pool), level, vec![], None) }
        }));
        all
    }
}

/// All rows, each group with the lanes of everything in it.
fn tree(model: &Model) -> Vec<Row> {
    let lanes = Lanes::from_model(model);
    let mut all = lanes.process();
    let mut devices: Vec<i32> = lanes.streams.iter().map(|(queue, _)| queue.device).collect();
    devices.extend(model.memory.iter().map(|memory| memory.of.device));
    devices.sort_unstable();
    devices.dedup();
    all.extend(devices.into_iter().flat_map(|device| lanes.device(model, device)));
    let mut peers: Vec<u32> = lanes.peers.iter().map(|(process, _)| *process).collect();
    peers.dedup();
    for peer in peers {
        let mut own: Vec<usize> =
            lanes.peers.iter().filter(|(process, _)| *process == peer).map(|(_, at)| *at).collect();
        // As of the first process: threads, communicators, devices.
        own.sort_by_key(|at| match model.lanes[*at].source.inner() {
            Source::Thread { .. } => 0,
            Source::Operations { .. } => 1,
            _ => 2,
        });
        all.push(row(Id::Peer(peer), 0, own.clone(), Some(false)));
        all.extend(own.into_iter().map(|at| row(Id::PeerLane(at), 1, vec![at], None)));
    }
    let others = lanes.second_work;
    if !others.is_empty() {
        all.push(row(Id::Second, 0, others.clone(), Some(false)));
        all.extend(others.into_iter().map(|at| row(Id::SecondWork(at), 1, vec![at], None)));
    }
    all
}

/// What an object is called, as far as its names are known.
fn object(opened: &Opened, kind: Kind, value: u64, call: u32) -> String {
    let life = opened.lives().and_then(|lives| lives.object(kind, value, call));
    life.map_or_else(|| format!("{} {value:#x}", kind.label()), |life| format!("{}#{}", kind.label(), life.number))
}

fn stream_name(opened: &Opened, stream: u64, call: u32) -> String {
    match stream {
        LEGACY => "legacy stream".into(),
        PER_THREAD => "per-thread stream".into(),
        // What the replay calls a stream that no recorded call names.
        stream if stream & UNKNOWN != 0 => format!("stream {} of the replay", stream & !UNKNOWN),
        stream => object(opened, Kind::Stream, stream, call),
    }
}

fn process(opened: &Opened, label: Option<&str>) -> String {
    let about = &opened.trace.preamble;
    let (program, label) = (about.program.rsplit('/').next().unwrap_or(""), label.unwrap_or("process"));
    // One without a rank is labelled by its number already.
    let pid = if label.starts_with("process ") { String::new() } else { format!(" {}", about.pid) };
    tame(&format!("{label}{pid} {program}"))
}

/// A lane of a process of the job.
fn of_job(opened: &Opened, lane: &Lane) -> String {
    let (Source::Peer { process, .. } | Source::Operations { process, .. }) = lane.source else { return String::new() };
    let whose = opened.job.as_ref().and_then(|job| job.peer(process)).unwrap_or(opened);
    match lane.source.inner() {
        Source::Thread { thread, .. } => {
            let name = whose.trace.threads.get(*thread as usize).map_or("", |thread| &thread.name);
            tame(&format!("t{thread} {name}"))
        }
        Source::Operations { communicator, .. } => {
            let found = whose.trace.communicators.iter().find(|of| of.number == *communicator);
            let name = found.map_or_else(String::new, |of| name_of_communicator(opened, of.id));
            tame(&format!("NCCL {name}"))
        }
        inner => {
            let hatched = if matches!(inner, Source::Stream(_)) { "~ " } else { "" };
            let name = inner.queue().map_or_else(|| "?".into(), |queue| stream_name(whose, queue.stream, queue.call));
            format!("{hatched}{name}")
        }
    }
}

/// The same at all ranks, of which NCCL may tell only some the name.
fn name_of_communicator(opened: &Opened, id: u64) -> String {
    let peers = opened.job.iter().flat_map(|job| &job.peers);
    let mut all = std::iter::once(opened).chain(peers).flat_map(|process| &process.trace.communicators);
    let named = all.find(|communicator| communicator.id == id && !communicator.name.is_empty());
    named.map_or_else(|| format!("{id:#x}"), |communicator| communicator.name.clone())
}

/// What a row is called.
pub(crate) fn title(row: &Row, opened: &Opened) -> String {
    let (model, trace, second) = (&opened.model, &opened.trace, opened.second.as_deref());
    match row.id {
        Id::Process => process(opened, opened.job.as_ref().map(|job| job.label(0))),
        Id::Peer(at) => {
            let job = opened.job.as_ref();
            process(job.and_then(|job| job.peer(at)).unwrap_or(opened), job.map(|job| job.label(at)))
        }
        Id::PeerLane(at) | Id::Operations(at) => {
            model.lanes.get(at).map_or_else(String::new, |lane| of_job(opened, lane))
        }
        Id::Thread { thread, depth: 0 } => {
            let name = trace.threads.get(thread as usize).map_or("", |thread| &thread.name);
            tame(&format!("t{thread} {name}"))
        }
        Id::Thread { depth, .. } => format!("depth {depth}"),
        Id::Device(device) => {
            let about = trace.devices.iter().find(|about| about.ordinal == device);
            tame(&format!("device {device} {}", about.map_or("", |about| &about.name)))
        }
        Id::Context(_, context) => {
            let call =
                row.lanes.first().and_then(|at| model.lanes.get(*at)).and_then(|lane| lane.call.first().copied());
            let mut queues = model.lanes.iter().filter_map(|lane| lane.source.queue());
            let first = queues.find(|queue| queue.context == context).map(|queue| queue.call);
            object(opened, Kind::Context, context, call.or(first).unwrap_or(0))
        }
        Id::Stream { stream, call } => format!("~ {}", stream_name(opened, stream, call)),
        Id::Timed { stream, call, part: 0 } => stream_name(opened, stream, call),
        Id::Timed { stream, call, part } => format!("{}, branch {part}", stream_name(opened, stream, call)),
        Id::Range { thread, domain, depth: 0 } => {
            let domain = model.summary.domains.get(domain as usize).map_or("", |domain| domain.as_str());
            let whose = thread.map_or("any thread".into(), |thread| format!("t{thread}"));
            format!("{whose} NVTX {domain}")
        }
        Id::Range { depth, .. } => format!("depth {depth}"),
        Id::SecondThread(thread) => match second {
            Some(_) => format!("t{thread}, 2nd trace"),
            None => format!("t{thread} in the replay"),
        },
        Id::Second => {
            let name = second.and_then(|second| second.opened.path.file_name()).map(|name| name.to_string_lossy());
            tame(&format!("second: {}", name.unwrap_or_default()))
        }
        Id::SecondWork(at) => {
            let queue = model.lanes.get(at).and_then(|lane| lane.source.inner().queue());
            let hatched = model.lanes.get(at).is_some_and(|lane| matches!(lane.source.inner(), Source::Stream(_)));
            let whose = second.map_or(opened, |second| &second.opened);
            let name = queue.map_or_else(|| "?".into(), |queue| stream_name(whose, queue.stream, queue.call));
            if hatched { format!("~ {name}") } else { name }
        }
        Id::Memory(_, None) => "live memory".into(),
        Id::Memory(_, Some(DEFAULT)) => "default pool".into(),
        Id::Memory(_, Some(POOL)) => "graph memory".into(),
        Id::Memory(_, Some(pool)) => {
            let call = row.memory.and_then(|at| model.memory.get(at)).map_or(0, |memory| memory.of.call);
            object(opened, Kind::MemoryPool, pool, call)
        }
    }
}
