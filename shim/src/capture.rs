//! The recording halves that need more than words: memory behind pointers, walked by the table's roles.
//!
//! Inputs are read after the driver has returned success, so that a bad pointer is the driver's error and never our fault;
//! after a failure, and wherever memory may be gone, they are read by system calls that fail instead of faulting. Read
//! before the call are only: kernel arguments, payloads in pinned memory, and what the call will overwrite.

use crate::image::{self, Pieces};
use crate::lane::{Draft, Lane};
use crate::memory::{bytes_at, word_at};
use crate::pending::{Covered, Landing};
use crate::{clock, hooks, start};
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use trace::Function;
use trace::api::copies::{Region, region};
use trace::api::roles::{Class, Field, Role, Side};
use trace::api::types::{Form, Type};
use trace::hash::{Hash, Hasher};
use trace::preamble::Data;
use trace::record::{self, ENTRY_SIZE, Entry, Head, RETURN_SIZE, Return};
use trace::walk::{Direction, Target, View, has_structure, member, resolve};

/// JIT option codes whose value is a buffer that the driver fills; the code after each is the buffer's size.
const LOG_BUFFERS: [u32; 2] = [3, 5];

/// A container in the application's memory.
struct Live {
    base: u64,
    careful: bool,
}

impl View for Live {
    fn load(&self, offset: u32, size: u32) -> Option<u64> {
        word_at(self.base + u64::from(offset), size, self.careful)
    }

    fn at(&self, address: u64, size: u32) -> Option<u64> {
        word_at(address, size, self.careful)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Moment {
    Entry,
    Success,
    Failure,
}

struct Capture<'a> {
    lane: &'a Lane,
    draft: Draft<'a>,
    function: &'static Function,
    words: &'a [u64],
    moment: Moment,
    /// Records that have to stand outside the one being written.
    deferred: Vec<Vec<u8>>,
    /// The call's number on its thread.
    call: u32,
    /// Inside a structure that is attached at the other moment: look for nested memory only.
    passing: bool,
}

pub fn entry(lane: &Lane, function: &'static Function, id: u16, flags: u8, words: &[u64]) {
    guarded(|| {
        let mut capture = Capture::new(lane, function, words, ENTRY_SIZE, Moment::Entry, lane.sequence());
        words.iter().for_each(|word| capture.draft.value(word));
        capture.fields(function.params, None, words.as_ptr() as u64, 0);
        let Capture { draft, deferred, .. } = capture;
        draft.finish(|size| Entry {
            head: Head { size, kind: record::ENTRY, flags, function: id },
            begin: clock::entry(),
        });
        deferred.iter().for_each(|record| lane.append(record));
    });
}

#[cold]
#[inline(never)]
pub fn leave(lane: &Lane, function: &'static Function, id: u16, words: &[u64], call: u32, result: u32, end: u64) {
    guarded(|| {
        let moment = if result == 0 { Moment::Success } else { Moment::Failure };
        let mut capture = Capture::new(lane, function, words, RETURN_SIZE, moment, call);
        capture.fields(function.params, None, words.as_ptr() as u64, 0);
        let Capture { draft, deferred, .. } = capture;
        let head = |size| Head { size, kind: record::RETURN, flags: 0, function: id };
        draft.finish(|size| Return { head: head(size), end, call, result });
        deferred.iter().for_each(|record| lane.append(record));
    });
}

/// A synchronisation or a poll has succeeded: what it covered can be seen by the application now.
#[inline(always)]
pub fn waited(lane: &Lane, function: &'static Function, words: &[u64]) {
    if lane.recorder().pending.any() {
        guarded(|| observe(lane, function, words));
    }
}

#[cold]
fn observe(lane: &Lane, function: &'static Function, words: &[u64]) {
    let covered = match function.twin_of.unwrap_or(function.name) {
        "cuStreamSynchronize" | "cuStreamQuery" => Covered::Stream(words[0]),
        "cuEventSynchronize" | "cuEventQuery" => Covered::Event(words[0]),
        "cuCtxSynchronize" | "cuCtxSynchronize_v2" => Covered::Context(hooks::current_context()),
        _ => return,
    };
    for copy in lane.recorder().pending.finished(covered) {
        let (address, len) = match copy.landing {
            Landing::Flat { address, len } => (address, len),
            Landing::Rows(region) => (region.address, region.bytes()),
        };
        let (form, hash) = match landed(lane, copy.landing, false) {
            Some((form, hash)) => (form, hash.to_bytes()),
            None => (record::LOST, [0; 16]),
        };
        lane.append(&record::with_body(
            record::OBSERVED,
            &record::Observed {
                time: clock::exit(),
                thread: copy.thread,
                call: copy.call,
                address,
                len,
                hash,
                form,
                late: false,
            },
        ));
    }
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

/// A fault of ours must not become the program's.
fn guarded(work: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        start::off("an internal error");
    }
}

impl<'a> Capture<'a> {
    fn new(
        lane: &'a Lane,
        function: &'static Function,
        words: &'a [u64],
        head: usize,
        moment: Moment,
        call: u32,
    ) -> Capture<'a> {
        let draft = Draft::new(lane, head);
        Capture { lane, draft, function, words, moment, deferred: Vec::new(), call, passing: false }
    }

    fn careful(&self) -> bool {
        self.moment != Moment::Success
    }

    /// The parameters, or the fields of the struct `around`, at `base` in the container.
    fn fields(&mut self, fields: &'static [Field], around: Option<&'static Type>, container: u64, base: u32) {
        // At entry the words themselves can always be read.
        let own = container == self.words.as_ptr() as u64;
        let view = Live { base: container, careful: !own && self.careful() };
        for (index, field) in fields.iter().enumerate() {
            let at = base + field.offset;
            match (field.role, field.ty.form) {
                (Role::Union(..), _) => {
                    if let Some(ty) = member(fields, index, base, &view) {
                        self.inside(ty, container, at);
                    }
                }
                (Role::ReadsEach { .. } | Role::WritesEach { .. }, _) => self.each(fields, index, base, &view),
                (Role::CopyHost(side), form) => {
                    if let Some(ty) = around {
                        self.rows(ty, container, base, side);
                    }
                    if let Form::Struct(_) = form {
                        self.inside(field.ty, container, at);
                    }
                }
                (_, Form::Pointer(_)) => self.pointer(fields, index, base, &view),
                (_, Form::Struct(_) | Form::Array(..)) => self.inside(field.ty, container, at),
                _ => {}
            }
        }
    }

    /// Something by value that may hold pointers.
    fn inside(&mut self, ty: &'static Type, container: u64, at: u32) {
        match ty.form {
            Form::Struct(inner) => self.fields(inner, Some(ty), container, at),
            Form::Array(element, count) if has_structure(element) => {
                (0..count).for_each(|i| self.inside(element, container, at + i * element.size));
            }
            _ => {}
        }
    }

    /// Arrays of device addresses: the array itself is an input.
    fn each(&mut self, fields: &'static [Field], index: usize, base: u32, view: &Live) {
        let (Role::ReadsEach { count, .. } | Role::WritesEach { count, .. }) = fields[index].role else { return };
        let counted = &fields[count.0 as usize];
        let (address, count) =
            (view.load(base + fields[index].offset, 8), view.load(base + counted.offset, counted.ty.size.min(8)));
        if let (Some(address), Some(count)) = (address, count)
            && self.moment != Moment::Entry
            && address != 0
        {
            self.attach(address, count.saturating_mul(8), true);
        }
    }

    fn pointer(&mut self, fields: &'static [Field], index: usize, base: u32, view: &Live) {
        let after = self.moment != Moment::Entry && !self.passing;
        let succeeded = self.moment == Moment::Success;
        match resolve(fields, index, base, view) {
            Target::Nothing => {}
            Target::Span { address, element, count, direction } => {
                self.span(address, element, count, direction);
            }
            Target::Text { address, out: false, .. } if after => self.text(address, u64::MAX),
            Target::Text { address, limit, out: true } if succeeded => self.text(address, limit),
            Target::Path { address } if after => self.path(address),
            Target::TextOut { address } if succeeded => {
                self.attach(address, 8, true);
                if let Some(text @ 1..) = word_at(address, 8, false) {
                    self.text(text, u64::MAX);
                }
            }
            Target::Owned { address, element, count } if succeeded => {
                self.attach(address, 8, true);
                if let Some(array @ 1..) = word_at(address, 8, false) {
                    self.attach(array, count.saturating_mul(element.size.into()), true);
                }
            }
            Target::HostAlloc { address, bytes } if succeeded => {
                self.attach(address, 8, true);
                if let Some(start) = word_at(address, 8, false) {
                    self.lane.recorder().pinned.add(start, bytes);
                }
            }
            Target::Image { address, size } if after => self.image(address, size),
            Target::Arguments { address, function } if self.moment == Moment::Entry => {
                self.arguments(address, function)
            }
            Target::Extra { address } if self.moment == Moment::Entry => self.extra(address),
            Target::Options { address, codes, count } if after => self.options(address, codes, count),
            Target::Attributes { address, codes, count, types } if succeeded => {
                self.attach(address, count.saturating_mul(8), true);
                for i in 0..count.min(4096) {
                    let code = word_at(codes + i * 4, 4, false);
                    let value = word_at(address + i * 8, 8, false);
                    if let (Some(code), Some(value @ 1..)) = (code, value)
                        && let Some(ty) = trace::walk::select(types, code)
                    {
                        self.attach(value, ty.size.into(), true);
                    }
                }
            }
            _ => {}
        }
    }

    fn span(&mut self, address: u64, element: &'static Type, count: u64, direction: Direction) {
        let bytes = count.saturating_mul(element.size.into());
        let attach = match (direction, self.moment) {
            (Direction::Source, moment) => return self.source(address, bytes, moment),
            (Direction::Sink, Moment::Success) => return self.sink(Landing::Flat { address, len: bytes }),
            (Direction::Sink, _) => return,
            (Direction::In, Moment::Entry) => false,
            (Direction::In | Direction::InOut, _) => true,
            (_, moment) => moment == Moment::Success,
        };
        if attach && !self.passing {
            self.attach(address, bytes, true);
        }
        let deeper = has_structure(element) && matches!(direction, Direction::In | Direction::InOut);
        if deeper && let Form::Struct(fields) = element.form {
            let outer = self.passing;
            self.passing |= !attach;
            for i in 0..count.min(1 << 20) {
                self.fields(fields, Some(element), address + i * u64::from(element.size), 0);
            }
            self.passing = outer;
        }
    }

    /// Payload: at entry from memory known to be pinned, else once the driver has taken it.
    fn source(&mut self, address: u64, bytes: u64, moment: Moment) {
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
    fn sink(&mut self, landing: Landing) {
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
        let later = self.function.class == Class::submit && recorder.pinned.holds(address, span);
        if later && let Some(stream) = stream {
            let context = hooks::current_context();
            recorder.pending.add(landing, context, stream, self.lane.index(), self.call);
            self.draft.attach(record::PENDING | rows, address, short, &[]);
            return;
        }
        match landed(self.lane, landing, true) {
            Some((form, hash)) => self.draft.attach(form | rows, address, short, &hash.to_bytes()),
            None => self.lost(address, short, "copied results that could not be read"),
        }
    }

    /// The host side of a struct copy.
    fn rows(&mut self, ty: &'static Type, container: u64, base: u32, side: Side) {
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
                self.sink(Landing::Rows(region));
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
                let unified = hooks::is_device_memory(region.address);
                if unified {
                    return;
                }
                match packed_rows(&region, true) {
                    Some(packed) => self.payload(region.address, &packed, record::ROWS),
                    None => self.lost(region.address, 0, "copy sources that could not be read"),
                }
            }
        }
    }

    fn text(&mut self, address: u64, limit: u64) {
        let mut text = Vec::new();
        while (text.len() as u64) < limit && text.len() < 16 << 20 {
            let at = address + text.len() as u64;
            let step = (4096 - at % 4096).min(limit - text.len() as u64);
            let Some(bytes) = bytes_at(at, step as usize, true) else {
                return self.lost(address, 0, "unreadable strings");
            };
            match bytes.iter().position(|b| *b == 0) {
                Some(nul) => {
                    text.extend_from_slice(&bytes[..=nul]);
                    break;
                }
                None => text.extend_from_slice(&bytes),
            }
        }
        self.draft.attach(record::INLINE, address, text.len() as u32, &text);
    }

    /// The path, and at address 0 what the file held.
    fn path(&mut self, address: u64) {
        self.text(address, 1 << 16);
        let Some(bytes) = bytes_at(address, 1, true).and_then(|_| text_at(address)) else { return };
        use std::os::unix::ffi::OsStrExt;
        if let Ok(content) = std::fs::read(std::ffi::OsStr::from_bytes(&bytes)) {
            self.payload(0, &content, 0);
        }
    }

    fn image(&mut self, address: u64, size: Option<u64>) {
        // By system calls also after success: the end of a text is looked for beyond it, in memory that may be anybody's.
        let read = |at: u64, len: usize| bytes_at(at, len, true).map(Cow::into_owned);
        let pieces = match size {
            Some(size) => Pieces::Found(vec![(address, size as usize)]),
            None => image::pieces(address, &read),
        };
        match pieces {
            Pieces::Found(pieces) => pieces.into_iter().for_each(|(at, len)| self.attach(at, len as u64, false)),
            Pieces::Unknown(why) => self.lost(address, 0, why),
        }
    }

    fn arguments(&mut self, address: u64, function: u64) {
        let (layout, new) = self.lane.recorder().kernels.of(function);
        self.deferred.extend(new.map(|kernel| record::with_body(record::KERNEL, &kernel)));
        let Some(sizes) = &layout.sizes else {
            return self.lost(address, 0, "kernel arguments: this driver does not tell their sizes");
        };
        let total: usize = sizes.iter().map(|size| size.div_ceil(8) as usize * 8).sum();
        let len = (8 + total) as u32;
        let head = record::Attachment { form: record::ARGUMENTS, field: record::NESTED, zero: 0, len };
        self.draft.value(&head);
        self.draft.value(&address);
        self.draft.value(&(layout.id, sizes.len() as u32));
        for (i, size) in sizes.iter().enumerate() {
            // SAFETY: the launch that follows reads the same memory: as many pointers as the kernel has parameters, each to
            // as many bytes as the parameter takes.
            let bytes = unsafe {
                let argument = *(address as *const *const u8).add(i);
                std::slice::from_raw_parts(argument, *size as usize)
            };
            self.draft.bytes(bytes);
        }
    }

    /// Pairs of code and value up to code 0: 1 the argument buffer, 2 the address of its size.
    fn extra(&mut self, address: u64) {
        let (mut buffer, mut size, mut at) = (0, 0, address);
        for _ in 0..8 {
            let Some(code) = word_at(at, 8, true) else { break };
            if code == 0 {
                at += 8;
                break;
            }
            let Some(value) = word_at(at + 8, 8, true) else { break };
            match code {
                1 => buffer = value,
                2 => size = value,
                _ => {}
            }
            at += 16;
        }
        self.attach(address, at - address, true);
        if let Some(bytes) = word_at(size, 8, true) {
            self.attach(size, 8, true);
            self.attach(buffer, bytes.min(1 << 20), true);
        }
        let function = self.function.param("f").map(|f| self.words[self.function.params[f].offset as usize / 8]);
        if let Some(function) = function {
            let new = self.lane.recorder().kernels.of(function).1;
            self.deferred.extend(new.map(|kernel| record::with_body(record::KERNEL, &kernel)));
        }
    }

    fn options(&mut self, address: u64, codes: u64, count: u64) {
        let count = count.min(4096);
        self.attach(address, count * 8, true);
        for i in 0..count {
            let (Some(code), Some(value)) = (word_at(codes + i * 4, 4, true), word_at(address + i * 8, 8, true)) else {
                break;
            };
            if self.function.family == "module" && LOG_BUFFERS.contains(&(code as u32)) && value != 0 {
                let size = (0..count)
                    .find(|j| word_at(codes + j * 4, 4, true) == Some(code + 1))
                    .and_then(|j| word_at(address + j * 8, 8, true));
                // After the call the size says how much the driver wrote.
                self.text(value, size.unwrap_or(0).min(1 << 24));
            }
        }
    }

    /// Memory as it is; structures inline, payloads as blobs when they are long.
    fn attach(&mut self, address: u64, len: u64, small: bool) {
        if len == 0 || address == 0 {
            return;
        }
        // A failed call may have been given any length.
        let careful =
            self.careful() && !(self.moment == Moment::Entry && self.lane.recorder().pinned.holds(address, len));
        if (small || careful) && len > 64 << 20 {
            return self.lost(address, 0, "inputs of failed calls longer than 64 MiB");
        }
        let mut done = 0;
        while done < len {
            let step = (len - done).min(record::PIECE as u64);
            match bytes_at(address + done, step as usize, careful) {
                Some(bytes) => self.payload(address + done, &bytes, 0),
                None => self.lost(address + done, step as u32, "memory that could not be read"),
            }
            done += step;
        }
    }

    fn payload(&mut self, address: u64, bytes: &[u8], rows: u8) {
        let len = bytes.len() as u32;
        if bytes.len() <= record::INLINE_LIMIT {
            self.draft.attach(record::INLINE | rows, address, len, bytes);
        } else if let Some(hash) = self.lane.recorder().file.blob(bytes) {
            self.draft.attach(record::BLOB | rows, address, len, &hash.to_bytes());
        } else {
            self.lost(address, len, "payloads not stored for lack of space");
        }
    }

    fn lost(&mut self, address: u64, len: u32, what: &'static str) {
        self.draft.attach(record::LOST, address, len, &[]);
        let count = self.lane.recorder().lose(what);
        self.deferred.push(record::with_body(record::LOSS, &record::Loss { what: what.into(), count }));
    }
}

fn text_at(address: u64) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    for at in address..address + 65536 {
        match bytes_at(at, 1, true)?[0] {
            0 => return Some(text),
            byte => text.push(byte),
        }
    }
    None
}
