//! Reach: the launches whose results a check can verify.
//!
//! A launch is reached if memory it uses is later copied to the host and compared, or is used by a launch
//! that is reached. Memory is distinguished by allocation, so the answer errs towards "reached". A captured
//! launch is part of a graph, and counts with the memory of its graph whenever that is launched. So does a
//! launch whose kernels have the handle of an executable graph, which they may launch: as an argument, or in
//! memory that holds it. Module variables may have been written by any launch of the module's kernels; a
//! launch that is reached only because it has read them is not found.

use crate::plan::graphs::uses::{Graphs, Uses};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use trace::api::roles::{Class, Role};
use trace::api::types::{Form, Kind};
use trace::model::nested_structs::descriptions;
use trace::model::streams::Target;
use trace::read::call::{Content, Image};
use trace::{Call, Function, Trace};

/// The live allocations at a point of the trace.
#[derive(Default)]
pub(crate) struct Allocations {
    /// By start; several where calls on different threads overlapped.
    ranges: BTreeMap<u64, Vec<Range>>,
    next: u32,
}

#[derive(Clone, Copy)]
struct Range {
    end: u64,
    id: u32,
    /// When the call that made it returned.
    since: u64,
}

impl Allocations {
    /// Memory handed out by a call that returned at `since`.
    pub(crate) fn add(&mut self, start: u64, len: u64, since: u64) {
        let id = self.fresh();
        self.add_as(id, start, len, since);
    }

    /// A name for memory.
    fn fresh(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    /// As [`add`](Allocations::add), under a name that other memory may have, too.
    pub(crate) fn add_as(&mut self, id: u32, start: u64, len: u64, since: u64) {
        let range = Range { end: start.saturating_add(len), id, since };
        self.ranges.entry(start).or_default().push(range);
    }

    /// Memory given up by a call that was entered at `at`. What was handed out later than that is another's.
    pub(crate) fn remove(&mut self, start: u64, at: u64) {
        let Some(ranges) = self.ranges.get_mut(&start) else { return };
        ranges.retain(|range| range.since > at);
        if ranges.is_empty() {
            self.ranges.remove(&start);
        }
    }

    /// Bytes that such a call gives up. Another may have been handed the same start already, while it was
    /// inside.
    pub(crate) fn freed_bytes(&self, start: u64, at: u64) -> Option<u64> {
        let known = self.ranges.get(&start)?.iter().find(|range| range.since <= at);
        known.map(|range| range.end - start).or_else(|| self.room(start))
    }

    /// The allocation that holds this address.
    pub(crate) fn range_around(&self, address: u64) -> Option<std::ops::Range<u64>> {
        let (start, ranges) = self.ranges.range(..=address).next_back()?;
        ranges.iter().rev().find(|range| address < range.end).map(|range| *start..range.end)
    }

    pub(crate) fn holds(&self, address: u64) -> bool {
        self.find(address).is_some()
    }

    /// Whether an allocation begins there.
    pub(crate) fn begins_in(&self, range: &std::ops::Range<u64>) -> bool {
        self.ranges.range(range.clone()).next().is_some()
    }

    pub(crate) fn overlaps(&self, range: &std::ops::Range<u64>) -> bool {
        self.ranges.range(..range.end).any(|(_, ranges)| ranges.iter().any(|known| known.end > range.start))
    }

    /// Bytes from this address to the end of the allocation that holds it.
    pub(crate) fn room(&self, address: u64) -> Option<u64> {
        let (_, ranges) = self.ranges.range(..=address).next_back()?;
        ranges.iter().rev().find(|range| address < range.end).map(|range| range.end - address)
    }

    fn find(&self, address: u64) -> Option<u32> {
        let (_, ranges) = self.ranges.range(..=address).next_back()?;
        ranges.iter().rev().find(|range| address < range.end).map(|range| range.id)
    }
}

struct Event {
    call: u64,
    what: EventKind,
    uses: Uses,
    /// Of a launch: its module, whose variables it may have written without having been given them.
    module: Option<u32>,
}

#[derive(Clone, Copy, PartialEq)]
enum EventKind {
    Launch,
    Copy,
    Check,
}

fn is_function(form: Form) -> bool {
    matches!(form, Form::Handle(Kind::Function))
}

#[derive(Default)]
pub(crate) struct Reach {
    events: Vec<Event>,
    graphs: Graphs,
    /// Executable graphs whose handles were put into an allocation.
    stored: HashMap<u32, BTreeSet<u64>>,
    /// Arrays, and texture and surface objects: by the handle the memory that it stands for.
    images: HashMap<u64, u32>,
    /// Modules, libraries, kernels and functions, by the name that all variables of their code have.
    modules: HashMap<u64, u32>,
}

#[derive(Default)]
struct LaunchInputs {
    uses: BTreeSet<u32>,
    executable: BTreeSet<u64>,
}

/// Objects have lesser numbers, handles of arrays are greater.
const MOST_OBJECTS: u64 = 1 << 16;

/// In longer payloads no addresses are looked for.
const SHORT: u64 = 4096;

impl Reach {
    /// Follows a call that succeeded.
    pub(crate) fn observe(
        &mut self,
        trace: &Trace,
        call: &Call,
        function: &Function,
        target: Target,
        live: &Allocations,
    ) {
        let what = match function.class {
            Class::launch => Some(EventKind::Launch),
            Class::copy | Class::submit if is_check(call) => Some(EventKind::Check),
            Class::copy | Class::submit | Class::graph => Some(EventKind::Copy),
            _ => None,
        };
        let LaunchInputs { mut uses, executable } =
            what.map(|_| self.launch_inputs(trace, call, live)).unwrap_or_default();
        if !executable.is_empty() {
            if matches!(function.class, Class::copy | Class::submit) {
                uses.iter().for_each(|id| self.stored.entry(*id).or_default().extend(&executable));
            }
            executable.iter().for_each(|graph| uses.extend(self.graphs.launched(*graph).iter()));
        }
        if let (Some(mut uses), Some(what)) = (self.graphs.follow(call, function, target, Arc::new(uses)), what) {
            if what == EventKind::Launch && !self.stored.is_empty() {
                self.follow_stored(&mut uses);
            }
            let module = Some(call).filter(|_| what == EventKind::Launch).and_then(|call| self.module_of(call));
            self.events.push(Event { call: call.number, what, uses, module });
        }
    }

    /// Follows what makes arrays, and objects of them or of other memory. The numbers of objects are small,
    /// so that a kernel may seem to have been given one.
    pub(crate) fn makes_image(&mut self, trace: &Trace, call: &Call, function: &Function, live: &mut Allocations) {
        let is_image = |form: Form| {
            matches!(form, Form::Handle(Kind::Array | Kind::MipmappedArray | Kind::Texture | Kind::Surface))
        };
        let made =
            function.params.iter().filter(|param| matches!(param.ty.form, Form::Pointer(to) if is_image(to.form)));
        for made in made.filter_map(|param| call.output(param.name)) {
            // It may have been another's, and is among what the call tells.
            self.images.remove(&made);
            let words = words(call.argument_bytes()).chain(described(trace, call));
            let of = words.filter(|word| *word > MOST_OBJECTS).find_map(|word| self.memory_at(word, live));
            let id = of.unwrap_or_else(|| live.fresh());
            self.images.insert(made, id);
        }
    }

    /// Follows what comes out of a module, or of a library: the name of its variables.
    pub(crate) fn make_code(&mut self, call: &Call, function: &Function, live: &mut Allocations) -> Option<u32> {
        let is_code = |form: Form| matches!(form, Form::Handle(Kind::Module | Kind::Library | Kind::Kernel));
        let from = function.params.iter().find(|param| is_code(param.ty.form)).and_then(|p| call.argument(p.name));
        let id = from.map(|from| *self.modules.entry(from).or_insert_with(|| live.fresh()));
        for param in function.params {
            let Form::Pointer(to) = param.ty.form else { continue };
            if let Some(made) = call.output(param.name).filter(|_| is_code(to.form) || is_function(to.form)) {
                // A handle may have been another's.
                self.modules.remove(&made);
                self.modules.extend(id.map(|id| (made, id)));
            }
        }
        id
    }

    fn module_of(&self, call: &Call) -> Option<u32> {
        let named = call.named_kernel().map(|kernel| kernel.handle);
        named.or_else(|| call.handle(Kind::Function)).and_then(|handle| self.modules.get(&handle)).copied()
    }

    /// Adds what the graphs use whose handles lie in this memory, and those whose handles lie in theirs.
    fn follow_stored(&self, uses: &mut Uses) {
        let mut seen = BTreeSet::new();
        let mut left: Vec<u32> = uses.iter().copied().collect();
        while let Some(id) = left.pop() {
            for graph in self.stored.get(&id).into_iter().flatten().filter(|graph| seen.insert(**graph)) {
                let further = self.graphs.launched(*graph);
                left.extend(further.iter());
                Arc::make_mut(uses).extend(further.iter());
            }
        }
    }

    /// The memory that a call was given, and the executable graphs, by their handles in memory or among a
    /// kernel's arguments.
    fn launch_inputs(&self, trace: &Trace, call: &Call, live: &Allocations) -> LaunchInputs {
        let uses = words(call.argument_bytes()).filter_map(|word| self.memory_at(word, live));
        let mut given = LaunchInputs { uses: uses.collect(), executable: BTreeSet::new() };
        for word in described(trace, call) {
            given.uses.extend(self.memory_at(word, live));
            given.executable.extend(self.graphs.is_executable(word).then_some(word));
        }
        given
    }

    /// By an address within, or by the handle of an array or of an object.
    fn memory_at(&self, word: u64, live: &Allocations) -> Option<u32> {
        live.find(word).or_else(|| self.images.get(&word).copied())
    }

    /// The CPU had these addresses in managed memory before a call, or when the process ended: what it saw
    /// there is compared.
    pub(crate) fn check_memory(&mut self, call: u64, addresses: impl Iterator<Item = u64>, live: &Allocations) {
        let uses: BTreeSet<u32> = addresses.filter_map(|address| live.find(address)).collect();
        if !uses.is_empty() {
            self.events.push(Event { call, what: EventKind::Check, uses: Arc::new(uses), module: None });
        }
    }

    /// What a collective had delivered is written there, in the place of its launch.
    pub(crate) fn delivered(&mut self, call: u64, at: impl Iterator<Item = u64>, live: &Allocations) {
        let uses = Arc::new(at.filter_map(|address| live.find(address)).collect());
        self.events.push(Event { call, what: EventKind::Copy, uses, module: None });
    }

    /// The same of one that was captured: the graph's launches write there.
    pub(crate) fn captured(
        &mut self,
        call: &Call,
        function: &Function,
        target: Target,
        at: impl Iterator<Item = u64>,
        live: &Allocations,
    ) {
        let uses = at.filter_map(|address| live.find(address)).collect();
        self.graphs.follow(call, function, target, Arc::new(uses));
    }

    /// Memory that is handed out to other processes may be written by them from now on. `call`: the one that
    /// exported it.
    pub(crate) fn exported(&mut self, call: u64, address: u64, live: &Allocations) {
        if let Some(id) = live.find(address) {
            let uses = Arc::new(BTreeSet::from([id]));
            self.events.push(Event { call, what: EventKind::Copy, uses, module: None });
        }
    }

    /// What a launch made of host memory, which is compared after this call. Where a graph copied to memory
    /// that no call made, it may have copied what any of its nodes made.
    pub(crate) fn result(&mut self, call: &Call, launch: u64, address: u64, live: &Allocations) {
        let launch = || self.events.iter().rev().find(|event| event.call == launch).map(|event| event.uses.clone());
        let uses = live.find(address).map(|id| Arc::new(BTreeSet::from([id]))).or_else(launch);
        if let Some(uses) = uses.filter(|uses| !uses.is_empty()) {
            self.events.push(Event { call: call.number, what: EventKind::Check, uses, module: None });
        }
    }

    /// The launches, and how many of them reach no check. `is_made` tells which checks are (or were) made.
    pub(crate) fn count(&self, is_made: impl Fn(u64) -> bool) -> (u64, u64) {
        self.count_below(u64::MAX, is_made)
    }

    /// As [`count`](Reach::count), of the calls below this number.
    pub(crate) fn count_below(&self, end: u64, is_made: impl Fn(u64) -> bool) -> (u64, u64) {
        let (launches, unreached) = self.unreached_below(end, is_made);
        (launches, unreached.len() as u64)
    }

    /// How many launches there are below this call, and those which reach no check.
    pub(crate) fn unreached_below(&self, end: u64, is_made: impl Fn(u64) -> bool) -> (u64, Vec<u64>) {
        let (mut launches, mut unreached) = (0, Vec::new());
        let mut checked: HashSet<u32> = HashSet::new();
        for event in self.events.iter().rev().filter(|event| event.call < end) {
            let is_check = event.what == EventKind::Check && is_made(event.call);
            let reached = is_check || event.uses.iter().chain(&event.module).any(|id| checked.contains(id));
            if event.what == EventKind::Launch {
                launches += 1;
                unreached.extend((!reached).then_some(event.call));
            }
            if reached {
                checked.extend(event.uses.iter());
            }
        }
        unreached.reverse();
        (launches, unreached)
    }

    /// The calls up to this one that launch, copy or fill and share memory with it, itself included: by
    /// allocation, as far as what they were given tells.
    pub(crate) fn sharers(&self, call: u64) -> Vec<(u64, &BTreeSet<u32>)> {
        let Some(at) = self.events.iter().rposition(|event| event.call == call) else { return Vec::new() };
        let uses = &self.events[at].uses;
        let shares = |event: &&Event| event.uses.iter().any(|id| uses.contains(id));
        self.events[..=at].iter().filter(shares).map(|event| (event.call, &*event.uses)).collect()
    }

    /// The one of these calls, which were left out though they gave work, on whose effect it may depend what
    /// a check finds. What was given memory that it may have written has handed that on to all its memory;
    /// one that names no memory which is known may have written anywhere.
    pub(crate) fn depends_on(&self, check: u64, left_out: &BTreeSet<u64>) -> Option<u64> {
        let (mut everywhere, mut behind) = (None, HashMap::<u32, u64>::new());
        for event in self.events.iter().filter(|event| event.call <= check) {
            let is_left_out = left_out.contains(&event.call);
            let given = || event.uses.iter().chain(&event.module).find_map(|id| behind.get(id).copied());
            let by = is_left_out.then_some(event.call).or(everywhere).or_else(given);
            if event.call == check && event.what == EventKind::Check && by.is_some() {
                return by;
            }
            if is_left_out && event.uses.is_empty() {
                everywhere = everywhere.or(by);
            }
            if let Some(by) = by {
                event.uses.iter().for_each(|id| _ = behind.entry(*id).or_insert(by));
            }
        }
        None
    }

    /// The last few launches that were given the memory which this call copies, latest first.
    pub(crate) fn writers(&self, call: u64) -> Vec<u64> {
        const MOST: usize = 4;
        let Some(at) = self.events.iter().position(|event| event.call == call) else { return Vec::new() };
        let uses = &self.events[at].uses;
        let before = self.events[..at].iter().rev().filter(|event| event.what == EventKind::Launch);
        before.filter(|event| event.uses.iter().any(|id| uses.contains(id))).map(|e| e.call).take(MOST).collect()
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
}

/// Words of a kernel's arguments and of what the call points to, long payloads aside.
pub(crate) fn described<'c>(trace: &'c Trace, call: &Call<'c>) -> impl Iterator<Item = u64> + use<'c> {
    let bytes = |image: Image<'c>| match image.content {
        Content::Arguments { packed, .. } => Some(packed),
        _ if image.len <= SHORT => trace.bytes(&image),
        _ => None,
    };
    // An array of addresses may be as long as a payload: its parameter tells them apart.
    let mut long = Vec::new();
    if let Some(function) = call.function().filter(|_| call.images().any(|image| image.len > SHORT)) {
        descriptions(call, function, &mut |_, bytes| long.extend(words(bytes)));
    }
    call.images().filter_map(bytes).flat_map(words).chain(long)
}

/// Whether the call brings bytes to the host that are recorded, or their hash is.
fn is_check(call: &Call) -> bool {
    let sinks: Vec<u64> = call.function().map_or(Vec::new(), |function| {
        let sinks = function.params.iter().filter(|p| matches!(p.role, Role::Sink(_)));
        sinks.filter_map(|p| call.argument(p.name)).collect()
    });
    call.images().any(|image: Image| match image.content {
        Content::Hash { .. } => true,
        Content::Bytes(_) | Content::Blob(_) => sinks.contains(&image.address),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sample::Sample;

    /// Where the addresses of a batch stand, and those of a kernel that is passed a long struct.
    #[test]
    fn addresses_are_found_in_arrays_of_any_length() {
        const FIRST: u64 = 0x7f00_0000_0000;
        for count in [4, 512, 513, 5000] {
            let array = |from: u64| (0..count).flat_map(|n| (from + n).to_le_bytes()).collect::<Vec<u8>>();
            let (to, from, sizes) = (array(FIRST), array(2 * FIRST), array(1));
            let mut sample = Sample::new();
            let words = [0x10_0000, 0x20_0000, 0x30_0000, count, 0, 0, 0, 0];
            let arrays = [(0x10_0000, &to[..]), (0x20_0000, &from), (0x30_0000, &sizes)];
            sample.call(0, "cuMemcpyBatchAsync_v2", 0..1, &words, &arrays);
            sample.launch_with(0, 2..3, &to);
            // A payload, in which nobody looks if it is long.
            sample.call(0, "cuMemcpyHtoD_v2", 4..5, &[0x50, 0x60_0000, 8 * count], &[(0x60_0000, &to)]);
            let trace = sample.trace();
            let [batch, launch, payload] = [0, 1, 2].map(|n| described(&trace, &trace.call(n).unwrap()).collect());
            let (batch, launch, payload): (Vec<u64>, Vec<u64>, Vec<u64>) = (batch, launch, payload);
            let last = FIRST + count - 1;
            assert!([FIRST, last, 2 * FIRST, FIRST + last].iter().all(|word| batch.contains(word)), "{count}");
            assert!(launch.contains(&FIRST) && launch.contains(&last), "{count}");
            assert_eq!(payload.contains(&last), count <= 512, "{count}");
        }
    }
}
