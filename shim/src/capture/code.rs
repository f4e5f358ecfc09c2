//! The inputs of code: module images, options, kernel arguments.

use crate::capture::pointers::{Capture, Moment};
use crate::driver::logs::Buffer;
use crate::host_memory::host_writes::HostWrites;
use crate::os::probe::{bytes_at, gathered, word_at};
use std::borrow::Cow;
use trace::api::attributes::LOG_BUFFERS;
use trace::api::extra::Extra;
use trace::api::roles::{Class, Field, Role};
use trace::api::types::{Form, Kind, Type};
use trace::code::image::{self, Pieces};
use trace::file::preamble::Data;
use trace::file::record;

impl Capture<'_> {
    pub(crate) fn image(&mut self, address: u64, size: Option<u64>) {
        if self.lane.recorder().around.data == Data::None {
            return;
        }
        // By system calls also after success: the end of a text is looked for beyond it, in memory that may
        // be anybody's.
        let read = |at: u64, len: usize| bytes_at(at, len, true).map(Cow::into_owned);
        let pieces = match size {
            Some(size) => Pieces::Found(vec![(address, size as usize)]),
            None => image::pieces(address, &read),
        };
        match pieces {
            Pieces::Found(pieces) => self.loading(|capture| {
                pieces.into_iter().for_each(|(at, len)| capture.attach(at, len as u64, false));
            }),
            Pieces::Unknown(why) => self.lost(address, 0, why),
        }
    }

    /// Stores an image; if that makes a module or library, which the first word says where to find, it is
    /// kept in mind.
    pub(crate) fn loading(&mut self, store: impl FnOnce(&mut Self)) {
        let makes = matches!(self.function.params, [Field { role: Role::Create(_), .. }, ..]);
        if self.function.class != Class::load || !makes || self.moment != Moment::Success {
            return store(self);
        }
        self.image = Some(Vec::new());
        store(self);
        if let (Some(owner), Some(pieces)) = (word_at(self.words[0], 8, false), self.image.take()) {
            self.lane.recorder().images.loaded(owner, pieces);
        }
    }

    /// The driver copied the arguments before it returned, so that they still are what the launch was given;
    /// those that the call may free are read before it.
    pub(crate) fn arguments(&mut self, address: u64, function: u64) {
        let careful = self.careful();
        let Some(layout) = self.layout(function) else {
            self.early.left = (self.moment == Moment::Entry).then_some(address);
            return;
        };
        let Some(sizes) = &layout.sizes else {
            return self.lost(address, 0, "kernel arguments of unknown size");
        };
        let Some(arguments) = arguments_at(address, sizes, careful) else {
            return self.lost(address, 0, "kernel arguments that could not be read");
        };
        let len = (8 + layout.packed) as u32;
        self.draft.value(&record::Attachment { form: record::ARGUMENTS, field: record::NESTED, option: 0, len });
        self.draft.value(&address);
        self.draft.value(&(layout.id, sizes.len() as u32));
        // Of a launch whose function was not known before it, or of a node.
        let refers = self.moment != Moment::Failure && self.lane.recorder().reaches_host();
        let mut writes = refers.then(|| self.lane.writes_before(self.call));
        for (at, bytes) in &arguments {
            self.draft.bytes(bytes);
            if let Some(writes) = &mut writes {
                let recorder = self.lane.recorder();
                recorder.watch.refer(recorder.may_share(bytes), writes);
                self.lane.read_pages.add(*at, bytes.len() as u64);
            }
        }
        if writes.is_some() {
            self.lane.read_pages.add(address, sizes.len() as u64 * 8);
        }
        self.deferred.extend(writes.into_iter().flat_map(HostWrites::into_records));
    }

    /// Where the parameters of a launched function lie. A handle that the driver has not taken may be
    /// anything.
    pub(crate) fn layout(&mut self, function: u64) -> Option<&'static crate::kernels::parameters::Layout> {
        let recorder = self.lane.recorder();
        let (kernels, images, file) = (&recorder.kernels, &recorder.images, &recorder.around.file);
        let (layout, new) = match self.moment {
            Moment::Success => kernels.layout_of(function, images, file),
            Moment::Entry | Moment::Failure => kernels.of_failed(function, images, file)?,
        };
        self.deferred.extend(new.map(|kernel| record::with_body(record::KERNEL, &kernel)));
        Some(layout)
    }

    pub(crate) fn extra(&mut self, address: u64) {
        let careful = self.careful();
        let extra = Extra::read(address, |at| word_at(at, 8, careful));
        self.attach(address, extra.len, true);
        let (size, buffer) = (extra.size_at().unwrap_or(0), extra.buffer().unwrap_or(0));
        if let Some(bytes) = word_at(size, 8, careful) {
            self.attach(size, 8, true);
            self.attach(buffer, bytes, true);
            if self.moment == Moment::Success && self.lane.recorder().reaches_host() {
                [(address, extra.len), (size, 8), (buffer, bytes)]
                    .iter()
                    .for_each(|(at, len)| self.lane.read_pages.add(*at, *len));
            }
            // What a launch was given has been looked at before it; a node is launched by its graph.
            if self.function.class == Class::graph && self.moment != Moment::Failure {
                self.refer(buffer, bytes);
            }
        }
        self.introduce();
    }

    /// Has the file told which kernel is launched.
    pub(crate) fn introduce(&mut self) {
        let function = self.function.param("f").map(|f| self.words[self.function.params[f].offset as usize / 8]);
        if let Some(function) = function {
            self.layout(function);
        }
    }

    fn refer(&mut self, buffer: u64, len: u64) {
        let recorder = self.lane.recorder();
        let bytes = bytes_at(buffer, len.min(1 << 16) as usize, true).filter(|_| recorder.reaches_host());
        let Some(bytes) = bytes else { return };
        let mut writes = self.lane.writes_before(self.call);
        recorder.watch.refer(recorder.may_share(&bytes), &mut writes);
        self.deferred.extend(writes.into_records());
    }

    pub(crate) fn options(&mut self, address: u64, codes: u64, count: u64) {
        self.attach(address, count.saturating_mul(8), true);
        for i in 0..count {
            let (Some(code), Some(value)) = (word_at(codes + i * 4, 4, true), word_at(address + i * 8, 8, true)) else {
                break;
            };
            if self.function.family == "module" && LOG_BUFFERS.contains(&(code as u32)) && value != 0 {
                let beside = (0..count).find(|j| word_at(codes + j * 4, 4, true) == Some(code + 1));
                let size = beside.map(|j| address + j * 8);
                match self.linker_of() {
                    // Nothing is said yet.
                    Some(Linker::Made(_)) => self.logs.push(Buffer::new(code as u32, value, size)),
                    // After the call the size says how much the driver wrote.
                    _ => {
                        let size = size.and_then(|size| word_at(size, 8, true));
                        self.text(value, size.unwrap_or(0).min(1 << 24));
                    }
                }
            }
        }
    }

    /// The linker that the call names, or the place where it puts a new one.
    fn linker_of(&self) -> Option<Linker> {
        if !matches!(self.function.class, Class::create | Class::load) {
            return None;
        }
        let is_linker = |ty: &Type| matches!(ty.form, Form::Handle(Kind::Link));
        self.function.params.iter().find_map(|param| {
            let word = self.words[param.offset as usize / 8];
            match param.ty.form {
                Form::Pointer(to) if is_linker(to) => Some(Linker::Made(word)),
                _ => is_linker(param.ty).then_some(Linker::Named(word)),
            }
        })
    }

    /// What the linker that the call names has said by now.
    pub(crate) fn linker_says(&mut self) {
        let logs = &self.lane.recorder().logs;
        match self.linker_of() {
            Some(Linker::Made(place)) if self.moment == Moment::Success => {
                let buffers = std::mem::take(&mut self.logs);
                if let Some(linker) = word_at(place, 8, false) {
                    logs.linker_created(linker, buffers);
                }
            }
            Some(Linker::Named(linker)) => {
                logs.news(linker).iter().for_each(|log| self.draft.attach_log(log.option, log.address, &log.text));
            }
            _ => {}
        }
    }
}

enum Linker {
    Made(u64),
    Named(u64),
}

/// Where each argument lies and what it is: with care, by one system call for all pointers and one for all
/// values.
fn arguments_at(address: u64, sizes: &[u32], careful: bool) -> Option<Vec<(u64, Cow<'static, [u8]>)>> {
    let pointers = bytes_at(address, sizes.len() * 8, careful)?;
    let pointers = pointers.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")));
    let places = pointers.zip(sizes.iter().map(|size| *size as usize));
    if !careful {
        return places.map(|(at, size)| Some((at, bytes_at(at, size, false)?))).collect();
    }
    let places: Vec<_> = places.collect();
    let values = gathered(&places)?;
    let mut rest = &values[..];
    let of_each = |(at, size): (u64, usize)| {
        let (value, behind) = rest.split_at(size);
        rest = behind;
        (at, Cow::Owned(value.to_vec()))
    };
    Some(places.into_iter().map(of_each).collect())
}
