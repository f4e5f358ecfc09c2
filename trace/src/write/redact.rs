//! Redacted records of a trace, which can be shown to others: without names and without the program's data.

use crate::base::bytes::u32_at;
use crate::base::hash::Hash;
use crate::file::preamble::decode;
use crate::file::record::imported_memory::{HELD, ImportedMemory};
use crate::file::record::nccl::{COMMUNICATOR, Communicator, DELIVERED, Delivered};
use crate::file::record::{self, Annotation, Attachment, CONFIG, ENTRY_SIZE, HEAD, KIND_AT, RETURN_SIZE, with_body};
use crate::file::segment::Header;
use crate::read::call::{Attachments, When};
use crate::read::described::Described;
use crate::read::reader::Trace;
use bincode::{Decode, Encode};
use std::borrow::Cow;

/// Why what had been recorded of collectives and shared memory is not there.
const LEFT_OUT: &str = "copied without its data";
/// Directories in which each user has one.
const HOMES: [&[u8]; 2] = [b"/home/", b"/Users/"];

/// The data to remove.
pub struct Redaction<'n> {
    /// Overwritten wherever they stand; the longest first.
    pub names: &'n [String],
    /// The same in the program's own words: texts of annotations, names of threads and communicators.
    pub words: &'n [String],
    /// Data and code: what a recording without data has not, arguments of kernels, logs, and hashes.
    pub drop_data: bool,
    /// All of the program's own words.
    pub drop_texts: bool,
    /// Where bytes first stand among others.
    pub find: Find,
}

/// Finds the second bytes in the first; returns their offset.
pub type Find = fn(&[u8], &[u8]) -> Option<usize>;

/// Counts of the removed data.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Redactions {
    /// How often a name was overwritten.
    pub overwritten: u64,
    /// Texts of annotations, names of threads and of communicators: not empty, and not dropped.
    pub annotations: u64,
    /// Names of threads.
    pub threads: u64,
    /// Names of communicators.
    pub communicators: u64,
    /// Pieces of data in records that name a home directory.
    pub homes: u64,
}

impl Redaction<'_> {
    /// Whether the path of somebody's home directory stands in it.
    pub fn names_home(&self, bytes: &[u8]) -> bool {
        HOMES.iter().any(|home| (self.find)(bytes, home).is_some())
    }

    /// The records of a chunk, changed.
    pub fn chunk(&self, trace: &Trace, header: &Header, records: &[u8], found: &mut Redactions) -> Vec<u8> {
        let mut out = Vec::with_capacity(records.len());
        let mut chunk = Chunk { asked: self, trace, thread: header.thread, next: header.id as u32, last: None, found };
        let mut rest = records;
        while let Some((record, behind)) = record::first(rest) {
            out.extend_from_slice(&chunk.record(record));
            rest = behind;
        }
        for name in self.names {
            chunk.found.overwritten += self.overwrite(&mut out, name.as_bytes());
        }
        out
    }

    /// Puts as many x in the place of each; how often.
    fn overwrite(&self, bytes: &mut [u8], name: &[u8]) -> u64 {
        let (mut from, mut count) = (0, 0);
        while let Some(at) = (self.find)(&bytes[from..], name) {
            bytes[from + at..][..name.len()].fill(b'x');
            from += at + name.len();
            count += 1;
        }
        count
    }

    /// The same of paths below home directories, up to a byte that ends a path in most texts.
    fn overwrite_homes(&self, bytes: &mut [u8]) -> u64 {
        let ends =
            |byte: &u8| byte.is_ascii_whitespace() || byte.is_ascii_control() || b"\"'<>|:;,()[]{}".contains(byte);
        let mut count = 0;
        for home in HOMES {
            while let Some(at) = (self.find)(bytes, home) {
                let path = &mut bytes[at..];
                let len = path.iter().position(ends).unwrap_or(path.len());
                path[..len].fill(b'x');
                count += 1;
            }
        }
        count
    }

    /// The record with the names of files overwritten, and home directories in logs.
    fn named_files<'b>(
        &self,
        bytes: &'b [u8],
        attachments: Attachments,
        of: &Described,
        found: &mut Redactions,
    ) -> Cow<'b, [u8]> {
        let mut out = Cow::Borrowed(bytes);
        each(attachments, |head, address, data| {
            if head.form != record::INLINE || data.is_empty() {
                return;
            }
            let at = data.as_ptr() as usize - bytes.as_ptr() as usize;
            if of.files.contains(&address) && address != 0 {
                out.to_mut()[at..at + data.len()].fill(b'x');
                found.overwritten += 1;
            } else if head.option != 0 && self.names_home(data) {
                found.overwritten += self.overwrite_homes(&mut out.to_mut()[at..at + data.len()]);
            } else {
                found.homes += u64::from(self.names_home(data));
            }
        });
        out
    }
}

struct Chunk<'r, 't> {
    asked: &'r Redaction<'r>,
    trace: &'t Trace,
    thread: u32,
    /// Number of the thread's next call.
    next: u32,
    /// A call, and what is described of it: of an entry and the return that follows it.
    last: Option<(u32, Described)>,
    found: &'r mut Redactions,
}

impl Chunk<'_, '_> {
    fn record<'b>(&mut self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let kind = bytes[KIND_AT];
        match kind {
            record::ENTRY => {
                let call = self.next;
                self.next = self.next.wrapping_add(1);
                self.call(bytes, call, When::Entry)
            }
            record::RETURN if bytes.len() >= RETURN_SIZE => self.call(bytes, u32_at(bytes, 16), When::Return),
            record::THREAD => self.changed(bytes, |chunk, thread: &mut record::Thread| {
                chunk.found.threads += chunk.speak(&mut thread.name);
            }),
            record::ANNOTATION => self.annotation(bytes),
            COMMUNICATOR => self.changed(bytes, |chunk, communicator: &mut Communicator| {
                chunk.found.communicators += chunk.speak(&mut communicator.name);
            }),
            _ if !self.asked.drop_data => bytes.into(),
            record::OBSERVED | record::PRINTED | record::REFERENCED => Cow::default(),
            // That a callback ran is no data.
            record::WRITTEN => match bytes.get(..record::WRITTEN_SIZE) {
                Some(body) if u32_at(body, HEAD + 24) != 0 => resized(body.to_vec()).into(),
                _ => Cow::default(),
            },
            record::ADOPTED => self.changed(bytes, |_, adopted: &mut record::Adopted| adopted.images.clear()),
            DELIVERED => self.changed(bytes, |_, delivered: &mut Delivered| {
                leave_out(&mut delivered.pieces, &mut delivered.lost);
            }),
            HELD => self.changed(bytes, |_, held: &mut ImportedMemory| leave_out(&mut held.pieces, &mut held.lost)),
            _ if IS_WITHOUT_DATA.contains(&kind) => bytes.into(),
            _ => Cow::default(),
        }
    }

    /// A record whose body is changed; one that cannot be read is left out.
    fn changed<T: Encode + Decode<()>>(
        &mut self,
        bytes: &[u8],
        change: impl FnOnce(&mut Self, &mut T),
    ) -> Cow<'static, [u8]> {
        let Some(mut body) = decode(&bytes[HEAD..]) else { return Cow::default() };
        change(self, &mut body);
        with_body(bytes[KIND_AT], &body).into()
    }

    /// Something in the program's own words. 1 if there is any that was not dropped.
    fn speak(&mut self, text: &mut String) -> u64 {
        let mut bytes = std::mem::take(text).into_bytes();
        let is_said = self.words(&mut bytes);
        // A name may have been part of a character.
        *text = String::from_utf8_lossy(&bytes).into_owned();
        is_said
    }

    fn words(&mut self, bytes: &mut [u8]) -> u64 {
        if self.asked.drop_texts {
            bytes.fill(b'x');
            return 0;
        }
        for name in self.asked.words {
            self.found.overwritten += self.asked.overwrite(bytes, name.as_bytes());
        }
        self.found.overwritten += self.asked.overwrite_homes(bytes);
        u64::from(!bytes.is_empty())
    }

    fn annotation<'b>(&mut self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let Some(about) = decode::<Annotation>(&bytes[HEAD..]) else { return Cow::default() };
        let mut bytes = bytes.to_vec();
        let len = if about.registered { 0 } else { (about.message as usize).saturating_sub(1) };
        let text = bytes.get_mut(record::ANNOTATION_SIZE..).unwrap_or_default();
        let len = len.min(text.len());
        let (text, padding) = text.split_at_mut(len);
        padding.fill(0);
        self.found.annotations += self.words(text);
        bytes.into()
    }

    /// An entry or a return.
    fn call<'b>(&mut self, bytes: &'b [u8], number: u32, when: When) -> Cow<'b, [u8]> {
        let function = u16::from_le_bytes([bytes[6], bytes[7]]);
        let words =
            self.trace.preamble.functions.get(usize::from(function)).map_or(0, |(_, words)| *words as usize * 8);
        let (head, words) = match when {
            When::Entry => (ENTRY_SIZE, words),
            When::Return => (RETURN_SIZE, 0),
        };
        let Some((head, attached)) = bytes.split_at_checked(head + words) else { return Cow::default() };
        // The one that readers take for this record's.
        let found = self.trace.call_of(self.thread, number).filter(|call| {
            let own = match when {
                When::Entry => call.argument_bytes() == &head[ENTRY_SIZE..] && call.at_entry == attached,
                When::Return => call.at_return == attached,
            };
            own && call.function_id() == function
        });
        let all = found.map_or(&[][..], |call| call.argument_bytes());
        if self.last.as_ref().is_none_or(|(last, _)| *last != number) || found.is_none() {
            self.last = Some((number, found.as_ref().map(Described::from_call).unwrap_or_default()));
        }
        let Some((_, described)) = &self.last else { return Cow::default() };
        let attachments = Attachments { bytes: attached, words: all, when };
        if !self.asked.drop_data {
            return self.asked.named_files(bytes, attachments, described, self.found);
        }
        let mut out = head.to_vec();
        if when == When::Entry {
            out.truncate(ENTRY_SIZE);
            out.extend(described.words(&head[ENTRY_SIZE..]));
        }
        each(attachments, |head, address, data| {
            let is_overwritten = self.trace.without_data(described, head, address, data, &mut out);
            self.found.overwritten += u64::from(is_overwritten);
        });
        resized(out).into()
    }
}

/// Kinds of records that hold nothing but times, counts, handles, names of code and of devices.
const IS_WITHOUT_DATA: &[u8] = &[
    record::KERNEL,
    record::CLOCK,
    record::DEVICE,
    record::LOSS,
    record::TIMED,
    record::PROFILE,
    record::NAMED,
    record::LEFT_OUT,
    record::REPEATED,
    record::SWITCHED,
    record::ENDED,
    record::PASSED,
    record::SHARED,
    record::nccl::BEGAN,
    record::nccl::RETURNED,
];

fn each<'a>(mut attachments: Attachments<'a>, mut see: impl FnMut(Attachment, u64, &'a [u8])) {
    while let Some((head, address, data)) = attachments.next_raw() {
        see(head, address, data);
    }
}

impl Trace {
    /// An attachment with what the table describes of it, and nothing else. Whether it was the name of a file.
    fn without_data(&self, of: &Described, head: Attachment, address: u64, data: &[u8], out: &mut Vec<u8>) -> bool {
        let (form, rows) = (head.form & !record::ROWS, head.form & record::ROWS);
        let bytes = match form {
            _ if rows != 0 || head.option != 0 => None,
            record::INLINE => Some(data),
            record::BLOB => data.try_into().ok().and_then(|hash| self.blob(Hash::from_bytes(hash))),
            _ => None,
        };
        let is_file = of.files.contains(&address) && address != 0;
        let (form, data) = match bytes {
            Some(bytes) if is_file => (record::INLINE, Cow::Owned(vec![b'x'; bytes.len()])),
            Some(bytes) => match of.memory(address, bytes) {
                Some(described) => (record::INLINE, Cow::Owned(described)),
                None => (record::LOST, Cow::default()),
            },
            // Which kernel it is, and of how many arguments.
            None if form == record::ARGUMENTS => (form, Cow::Borrowed(data.get(..8).unwrap_or_default())),
            None => (record::LOST, Cow::default()),
        };
        let len = if form == record::LOST { head.len } else { data.len() as u32 };
        let head = Attachment { form: form | rows, len, ..head };
        out.extend(bincode::encode_to_vec(head, CONFIG).expect("encoding into memory"));
        if head.field == record::NESTED {
            out.extend(address.to_le_bytes());
        }
        out.extend_from_slice(&data);
        out.resize(out.len().next_multiple_of(8), 0);
        is_file
    }
}

/// With its size in its head.
fn resized(mut record: Vec<u8>) -> Vec<u8> {
    let size = (record.len() as u32).to_le_bytes();
    record[..4].copy_from_slice(&size);
    record
}

fn leave_out(pieces: &mut Vec<[u8; 16]>, lost: &mut String) {
    if !pieces.is_empty() {
        pieces.clear();
        *lost = LEFT_OUT.into();
    }
}
