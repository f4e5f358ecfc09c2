//! Before a call that gives the device work or waits for it: what kernel arguments refer to is watched, and what the CPU wrote
//! is written down.

use crate::ask::{self, Place};
use crate::finds::Finds;
use crate::landing::Landing;
use crate::lane::Lane;
use crate::memory::{bytes_at, gathered, word_at};
use crate::node_runs::Turn;
use crate::pending::{Copy, Work};
use crate::queue::Queue;
use crate::shape::{self, Site};
use crate::{arrived, callback, hooks, range, start};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use trace::Function;
use trace::api::copies::{device_region, region};
use trace::api::roles::{Class, Field, Role, Side};
use trace::api::types::{CUarray, Form, Kind, Type};
use trace::extra::Extra;
use trace::walk::{View, reach};

/// What launches make of longer memory is not looked at.
const MOST_HASHED: u64 = 1 << 20;

#[cold]
#[inline(never)]
pub fn before(lane: &Lane, site: Site, words: &[u64]) {
    let recorder = lane.recorder();
    let mut finds = Finds::before(lane, lane.sequence());
    // First what is known already: what begins to be watched now is recorded as a whole.
    if recorder.watch.any() && matches!(site.function.class, Class::submit | Class::copy) {
        recorder.watch.claim(lane.index(), places(lane, site.function, words, Side::Source));
    }
    recorder.watch.look(site.function.class, &mut finds);
    if let Some(launch) = site.shape.launch {
        let arguments = arguments(lane, launch, words);
        recorder.watch.refer(arguments.iter().copied(), &mut finds);
        let given = arguments.iter().filter_map(|word| recorder.pinned.find(*word));
        launched(lane, site.function, words, given);
        let managed = arguments.iter().filter_map(|word| recorder.watch.managed.find(*word));
        uses_unnamed(lane, site.function, words, managed, &mut finds);
    } else if site.function.class == Class::launch {
        let before = recorder.pending.position();
        uses_unnamed(lane, site.function, words, std::iter::empty(), &mut finds);
        // A graph, which may have been made of any of it, but hardly of what other threads use.
        if recorder.watch.any() {
            launched(lane, site.function, words, recorder.watch.pinned(lane.index()).into_iter());
        }
        if recorder.destinations.any() {
            let brought = recorder.destinations.of(words[0]).into_iter();
            under_way(lane, lane.sequence(), site.function, words, brought);
        }
        // Of launches that a range leaves out nothing is known, but their callbacks run.
        if callback::any_of_nodes() && !range::applies() && recorder.node_runs.has(words[0]) {
            calls_back(lane, site.function, words, before);
        }
        if callback::any_under_way() || callback::any_of_nodes() {
            let all = [(Landing::Flat { address: 0, len: 0 }, Work::Any, false)];
            under_way(lane, lane.sequence(), site.function, words, all.into_iter());
        }
    } else if matches!(site.function.class, Class::submit | Class::copy) {
        if recorder.pending.any() || recorder.watch.any() {
            let comes: Vec<Range<u64>> = places(lane, site.function, words, Side::Destination).collect();
            if !comes.is_empty() {
                let by_cpu = is_by_cpu(lane, site.function, words);
                recorder.pending.comes(lane.index(), queue(lane, site.function, words), comes, by_cpu);
            }
        }
        if site.function.class == Class::submit {
            if !site.function.brings_at_once() {
                fills(lane, site.function, words);
            }
            let from = reached(lane, site.function, words, |role| matches!(role, Role::Reads(_)));
            reads(lane, lane.sequence(), site.function, words, from);
        }
    }
    if site.shape.launch.is_none() && !hooks::copies_unified(site.function) {
        // Pinned memory by its device address: as the host's it would be captured with the call.
        let reads = site.function.params.iter().filter(|param| matches!(param.role, Role::Reads(_)));
        recorder.watch.refer(reads.map(|param| words[param.offset as usize / 8]), &mut finds);
    }
    if matches!(site.function.class, Class::submit | Class::copy) && recorder.shares_any() {
        // Before the call, which may wait for callbacks: what they write is theirs to tell.
        recorder.watch.refer(device_sources(site.function, words), &mut finds);
    }
    // Copies read managed memory by whatever argument names it.
    let managed = &recorder.watch.managed;
    let named = words.iter().filter(|word| managed.any() && managed.find(**word).is_some());
    recorder.watch.refer(named.copied(), &mut finds);
    recorder.watch.refer_named(&mut finds);
    finds.append(lane);
}

/// A graph that runs callbacks. `before`: the position of what its launch adds to what is under way.
fn calls_back(lane: &Lane, function: &Function, words: &[u64], before: u64) {
    let (recorder, call) = (lane.recorder(), lane.sequence());
    if !ask::is_capturing(stream(function, words).unwrap_or(0), function.twin_of.is_some()) {
        let queue = queue(lane, function, words);
        let behind = recorder.pending.take_position();
        let turn = Turn { queue, before, behind, by: (lane.index(), call), around: Arc::default() };
        recorder.node_runs.launched(words[0], turn);
    }
}

/// Pinned memory that is given to a launch is looked at when the application may.
fn launched(lane: &Lane, function: &Function, words: &[u64], given: impl Iterator<Item = (u64, u64)>) {
    let watch = &lane.recorder().watch;
    let given = given.filter_map(|(address, len)| {
        let work = match watch.follows(address, len) {
            true if len <= MOST_HASHED => Work::Launch,
            true => Work::Given,
            false if callback::any_under_way() => Work::Read,
            false => return None,
        };
        Some((Landing::Flat { address, len }, work, false))
    });
    under_way(lane, lane.sequence(), function, words, given);
}

/// Managed memory is the device's until the launch is done, whether it was given that or not; so is pinned memory whose address stands somewhere, and
/// what a graph uses that another thread made.
fn uses_unnamed(
    lane: &Lane,
    function: &Function,
    words: &[u64],
    given: impl Iterator<Item = (u64, u64)>,
    finds: &mut Finds,
) {
    let watch = &lane.recorder().watch;
    if watch.managed.any() {
        watch.refer_managed(finds);
    }
    watch.refer_named(finds);
    let any = function.param("hGraphExec").is_some();
    if watch.any() && (any || watch.managed.any() || watch.stored.load(Relaxed)) {
        let given = given.map(|(address, len)| (Landing::Flat { address, len }, Work::Given, false));
        let unnamed = [(Landing::Flat { address: 0, len: 0 }, Work::Unnamed { any }, false)];
        under_way(lane, lane.sequence(), function, words, given.chain(unnamed));
    }
}

/// Copies that read what callbacks under way may still write.
pub fn reads(lane: &Lane, call: u32, function: &Function, words: &[u64], from: impl Iterator<Item = Landing>) {
    if callback::any_under_way() {
        under_way(lane, call, function, words, from.map(|landing| (landing, Work::Read, false)));
    }
}

/// Memory shared with the device that a copy or a fill reads, or writes; other memory that it writes, if graphs have copied to such.
fn places(lane: &Lane, function: &'static Function, words: &[u64], side: Side) -> impl Iterator<Item = Range<u64>> {
    let any = side == Side::Destination && lane.recorder().destinations.any();
    let concerns = move |address, len| any || lane.recorder().shares(address, len);
    let of_side = move |role: &Role| match side {
        Side::Source => matches!(role, Role::Reads(_) | Role::Source(_)),
        Side::Destination => matches!(role, Role::Writes(_) | Role::Sink(_)),
    };
    let flat = named(function, words, of_side, concerns);
    let rows = descriptors(function, words, side).filter_map(move |(to, descriptor)| {
        let element = |array: CUarray| ask::array_element(array.0 as u64);
        let region = region(to, &descriptor, side, element);
        let region = region.or_else(|| device_region(to, &descriptor, side))?;
        concerns(region.address, region.span()).then_some(Landing::Rows(region))
    });
    flat.chain(rows).flat_map(Landing::places)
}

/// Where struct copies read by device addresses.
fn device_sources(function: &'static Function, words: &[u64]) -> impl Iterator<Item = u64> {
    let sources = descriptors(function, words, Side::Source);
    sources.filter_map(|(to, descriptor)| Some(device_region(to, &descriptor, Side::Source)?.address))
}

/// The structs that say what is copied, on this side.
fn descriptors(
    function: &'static Function,
    words: &[u64],
    side: Side,
) -> impl Iterator<Item = (&'static Type, Cow<'static, [u8]>)> {
    function.params.iter().filter_map(move |param| {
        let Form::Pointer(to) = param.ty.form else { return None };
        let address = words[param.offset as usize / 8];
        let descriptor = has_side(to, side).then(|| bytes_at(address, to.size as usize, true)).flatten()?;
        Some((to, descriptor))
    })
}

/// What fills memory shared with the device does so when its stream gets there: until then its bytes are nobody's.
fn fills(lane: &Lane, function: &'static Function, words: &[u64]) {
    let filled: Vec<Landing> = reached(lane, function, words, |role| matches!(role, Role::Writes(_))).collect();
    if !filled.is_empty() {
        let from_host = is_by_cpu(lane, function, words);
        under_way(lane, lane.sequence(), function, words, filled.into_iter().map(|to| (to, Work::Fill, from_host)));
    }
}

/// Whether the CPU may be had to make this copy to host memory: of use only where something is watched.
pub fn is_by_cpu(lane: &Lane, function: &'static Function, words: &[u64]) -> bool {
    lane.recorder().watch.any() && reads_host(lane, function, words)
}

/// Whether what it copies lies in host memory.
pub fn reads_host(lane: &Lane, function: &'static Function, words: &[u64]) -> bool {
    let names_host = function.params.iter().any(|param| {
        let word = words[param.offset as usize / 8];
        match param.role {
            Role::Source(_) => true,
            Role::Reads(_) => {
                lane.recorder().pinned.find(word).is_some()
                    || hooks::copies_unified(function) && ask::place(word) == Place::Pageable
            }
            _ => false,
        }
    });
    names_host || descriptors(function, words, Side::Source).any(|(to, descriptor)| copies_host(to, &descriptor))
}

fn has_side(ty: &Type, side: Side) -> bool {
    let Form::Struct(fields) = ty.form else { return false };
    fields.iter().any(|field| matches!(field.role, Role::CopyHost(of) if of == side))
}

/// Whether a copy like this has its source in host memory.
pub fn copies_host(ty: &Type, descriptor: &[u8]) -> bool {
    let from = || device_region(ty, descriptor, Side::Source);
    region(ty, descriptor, Side::Source, |_| None).is_some()
        || from().is_some_and(|from| start::recorder().pinned.find(from.address).is_some())
}

/// Memory shared with the device that arguments of this role name by its device address.
fn reached(
    lane: &Lane,
    function: &'static Function,
    words: &[u64],
    of: impl Fn(&Role) -> bool,
) -> impl Iterator<Item = Landing> {
    named(function, words, of, |address, len| lane.recorder().shares(address, len))
}

/// Memory that arguments of this role name, if it `concerns` us.
fn named(
    function: &'static Function,
    words: &[u64],
    of: impl Fn(&Role) -> bool,
    concerns: impl Fn(u64, u64) -> bool,
) -> impl Iterator<Item = Landing> {
    function.params.iter().enumerate().filter_map(move |(index, param)| {
        let address = words[param.offset as usize / 8];
        let is_met = of(&param.role) && concerns(address, 1);
        let len = is_met.then(|| reach(function.params, index, 0, &Words(words))).flatten()?;
        Some(Landing::Flat { address, len })
    })
}

struct Words<'w>(&'w [u64]);

impl View for Words<'_> {
    fn load(&self, offset: u32, size: u32) -> Option<u64> {
        let word = self.0.get(offset as usize / 8)?;
        Some(if size < 8 { word & ((1 << (size * 8)) - 1) } else { *word })
    }

    fn at(&self, address: u64, size: u32) -> Option<u64> {
        word_at(address, size, true)
    }
}

/// What this call's work brings is not there yet: where, by what, and whether the CPU may be had to do it.
pub fn under_way(
    lane: &Lane,
    call: u32,
    function: &Function,
    words: &[u64],
    memory: impl Iterator<Item = (Landing, Work, bool)>,
) {
    let recorder = lane.recorder();
    let mut queue = None;
    for (landing, work, by_cpu) in memory {
        let per_thread = function.twin_of.is_some();
        let (stream, captured, context) = *queue.get_or_insert_with(|| {
            let stream = stream(function, words).unwrap_or(0);
            (stream, ask::is_capturing(stream, per_thread), ask::current_context())
        });
        if captured {
            return;
        }
        let mut copy = Copy::new(landing, context, ask::is_blocking(stream), lane.index(), call);
        (copy.work, copy.by_cpu, copy.is_being_put) = (work, by_cpu, true);
        let queue = Queue::of(stream, per_thread, lane.index(), || context);
        let given_up = recorder.pending.add_work(queue, copy);
        given_up.iter().filter_map(arrived::give_up).for_each(|record| lane.append(&record));
    }
}

fn queue(lane: &Lane, function: &Function, words: &[u64]) -> Queue {
    let stream = stream(function, words).unwrap_or(0);
    Queue::of(stream, function.twin_of.is_some(), lane.index(), ask::current_context)
}

/// The stream that a launch names, as an argument or in its configuration.
fn stream(function: &Function, words: &[u64]) -> Option<u64> {
    let is_stream = |field: &&Field| matches!(field.ty.form, Form::Handle(Kind::Stream));
    let word = |field: &Field| words[field.offset as usize / 8];
    if let Some(param) = function.params.iter().find(is_stream) {
        return Some(word(param));
    }
    function.params.iter().find_map(|param| {
        let Form::Pointer(to) = param.ty.form else { return None };
        let Form::Struct(fields) = to.form else { return None };
        word_at(word(param).wrapping_add(u64::from(fields.iter().find(is_stream)?.offset)), 8, true)
    })
}

/// Words of a launch's arguments that may be addresses. The driver has not seen the call yet: anything may be bad.
fn arguments(lane: &Lane, launch: shape::Launch, words: &[u64]) -> Vec<u64> {
    let (array, extra) = (words[launch.arguments as usize], words[launch.extra as usize]);
    if array == 0 {
        return if launch.extra != 0 && extra != 0 { packed(extra) } else { Vec::new() };
    }
    // A handle that nobody is known to have been given may be anything, and the driver may not survive being asked about it.
    let Some(layout) = lane.layout_before_launch(words[launch.function as usize]) else { return Vec::new() };
    let Some(sizes) = &layout.sizes else { return Vec::new() };
    let stack = Stack::here(lane);
    let Some(pointers) = stack.bytes(array, sizes.len() * 8) else { return Vec::new() };
    let (mut found, mut elsewhere) = (Vec::new(), Vec::new());
    for (pointer, size) in pointers.chunks_exact(8).map(word).zip(sizes).filter(|(_, size)| **size >= 8) {
        match stack.used(pointer, *size as usize) {
            Some(bytes) => found.extend(bytes.chunks_exact(8).map(word)),
            None => elsewhere.push((pointer, *size as usize / 8 * 8)),
        }
    }
    // What cannot be read is the driver's to find out.
    let read = if elsewhere.is_empty() { None } else { gathered(&elsewhere) };
    found.extend(read.iter().flat_map(|bytes| bytes.chunks_exact(8)).map(word));
    found
}

fn packed(extra: u64) -> Vec<u64> {
    let extra = Extra::read(extra, |at| word_at(at, 8, true));
    let size = extra.size_at().and_then(|at| word_at(at, 8, true)).unwrap_or(0).min(1 << 16);
    let bytes = extra.buffer().and_then(|at| bytes_at(at, size as usize, true));
    bytes.map_or(Vec::new(), |bytes| bytes.chunks_exact(8).map(word).collect())
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"))
}

/// The part of the calling thread's stack that is in use: what lies there can be read without asking the kernel.
struct Stack {
    from: u64,
    to: u64,
}

impl Stack {
    fn here(lane: &Lane) -> Stack {
        let mark = 0u8;
        let from = std::ptr::from_ref(&mark) as u64;
        // On a stack of its own (a coroutine, a signal handler) nothing is known.
        let to = lane.stack().filter(|stack| stack.contains(&from)).map_or(from, |stack| stack.end);
        Stack { from, to }
    }

    fn bytes(&self, at: u64, len: usize) -> Option<Cow<'static, [u8]>> {
        self.used(at, len).map(Cow::Borrowed).or_else(|| bytes_at(at, len, true))
    }

    /// The bytes, if they all lie here.
    fn used(&self, at: u64, len: usize) -> Option<&'static [u8]> {
        let inside = at >= self.from && at.saturating_add(len as u64) <= self.to;
        // SAFETY: that part of the stack is mapped, and the calls whose frames these are have not returned.
        inside.then(|| unsafe { std::slice::from_raw_parts(at as *const u8, len) })
    }
}
