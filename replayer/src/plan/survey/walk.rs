//! The walk over a trace that makes its plan.

use crate::base::addresses::{BLOCK, PAGE};
use crate::base::ranges::Ranges;
use crate::driver::result;
use crate::job::peers::Imports;
use crate::job::ranks::MissingPeers;
use crate::job::single_rank::SingleRank;
use crate::plan::Plan;
use crate::plan::action::{Action, action};
use crate::plan::comparability::callback_writes::notes;
use crate::plan::comparability::host_races::host_races;
use crate::plan::comparability::known_contents::{KnownContents, OtherMemory};
use crate::plan::comparability::reach::Allocations;
use crate::plan::environment::Environment;
use crate::plan::fault::Fault;
use crate::plan::graphs::captures;
use crate::plan::memory::allocations::End;
use crate::plan::memory::cross_stream_reuse;
use crate::plan::memory::tagged_addresses::{self, Tagged};
use crate::plan::order::lifetimes::Lifetimes;
use crate::plan::order::partial_order::Order;
use crate::plan::order::waits::Signals;
use crate::plan::origins::Origins;
use crate::plan::verdict::{Reasons, Verdict};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use trace::api::effect::Effect;
use trace::api::roles::{Class, Extent, Field, Role};
use trace::api::types::{Form, Kind};
use trace::base::hash::Hash;
use trace::file::preamble::Data;
use trace::file::record::{BEYOND_LIMIT, no_replay_needs};
use trace::model::change::{Change, Moment, resolve};
use trace::model::objects::Objects;
use trace::model::outstanding::Outstanding;
use trace::model::stream::StreamId;
use trace::model::streams::{Followed, Target};
use trace::read::call::{Content, Image};
use trace::read::host_writes::Written;
use trace::read::shared_handles as across;
use trace::read::shared_handles::{Crossing, What};
use trace::{Call, Function, Trace};

#[derive(Default)]
pub(crate) struct Survey {
    /// Nothing but the verdict is wanted, which needs neither the order of the calls nor who reaches what.
    pub(crate) only_judges: bool,
    pub(crate) plan: Plan,
    pub(crate) reasons: Reasons,
    pub(crate) work: Outstanding,
    pub(crate) origins: Origins,
    pub(crate) known: KnownContents,
    pub(crate) fault: Option<Fault>,
    pub(crate) live: Allocations,
    pub(crate) moments: Vec<Moment>,
    pub(crate) reserved: Vec<Range<u64>>,
    /// Where memory of graphs begins: no free ends it, as a launch allocates it again.
    pub(crate) of_graphs: HashSet<u64>,
    pub(crate) host: Ranges,
    /// Where the call that is seen puts work.
    pub(crate) target: Option<Target>,
    /// Pageable memory that nodes were made to read and write, and that other copies name.
    pub(crate) of_nodes: Vec<Range<u64>>,
    pub(crate) of_copies: HashSet<Range<u64>>,
    pub(crate) managed: Ranges,
    /// In which variables lie that were looked up: where others are there a replay knows by them.
    pub(crate) blocks: HashSet<u64>,
    pub(crate) tagged: Tagged,
    /// Latest submission to a stream: end and thread.
    pub(crate) submissions: HashMap<StreamId, (u64, u32)>,
    pub(crate) lifetimes: Lifetimes,
    pub(crate) handovers: cross_stream_reuse::Changes,
    /// Pinned and managed memory that kernels were given, and where somebody looked afterwards.
    pub(crate) given: HashSet<Range<u64>>,
    pub(crate) looked_at: Vec<Range<u64>>,
    /// What launches made of host memory, as callbacks found it: by the launch, its addresses.
    pub(crate) for_callbacks: HashMap<u64, Vec<u64>>,
    pub(crate) signals: Signals,
    pub(crate) executable: u64,
    /// Calls that exported a descriptor, by what tells its file.
    pub(crate) exported: HashMap<Vec<u8>, u64>,
    /// What it has of other processes, if they are replayed beside it.
    pub(crate) imports: Option<Imports>,
    /// Memory of others was opened, by a call that is refused.
    pub(crate) foreign: bool,
    /// Handles of physical memory that was imported, by the calls that did, in a replay without the others.
    pub(crate) imported: HashMap<u64, u64>,
    pub(crate) absent: MissingProcesses,
    pub(crate) captured: crate::job::survey::graphs::GraphOperations,
    /// How often memory of others that are replayed beside this one is open, by its address.
    pub(crate) opened: HashMap<u64, u32>,
    /// What of its job is not replayed beside it.
    pub(crate) lacks: MissingPeers,
    pub(crate) notes: Reasons,
    /// By function: that what a call needs is gone, in words.
    pub(crate) gone: HashMap<&'static str, String>,
}

use crate::job::survey::missing_processes::MissingProcesses;

pub(crate) const FROM_ITSELF: &str =
    "assumed to be the process's own export with this descriptor: memory of another process is missing";

pub(crate) const PINNED: &str = "the device read pinned host memory: CPU writes there are not recorded";

/// What is said of data that calls name and that cannot be had.
pub(crate) const GONE: &str = "damaged or not in the file";

/// Work that follows what a capture range left out begins with memory that nobody knows.
const UNKNOWN: &str =
    "the recorded range begins after earlier calls: the contents of device memory at its start are unknown";

impl Survey {
    pub(crate) fn new(trace: &Trace, imports: Option<Imports>) -> Survey {
        let mut survey = Survey { imports, lacks: MissingPeers::of_one(trace), ..Survey::default() };
        for (launch, image) in trace.results_of_callbacks() {
            survey.plan.comparability.results.insert(image.address);
            survey.looked_at.push(image.memory());
            survey.for_callbacks.entry(launch.number).or_default().push(image.address);
        }
        survey
    }

    /// Beside others of its job.
    pub(crate) fn with_peers(trace: &Trace, imports: Imports, lacks: MissingPeers) -> Survey {
        Survey { lacks, ..Survey::new(trace, Some(imports)) }
    }

    /// The verdict is all that is wanted.
    pub(crate) fn only_verdict(self) -> Survey {
        Survey { only_judges: true, ..self }
    }

    /// For the verdict alone.
    pub(crate) fn to_judge(trace: &Trace, alone: Option<SingleRank>) -> Survey {
        let mut survey = Survey { only_judges: true, lacks: MissingPeers::of_one(trace), ..Survey::default() };
        survey.plan.job.single_rank = alone;
        survey
    }

    pub(crate) fn observe(&mut self, trace: &Trace, call: &Call) {
        if call.inner {
            self.plan.counts.inner += 1;
            return;
        }
        if call.end.is_none() {
            self.plan.counts.unfinished.push(call.number);
            return;
        }
        let moment = Moment::from_call(call);
        if !self.only_judges {
            self.moments.push(moment);
        }
        let Some(function) = call.function() else {
            self.reasons.about_call(
                format!("{}: this version of cutrace does not know the function", call.name()),
                call.number,
            );
            return;
        };
        if !self.only_judges {
            self.observe_results(call);
        }
        self.origins.observe(trace, call, function);
        let target = self.work.streams.target(call, function);
        self.target = Some(target);
        let change = call.took_effect().then(|| resolve(call, function)).flatten();
        let follow = |change| self.work.follow(call, function, &change, &Objects::default());
        let followed = change.map(follow).unwrap_or_default();
        if !call.took_effect() {
            if self.leaves_its_allocation(call, function) {
                self.plan.special_calls.beyond_allocation.insert(call.number);
            }
            return;
        }
        if self.imports.is_none() && action(function) == Action::Execute {
            self.imports_by_file(call, function, change);
        }
        if let Some(Change::PrimaryRetained { context, device }) = change {
            self.plan.devices.primaries.insert(context, device);
        }
        self.act(trace, call, function, (change, &followed));
        followed.made.iter().filter_map(|made| made.device).for_each(|device| self.peak(device));
        self.maps_stand_in(call, change);
        self.follow_absent(call, function, change);
        self.uses(call, function);
        if self.is_delivered(call, function) {
            self.follow_graphs(trace, call, function);
            self.submission(call, function, target.stream, moment);
            return self.lifetimes.observe(call, function, moment);
        }
        let is_refused = self.lacks_ranks(trace, call, function) || self.lacks_memory(trace, call, function);
        self.captured.lacks_if(is_refused && self.is_captured());
        self.follow_graphs(trace, call, function);
        self.contexts_end(call, &followed);
        self.of_host(call, function);
        self.adopt(call, function);
        self.variables(trace, call, function);
        if self.tagged.are_in(trace, call, function) {
            self.reasons.about_call(tagged_addresses::WHY, call.number);
        }
        self.mapped(call, function);
        self.reach(trace, call, function);
        if !is_refused {
            self.inputs(trace, call, function);
        }
        if self.begins_unknown(trace, call, function, (change, &followed)) {
            self.reasons.about_call(UNKNOWN, call.number);
        }
        self.nodes_read_host(trace, call, function);
        if self.only_judges {
            return;
        }
        self.submission(call, function, target.stream, moment);
        self.lifetimes.observe(call, function, moment);
        self.stream_ends(call, function);
    }

    /// What this call shows of what work had made, and of a fault.
    fn observe_results(&mut self, call: &Call) {
        let seen = call.written().filter(Written::is_seen).flat_map(|written| written.images());
        let seen = seen.inspect(|image| self.looked_at.push(image.memory())).map(|image| image.address);
        self.plan.comparability.reach.check_memory(call.number, seen, &self.live);
        for (launch, image) in call.results() {
            self.looked_at.push(image.memory());
            self.plan.comparability.results.insert(image.address);
            self.plan.comparability.reach.result(call, launch.number, image.address, &self.live);
        }
        self.fault = self.fault.take().or_else(|| Fault::from_call(call, &self.work));
    }

    /// What a replay does in the place of the call.
    fn act(
        &mut self,
        trace: &Trace,
        call: &Call,
        function: &'static Function,
        (change, followed): (Option<Change>, &Followed),
    ) {
        let crossing = self.imports.as_ref().and_then(|_| across::crossing_of(function));
        match action(function) {
            _ if crossing.is_some() => {
                crossing.into_iter().for_each(|crossing| self.crosses(call, function, crossing, change))
            }
            Action::Refuse(_) if self.is_about_peers(call, function, change) => {}
            Action::Refuse(why) => {
                match across::crossing_of(function) {
                    Some(Crossing::Exports(what @ (What::Memory | What::Pool))) => {
                        return self.exports(call, function, what);
                    }
                    Some(Crossing::Imports(what)) => self.is_absent(call, function, what, change),
                    _ => {}
                }
                self.reasons.about_call(format!("{}: {why}", function.name), call.number);
                self.foreign |= hands_out_an_address(function);
            }
            Action::Memory(_) => {
                let made = followed.made.first().copied();
                change.into_iter().for_each(|change| self.memory(trace, call, change, made));
            }
            Action::Execute => self.executable += 1,
            _ => {}
        }
    }

    /// A node reads at each launch what the CPU had written by then.
    fn nodes_read_host(&mut self, trace: &Trace, call: &Call, function: &'static Function) {
        let makes_node = self.is_captured() || function.class == Class::graph;
        if makes_node && !trace.follows_host_memory() && captures::reads_host(call, function, &self.host) {
            self.reasons.about_call(captures::WHY, call.number);
        }
    }

    fn stream_ends(&mut self, call: &Call, function: &Function) {
        let is_stream =
            |param: &&Field| matches!((param.role, param.ty.form), (Role::Destroy, Form::Handle(Kind::Stream)));
        if let Some(stream) = function.params.iter().find(is_stream) {
            self.handovers.stream_ends(call.argument(stream.name).unwrap_or(0), call.number, call.begin);
        }
    }

    fn begins_unknown(
        &mut self,
        trace: &Trace,
        call: &Call,
        function: &'static Function,
        (change, followed): (Option<Change>, &Followed),
    ) -> bool {
        let is_captured = self.is_captured();
        let others = OtherMemory { live: &self.live, host: &self.host, is_captured, change, followed };
        !self.known.observe(trace, call, function, &others)
    }

    pub(crate) fn peak(&mut self, device: i32) {
        let peak = self.plan.devices.peaks.entry(device).or_default();
        *peak = self.work.streams.memory.used(device).max(*peak);
    }

    fn contexts_end(&mut self, call: &Call, followed: &Followed) {
        if followed.ended.is_empty() {
            return;
        }
        for start in followed.gone.iter().filter_map(|(one, _)| one.address()) {
            self.free_peer_memory(start, call.begin);
            self.absent.ends(start);
            self.opened.remove(&start);
            self.live.remove(start, call.begin);
        }
        let of_device = followed.gone.iter().filter(|(one, _)| one.device.is_some());
        let memory = of_device.filter_map(|(one, _)| one.address()).collect();
        let contexts = followed.ended.iter().filter_map(|ended| ended.context).collect();
        self.plan.memory.context_ends.insert(call.number, End { contexts, memory });
    }

    fn leaves_its_allocation(&self, call: &Call, function: &Function) -> bool {
        function.params.iter().any(|param| {
            let address = call.argument(param.name).unwrap_or(0);
            // Of what was freed the replay may have kept the place.
            let is_nowhere = address != 0 && call.result == Some(result::INVALID_VALUE);
            let room = self.live.room(address).or(is_nowhere.then_some(0));
            extent(call, function, param).zip(room).is_some_and(|(extent, room)| extent > room)
        })
    }

    pub(crate) fn is_captured(&self) -> bool {
        self.target.is_some_and(|target| target.capture.is_some())
    }

    fn reach(&mut self, trace: &Trace, call: &Call, function: &Function) {
        if let Some(target) = self.target.filter(|_| !self.only_judges) {
            self.plan.comparability.reach.observe(trace, call, function, target, &self.live);
            for address in self.for_callbacks.remove(&call.number).unwrap_or_default() {
                self.plan.comparability.reach.result(call, call.number, address, &self.live);
            }
            self.shares(call);
        }
        if function.class != Class::launch {
            return;
        }
        let host = |word: &[u8]| self.host.contains(u64::from_le_bytes(word.try_into().expect("8 bytes")));
        let is_given = |image: Image| match image.content {
            Content::Arguments { packed, .. } => packed.chunks_exact(8).any(host),
            _ => false,
        };
        if !trace.follows_host_memory() && !self.host.is_empty() && call.images().any(is_given) {
            self.reasons.about_call(PINNED, call.number);
        }
    }

    /// Follows which memory that the CPU reaches without a call kernels are given.
    fn shares(&mut self, call: &Call) {
        if self.host.is_empty() && self.managed.is_empty() {
            return;
        }
        for image in call.images() {
            let Content::Arguments { packed, .. } = image.content else { continue };
            let words = packed.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")));
            self.given.extend(
                words.filter_map(|word| self.host.range_around(word).or_else(|| self.managed.range_around(word))),
            );
        }
    }

    fn submission(&mut self, call: &Call, function: &Function, stream: StreamId, moment: Moment) {
        if !matches!(function.class, Class::submit | Class::launch) || call.stream().is_none() {
            return;
        }
        let latest = self.submissions.entry(stream).or_insert((moment.end, moment.thread));
        if latest.1 != moment.thread && latest.0 > moment.begin {
            self.plan.counts.overlapping_submissions += 1;
        }
        if moment.end >= latest.0 {
            *latest = (moment.end, moment.thread);
        }
    }

    pub(crate) fn finish(mut self, trace: &Trace) -> Plan {
        self.end_single_rank();
        self.exports_end();
        let mut plan = self.plan;
        let seen = trace.found_at_the_end().filter(Written::is_seen).flat_map(|written| written.images());
        let seen = seen.inspect(|image| self.looked_at.push(image.memory())).map(|image| image.address);
        plan.comparability.reach.check_memory(trace.len() as u64, seen, &self.live);
        let looked_at = Ranges::union(self.looked_at, 1);
        plan.comparability.shares_unseen = self.given.iter().any(|given| !looked_at.overlaps(given));
        plan.order = Order::new(&self.moments, &self.lifetimes.edges);
        if self.imports.is_some() {
            plan.order.ends = Order::ends(&self.moments);
        }
        plan.comparability.known_copies = self.known.copies;
        plan.memory.handovers = self.handovers.handovers();
        plan.special_calls.ended_waits = self.signals.into_ended();
        plan.devices.compute = trace.devices.iter().map(|device| (device.ordinal, device.compute)).collect();
        let allocations = plan.memory.allocations.values().chain(plan.memory.adopted.values().flatten());
        let placed = allocations.map(|a| a.range.clone()).chain(self.reserved.iter().cloned());
        plan.addresses.device = Ranges::union(placed, 1);
        plan.addresses.reserved = self.reserved;
        plan.addresses.host = self.host;
        plan.addresses.managed = self.managed;
        let of_nodes = Ranges::union(self.of_nodes, 1);
        let shared = self.of_copies.into_iter().filter(|range| of_nodes.overlaps(range));
        plan.graph_nodes.host_memory = Ranges::union(shared.chain(of_nodes.iter()), 1);
        // What is pinned at one time may be part of such memory at another, and has one place here.
        let pinned = Ranges::union(plan.addresses.host.iter(), PAGE);
        let in_part = plan.graph_nodes.host_memory.iter().filter(|range| pinned.overlaps(range));
        plan.addresses.pages = Ranges::union(pinned.iter().chain(in_part), PAGE);
        plan.addresses.blocks = Ranges::union(plan.addresses.device.iter(), BLOCK);
        (plan.counts.launches, plan.counts.unreached_launches) = plan.comparability.reach.count(|_| true);
        plan.fault = self.fault;
        plan.environment = Environment::from_trace(trace);

        let nothing = nothing_to_replay(trace, self.executable);
        if let Some(why) = &nothing {
            self.reasons.about_trace(why.as_str(), 1);
        }
        not_recorded(trace, &mut self.reasons);
        plan.special_calls.functions = self.origins.take_found();
        made_by_no_call(trace, self.origins, &mut plan, &mut self.reasons);
        unreadable(trace, &mut self.reasons);
        let spins = host_races(trace, |call| plan.job.single_rank.as_ref().is_some_and(|alone| alone.replaces(call)));
        plan.comparability.host_races = spins.shared;
        plan.judgement.reasons = self.reasons.into_list();
        plan.judgement.reasons.extend(spins.reasons);
        plan.judgement.notes = self.notes.into_list();
        plan.judgement.notes.extend(spins.notes);
        if trace.calls_left_out() > 0 {
            let mut left_out = Reasons::default();
            left_out.about_trace("calls outside the recorded range", trace.calls_left_out());
            plan.judgement.notes.extend(left_out.into_list());
        }
        plan.judgement.notes.extend(notes(trace));
        plan.judgement.verdict = match (nothing, plan.judgement.reasons.is_empty()) {
            (Some(_), _) => Verdict::No,
            (None, true) => Verdict::Replayable,
            (None, false) => Verdict::Partly,
        };
        plan
    }
}

/// Why no replay can begin at all.
fn nothing_to_replay(trace: &Trace, executable: u64) -> Option<String> {
    match trace.preamble.without_data() {
        Some(why) if trace.preamble.is_data_left_out() => {
            Some(format!("{why}: module images, payloads, kernel arguments and hashes are not in the file"))
        }
        Some(why) => Some(format!("{why}: module images and payloads are not in the file")),
        None if is_headless(trace) => Some("the calls that initialised the driver are missing".into()),
        None if executable == 0 => Some("the trace has no call that can be replayed".into()),
        None => None,
    }
}

fn not_recorded(trace: &Trace, reasons: &mut Reasons) {
    if let Some((limit, beyond)) = trace.size_limit_reached() {
        let what = format!("recording ended at its size limit of {limit}, after {} calls", trace.calls_made());
        reasons.about_trace(format!("{what}: at least this many later calls are missing"), beyond);
    }
    let others = |(what, _): &&(String, u64)| what != BEYOND_LIMIT && !no_replay_needs(what);
    for (what, count) in trace.losses.iter().filter(others) {
        reasons.about_trace(format!("not recorded: {what}"), *count);
    }
}

/// Objects that calls use, and that no call in the trace made.
fn made_by_no_call(trace: &Trace, origins: Origins, plan: &mut Plan, reasons: &mut Reasons) {
    for missing in origins.missing(trace, |context| plan.devices.primaries.contains_key(&context)) {
        if missing.kind == Kind::Function {
            plan.special_calls.unknown_functions.insert(missing.call);
        }
        let what = format!("{}: needs {} that no call in the trace created", missing.function, missing.kind.one());
        reasons.about_call(what, missing.call);
    }
}

fn unreadable(trace: &Trace, reasons: &mut Reasons) {
    for adopted in trace.adopted.iter().filter(|adopted| adopted.images.is_empty()) {
        let what = format!("module {:#x} was loaded by an unrecorded call and its image was not found", adopted.module);
        reasons.about_trace(what, 1);
    }
    for adopted in trace.adopted.iter().filter(|_| trace.preamble.data != Data::None) {
        let mut gone = adopted.images.iter().map(|image| Hash::from_bytes(*image)).filter(|hash| trace.lacks(*hash));
        if let Some(blob) = gone.next() {
            let which = match adopted.images.len() {
                1 => "its image".to_owned(),
                several => format!("one of its {several} possible images"),
            };
            let what = format!(
                "module {:#x} was loaded by an unrecorded call and {which} is {GONE}: blob {blob}",
                adopted.module
            );
            reasons.about_trace(what, 1);
        }
    }
    let lost = trace.damage.iter().filter(|damage| damage.loses).count();
    if lost > 0 {
        reasons.about_trace("parts of the file are damaged or missing", lost as u64);
    }
}

/// Whether what every trace begins with is lost.
fn is_headless(trace: &Trace) -> bool {
    let begins = |call: Call| call.function().is_some_and(|function| function.effect == Effect::Initialize);
    let is_lossy = !trace.losses.is_empty() || trace.damage.iter().any(|damage| damage.loses);
    is_lossy && !trace.is_empty() && !trace.calls().any(begins)
}

/// How many bytes of device memory from its address on an argument stands for, where the call says so by
/// itself.
pub(crate) fn extent(call: &Call, function: &Function, param: &Field) -> Option<u64> {
    match param.role {
        Role::Reads(Extent::Len(len)) | Role::Writes(Extent::Len(len)) => {
            call.argument(function.params[len.0 as usize].name)
        }
        Role::Reads(Extent::Scaled(len, by)) | Role::Writes(Extent::Scaled(len, by)) => {
            call.argument(function.params[len.0 as usize].name).map(|len| len.saturating_mul(by.into()))
        }
        _ => None,
    }
}

fn hands_out_an_address(function: &Function) -> bool {
    let is_address = |form: &Form| matches!(form, Form::Pointer(to) if matches!(to.form, Form::Address));
    function.params.iter().any(|param| is_address(&param.ty.form))
}
