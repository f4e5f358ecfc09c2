//! The bytes that copies carry: to the device when the driver takes them, from the device when the application may look.

use crate::capture::{Capture, Live, Moment};
use crate::lane::Lane;
use crate::manners::guarded;
use crate::memory::bytes_at;
use crate::pending::{Copy, Covered, Landing, Queue};
use crate::{clock, hooks};
use trace::Function;
use trace::api::copies::{Region, region};
use trace::api::roles::{Class, Field, Role, Sibling, Side};
use trace::api::types::Type;
use trace::hash::{Hash, Hasher};
use trace::preamble::Data;
use trace::record;
use trace::walk::View;

/// A synchronisation or a poll has succeeded: what it covered can be seen by the application now.
#[inline(always)]
pub fn waited(lane: &Lane, function: &'static Function, words: &[u64]) {
    if lane.recorder().pending.any() {
        guarded(|| observe(lane, function, words));
    }
}

#[cold]
fn observe(lane: &Lane, function: &'static Function, words: &[u64]) {
    let per_thread = function.twin_of.is_some();
    let stream = || Queue::of(words[0], per_thread, lane.index());
    let covered = match function.twin_of.unwrap_or(function.name) {
        "cuStreamSynchronize" | "cuStreamQuery" => Covered::Stream(stream()),
        "cuEventSynchronize" | "cuEventQuery" => Covered::Event(words[0]),
        "cuCtxSynchronize" => Covered::Context(hooks::current_context()),
        "cuCtxSynchronize_v2" => Covered::Context(words[0]),
        // A copy to the host that waits is work on the legacy stream, or on the thread's own.
        _ if function.params.iter().any(|p| matches!(p.role, Role::Sink(_))) => {
            match Queue::of(0, per_thread, lane.index()) {
                queue if queue.is_legacy() => Covered::Legacy(hooks::current_context()),
                queue => Covered::Stream(queue),
            }
        }
        _ => return,
    };
    for copy in lane.recorder().pending.finished(covered) {
        let found = landed(lane, copy.landing, false);
        observed(lane, &copy, found);
    }
}

/// Writes down what a copy brought; nothing, if it can no longer be known.
pub fn observed(lane: &Lane, copy: &Copy, found: Option<(u8, Hash)>) {
    let (address, len) = match copy.landing {
        Landing::Flat { address, len } => (address, len),
        Landing::Rows(region) => (region.address, region.bytes()),
    };
    let (form, hash) = found.map_or((record::LOST, [0; 16]), |(form, hash)| (form, hash.to_bytes()));
    let Copy { thread, call, late, .. } = *copy;
    let body = record::Observed { time: clock::exit(), thread, call, address, len, hash, form, late };
    lane.append(&record::with_body(record::OBSERVED, &body));
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
            let bytes = bytes_at(address, len as usize, careful)?;
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
                hasher.update(&bytes_at(row, region.row_bytes as usize, careful)?);
            }
            Some((record::HASH, hasher.finish()))
        }
    }
}

fn packed_rows(region: &Region, careful: bool) -> Option<Vec<u8>> {
    let mut packed = Vec::with_capacity(region.bytes() as usize);
    for row in region.row_addresses() {
        packed.extend_from_slice(&bytes_at(row, region.row_bytes as usize, careful)?);
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
        for i in 0..count.min(1 << 16) {
            let (Some(address), Some(bytes)) = (view.at(array + i * 8, 8), view.at(sizes + i * 8, 8)) else { return };
            self.unified(address, bytes, matches!(fields[index].role, Role::WritesEach { .. }), true);
        }
    }

    /// One end of a copy, which is recorded if it is host memory.
    ///
    /// `batch`: the copy is one of a batch, which returns before the bytes are there whatever memory they go to (seen on driver
    /// 580; a single copy to pageable memory waits for them).
    pub(crate) fn unified(&mut self, address: u64, bytes: u64, written: bool, batch: bool) {
        let now = self.moment == Moment::Success || self.lane.recorder().pinned.holds(address, bytes);
        if self.moment == Moment::Failure || bytes == 0 || !now || !hooks::is_host_memory(address) {
            return;
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
        match moment {
            Moment::Entry if pinned => self.attach(address, bytes, false),
            Moment::Success if !pinned => self.attach(address, bytes, false),
            _ => {}
        }
    }

    /// Result: at once if the bytes are there when the call returns, else when a synchronisation covers the copy.
    pub(crate) fn sink(&mut self, landing: Landing, batch: bool) {
        let recorder = self.lane.recorder();
        let (address, len, span, rows) = match landing {
            Landing::Flat { address, len } => (address, len, len, 0),
            Landing::Rows(region) => (region.address, region.bytes(), region.span(), record::ROWS),
        };
        if recorder.data == Data::None || len == 0 {
            return;
        }
        let short = len.min(u32::MAX.into()) as u32;
        let stream = self.function.param("hStream").map(|at| self.words[self.function.params[at].offset as usize / 8]);
        if let Some(stream) = stream
            && hooks::is_capturing(stream)
        {
            // Nothing was copied: the copy became a node.
            return;
        }
        let later = self.function.class == Class::submit && (batch || recorder.pinned.holds(address, span));
        if later && let Some(stream) = stream {
            let queue = Queue::of(stream, self.function.twin_of.is_some(), self.lane.index());
            let blocking = hooks::is_blocking(stream);
            recorder.pending.add(landing, hooks::current_context(), queue, blocking, self.lane.index(), self.call);
            self.draft.attach(record::PENDING | rows, address, short, &[]);
            return;
        }
        match landed(self.lane, landing, true) {
            Some((form, hash)) => self.draft.attach(form | rows, address, short, &hash.to_bytes()),
            None => self.lost(address, short, "copied results that could not be read"),
        }
    }

    /// The host side of a struct copy.
    pub(crate) fn rows(&mut self, ty: &'static Type, container: u64, base: u32, side: Side) {
        let recorder = self.lane.recorder();
        let Some(descriptor) = bytes_at(container + u64::from(base), ty.size as usize, self.careful()) else { return };
        let descriptor = descriptor.into_owned();
        let element = |array: trace::api::types::CUarray| hooks::array_element(array.0 as u64);
        let Some(region) = region(ty, &descriptor, side, element) else { return };
        if recorder.data == Data::None || region.bytes() == 0 {
            return;
        }
        match side {
            Side::Destination if self.moment == Moment::Success && self.function.class != Class::graph => {
                self.sink(Landing::Rows(region), ty.name.contains("BATCH"));
            }
            Side::Destination => {}
            Side::Source => {
                let pinned = recorder.pinned.holds(region.address, region.span());
                let now = match self.moment {
                    Moment::Entry => pinned,
                    Moment::Success => !pinned,
                    Moment::Failure => false,
                };
                if !now {
                    return;
                }
                // A unified address may be a device's: then nothing of it can be read here, and nothing is lost.
                if !hooks::is_host_memory(region.address) {
                    return;
                }
                match packed_rows(&region, true) {
                    Some(packed) => self.payload(region.address, &packed, record::ROWS),
                    None => self.lost(region.address, 0, "copy sources that could not be read"),
                }
            }
        }
    }
}
