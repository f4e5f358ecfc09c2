//! The scan before a call that submits work or waits for it: memory that kernel arguments refer to becomes
//! watched, and CPU writes are recorded.

use crate::capture::needs_scan;
use crate::capture::step::CallEntry;
use crate::host_memory::host_writes::HostWrites;
use crate::in_flight::host_functions;
use crate::in_flight::landing_range::Landing;
use crate::in_flight::node_runs::Turn;
use crate::in_flight::pending::{Uses, Work};
use crate::os::guard::guarded;
use crate::os::probe::bytes_at;
use crate::recording::range;
use crate::records::lane::Lane;
use crate::submission::copy_endpoints::{self, Ends, Words};
use crate::submission::launch_arguments;
use crate::submission::shape::Launch;
use crate::submission::target_stream::{makes_node, queue, reads, under_way};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use trace::Function;
use trace::api::roles::{Class, Extent, Field, Role, Side};
use trace::api::structs::CUstreamBatchMemOpParams;
use trace::api::types::{Form, Typed};
use trace::api::walk::{Target, resolve};
use trace::file::record;

#[inline(always)]
pub(crate) fn before_entry(call: CallEntry) {
    let CallEntry { lane, site, words } = call;
    if (site.shape.submits || site.shape.waits) && needs_scan::is_concerned(lane, &site.shape, words) {
        scan_memory(lane, site.function, site.shape.launch, words);
    }
}

#[cold]
#[inline(never)]
fn scan_memory(lane: &Lane, function: &'static Function, launch: Option<Launch>, words: &[u64]) {
    guarded(|| before_work(lane, function, launch, words));
}

fn before_work(lane: &Lane, function: &'static Function, launch: Option<Launch>, words: &[u64]) {
    let watch = &lane.recorder().watch;
    let mut writes = lane.writes_before(lane.sequence());
    // Before any lock is taken: memory is read.
    let given = SubmittedMemory::collect(lane, function, launch, words);
    // First what is known already: what begins to be watched now is recorded as a whole.
    given.scan(&mut writes);
    match &given {
        SubmittedMemory { arguments: Some(arguments), .. } => kernel(lane, function, words, arguments, &mut writes),
        SubmittedMemory { ends: Some(ends), .. } => copy(lane, function, words, ends),
        _ if function.class == Class::launch => graph(lane, function, words, &mut writes),
        _ => {}
    }
    if launch.is_none() && !function.copies_unified() {
        // Pinned memory by its device address: as the host's it would be captured with the call. What a
        // stream is to write there is not there yet: what the CPU has put there is.
        let is_read = |param: &&Field| matches!(param.role, Role::Reads(_) | Role::Writes(Extent::Fixed(_)));
        let read = function.params.iter().filter(is_read).map(|param| words[param.offset as usize / 8]);
        watch.refer(read.chain(operands(function, words)), &mut writes);
    }
    if let Some(ends) = given.ends.filter(|_| lane.recorder().shares_any()) {
        // Before the call, which may wait for callbacks: what they write is theirs to tell.
        watch.refer(ends.watched_sources().into_iter(), &mut writes);
    }
    watch.refer_named(&mut writes);
    lane.add(writes);
}

/// The addresses of a batch of operations on values.
fn operands(function: &'static Function, words: &[u64]) -> Vec<u64> {
    const ADDRESS: usize = 8;
    /// More the driver refuses.
    const MOST: u64 = 256;
    let is_batch =
        |param: &Field| matches!(param.ty.form, Form::Pointer(to) if to.name == CUstreamBatchMemOpParams::TYPE.name);
    let Some(index) = function.params.iter().position(is_batch) else { return Vec::new() };
    let Target::Span { address, element, count, .. } = resolve(function.params, index, 0, &Words(words)) else {
        return Vec::new();
    };
    let size = element.size as usize;
    let operations = bytes_at(address, count.min(MOST) as usize * size, true).unwrap_or_default();
    let addresses = operations.chunks_exact(size).map(|one| &one[ADDRESS..ADDRESS + 8]);
    addresses.map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes"))).collect()
}

/// What a call is about to give the device to work on.
struct SubmittedMemory<'c> {
    lane: &'c Lane,
    function: &'static Function,
    /// Its words.
    call: &'c [u64],
    /// Of what copies.
    ends: Option<Ends<'c>>,
    /// Of a launch that has any.
    arguments: Option<Arguments>,
}

struct Arguments {
    /// That may be addresses; none if nobody can tell which these are.
    words: Option<Vec<u64>>,
    /// Pinned memory among them: start and length.
    pinned: Vec<(u64, u64)>,
}

impl<'c> SubmittedMemory<'c> {
    fn collect(
        lane: &'c Lane,
        function: &'static Function,
        launch: Option<Launch>,
        words: &'c [u64],
    ) -> SubmittedMemory<'c> {
        let is_copy = matches!(function.class, Class::submit | Class::copy);
        let arguments = launch.map(|launch| {
            let words = launch_arguments::of_launch(lane, launch, words, |word| lane.recorder().may_be_shared(word));
            let pinned = words.iter().flatten().filter_map(|word| lane.recorder().around.pinned.find(*word)).collect();
            Arguments { words, pinned }
        });
        let ends = is_copy.then(|| Ends::find(lane, function, words, |at, _| at));
        SubmittedMemory { lane, function, call: words, ends, arguments }
    }

    /// HostWrites what the CPU has written since somebody looked last.
    fn scan(&self, writes: &mut HostWrites) {
        let (watch, function) = (&self.lane.recorder().watch, self.function);
        let is_beside_callbacks = host_functions::any_under_way() || host_functions::any_of_nodes();
        let ends = self.ends.as_ref().filter(|_| is_beside_callbacks || watch.any());
        let sources = ends.map_or(Vec::new(), |ends| ends.places(Side::Source));
        if watch.any() && self.ends.is_some() {
            watch.claim(self.lane.index(), sources.iter().cloned());
        }
        let uses = match &self.arguments {
            _ if !is_beside_callbacks => Uses::default(),
            Some(Arguments { words: Some(_), pinned }) if !watch.managed.any() && !watch.stored.load(Relaxed) => {
                Uses::Only(pinned.iter().map(|(start, len)| *start..start + len).collect())
            }
            None if self.ends.is_some() => Uses::Only(sources),
            _ => Uses::Any,
        };
        let is_copy = self.ends.is_some() && function.class == Class::submit;
        let queue = is_beside_callbacks.then(|| queue(self.lane, function, self.call));
        watch.scan(function.class, uses, queue, is_copy, writes);
    }
}

fn kernel(lane: &Lane, function: &Function, words: &[u64], arguments: &Arguments, writes: &mut HostWrites) {
    let watch = &lane.recorder().watch;
    let addresses = || arguments.words.iter().flatten();
    watch.refer(addresses().copied(), writes);
    launched(lane, function, words, arguments.pinned.iter().copied());
    uses_unnamed(lane, function, words, addresses().filter_map(|word| watch.managed.find(*word)), writes);
}

fn graph(lane: &Lane, function: &Function, words: &[u64], writes: &mut HostWrites) {
    let recorder = lane.recorder();
    let before = recorder.around.pending.position();
    uses_unnamed(lane, function, words, std::iter::empty(), writes);
    // It may have been made of any of it, but hardly of what other threads use.
    if recorder.watch.any() {
        launched(lane, function, words, recorder.watch.pinned(lane.index()).into_iter());
    }
    if recorder.destinations.any() {
        let brought = recorder.destinations.writes_of(words[0]);
        if brought.are_in_part {
            lane.lose(record::UNREAD_COPIES);
        }
        under_way(lane, lane.sequence(), function, words, brought.landings.into_iter());
        // As in `copy`.
        recorder.watch.wait_for_scan();
    }
    // Of launches that a range leaves out nothing is known, but their callbacks run.
    if host_functions::any_of_nodes() && !range::applies() && recorder.node_runs.has(words[0]) {
        calls_back(lane, function, words, before);
    }
    if host_functions::any_under_way() || host_functions::any_of_nodes() {
        let all = [(Landing::Flat { address: 0, len: 0 }, Work::Any, false)];
        under_way(lane, lane.sequence(), function, words, all.into_iter());
    }
}

fn copy(lane: &Lane, function: &'static Function, words: &[u64], ends: &Ends) {
    let recorder = lane.recorder();
    let comes = ends.places(Side::Destination);
    let brings = !comes.is_empty() && !makes_node(function, words);
    if brings {
        let queue = queue(lane, function, words);
        recorder.around.pending.call_begins(lane.index(), queue, comes, ends.is_by_cpu(), recorder.destinations.any());
    }
    if function.class == Class::submit {
        if !function.brings_at_once() {
            fills(lane, function, words, ends);
        }
        let from = copy_endpoints::reached(lane, function, words, |role| matches!(role, Role::Reads(_)));
        reads(lane, lane.sequence(), function, words, from);
    }
    if brings {
        // Who is reading this memory may have read it before that was kept in mind, and takes it for the
        // CPU's: the call begins behind what is told then, or a replay might bring its bytes first.
        recorder.watch.wait_for_scan();
    }
}

/// A graph that runs callbacks. `before`: the position of what its launch adds to what is under way.
fn calls_back(lane: &Lane, function: &Function, words: &[u64], before: u64) {
    let (recorder, call) = (lane.recorder(), lane.sequence());
    if !makes_node(function, words) {
        let queue = queue(lane, function, words);
        let behind = recorder.around.pending.take_position();
        let turn = Turn { queue, before, behind, by: (lane.index(), call), around: Arc::default(), begun: None };
        recorder.node_runs.launched(words[0], turn);
    }
}

/// Pinned memory that is given to a launch is looked at when the application may.
fn launched(lane: &Lane, function: &Function, words: &[u64], given: impl Iterator<Item = (u64, u64)>) {
    let watch = &lane.recorder().watch;
    let given = given.filter_map(|(address, len)| {
        let work = match watch.follows(address, len) {
            true => Work::Launch,
            false if host_functions::any_under_way() => Work::Read,
            false => return None,
        };
        Some((Landing::Flat { address, len }, work, false))
    });
    under_way(lane, lane.sequence(), function, words, given);
}

/// Managed memory is the device's until the launch is done, whether it was given that or not; so is pinned
/// memory whose address stands somewhere, and what a graph uses that another thread made.
fn uses_unnamed(
    lane: &Lane,
    function: &Function,
    words: &[u64],
    given: impl Iterator<Item = (u64, u64)>,
    writes: &mut HostWrites,
) {
    let watch = &lane.recorder().watch;
    if watch.managed.any() {
        watch.refer_managed(writes);
    }
    watch.refer_named(writes);
    let any = function.launches_graph();
    if watch.any() && (any || watch.managed.any() || watch.stored.load(Relaxed)) {
        let given = given.map(|(address, len)| (Landing::Flat { address, len }, Work::Given, false));
        let unnamed = [(Landing::Flat { address: 0, len: 0 }, Work::Unnamed { any }, false)];
        under_way(lane, lane.sequence(), function, words, given.chain(unnamed));
    }
}

/// What fills memory shared with the device does so when its stream gets there: until then its bytes are
/// nobody's.
fn fills(lane: &Lane, function: &'static Function, words: &[u64], ends: &Ends) {
    let filled: Vec<Landing> =
        copy_endpoints::reached(lane, function, words, |role| matches!(role, Role::Writes(_))).collect();
    if !filled.is_empty() {
        let from_host = ends.is_by_cpu();
        under_way(lane, lane.sequence(), function, words, filled.into_iter().map(|to| (to, Work::Fill, from_host)));
    }
}
