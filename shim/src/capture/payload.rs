//! The bytes of copies: to the device when the driver takes them, from the device when the call returns, or
//! later (`completed.rs`).

use crate::capture::completed::{Writer, arrived, filled, in_pieces, packed_rows};
use crate::capture::pointers::{Capture, Container, MOST_FOLLOWED, Moment};
use crate::driver::queries::{self, Place};
use crate::driver::queue::Queue;
use crate::in_flight::host_functions;
use crate::in_flight::landing_range::Landing;
use crate::in_flight::pending::{Copy, Pending, Work};
use crate::os::intervals::without;
use crate::os::probe::{bytes_at, word_at};
use crate::submission::copy_endpoints::Ends;
use crate::submission::nodes::is_hosts;
use crate::submission::observation::give_up;
use crate::submission::target_stream;
use crate::trace_file::pieces::{self, Lost, Memory};
use trace::api::copies::{Region, device_region, region};
use trace::api::roles::{Class, Field, Role, Sibling, Side};
use trace::api::types::{Form, Type};
use trace::api::walk::View;
use trace::file::preamble::Data;
use trace::file::record;

impl Capture<'_> {
    /// Arrays of unified addresses: the array itself is an input, and what lies at each may be the host's.
    pub(crate) fn each(&mut self, fields: &'static [Field], index: usize, base: u32, view: &Container) {
        let (Role::ReadsEach { count, sizes } | Role::WritesEach { count, sizes }) = fields[index].role else { return };
        let load = |field: &Field| view.load(base + field.offset, field.ty.size.min(8));
        let sibling = |which: Sibling| load(&fields[which.0 as usize]);
        let (Some(array @ 1..), Some(count), Some(sizes @ 1..)) =
            (load(&fields[index]), sibling(count), sibling(sizes))
        else {
            return;
        };
        let len = count.saturating_mul(8);
        if self.is_doubtful(len) {
            return self.lose_doubtful(array);
        }
        if self.takes_inputs() {
            self.attach(array, len, true);
        }
        let words = |at| bytes_at(self.early.place_of(at, len), len as usize, self.careful());
        let Some((addresses, sizes)) = words(array).zip(words(sizes)) else { return };
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
        for (address, bytes) in addresses.chunks_exact(8).zip(sizes.chunks_exact(8)) {
            self.unified(word(address), word(bytes), matches!(fields[index].role, Role::WritesEach { .. }), true);
        }
    }

    /// One end of a copy, which is recorded if it is host memory.
    ///
    /// `batch`: the copy is one of a batch, which returns before the bytes are there whatever memory they go
    /// to (seen on driver 580; a single copy to pageable memory waits for them).
    pub(crate) fn unified(&mut self, address: u64, bytes: u64, written: bool, batch: bool) {
        // Managed memory is the device's here: replay has it there, and what it holds came by recorded work.
        let pinned = self.lane.recorder().around.pinned.holds(address, bytes);
        if !pinned && self.moment == Moment::Success {
            match queries::place(address) {
                Place::Managed if written => return self.expect_copy(Landing::Flat { address, len: bytes }),
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
        if recorder.around.data == Data::None || bytes == 0 {
            return;
        }
        let pinned = recorder.around.pinned.holds(address, bytes);
        if moment == Moment::Success && self.makes_node() {
            self.watch_source(address, bytes);
        }
        match moment {
            Moment::Entry if pinned => match self.pinned_source(Landing::Flat { address, len: bytes }) {
                false => self.carried(address, bytes),
                true if bytes <= MOST_FOLLOWED as u64 => {
                    bytes_at(address, bytes as usize, true).iter().for_each(|bytes| self.follow(bytes, false));
                }
                true => {}
            },
            Moment::Entry if self.may_be_filled_late(address) => self.early.source(address, bytes),
            Moment::Success if !pinned => match queries::place(address) {
                // The driver takes device addresses here too; then nothing is the CPU's to read, and nothing
                // is lost. Managed memory was looked at before the call.
                Place::Device | Place::Managed => {}
                Place::Pageable | Place::Pinned => {
                    self.works_on_host();
                    self.carried(address, bytes);
                    self.lose_changed(address, bytes);
                }
            },
            Moment::Success => self.works_on_host(),
            _ => {}
        }
    }

    /// Whether callbacks under way may write what an asynchronous copy reads: of pageable memory the driver may
    /// have taken a part before, and the rest, for which it waits, behind them. Managed memory would migrate
    /// to be read here.
    fn may_be_filled_late(&self, address: u64) -> bool {
        self.function.class == Class::submit
            && may_call_back(&self.lane.recorder().around.pending)
            && !self.makes_node()
            && !matches!(queries::place(address), Place::Device | Place::Managed)
    }

    /// What was recorded of a source is what it holds now.
    fn lose_changed(&mut self, address: u64, len: u64) {
        if self.early.has_changed(address, len) {
            let what = "copy sources in pageable memory that a callback wrote during the call";
            let count = self.lane.recorder().around.lose(what);
            self.deferred.push(record::with_body(record::LOSS, &record::Loss { what: what.into(), count }));
        }
    }

    /// The bytes that a copy takes from the host, by content in pieces.
    fn carried(&mut self, address: u64, len: u64) {
        if len <= record::PIECE as u64 {
            return self.attach(address, len, false);
        }
        let memory = match self.is_sure(address, len).then(|| bytes_at(address, len as usize, false)).flatten() {
            Some(bytes) => Memory::Sure(bytes),
            None => Memory::Doubtful { address, len },
        };
        let stored = pieces::stored(&self.lane.recorder().around, address, memory);
        for (at, stored) in (address..address + len).step_by(record::PIECE).zip(stored) {
            let left = address + len - at;
            let what = match stored {
                Ok(hash) => {
                    self.draft.attach(record::BLOB, at, left.min(record::PIECE as u64) as u32, &hash.to_bytes());
                    continue;
                }
                Err(Lost::Unreadable) => "memory that could not be read",
                Err(Lost::NoRoom) => "payloads not stored for lack of space",
            };
            // Nor is it told what lies behind it.
            return self.lost(at, left.min(u32::MAX.into()) as u32, what);
        }
    }

    /// Whether the driver has just read this, which it has not if it is for a node, or has given it.
    pub(crate) fn is_sure(&self, address: u64, len: u64) -> bool {
        !self.careful() && !self.makes_node() || self.lane.recorder().around.pinned.holds_driver_memory(address, len)
    }

    /// What the CPU has put there so far. What copies and callbacks under way will have put there by the time
    /// this copy reads it, they bring in a replay, too. False: nothing is under way, and all of it can be
    /// recorded with the call.
    fn pinned_source(&mut self, from: Landing) -> bool {
        let recorder = self.lane.recorder();
        let (address, span) = (from.address(), from.span());
        if self.function.class == Class::submit {
            target_stream::reads(self.lane, self.call, self.function, self.words, [from].into_iter());
        }
        let others_write = recorder.watch.is_shared(address);
        if recorder.watch.follows(address, span) && !others_write {
            return true;
        }
        let mut writes = self.lane.writes_before(self.call);
        let pending = &recorder.around.pending;
        let may_change = may_call_back(pending) || recorder.watch.is_short() && pending.has_launches();
        if may_change
            && !others_write
            && recorder.watch.has_room()
            && recorder.watch.watch_prepared(address, span, &mut writes)
        {
            self.deferred.extend(writes.into_records());
            return true;
        }
        let landing = recorder.around.pending.landing_in(address, span, self.lane.index());
        if landing.is_empty() {
            return false;
        }
        from.places().into_iter().flat_map(|place| without(place, &landing)).for_each(|range| writes.take(range));
        self.deferred.extend(writes.into_records());
        true
    }

    /// Asked once: a batch brings many.
    fn is_by_cpu(&self) -> bool {
        *self.by_cpu.get_or_init(|| self.ends().is_by_cpu())
    }

    fn ends(&self) -> Ends<'_> {
        Ends::find(self.lane, self.function, self.words, |address, len| self.early.place_of(address, len))
    }

    /// Whether the call puts its copy into a graph, which makes it when it runs.
    pub(crate) fn makes_node(&self) -> bool {
        let is_captured = || target_stream::makes_node(self.function, self.words);
        *self.makes_node.get_or_init(|| self.function.class == Class::graph || is_captured())
    }

    /// A graph reads this memory each time it runs.
    fn watch_source(&mut self, address: u64, bytes: u64) {
        let place = queries::place(address);
        if place != Place::Device {
            let mut writes = self.lane.writes_before(self.call);
            let watch = &self.lane.recorder().watch;
            watch.watch(address, bytes, place == Place::Managed, &mut writes);
            if !watch.tells(address, bytes) {
                writes.untold(address, bytes as usize);
            }
            self.deferred.extend(writes.into_records());
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
        if self.lane.recorder().around.pinned.holds(region.address, region.span()) {
            self.watch_source(region.address, region.span());
        }
        let executable = self.function.param("hGraphExec").map(|at| self.function.params[at].offset as usize / 8);
        let from_host = self.ends().reads_host();
        let recorder = self.lane.recorder();
        if is_hosts(region.address) {
            let shares = |at, len| recorder.shares(at, len);
            recorder.destinations.add(executable.map(|at| self.words[at]), &region, from_host, shares);
        }
    }

    /// Result: at once if the bytes are there when the call returns, else when a synchronisation covers the
    /// copy.
    pub(crate) fn sink(&mut self, landing: Landing, batch: bool) {
        /// What one attachment can stand for; longer results are recorded in pieces of this size.
        const MOST: u64 = 1 << 30;
        let recorder = self.lane.recorder();
        let (address, len, rows) = match landing {
            Landing::Flat { address, len } => (address, len, 0),
            Landing::Rows(region) => (region.address, region.bytes(), record::ROWS),
        };
        if recorder.around.data == Data::None || len == 0 {
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
        if stream.is_some_and(|stream| queries::is_capturing(stream, per_thread)) {
            // Nothing was copied: the copy became a node. What it will bring is looked at when its graph has
            // run.
            return self.destination(landing);
        }
        let place =
            if recorder.around.pinned.holds(address, landing.span()) { Place::Pinned } else { queries::place(address) };
        match place {
            Place::Device => return,
            // What the CPU makes of managed memory is seen when it has touched it.
            Place::Managed => return self.expect_copy(landing),
            Place::Pageable | Place::Pinned => {}
        }
        let later = self.function.class == Class::submit && (batch || place == Place::Pinned);
        if later && let Some(stream) = stream {
            let (thread, context) = (self.lane.index(), queries::current_context());
            let queue = Queue::resolve(stream, per_thread, thread, || context);
            let mut copy = Copy::new(landing, context, queries::is_blocking(stream), thread, self.call);
            copy.by_cpu = place == Place::Pinned && self.is_by_cpu();
            for piece in in_pieces(landing) {
                self.draft.attach(record::PENDING | rows, piece.address(), piece.bytes() as u32, &[]);
            }
            let given_up = recorder.around.pending.add(queue, copy);
            self.deferred.extend(given_up.iter().filter_map(give_up));
            return;
        }
        self.has_waited.set(true);
        let Some(found) = arrived(self.lane, landing, Writer::Call) else {
            return self.lost(address, len as u32, "copied results that could not be read");
        };
        for (piece, (form, hash)) in in_pieces(landing).into_iter().zip(found) {
            self.draft.attach(form | rows, piece.address(), piece.bytes() as u32, &hash.to_bytes());
        }
    }

    /// A node that copies from a device address, which may be that of pinned memory.
    fn device_source(&mut self, ty: &'static Type, descriptor: u64) {
        let Form::Struct(fields) = ty.form else { return };
        let field = fields.iter().find(|field| field.name == "srcDevice");
        let address = field.and_then(|field| word_at(descriptor + u64::from(field.offset), 8, true));
        if self.lane.recorder().reaches_host() {
            let mut writes = self.lane.writes_before(self.call);
            self.lane.recorder().watch.refer(address.into_iter(), &mut writes);
            self.deferred.extend(writes.into_records());
        }
    }

    /// A struct copy to a device address, which may be that of pinned memory.
    fn device_destination(&mut self, ty: &'static Type, descriptor: &[u8]) {
        let recorder = self.lane.recorder();
        let to = device_region(ty, descriptor, Side::Destination).filter(|to| recorder.shares(to.address, to.span()));
        match to {
            Some(to) if self.makes_node() => self.destination(Landing::Rows(to)),
            Some(to) => self.expect_copy(Landing::Rows(to)),
            None => {}
        }
    }

    /// Copies and fills without a stream return when they are done if either end is memory of the host, and
    /// they begin when all blocking streams are done (seen on driver 580: tests/gpu/facts/legacy_waits.c).
    fn works_on_host(&self) {
        if self.function.brings_at_once() && self.function.class != Class::graph {
            self.has_waited.set(true);
        }
    }

    /// A copy brings this to memory that the device has, too: when it is done that is what the CPU finds
    /// there.
    fn expect_copy(&self, landing: Landing) {
        if self.function.brings_at_once() {
            return self.filled_here(landing);
        }
        let fill = [(landing, Work::Fill, self.is_by_cpu())].into_iter();
        target_stream::under_way(self.lane, self.call, self.function, self.words, fill);
    }

    /// A copy or a fill that is done has brought this, if it is memory shared with the device. A graph's node
    /// has brought nothing.
    pub(crate) fn filled_here(&self, landing: Landing) {
        let recorder = self.lane.recorder();
        let is_done = matches!(self.function.class, Class::copy | Class::submit);
        if is_done && recorder.shares(landing.address(), landing.span()) {
            self.works_on_host();
            filled(self.lane, landing);
        }
    }

    /// The host side of a struct copy.
    pub(crate) fn rows(&mut self, ty: &'static Type, container: u64, base: u32, side: Side) {
        let recorder = self.lane.recorder();
        let Some(descriptor) = bytes_at(container + u64::from(base), ty.size as usize, self.careful()) else { return };
        let descriptor = descriptor.into_owned();
        let element = |array: trace::api::types::CUarray| queries::array_element(array.0 as u64);
        let Some(region) = region(ty, &descriptor, side, element) else {
            match side {
                Side::Source if self.moment == Moment::Entry && self.function.class == Class::submit => {
                    let from = device_region(ty, &descriptor, side);
                    let from = from.filter(|from| recorder.around.pinned.holds(from.address, from.span()));
                    let from = from.map(Landing::Rows);
                    target_stream::reads(self.lane, self.call, self.function, self.words, from.into_iter());
                }
                Side::Source if self.moment == Moment::Success && self.function.class == Class::graph => {
                    self.device_source(ty, container + u64::from(base));
                }
                Side::Destination if self.moment == Moment::Success => self.device_destination(ty, &descriptor),
                _ => {}
            }
            return;
        };
        if recorder.around.data == Data::None || region.bytes() == 0 {
            return;
        }
        match side {
            Side::Destination if self.moment == Moment::Success && self.function.class != Class::graph => {
                self.sink(Landing::Rows(region), ty.name.contains("BATCH"));
            }
            Side::Destination if self.moment == Moment::Success => self.destination(Landing::Rows(region)),
            Side::Destination => {}
            Side::Source => {
                let pinned = recorder.around.pinned.holds(region.address, region.span());
                if self.moment == Moment::Entry && !pinned && self.may_be_filled_late(region.address) {
                    self.early.source(region.address, region.span());
                }
                let now = match self.moment {
                    Moment::Entry => pinned,
                    Moment::Success => !pinned,
                    Moment::Failure => false,
                };
                if self.moment == Moment::Success && self.makes_node() {
                    self.watch_source(region.address, region.span());
                }
                if self.moment == Moment::Success {
                    self.works_on_host();
                }
                if !now {
                    return;
                }
                match if pinned { Place::Pinned } else { queries::place(region.address) } {
                    Place::Device => return,
                    Place::Managed => return self.watch_source(region.address, region.span()),
                    Place::Pinned if self.pinned_source(Landing::Rows(region)) => return,
                    Place::Pageable | Place::Pinned => {}
                }
                self.attach_rows(&region);
                self.lose_changed(region.address, region.span());
            }
        }
    }

    /// The rows of a copy's source, packed; those of a long one in pieces.
    fn attach_rows(&mut self, region: &Region) {
        if region.is_dense() && region.bytes() > record::PIECE as u64 {
            return self.carried(region.address, region.bytes());
        }
        let careful = self.careful() || self.makes_node();
        for piece in region.in_pieces(record::PIECE as u64) {
            match packed_rows(&piece, |row, len| bytes_at(row, len as usize, careful)) {
                Some(packed) => self.payload(piece.address, &packed, record::ROWS, false),
                None => return self.lost(piece.address, 0, "copy sources that could not be read"),
            }
        }
    }
}

/// Whether callbacks are under way, or graphs that may run some.
fn may_call_back(pending: &Pending) -> bool {
    host_functions::any_under_way() || host_functions::any_of_nodes() && pending.has_graphs()
}
