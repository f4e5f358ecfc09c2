//! Handmade traces, for the tests of this crate.

use std::collections::BTreeMap;
use std::ops::Range;
use trace::Trace;
use trace::api::FUNCTIONS;
use trace::file::preamble::{self, Data, Preamble};
use trace::file::record::{self, CONFIG, Clock, Head, Passed};
use trace::file::segment::{self, Header, Kind};

pub(crate) struct Sample {
    pub data: Data,
    /// Records of each thread, in order.
    threads: BTreeMap<u32, (Vec<u8>, u32)>,
}

/// What a call read or wrote: address and bytes.
pub(crate) type Piece<'a> = (u64, &'a [u8]);

impl Sample {
    pub(crate) fn new() -> Sample {
        Sample { data: Data::Inputs, threads: BTreeMap::new() }
    }

    /// A call that succeeded.
    pub(crate) fn call(&mut self, thread: u32, name: &str, time: Range<u64>, words: &[u64], pieces: &[Piece]) {
        let attachments = pieces.iter().map(|(address, bytes)| attachment(record::INLINE, *address, bytes));
        self.record(thread, name, time, 0, words, [&[], &attachments.collect::<Vec<_>>().concat()]);
    }

    pub(crate) fn failed(&mut self, thread: u32, name: &str, time: Range<u64>, result: u32, words: &[u64]) {
        self.record(thread, name, time, result, words, [&[], &[]]);
    }

    /// A launch of kernel 1 on stream 0 with one argument of 8 bytes.
    pub(crate) fn launch(&mut self, thread: u32, time: Range<u64>, argument: u64) {
        self.launch_with(thread, time, &argument.to_le_bytes());
    }

    /// The same with one argument of these bytes.
    pub(crate) fn launch_with(&mut self, thread: u32, time: Range<u64>, argument: &[u8]) {
        let packed = [&1u32.to_le_bytes()[..], &1u32.to_le_bytes(), argument].concat();
        let entry = attachment(record::ARGUMENTS, 0x5000, &packed);
        let words = [0xf00, 1, 1, 1, 1, 1, 1, 0, 0, 0x5000, 0];
        self.record(thread, "cuLaunchKernel", time, 0, &words, [&entry, &[]]);
    }

    /// A copy to the host whose hash was recorded.
    pub(crate) fn copy_out(&mut self, thread: u32, time: Range<u64>, from: u64, len: u64) {
        let hash = [0; 16];
        let mut attached = attachment(record::HASH, 0x6000, &hash);
        attached[4..8].copy_from_slice(&(len as u32).to_le_bytes());
        self.record(thread, "cuMemcpyDtoH_v2", time, 0, &[0x6000, from, len], [&[], &attached]);
    }

    /// The latest call of the thread has exported or imported a descriptor of this file.
    pub(crate) fn passed(&mut self, thread: u32, inode: u64) {
        let (records, sequence) = self.threads.get_mut(&thread).expect("a call");
        let passed = Passed { call: *sequence - 1, owner: 0, signal: 0, zero: 0, device: 1, inode };
        records.extend(record::with_body(record::PASSED, &passed));
    }

    /// `attached`: at entry, at return.
    fn record(&mut self, thread: u32, name: &str, time: Range<u64>, result: u32, words: &[u64], attached: [&[u8]; 2]) {
        let function = FUNCTIONS.iter().position(|f| f.name == name).expect("a function of the table") as u16;
        assert_eq!(words.len(), FUNCTIONS[function as usize].words(), "{name}");
        let (records, sequence) = self.threads.entry(thread).or_default();
        let mut put = |kind, body: &[u8]| {
            let head = Head { size: (record::HEAD + body.len()) as u32, kind, flags: 0, function };
            records.extend(bincode::encode_to_vec(head, CONFIG).expect("a head"));
            records.extend(body);
        };
        let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        put(record::ENTRY, &[&time.start.to_le_bytes()[..], &words, attached[0]].concat());
        let returned =
            [&time.end.to_le_bytes()[..], &sequence.to_le_bytes(), &result.to_le_bytes(), attached[1]].concat();
        put(record::RETURN, &returned);
        *sequence += 1;
    }

    pub(crate) fn trace(&self) -> Trace {
        let clock = |ticks| Clock { tsc: ticks, ns: ticks };
        let preamble = Preamble {
            writer: "test".into(),
            functions: FUNCTIONS.iter().map(|f| (f.name.to_owned(), f.words() as u16)).collect(),
            data: self.data,
            created: 0,
            clock: "monotonic".into(),
            clocks: [clock(0), clock(1000)],
            host: String::new(),
            program: String::new(),
            command_line: Vec::new(),
            directory: String::new(),
            pid: 1,
            parent: 0,
            environment: vec![
                ("CUDA_MODULE_LOADING".into(), "EAGER".into()),
                ("CUDA_INJECTION64_PATH".into(), "/tool.so".into()),
                ("LD_LIBRARY_PATH".into(), "/lib".into()),
            ],
            driver_path: String::new(),
            driver_version: 13000,
            more: Vec::new(),
        };
        let preamble = segment::whole(Kind::Preamble, 0, &preamble::encode(&preamble));
        let mut file = [&preamble[..], &preamble].concat();
        for (thread, (records, _)) in &self.threads {
            let mut content = records.clone();
            if *thread == 0 {
                let params = Some(vec![(0, 8)]);
                let name = "kernel".into();
                let kernel = record::Kernel { id: 1, handle: 0xf00, is_kernel: false, name, params, module: 0 };
                content.extend(record::with_body(record::KERNEL, &kernel));
            }
            let size = segment::round_up((segment::HEADER + content.len()) as u64);
            let header = Header { thread: *thread, length: content.len() as u64, ..Header::new(Kind::Chunk, size) };
            let start = file.len();
            file.extend(header.encode());
            file.extend(content);
            file.resize(start + size as usize, 0);
        }
        // Without any it would have been cut off.
        if self.threads.is_empty() {
            file.extend(Header::new(Kind::Chunk, segment::PAGE).encode());
            file.resize(file.len() + segment::PAGE as usize - segment::HEADER, 0);
        }
        let path = tempfile::NamedTempFile::new().expect("a temporary file").into_temp_path();
        std::fs::write(&path, file).expect("written");
        let trace = Trace::open(&path).expect("a trace");
        assert_eq!(trace.damage, []);
        trace
    }
}

fn attachment(form: u8, address: u64, data: &[u8]) -> Vec<u8> {
    let head = record::Attachment { form, field: record::NESTED, option: 0, len: data.len() as u32 };
    let mut out = bincode::encode_to_vec(head, CONFIG).expect("a head");
    out.extend(address.to_le_bytes());
    out.extend(data);
    out.resize(out.len().next_multiple_of(8), 0);
    out
}
