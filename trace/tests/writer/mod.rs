//! A writer of traces in memory, with the layout that the recorder gives them in a file.

#![allow(dead_code)]

use bincode::encode_to_vec;
use trace::api::FUNCTIONS;
use trace::base::hash::{Hash, checksum};
use trace::file::preamble::{Data, Preamble, encode};
use trace::file::record::{self, CONFIG, Clock, Entry, Head, NESTED, Repeated, Return};
use trace::file::segment::{HEADER, Header, Kind, LENGTH_AT, PAGE, SEAL_AT, round_up, whole};
use trace::file::shared_memory::{PRIVATE, Place};

pub struct Writer {
    pub bytes: Vec<u8>,
    /// Bytes of a new chunk, unless a record needs more.
    pub chunk: u64,
    /// Where in the file the last record ended.
    pub end: usize,
    threads: Vec<Thread>,
}

#[derive(Default)]
struct Thread {
    calls: u32,
    chunks: u64,
    /// Offset and size of the open chunk, and its committed length.
    open: Option<(usize, usize, usize)>,
}

pub fn id(name: &str) -> u16 {
    FUNCTIONS.iter().position(|f| f.name == name).expect("a function of the table") as u16
}

pub fn preamble() -> Preamble {
    Preamble {
        writer: "0.0.0-test".into(),
        functions: FUNCTIONS.iter().map(|f| (f.name.to_string(), f.words() as u16)).collect(),
        data: Data::Inputs,
        created: 1_700_000_000_000_000_000,
        clock: "monotonic".into(),
        clocks: [Clock { tsc: 0, ns: 0 }, Clock { tsc: 100, ns: 100 }],
        host: "host".into(),
        program: "/usr/bin/program".into(),
        command_line: vec!["program".into(), "an argument".into()],
        directory: "/".into(),
        pid: u32::MAX,
        parent: 1,
        environment: vec![("CUDA_VISIBLE_DEVICES".into(), "0".into())],
        driver_path: "/usr/lib/libcuda.so.1".into(),
        driver_version: 13000,
        more: Vec::new(),
    }
}

impl Writer {
    pub fn new() -> Writer {
        Writer::with(&preamble())
    }

    pub fn with(preamble: &Preamble) -> Writer {
        let segment = whole(Kind::Preamble, 0, &encode(preamble));
        let bytes = [segment.clone(), segment, page_of_last_words()].concat();
        Writer { bytes, chunk: 4096, end: 0, threads: Vec::new() }
    }

    /// An entry record. Returns the number of the call on its thread.
    pub fn enter(&mut self, thread: u32, name: &str, begin: u64, words: &[u64], attachments: &[Vec<u8>]) -> u32 {
        let words: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let size = record::ENTRY_SIZE + words.len() + attachments.iter().map(Vec::len).sum::<usize>();
        let head = Head { size: size as u32, kind: record::ENTRY, flags: 0, function: id(name) };
        let mut bytes = encode_to_vec(Entry { head, begin }, CONFIG).expect("into memory");
        bytes.extend(words);
        bytes.extend(attachments.concat());
        self.record(thread, &bytes);
        let thread = &mut self.threads[thread as usize];
        thread.calls += 1;
        thread.calls - 1
    }

    pub fn leave(&mut self, thread: u32, call: u32, end: u64, result: u32, attachments: &[Vec<u8>]) {
        let size = record::RETURN_SIZE + attachments.iter().map(Vec::len).sum::<usize>();
        let head = Head { size: size as u32, kind: record::RETURN, flags: 0, function: 0 };
        let mut bytes = encode_to_vec(Return { head, end, call, result }, CONFIG).expect("into memory");
        bytes.extend(attachments.concat());
        self.record(thread, &bytes);
    }

    /// What counts calls like the one that has just returned; false, and nothing, if that is not the chunk to
    /// have it.
    pub fn repeats(&mut self, thread: u32, calls: u64, time: u64, begin: u64, end: u64) -> bool {
        let bytes = record::with_body(record::REPEATED, &Repeated { calls, time, begin, end });
        let open = self.threads[thread as usize].open;
        let fits = open.is_some_and(|(_, size, length)| HEADER + length + bytes.len() <= size);
        if fits {
            self.record(thread, &bytes);
        }
        fits
    }

    /// A call that takes 10 ticks.
    pub fn call(&mut self, thread: u32, name: &str, begin: u64, words: &[u64], result: u32, at_return: &[Vec<u8>]) {
        let call = self.enter(thread, name, begin, words, &[]);
        self.leave(thread, call, begin + 10, result, at_return);
    }

    /// Any whole record, into the open chunk of the thread or a new one.
    pub fn record(&mut self, thread: u32, bytes: &[u8]) {
        assert!(bytes.len().is_multiple_of(8));
        let thread_index = thread as usize;
        if self.threads.len() <= thread_index {
            self.threads.resize_with(thread_index + 1, Thread::default);
        }
        let fits = |&(_, size, length): &(usize, usize, usize)| HEADER + length + bytes.len() <= size;
        if self.threads[thread_index].open.as_ref().is_none_or(|open| !fits(open)) {
            self.seal(thread);
            let size = self.chunk.max(round_up((HEADER + bytes.len()) as u64));
            let state = &mut self.threads[thread_index];
            let id = u128::from(state.chunks) << 64 | u128::from(state.calls);
            state.chunks += 1;
            state.open = Some((self.bytes.len(), size as usize, 0));
            let header = Header { thread, id, ..Header::new(Kind::Chunk, size) };
            self.bytes.extend(header.encode());
            self.bytes.resize(self.bytes.len() + size as usize - HEADER, 0);
        }
        let Some((offset, _, length)) = self.threads[thread_index].open.as_mut() else { unreachable!("just opened") };
        let at = *offset + HEADER + *length;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        *length += bytes.len();
        self.end = at + bytes.len();
        let committed = (*length as u64).to_le_bytes();
        self.bytes[*offset + LENGTH_AT..*offset + LENGTH_AT + 8].copy_from_slice(&committed);
    }

    /// Closes the open chunk of a thread.
    pub fn seal(&mut self, thread: u32) {
        if let Some((offset, _, length)) = self.threads[thread as usize].open.take() {
            let seal = checksum(&self.bytes[offset + HEADER..offset + HEADER + length]);
            self.bytes[offset + SEAL_AT..offset + SEAL_AT + 8].copy_from_slice(&seal.to_le_bytes());
        }
    }

    /// Has the last bytes of a thread's open chunk be written and not committed.
    pub fn uncommit(&mut self, thread: u32, bytes: usize) {
        let (offset, _, length) = self.threads[thread as usize].open.as_mut().expect("an open chunk");
        *length -= bytes;
        let committed = (*length as u64).to_le_bytes();
        self.bytes[*offset + LENGTH_AT..*offset + LENGTH_AT + 8].copy_from_slice(&committed);
    }

    /// The next call of a thread that has some gets this number, in a chunk of its own.
    pub fn number_from(&mut self, thread: u32, calls: u32) {
        self.seal(thread);
        self.threads[thread as usize].calls = calls;
    }

    pub fn seal_all(&mut self) {
        (0..self.threads.len()).for_each(|thread| self.seal(thread as u32));
    }

    pub fn blob(&mut self, bytes: &[u8]) -> Hash {
        let hash = Hash::compute(bytes);
        self.bytes.extend(whole(Kind::Blob, hash.0, bytes));
        hash
    }

    /// The trace as a file.
    pub fn file(&self) -> tempfile::NamedTempFile {
        file(&self.bytes)
    }
}

/// Behind the preambles, as a process leaves it that has ended and said none.
fn page_of_last_words() -> Vec<u8> {
    let place = Place { memory: PRIVATE, page: 0, token: 1 };
    let mut page = Header { id: place.id(), ..Header::new(Kind::Free, PAGE) }.encode().to_vec();
    page.resize(PAGE as usize - HEADER, 0);
    page.extend(Header { seal: checksum(&[]), ..Header::new(Kind::Free, PAGE) }.encode());
    page
}

pub fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), bytes).expect("written");
    file
}

fn attachment(form: u8, field: u8, address: Option<u64>, len: usize, data: &[u8]) -> Vec<u8> {
    let mut out = vec![form, field, 0, 0];
    out.extend((len as u32).to_le_bytes());
    out.extend(address.into_iter().flat_map(u64::to_le_bytes));
    out.extend(data);
    out.resize(out.len().div_ceil(8) * 8, 0);
    out
}

/// Bytes at the address in argument word `field`.
pub fn inline(field: u8, data: &[u8]) -> Vec<u8> {
    attachment(record::INLINE, field, None, data.len(), data)
}

/// Bytes at an address that stands in no argument word.
pub fn nested(address: u64, data: &[u8]) -> Vec<u8> {
    attachment(record::INLINE, NESTED, Some(address), data.len(), data)
}

pub fn blob(field: u8, len: usize, hash: Hash) -> Vec<u8> {
    attachment(record::BLOB, field, None, len, &hash.to_bytes())
}

pub fn hash(field: u8, len: usize, hash: Hash) -> Vec<u8> {
    attachment(record::HASH, field, None, len, &hash.to_bytes())
}

/// Kernel arguments, for the array of pointers in argument word `field`.
pub fn arguments(field: u8, kernel: u32, values: &[&[u8]]) -> Vec<u8> {
    let mut data = kernel.to_le_bytes().to_vec();
    data.extend((values.len() as u32).to_le_bytes());
    for value in values {
        data.extend(*value);
        data.resize(data.len().div_ceil(8) * 8, 0);
    }
    attachment(record::ARGUMENTS, field, None, data.len(), &data)
}
