//! Recording of the memory behind pointers: a walk by the table's roles, for calls that need more than words.
//!
//! Inputs are read after the driver has returned success, so that a bad pointer is the driver's error and
//! never a fault of ours. After a failure, and where memory may be gone, they are read by system calls that
//! fail instead of faulting. Only payloads in pinned memory and memory that the call will overwrite
//! (`overlap.rs`) or may free (`driver_memory.rs`) are read before the call.

mod attach;

pub(crate) use attach::MOST_FOLLOWED;

use crate::driver::logs::Buffer;
use crate::in_flight::landing_range::Landing;
use crate::kernels::images::Piece;
use crate::os::clock;
use crate::os::guard::guarded;
use crate::os::probe::{drivers_text, string_at, text_at, word_at};
use crate::records::draft::Draft;
use crate::records::lane::Lane;
use crate::submission::overlap::Early;
use std::cell::{Cell, OnceCell};
use trace::Function;
use trace::api::roles::{Field, Role};
use trace::api::structs::CUmemHostAlloc_flags;
use trace::api::types::{Form, Type};
use trace::api::walk::{Direction, Target, View, has_structure, member, reach, resolve};
use trace::file::preamble::Data;
use trace::file::record::{self, ENTRY_SIZE, Entry, Head, RETURN_SIZE, Return};

/// A container in the application's memory.
pub(crate) struct Container {
    base: u64,
    /// The argument words, or a copy from before the call: they can always be read.
    is_own: bool,
    careful: bool,
}

impl View for Container {
    fn load(&self, offset: u32, size: u32) -> Option<u64> {
        word_at(self.base + u64::from(offset), size, self.careful && !self.is_own)
    }

    fn read_word(&self, address: u64, size: u32) -> Option<u64> {
        word_at(address, size, self.careful)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    Entry,
    Success,
    Failure,
}

pub(crate) struct Capture<'a> {
    pub(crate) lane: &'a Lane,
    pub(crate) draft: Draft<'a>,
    pub(crate) function: &'static Function,
    pub(crate) words: &'a [u64],
    pub(crate) moment: Moment,
    /// Records that have to stand outside the one being written.
    pub(crate) deferred: Vec<Vec<u8>>,
    /// The call's number on its thread.
    pub(crate) call: u32,
    /// What is read before the call: so far, or, at the return, all of it.
    pub(crate) early: Early,
    /// The parameter that is walked is one of these.
    is_early: bool,
    /// Inside a structure that is attached at the other moment: look for nested memory only.
    pub(crate) passing: bool,
    /// Pieces of the image that this call has loaded, while they are stored.
    pub(crate) image: Option<Vec<Piece>>,
    /// Whether the CPU may be had to make what the call copies to host memory.
    pub(crate) by_cpu: OnceCell<bool>,
    /// Buffers that options name.
    pub(crate) logs: Vec<Buffer>,
    pub(crate) makes_node: OnceCell<bool>,
    /// What the call copies or fills is done, and so is all that it was put behind.
    pub(crate) has_waited: Cell<bool>,
}

/// What is to be appended once the call is counted: a chunk that begins with it begins with the next call.
///
/// `early`: the parameters, a bit each, whose inputs the call may overwrite.
pub(crate) fn entry(
    lane: &Lane,
    function: &'static Function,
    id: u16,
    flags: u8,
    words: &[u64],
    early: u32,
) -> (Vec<Vec<u8>>, Early) {
    let mut after = (Vec::new(), Early::default());
    guarded(|| {
        let moment = Moment::Entry;
        let mut capture = Capture::new(lane, function, words, ENTRY_SIZE, moment, lane.sequence(), Early::new(early));
        words.iter().for_each(|word| capture.draft.value(word));
        capture.fields(function.params, None, words.as_ptr() as u64, 0);
        let Capture { draft, deferred, early, .. } = capture;
        draft.finish(|size| Entry {
            head: Head { size, kind: record::ENTRY, flags, function: id },
            begin: clock::entry(),
        });
        after = (deferred, early);
    });
    after
}

/// Whether the call has waited for the work before it. `early`: what its entry has read.
#[cold]
#[inline(never)]
pub(crate) fn leave(
    lane: &Lane,
    (function, id): (&'static Function, u16),
    words: &[u64],
    call: u32,
    early: Early,
    result: u32,
    end: u64,
) -> bool {
    let mut has_waited = false;
    guarded(|| {
        let moment = if result == 0 { Moment::Success } else { Moment::Failure };
        let mut capture = Capture::new(lane, function, words, RETURN_SIZE, moment, call, early);
        capture.fields(function.params, None, words.as_ptr() as u64, 0);
        capture.linker_says();
        has_waited = capture.has_waited.get();
        let Capture { draft, deferred, .. } = capture;
        let head = |size| Head { size, kind: record::RETURN, flags: 0, function: id };
        draft.finish(|size| Return { head: head(size), end, call, result });
        deferred.iter().for_each(|record| lane.append(record));
    });
    has_waited
}

impl<'a> Capture<'a> {
    fn new(
        lane: &'a Lane,
        function: &'static Function,
        words: &'a [u64],
        head: usize,
        moment: Moment,
        call: u32,
        early: Early,
    ) -> Capture<'a> {
        let draft = Draft::new(lane, head);
        Capture {
            lane,
            draft,
            function,
            words,
            moment,
            deferred: Vec::new(),
            call,
            early,
            is_early: false,
            passing: false,
            image: None,
            by_cpu: OnceCell::new(),
            logs: Vec::new(),
            makes_node: OnceCell::new(),
            has_waited: Cell::new(false),
        }
    }

    /// Whether pointers may lead anywhere: the driver has not followed them yet, or has refused to, or they
    /// have been overwritten.
    pub(crate) fn careful(&self) -> bool {
        self.moment != Moment::Success || self.is_early
    }

    /// Whether this is the moment at which inputs are read.
    pub(crate) fn takes_inputs(&self) -> bool {
        (self.moment == Moment::Entry) == self.is_early
    }

    /// Whether these arguments were to be read before the call and could not be.
    fn is_left(&self, address: u64) -> bool {
        self.moment != Moment::Entry && self.early.left == Some(address)
    }

    /// Whether the driver has written what it gives back.
    fn takes_outputs(&self) -> bool {
        match self.moment {
            Moment::Entry => false,
            Moment::Success => true,
            Moment::Failure => self.function.tells_why_it_failed(),
        }
    }

    /// The parameters, or the fields of the struct `around`, at `base` in the container.
    fn fields(&mut self, fields: &'static [Field], around: Option<&'static Type>, container: u64, base: u32) {
        let is_own = container == self.words.as_ptr() as u64;
        for (index, field) in fields.iter().enumerate() {
            if is_own {
                self.is_early = self.early.parameters >> index & 1 != 0;
            }
            let is_ours = is_own || self.early.is_copy(container);
            let view = Container { base: container, is_own: is_ours, careful: self.careful() };
            let at = base + field.offset;
            match (field.role, field.ty.form) {
                (Role::Union(..), _) => {
                    if let Some(ty) = member(fields, index, base, &view) {
                        self.nested(ty, container, at);
                    }
                }
                (Role::ReadsEach { .. } | Role::WritesEach { .. }, _) => self.each(fields, index, base, &view),
                (Role::Reads(_) | Role::Writes(_), _) if self.function.copies_unified() => {
                    let (address, bytes) = (view.load(at, 8), reach(fields, index, base, &view));
                    if let (Some(address), Some(bytes)) = (address, bytes) {
                        self.unified(address, bytes, matches!(field.role, Role::Writes(_)), false);
                    }
                }
                (Role::Writes(_), _) if self.moment == Moment::Success && self.function.brings_at_once() => {
                    if let (Some(address), Some(len)) = (view.load(at, 8), reach(fields, index, base, &view)) {
                        self.filled_here(Landing::Flat { address, len });
                    }
                }
                (Role::CopyHost(side), form) => {
                    if let Some(ty) = around {
                        self.rows(ty, container, base, side);
                    }
                    if let Form::Struct(_) = form {
                        self.nested(field.ty, container, at);
                    }
                }
                (_, Form::Pointer(_)) => self.pointer(fields, index, base, &view),
                (_, Form::Struct(_) | Form::Array(..)) => self.nested(field.ty, container, at),
                _ => {}
            }
        }
    }

    /// Something by value that may hold pointers.
    fn nested(&mut self, ty: &'static Type, container: u64, at: u32) {
        match ty.form {
            Form::Struct(inner) => self.fields(inner, Some(ty), container, at),
            Form::Array(element, count) if has_structure(element) => {
                (0..count).for_each(|i| self.nested(element, container, at + i * element.size));
            }
            _ => {}
        }
    }

    fn pointer(&mut self, fields: &'static [Field], index: usize, base: u32, view: &Container) {
        let takes = self.takes_inputs() && !self.passing;
        let succeeded = self.moment == Moment::Success;
        match resolve(fields, index, base, view) {
            // A kernel without parameters has a name all the same.
            Target::Nothing if takes && matches!(fields[index].role, Role::Arguments(_)) => self.introduce(),
            Target::Nothing | Target::Value { .. } => {}
            Target::Span { address, element, count, direction } => {
                self.span(address, element, count, direction);
            }
            Target::Text { address, out: false, .. } if takes => self.text(address, u64::MAX),
            Target::Text { address, limit, out: true } if self.takes_outputs() => self.text(address, limit),
            Target::Path { address } if takes => self.path(address),
            Target::TextOut { address } if succeeded => {
                self.attach(address, 8, true);
                if let Some(text @ 1..) = word_at(address, 8, false) {
                    let bytes = drivers_text(text);
                    self.draft.attach(record::INLINE, text, bytes.len() as u32, bytes);
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
                    self.lane.recorder().around.pinned.add(start, bytes, self.asks_write_combined());
                }
            }
            Target::Image { address, size } if takes => self.image(address, size),
            Target::Arguments { address, function } if takes => self.arguments(address, function),
            Target::Arguments { address, function } if self.is_left(address) => {
                self.lost(address, 0, "kernel arguments of unknown size before a call that may free them");
                self.layout(function);
            }
            Target::Extra { address } if takes => self.extra(address),
            // The driver leaves in it how much it wrote.
            Target::Options { address, count, .. } if self.moment == Moment::Entry => {
                self.attach(address, count.saturating_mul(8), true);
            }
            Target::Options { address, codes, count } if takes => self.options(address, codes, count),
            Target::Attributes { address, codes, count, types } if succeeded => {
                self.attach(address, count.saturating_mul(8), true);
                for i in 0..count.min(4096) {
                    let code = word_at(codes + i * 4, 4, false);
                    let value = word_at(address + i * 8, 8, false);
                    if let (Some(code), Some(value @ 1..)) = (code, value)
                        && let Some(ty) = trace::api::walk::select(types, code)
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
            (Direction::Sink, Moment::Success) => return self.sink(Landing::Flat { address, len: bytes }, false),
            (Direction::Sink, _) => return,
            (Direction::In, _) => self.takes_inputs(),
            (Direction::InOut, _) => true,
            (Direction::Create, moment) => moment == Moment::Success,
            _ => self.takes_outputs(),
        };
        if attach && !self.passing {
            self.attach(address, bytes, true);
        }
        let is_read = matches!(direction, Direction::In | Direction::InOut);
        let deeper = has_structure(element) && is_read;
        let inside = if direction == Direction::In { self.early.place_of(address, bytes) } else { address };
        if deeper && self.is_doubtful(bytes) {
            // Told by `attach`, if that was to store it.
            if !attach && !self.passing {
                self.lose_doubtful(address);
            }
        } else if deeper && let Form::Struct(fields) = element.form {
            let outer = self.passing;
            self.passing |= !attach;
            for i in 0..count {
                self.fields(fields, Some(element), inside + i * u64::from(element.size), 0);
            }
            self.passing = outer;
        }
    }

    pub(crate) fn text(&mut self, address: u64, limit: u64) {
        const MOST: u64 = 16 << 20;
        match string_at(address, limit.min(MOST)) {
            None => self.lost(address, 0, "unreadable strings"),
            Some(text) if text.len() as u64 >= MOST => self.lost(address, 0, "strings longer than 16 MiB"),
            Some(text) => self.draft.attach(record::INLINE, address, text.len() as u32, &text),
        }
    }

    /// The path, and at address 0 what the file held. Only of a plain file, and only once the driver has read
    /// it: to open anything else may wait for ever.
    fn path(&mut self, address: u64) {
        use std::os::unix::ffi::OsStrExt;
        use std::os::unix::fs::OpenOptionsExt;
        const MOST: u64 = 4 << 30;
        self.text(address, 1 << 16);
        if self.moment != Moment::Success || self.lane.recorder().around.data == Data::None {
            return;
        }
        let Some(path) = text_at(address) else { return };
        let mut options = std::fs::File::options();
        let opened = options.read(true).custom_flags(libc::O_NONBLOCK).open(std::ffi::OsStr::from_bytes(&path));
        let content = opened.and_then(|mut file| {
            let about = file.metadata()?;
            if !about.is_file() || about.len() > MOST {
                return Err(std::io::ErrorKind::Unsupported.into());
            }
            let mut content = Vec::new();
            content.try_reserve_exact(about.len() as usize + 1)?;
            std::io::Read::read_to_end(&mut file, &mut content).map(|_| content)
        });
        match content {
            Ok(content) => self.loading(|capture| capture.payload(0, &content, 0, false)),
            Err(_) => self.lost(0, 0, "files that the driver read and the recorder could not"),
        }
    }

    /// Whether the call asks for write-combined memory.
    fn asks_write_combined(&self) -> bool {
        let is_flags =
            |param: &&Field| matches!(param.role, Role::Bits(of) if of.name == CUmemHostAlloc_flags::ENUM.name);
        let flags = self.function.params.iter().find(is_flags).map_or(0, |param| self.words[param.offset as usize / 8]);
        flags & u64::from(CUmemHostAlloc_flags::CU_MEMHOSTALLOC_WRITECOMBINED.0) != 0
    }
}
