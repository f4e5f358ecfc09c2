//! The bytes that copies carry: to the device when the driver takes them, from the device when the application may look.

use crate::ask::{self, Place};
use crate::callback;
use crate::capture::{Capture, Live, MOST_FOLLOWED, Moment};
use crate::clock;
use crate::finds::Finds;
use crate::host;
use crate::landing::Landing;
use crate::lane::Lane;
use crate::manners::guarded;
use crate::memory::{bytes_at, word_at};
use crate::node_runs::Turn;
use crate::pending::{Copy, Work};
use crate::queue::{Covered, Queue};
use crate::shape::brings_at_once;
use crate::spans::without;
use std::ops::Range;
use trace::Function;
use trace::api::copies::{Region, device_region, region};
use trace::api::roles::{Class, Field, Role, Sibling, Side};
use trace::api::types::{Form, Type};
use trace::hash::{Hash, Hasher};
use trace::preamble::Data;
use trace::record;
use trace::walk::View;

/// A synchronisation or a poll has succeeded: what it covered can be seen by the application now.
#[inline(always)]
pub fn waited(lane: &Lane, function: &'static Function, words: &[u64], position: u64) {
    if lane.recorder().pending.any() {
        guarded(|| observe(lane, function, words, position));
    }
}

#[cold]
fn observe(lane: &Lane, function: &'static Function, words: &[u64], position: u64) {
    let per_thread = function.twin_of.is_some();
    let queue = |stream| Queue::of(stream, per_thread, lane.index(), ask::current_context);
    let covered = match function.twin_of.unwrap_or(function.name) {
        "cuStreamSynchronize" | "cuStreamQuery" => Covered::Stream(queue(words[0])),
        "cuEventSynchronize" | "cuEventQuery" => Covered::Event(words[0]),
        // Both have come to pass, and the first may be any other's.
        "cuEventElapsedTime" | "cuEventElapsedTime_v2" => {
            finished(lane, Covered::Event(words[1]), position);
            Covered::Event(words[2])
        }
        "cuCtxSynchronize" => Covered::Context(ask::current_context()),
        "cuCtxSynchronize_v2" => Covered::Context(words[0]),
        // A copy to the host that waits is work on the legacy stream, or on the thread's own.
        _ if function.params.iter().any(|p| matches!(p.role, Role::Sink(_))) => match queue(0) {
            queue if queue.is_legacy() => Covered::Legacy(ask::current_context()),
            queue => Covered::Stream(queue),
        },
        _ => return,
    };
    finished(lane, covered, position);
}

/// A callback begins: what stands before it has finished.
pub fn turn_comes(lane: &Lane, turn: &Turn) {
    if lane.recorder().pending.any() {
        finished(lane, Covered::Stream(turn.queue), turn.before);
    }
    if turn.is_of_graph() && lane.recorder().watch.any() {
        lane.recorder().watch.computed(turn.by.0);
    }
    for region in &turn.around.before {
        filled(lane, Landing::Rows(*region));
    }
}

/// Writes down what the copies brought that were waited for.
pub fn finished(lane: &Lane, covered: Covered, position: u64) {
    let recorder = lane.recorder();
    let finished = recorder.pending.finished(covered, position);
    finished.copies.iter().for_each(|(copy, beside)| look_at(lane, copy, beside));
    recorder.pending.looked_at(&finished);
}

fn look_at(lane: &Lane, copy: &Copy, beside: &[Range<u64>]) {
    let recorder = lane.recorder();
    match copy.work {
        Work::Given => return recorder.watch.comes_back(copy.landing.extent()),
        Work::Unnamed { any } => return recorder.watch.unnamed_come_back(any, copy.thread),
        _ => {}
    }
    if !copy.work.writes() {
        return;
    }
    let (start, len) = (copy.landing.address(), copy.landing.span());
    if copy.is_outdone {
        return recorder.watch.computed_in(copy.landing.extent());
    }
    // What a kernel made of memory can be told only while nobody else writes there.
    let is_disturbed = || {
        let pending = &recorder.pending;
        // In this order: what a callback's look has taken out of sight is told before it is.
        let is_stirred = || recorder.watch.is_stirred(start, len) || pending.is_called_back(copy);
        let is_shared = || copy.work == Work::Launch && (pending.may_write(start, len) || is_stirred());
        pending.is_overtaken(copy) || is_shared()
    };
    if copy.work == Work::Fill {
        return filled(lane, copy.landing);
    }
    if let Work::Graph(before) = copy.work {
        let found = landed(lane, copy.landing, false).filter(|(_, hash)| *hash != before);
        if !is_disturbed() {
            observed(lane, copy, found);
        }
        return;
    }
    if is_disturbed() {
        return match copy.work {
            Work::Launch => recorder.watch.computed_in(copy.landing.extent()),
            // The driver may have had the CPU make it: that was not the program.
            _ => filled(lane, copy.landing),
        };
    }
    // What the CPU wrote meanwhile for itself: whether it was the last to do so is told by that.
    let pieces: Vec<Copy> = match copy.landing {
        Landing::Flat { address, len } if !beside.is_empty() => {
            let mut places = without(address..address + len, beside);
            places.extend_from_slice(beside);
            let piece = |place: Range<u64>| Landing::Flat { address: place.start, len: place.end - place.start };
            places.into_iter().map(|place| copy.at(piece(place))).collect()
        }
        _ => vec![*copy],
    };
    let found: Vec<_> = pieces.iter().map(|piece| landed(lane, piece.landing, false)).collect();
    // Or has just begun to.
    if is_disturbed() {
        return;
    }
    pieces.iter().zip(found).for_each(|(piece, found)| observed(lane, piece, found));
}

/// Of this no more is told: a replay fills the same.
fn filled(lane: &Lane, landing: Landing) {
    if !lane.recorder().watch.any() {
        return;
    }
    for place in landing.places() {
        // To touch managed memory would bring it here; what a copy brought there is compared when the CPU has it.
        if lane.recorder().watch.managed.find(place.start).is_some() {
            lane.recorder().watch.comes_back(place);
            continue;
        }
        let len = place.end - place.start;
        // Pinned memory may have been unmapped: the device still reaches it.
        let bytes = bytes_at(place.start, len as usize, true);
        bytes.map(|bytes| lane.recorder().watch.landed(place.start, bytes));
    }
}

/// Writes down what a copy brought; nothing, if it can no longer be known.
pub fn observed(lane: &Lane, copy: &Copy, found: Option<(u8, Hash)>) {
    if found.is_some() || copy.work == Work::Copy {
        lane.append(&observation(copy, found));
    }
}

/// A copy that nobody waited for makes room for others.
pub fn give_up(copy: &Copy) -> Option<Vec<u8>> {
    if copy.work != Work::Copy {
        return None;
    }
    crate::start::recorder().lose("results of copies that nobody had waited for, 65,536 copies later");
    Some(observation(copy, None))
}

fn observation(copy: &Copy, found: Option<(u8, Hash)>) -> Vec<u8> {
    let (address, len) = (copy.landing.address(), copy.landing.bytes());
    let (form, hash) = found.map_or((record::LOST, [0; 16]), |(form, hash)| (form, hash.to_bytes()));
    let Copy { thread, call, late, .. } = *copy;
    let body = record::Observed { time: clock::exit(), thread, call, address, len, hash, form, late };
    record::with_body(record::OBSERVED, &body)
}

/// The hash of what a copy brought; with `--data=all` the bytes go into the trace.
///
/// `fresh`: the driver has written it within this very call, so that it can be read directly.
fn landed(lane: &Lane, landing: Landing, fresh: bool) -> Option<(u8, Hash)> {
    let recorder = lane.recorder();
    let keep = recorder.data == Data::All;
    match landing {
        Landing::Flat { address, len } => {
            let careful = !fresh && !recorder.pinned.holds(address, len);
            let bytes = recorder.watch.landed(address, bytes_at(address, len as usize, careful)?);
            if keep && let Some(hash) = recorder.file.blob(&bytes) {
                return Some((record::BLOB, hash));
            }
            Some((record::HASH, Hash::of(&bytes)))
        }
        Landing::Rows(region) => {
            let careful = !fresh && !recorder.pinned.holds(region.address, region.span());
            if keep {
                let packed = packed_rows(&region, careful)?;
                if let Some(hash) = recorder.file.blob(&packed) {
                    return Some((record::BLOB, hash));
                }
            }
            let mut hasher = Hasher::default();
            for row in region.row_addresses() {
                hasher.update(&recorder.watch.landed(row, bytes_at(row, region.row_bytes as usize, careful)?));
            }
            Some((record::HASH, hasher.finish()))
        }
    }
}

fn packed_rows(region: &Region, careful: bool) -> Option<Vec<u8>> {
    let mut packed = Vec::new();
    packed.try_reserve_exact(usize::try_from(region.bytes()).ok()?).ok()?;
    for row in region.row_addresses() {
        let bytes = bytes_at(row, region.row_bytes as usize, careful)?;
        packed.extend_from_slice(&crate::start::recorder().watch.landed(row, bytes));
    }
    Some(packed)
}

impl Capture<'_> {
    /// Arrays of unified addresses: the array itself is an input, and what lies at each may be the host's.
    pub(crate) fn each(&mut self, fields: &'static [Field], index: usize, base: u32, view: &Live) {
        let (Role::ReadsEach { count, sizes } | Role::WritesEach { count, sizes }) = fields[index].role else { return };
        let load = |field: &Field| view.load(base + field.offset, field.ty.size.min(8));
        let sibling = |which: Sibling| load(&fields[which.0 as usize]);
        let (Some(array @ 1..), Some(count), Some(sizes @ 1..)) =
            (load(&fields[index]), sibling(count), sibling(sizes))
        else {
            return;
        };
        if self.moment != Moment::Entry {
            self.attach(array, count.saturating_mul(8), true);
        }
        for i in 0..count {
            let (Some(address), Some(bytes)) = (view.at(array + i * 8, 8), view.at(sizes + i * 8, 8)) else { return };
            self.unified(address, bytes, matches!(fields[index].role, Role::WritesEach { .. }), true);
        }
    }

    /// One end of a copy, which is recorded if it is host memory.
    ///
    /// `batch`: the copy is one of a batch, which returns before the bytes are there whatever memory they go to (seen on driver
    /// 580; a single copy to pageable memory waits for them).
    pub(crate) fn unified(&mut self, address: u64, bytes: u64, written: bool, batch: bool) {
        // Managed memory is the device's here: replay has it there, and what it holds came by recorded work.
        let pinned = self.lane.recorder().pinned.holds(address, bytes);
        if !pinned && self.moment == Moment::Success {
            match ask::place(address) {
                Place::Managed if written => return self.brought(Landing::Flat { address, len: bytes }),
                Place::Device | Place::Managed => return,
                Place::Pageable | Place::Pinned => {}
            }
        }
        match (written, self.moment) {
            (false, moment) => self.source(address, bytes, moment),
            (true, Moment::Success) => self.sink(Landing::Flat { address, len: bytes }, batch),
            (true, _) => {}
        }
    }

    /// Payload: at entry from memory known to be pinned, else once the driver has taken it.
    pub(crate) fn source(&mut self, address: u64, bytes: u64, moment: Moment) {
        let recorder = self.lane.recorder();
        if recorder.data == Data::None || bytes == 0 {
            return;
        }
        let pinned = recorder.pinned.holds(address, bytes);
        if moment == Moment::Success && self.makes_node() {
            self.watch_source(address, bytes);
        }
        match moment {
            Moment::Entry if pinned => match self.pinned_source(Landing::Flat { address, len: bytes }) {
                false => self.attach(address, bytes, false),
                true if bytes <= MOST_FOLLOWED as u64 => {
                    bytes_at(address, bytes as usize, true).iter().for_each(|bytes| self.follow(bytes));
                }
                true => {}
            },
            Moment::Success if !pinned => match ask::place(address) {
                // The driver takes device addresses here too; then nothing is the CPU's to read, and nothing is lost.
                // Managed memory was looked at before the call.
                Place::Device | Place::Managed => {}
                Place::Pageable | Place::Pinned => self.attach(address, bytes, false),
            },
            _ => {}
        }
    }

    /// What the CPU has put there so far. What copies and callbacks under way will have put there by the time this copy reads
    /// it, they bring in a replay, too. False: nothing is under way, and all of it can be recorded with the call.
    fn pinned_source(&mut self, from: Landing) -> bool {
        let recorder = self.lane.recorder();
        let (address, span) = (from.address(), from.span());
        if self.function.class == Class::submit {
            host::reads(self.lane, self.call, self.function, self.words, [from].into_iter());
        }
        if recorder.watch.follows(address, span) {
            return true;
        }
        let mut finds = Finds::before(self.lane, self.call);
        let may_change = callback::any_under_way() || callback::any_of_nodes() && recorder.pending.has_graphs();
        if may_change && recorder.watch.has_room() && recorder.watch.watch_prepared(address, span, &mut finds) {
            self.deferred.extend(finds.into_records());
            return true;
        }
        let landing = recorder.pending.landing_in(address, span, self.lane.index());
        if landing.is_empty() {
            return false;
        }
        from.places().into_iter().flat_map(|place| without(place, &landing)).for_each(|range| finds.take(range));
        self.deferred.extend(finds.into_records());
        true
    }

    /// Whether the call puts its copy into a graph, which makes it when it runs.
    fn makes_node(&self) -> bool {
        let function = self.function;
        let stream = function.param("hStream").map(|at| self.words[function.params[at].offset as usize / 8]);
        function.class == Class::graph
            || stream.is_some_and(|stream| ask::is_capturing(stream, function.twin_of.is_some()))
    }

    /// A graph reads this memory each time it runs.
    fn watch_source(&mut self, address: u64, bytes: u64) {
        let place = ask::place(address);
        if place != Place::Device {
            let mut finds = Finds::before(self.lane, self.call);
            let watch = &self.lane.recorder().watch;
            watch.watch(address, bytes, place == Place::Managed, &mut finds);
            if !watch.tells(address, bytes) {
                finds.untold(address, bytes as usize);
            }
            self.deferred.extend(finds.into_records());
        }
    }

    /// A node copies there, each time its graph runs.
    fn destination(&mut self, landing: Landing) {
        let region = match landing {
            Landing::Rows(region) => region,
            Landing::Flat { address, len } => {
                Region { address, row_bytes: len, rows: 1, pitch: len, slices: 1, slice_pitch: len }
            }
        };
        if self.lane.recorder().pinned.holds(region.address, region.span()) {
            self.watch_source(region.address, region.span());
        }
        let executable = self.function.param("hGraphExec").map(|at| self.function.params[at].offset as usize / 8);
        let from_host = host::reads_host(self.lane, self.function, self.words);
        self.lane.recorder().destinations.add(executable.map(|at| self.words[at]), &region, from_host);
    }

    /// Result: at once if the bytes are there when the call returns, else when a synchronisation covers the copy.
    pub(crate) fn sink(&mut self, landing: Landing, batch: bool) {
        /// What one attachment can stand for; longer results are recorded in pieces of this size.
        const MOST: u64 = 1 << 30;
        let recorder = self.lane.recorder();
        let (address, len, rows) = match landing {
            Landing::Flat { address, len } => (address, len, 0),
            Landing::Rows(region) => (region.address, region.bytes(), record::ROWS),
        };
        if recorder.data == Data::None || len == 0 {
            return;
        }
        if len > MOST {
            if rows != 0 {
                return self.lost(address, 0, "pitched results longer than 1 GiB");
            }
            for from in (0..len).step_by(MOST as usize) {
                self.sink(Landing::Flat { address: address + from, len: MOST.min(len - from) }, batch);
            }
            return;
        }
        let stream = self.function.param("hStream").map(|at| self.words[self.function.params[at].offset as usize / 8]);
        let per_thread = self.function.twin_of.is_some();
        if stream.is_some_and(|stream| ask::is_capturing(stream, per_thread)) {
            // Nothing was copied: the copy became a node. What it will bring is looked at when its graph has run.
            return self.destination(landing);
        }
        let place = if recorder.pinned.holds(address, landing.span()) { Place::Pinned } else { ask::place(address) };
        match place {
            Place::Device => return,
            // What the CPU makes of managed memory is seen when it has touched it.
            Place::Managed => return self.brought(landing),
            Place::Pageable | Place::Pinned => {}
        }
        let later = self.function.class == Class::submit && (batch || place == Place::Pinned);
        if later && let Some(stream) = stream {
            let (thread, context) = (self.lane.index(), ask::current_context());
            let queue = Queue::of(stream, per_thread, thread, || context);
            let mut copy = Copy::new(landing, context, ask::is_blocking(stream), thread, self.call);
            copy.by_cpu = place == Place::Pinned && host::is_by_cpu(self.lane, self.function, self.words);
            self.draft.attach(record::PENDING | rows, address, len as u32, &[]);
            let given_up = recorder.pending.add(queue, copy);
            self.deferred.extend(given_up.iter().filter_map(give_up));
            return;
        }
        match landed(self.lane, landing, true) {
            Some((form, hash)) => self.draft.attach(form | rows, address, len as u32, &hash.to_bytes()),
            None => self.lost(address, len as u32, "copied results that could not be read"),
        }
    }

    /// A struct copy from a device address, which may be that of pinned memory.
    fn device_source(&mut self, ty: &'static Type, descriptor: u64) {
        let Form::Struct(fields) = ty.form else { return };
        let field = fields.iter().find(|field| field.name == "srcDevice");
        let address = field.and_then(|field| word_at(descriptor + u64::from(field.offset), 8, true));
        if self.lane.recorder().reaches_host() {
            let mut finds = Finds::before(self.lane, self.call);
            self.lane.recorder().watch.refer(address.into_iter(), &mut finds);
            self.deferred.extend(finds.into_records());
        }
    }

    /// A struct copy to a device address, which may be that of pinned memory.
    fn device_destination(&mut self, ty: &'static Type, descriptor: &[u8]) {
        let recorder = self.lane.recorder();
        let to = device_region(ty, descriptor, Side::Destination).filter(|to| recorder.shares(to.address, to.span()));
        match to {
            Some(to) if self.makes_node() => self.destination(Landing::Rows(to)),
            Some(to) => self.brought(Landing::Rows(to)),
            None => {}
        }
    }

    /// A copy brings this to memory that the device has, too: when it is done that is what the CPU finds there.
    fn brought(&self, landing: Landing) {
        if brings_at_once(self.function) {
            return self.filled_here(landing);
        }
        let fill = [(landing, Work::Fill, host::is_by_cpu(self.lane, self.function, self.words))].into_iter();
        host::under_way(self.lane, self.call, self.function, self.words, fill);
    }

    /// A copy or a fill that is done has brought this, if it is memory shared with the device. A graph's node has brought nothing.
    pub(crate) fn filled_here(&self, landing: Landing) {
        let recorder = self.lane.recorder();
        let is_done = matches!(self.function.class, Class::copy | Class::submit);
        if is_done && recorder.watch.any() && recorder.shares(landing.address(), landing.span()) {
            filled(self.lane, landing);
        }
    }

    /// The host side of a struct copy.
    pub(crate) fn rows(&mut self, ty: &'static Type, container: u64, base: u32, side: Side) {
        let recorder = self.lane.recorder();
        let Some(descriptor) = bytes_at(container + u64::from(base), ty.size as usize, self.careful()) else { return };
        let descriptor = descriptor.into_owned();
        let element = |array: trace::api::types::CUarray| ask::array_element(array.0 as u64);
        let Some(region) = region(ty, &descriptor, side, element) else {
            match side {
                Side::Source if self.moment == Moment::Entry && self.function.class == Class::submit => {
                    let from = device_region(ty, &descriptor, side);
                    let from = from.filter(|from| recorder.pinned.holds(from.address, from.span()));
                    let from = from.map(Landing::Rows);
                    host::reads(self.lane, self.call, self.function, self.words, from.into_iter());
                }
                Side::Source if self.moment == Moment::Success => self.device_source(ty, container + u64::from(base)),
                Side::Destination if self.moment == Moment::Success => self.device_destination(ty, &descriptor),
                _ => {}
            }
            return;
        };
        if recorder.data == Data::None || region.bytes() == 0 {
            return;
        }
        match side {
            Side::Destination if self.moment == Moment::Success && self.function.class != Class::graph => {
                self.sink(Landing::Rows(region), ty.name.contains("BATCH"));
            }
            Side::Destination if self.moment == Moment::Success => self.destination(Landing::Rows(region)),
            Side::Destination => {}
            Side::Source => {
                let pinned = recorder.pinned.holds(region.address, region.span());
                let now = match self.moment {
                    Moment::Entry => pinned,
                    Moment::Success => !pinned,
                    Moment::Failure => false,
                };
                if self.moment == Moment::Success && self.makes_node() {
                    self.watch_source(region.address, region.span());
                }
                if !now {
                    return;
                }
                match if pinned { Place::Pinned } else { ask::place(region.address) } {
                    Place::Device => return,
                    Place::Managed => return self.watch_source(region.address, region.span()),
                    Place::Pinned if self.pinned_source(Landing::Rows(region)) => return,
                    Place::Pageable | Place::Pinned => {}
                }
                match packed_rows(&region, self.careful()) {
                    Some(packed) if packed.len() <= u32::MAX as usize => {
                        self.payload(region.address, &packed, record::ROWS);
                    }
                    _ => self.lost(region.address, 0, "copy sources that could not be read"),
                }
            }
        }
    }
}
