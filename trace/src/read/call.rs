//! One recorded call, as stored in the file.

use crate::api::Function;
use crate::api::enums::CUjit_option;
use crate::api::roles::Class;
use crate::api::types::{Form, Kind};
use crate::base::bytes::{u32_at, u64_at};
use crate::base::hash::Hash;
use crate::file::lookup::Lookup;
use crate::file::record::{self, Attachment, Observed};
use crate::file::repeats::Repeats;
use crate::read::reader::Trace;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

/// One call: borrowed from the mapped trace, decoded on demand.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub(crate) trace: &'a Trace,
    /// Position in the trace, by entry time.
    pub number: u64,
    /// Index of the thread in [`Trace::threads`].
    pub thread: u32,
    /// Position among the calls of its thread (low 32 bits).
    pub sequence: u32,
    /// Clock ticks at entry.
    pub begin: u64,
    /// Clock ticks at return; none if the call never returned.
    pub end: Option<u64>,
    /// CUresult; none if the call never returned.
    pub result: Option<u32>,
    /// Of a poll: further ones that it stands for.
    pub repeats: Option<Repeats>,
    /// Made inside another call of the same thread.
    pub inner: bool,
    pub(crate) id: u16,
    pub(crate) words: &'a [u8],
    pub(crate) at_entry: &'a [u8],
    pub(crate) at_return: &'a [u8],
    /// If it may have many images.
    pub(crate) lookup: Option<&'a OnceLock<Lookup>>,
}

/// The moment of a call at which memory is viewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Before the driver ran.
    Entry,
    /// After the driver had returned.
    Return,
}

/// A piece of the application's memory as a call saw it.
#[derive(Debug, Clone, Copy)]
pub struct Image<'a> {
    /// Address of the first byte in the recorded process.
    pub address: u64,
    /// Bytes of the memory.
    pub len: u64,
    /// Before or after the driver ran.
    pub when: When,
    /// The rows of a pitched region, packed.
    pub rows: bool,
    /// The JIT option whose log it is, if no argument of the call leads to it; else 0.
    pub option: u16,
    /// The bytes, or what is known of them.
    pub content: Content<'a>,
}

impl<'a> Image<'a> {
    /// The application's memory that it was taken from, rows aside.
    pub fn memory(&self) -> Range<u64> {
        self.address..self.address.saturating_add(self.len)
    }
}

/// The recorded part of some bytes.
#[derive(Debug, Clone, Copy)]
pub enum Content<'a> {
    /// The bytes, stored with the call.
    Bytes(&'a [u8]),
    /// The bytes, stored as a blob.
    Blob(Hash),
    /// Only a hash was recorded.
    Hash {
        /// Hash of the bytes.
        hash: Hash,
        /// The bytes were read later than the program could first read them.
        late: bool,
    },
    /// Kernel arguments in order, each padded to 8 bytes; their sizes stand in [`Trace::kernel`].
    Arguments {
        /// Id of the kernel.
        kernel: u32,
        /// Number of arguments.
        count: u32,
        /// The bytes of all arguments.
        packed: &'a [u8],
    },
    /// Not recorded.
    Lost,
    /// Still under way when the trace ended.
    Pending,
}

impl<'a> Call<'a> {
    /// Name of the function, also of one that this build does not know.
    pub fn name(&self) -> &'a str {
        self.trace.function_name(self.id)
    }

    /// The function's id in the file.
    pub fn function_id(&self) -> u16 {
        self.id
    }

    /// The table's line for this function; none if this build does not know the name.
    pub fn function(&self) -> Option<&'static Function> {
        self.trace.function(self.id)
    }

    /// What the id in an image of arguments stands for.
    pub fn kernel(&self, id: u32) -> Option<&'a record::Kernel> {
        self.trace.kernels.get(&id)
    }

    /// What kernels are given, packed by the recorder, and the id of each: one of a launch, none of a call
    /// that launches nothing.
    #[inline]
    pub fn kernel_arguments(&self) -> impl Iterator<Item = (u32, &'a [u8])> + use<'a> {
        let (mut at_entry, mut at_return) = (self.attachments(When::Entry), self.attachments(When::Return));
        let all = std::iter::from_fn(move || at_entry.next_raw().or_else(|| at_return.next_raw()));
        all.filter_map(|(head, _, data)| match head.form & !record::ROWS {
            record::ARGUMENTS if data.len() >= 8 => Some((u32_at(data, 0), &data[8..])),
            _ => None,
        })
    }

    /// The kernel that a launch, or a node of a graph, names.
    pub fn named_kernel(&self) -> Option<&'a record::Kernel> {
        let recorded = self.kernel_arguments().find_map(|(kernel, _)| self.kernel(kernel));
        // Launched without arguments, or with them packed.
        recorded.or_else(|| {
            self.function().filter(|function| function.class == Class::launch)?;
            self.trace.kernel(self.handle(Kind::Function)?)
        })
    }

    /// The trace that has the call.
    pub fn trace(&self) -> &'a Trace {
        self.trace
    }

    /// Argument words, in the order of the prototype.
    pub fn words(&self) -> impl ExactSizeIterator<Item = u64> + 'a {
        self.words.chunks_exact(8).map(|w| u64_at(w, 0))
    }

    /// Argument word `index`; 0 past the end.
    pub fn word(&self, index: usize) -> u64 {
        self.words.get(index * 8..index * 8 + 8).map_or(0, |w| u64_at(w, 0))
    }

    /// The stream that the call names ([`Function::stream`]).
    #[inline]
    pub fn stream(&self) -> Option<u64> {
        let at = |address| self.memory(When::Entry, address, 8).and_then(|bytes| Some(u64_at(bytes.get(..8)?, 0)));
        self.function()?.stream(|word| self.word(word), at)
    }

    /// The words as bytes, little endian.
    pub fn argument_bytes(&self) -> &'a [u8] {
        self.words
    }

    /// The value of a parameter by its name in the table.
    pub fn argument(&self, name: &str) -> Option<u64> {
        self.argument_of(self.function()?.param(name)?)
    }

    /// The value of the parameter at this position.
    pub fn argument_of(&self, position: usize) -> Option<u64> {
        let field = self.function()?.params.get(position)?;
        let bytes = self.words.get(field.offset as usize..)?;
        let mut value = [0; 8];
        let size = field.ty.size.min(8) as usize;
        value[..size].copy_from_slice(bytes.get(..size)?);
        Some(u64::from_le_bytes(value))
    }

    /// The first argument that is a handle of this kind.
    pub fn handle(&self, kind: Kind) -> Option<u64> {
        self.argument_of(self.function()?.handle(kind)?)
    }

    /// The value that an output parameter had after the call.
    pub fn output(&self, name: &str) -> Option<u64> {
        self.output_of(self.function()?.param(name)?)
    }

    /// The same, of the parameter at this position.
    pub fn output_of(&self, position: usize) -> Option<u64> {
        let field = self.function()?.params.get(position)?;
        let Form::Pointer(to) = field.ty.form else { return None };
        let bytes = self.output_at(self.argument_of(position)?, u64::from(to.size.min(8)))?;
        let mut value = [0; 8];
        value[..bytes.len()].copy_from_slice(&bytes);
        Some(u64::from_le_bytes(value))
    }

    /// Whether it returned CUDA_SUCCESS.
    pub fn succeeded(&self) -> bool {
        self.result == Some(0)
    }

    /// Whether it did what it is for, as a call does that ends a broken capture and says so.
    pub fn took_effect(&self) -> bool {
        self.result.zip(self.function()).is_some_and(|(result, function)| function.takes_effect(result))
    }

    /// Everything recorded of the application's memory in this call, in the order of capture.
    pub fn images(&self) -> impl Iterator<Item = Image<'a>> + use<'a> {
        let this = *self;
        self.attachments(When::Entry).chain(self.attachments(When::Return)).map(move |image| this.resolved(image))
    }

    /// The images of memory that begins at this address, in the order of capture.
    pub fn images_at(&self, address: u64) -> impl Iterator<Item = Image<'a>> + use<'a> {
        let this = *self;
        let many = self.lookup().map(|lookup| lookup.starting_at(this, address));
        let few = many.is_none().then(|| this.images().filter(move |image| image.address == address));
        many.into_iter().flatten().chain(few.into_iter().flatten())
    }

    /// The images of memory that begins within the range, in the order of capture.
    pub fn images_within(&self, range: &Range<u64>) -> Vec<Image<'a>> {
        match self.lookup() {
            Some(lookup) => lookup.starting_in(*self, range),
            None => self.images().filter(|image| range.contains(&image.address)).collect(),
        }
    }

    /// The file behind the descriptor that it has exported or imported, if that was recorded.
    pub fn passed(&self) -> Option<&'a record::Passed> {
        self.trace.passed.get(&(self.thread, self.sequence))
    }

    /// Of host memory that it has registered, the parts that are mapped so that other processes may have
    /// them.
    pub fn shared_mappings(&self) -> &'a [record::Shared] {
        self.trace.shared.get(&(self.thread, self.sequence)).map_or(&[], |all| all)
    }

    pub(crate) fn attachments(&self, when: When) -> Attachments<'a> {
        let bytes = if when == When::Entry { self.at_entry } else { self.at_return };
        Attachments { bytes, words: self.words, when }
    }

    fn lookup(&self) -> Option<&'a Lookup> {
        self.lookup.map(|lookup| lookup.get_or_init(|| Lookup::from_call(self)))
    }

    /// With what a copy had brought when it was known to have finished.
    pub(crate) fn resolved(&self, image: Image<'a>) -> Image<'a> {
        let Content::Pending = image.content else { return image };
        let content = match self.trace.observed(self.thread, self.sequence, image.address) {
            Some(&Observed { form, hash, late, .. }) => match form {
                record::HASH => Content::Hash { hash: Hash::from_bytes(hash), late },
                record::BLOB => Content::Blob(Hash::from_bytes(hash)),
                _ => Content::Lost,
            },
            None => Content::Pending,
        };
        Image { content, ..image }
    }

    /// The bytes that memory is read from; none for packed rows, which do not lie as they lay in memory.
    pub(crate) fn image_bytes(&self, image: &Image<'a>) -> Option<&'a [u8]> {
        let bytes = self.trace.bytes(image).filter(|_| !image.rows)?;
        bytes.get(..bytes.len().min(image.len as usize))
    }

    /// `len` bytes at an application address, as the call left them. None if it wrote none: what it read
    /// there is not meant.
    pub fn output_at(&self, address: u64, len: u64) -> Option<Cow<'a, [u8]>> {
        self.joined(When::Return, address, len)
    }

    /// `len` bytes at an application address, as they were at that moment (or, failing that, at the other
    /// one).
    pub fn memory(&self, when: When, address: u64, len: u64) -> Option<Cow<'a, [u8]>> {
        let other = if when == When::Entry { When::Return } else { When::Entry };
        self.joined(when, address, len).or_else(|| self.joined(other, address, len))
    }

    /// Looks up memory that may lie in one image or in several that follow each other.
    fn joined(&self, when: When, address: u64, len: u64) -> Option<Cow<'a, [u8]>> {
        if len == 0 {
            let is_known = self.images_at(address).any(|i| i.when == when && self.image_bytes(&i).is_some());
            return (is_known || self.piece(when, address, 0).is_some()).then_some(Cow::Borrowed(&[]));
        }
        Some(match &self.pieces_at(when, address, len)?[..] {
            [all] => Cow::Borrowed(all),
            pieces => Cow::Owned(pieces.concat()),
        })
    }

    /// The bytes of [`memory`](Call::memory) in the pieces in which they were recorded, which is more than none.
    pub fn pieces(&self, when: When, address: u64, len: u64) -> Option<Vec<&'a [u8]>> {
        let other = if when == When::Entry { When::Return } else { When::Entry };
        self.pieces_at(when, address, len).or_else(|| self.pieces_at(other, address, len))
    }

    fn pieces_at(&self, when: When, address: u64, len: u64) -> Option<Vec<&'a [u8]>> {
        // Only blobs stand for the same bytes more than once, and memory is not one blob over and over.
        const REPEATS: u64 = 256;
        if len / REPEATS > self.trace.length_with_files() {
            return None;
        }
        let (mut pieces, mut done) = (Vec::new(), 0);
        while done < len {
            let piece = self.piece(when, address.checked_add(done)?, len - done)?;
            done += piece.len() as u64;
            pieces.push(piece);
        }
        Some(pieces)
    }

    /// At most that many bytes from an address on, as the first image has them that was captured there; not
    /// empty if some are asked for.
    fn piece(&self, when: When, address: u64, most: u64) -> Option<&'a [u8]> {
        let within = |image: &Image<'a>| {
            let skip = address.checked_sub(image.address)?;
            let bytes = self.image_bytes(image)?;
            let rest = bytes.get(skip as usize..).filter(|rest| !rest.is_empty())?;
            rest.get(..rest.len().min(most as usize))
        };
        match self.lookup() {
            Some(lookup) => within(&lookup.containing(self, when, address)?),
            None => self.attachments(when).map(|image| self.resolved(image)).find_map(|image| within(&image)),
        }
    }

    /// A NUL-terminated string that the call read or wrote at this address, without its NUL.
    pub fn text(&self, address: u64) -> Option<Cow<'a, str>> {
        let image = self.images_at(address).find(|i| i.len > 0)?;
        Some(String::from_utf8_lossy(until_nul(self.trace.bytes(&image)?)))
    }
}

impl<'a> Call<'a> {
    /// What the compiler or linker wrote during the call to buffers that it had been given before, by the
    /// names of the options.
    pub fn logs(&self) -> impl Iterator<Item = (&'static str, Cow<'a, str>)> + use<'a> {
        let trace = self.trace;
        let logs = self.attachments(When::Return).filter(|image| image.option != 0);
        logs.filter_map(move |image| {
            let name = CUjit_option::ENUM.name_of(image.option.into())?;
            Some((name, String::from_utf8_lossy(until_nul(trace.bytes(&image)?))))
        })
    }
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Attachments of one record. Stops at the first that does not fit.
pub(crate) struct Attachments<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) words: &'a [u8],
    pub(crate) when: When,
}

impl<'a> Attachments<'a> {
    /// The next one's head, the address that it is of, and its data.
    #[inline]
    pub(crate) fn next_raw(&mut self) -> Option<(Attachment, u64, &'a [u8])> {
        let (head, mut rest) = self.bytes.split_first_chunk::<{ record::ATTACHMENT }>()?;
        let [form, field, a, b, c, d, e, f] = *head;
        let (option, len) = (u16::from_le_bytes([a, b]), u32::from_le_bytes([c, d, e, f]));
        let head = Attachment { form, field, option, len };
        let address = if head.field == record::NESTED {
            let address = rest.get(..8)?;
            rest = &rest[8..];
            u64_at(address, 0)
        } else {
            // The field is the index of the argument word that holds the address.
            let at = head.field as usize * 8;
            u64_at(self.words.get(at..at + 8)?, 0)
        };
        let form = head.form & !record::ROWS;
        let size = match form {
            record::INLINE | record::ARGUMENTS => head.len as usize,
            record::BLOB | record::HASH => 16,
            _ => 0,
        };
        let data = rest.get(..size)?;
        self.bytes = rest.get(size.div_ceil(8) * 8..).unwrap_or(&[]);
        Some((head, address, data))
    }
}

impl<'a> Iterator for Attachments<'a> {
    type Item = Image<'a>;

    fn next(&mut self) -> Option<Image<'a>> {
        let (head, address, data) = self.next_raw()?;
        let hash = || Hash::from_bytes(data.try_into().expect("16 bytes"));
        let content = match head.form & !record::ROWS {
            record::INLINE => Content::Bytes(data),
            record::BLOB => Content::Blob(hash()),
            record::HASH => Content::Hash { hash: hash(), late: false },
            record::PENDING => Content::Pending,
            record::ARGUMENTS if data.len() >= 8 => {
                Content::Arguments { kernel: u32_at(data, 0), count: u32_at(data, 4), packed: &data[8..] }
            }
            _ => Content::Lost,
        };
        Some(Image {
            address,
            len: head.len.into(),
            when: self.when,
            rows: head.form & record::ROWS != 0,
            option: head.option,
            content,
        })
    }
}
