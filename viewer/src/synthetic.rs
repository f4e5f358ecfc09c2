//! Synthetic traces of any length, made in seconds, for tests and benchmarks.
//!
//! They look like a training loop: each thread copies in, launches, records an event, queries, and waits now
//! and then; it allocates and frees, some allocations fail, some calls are made within others.

use bincode::encode_into_slice;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use trace::api;
use trace::base::hash::checksum;
use trace::file::preamble::{Data, Footer, Located, Preamble, encode};
use trace::file::record::{self, CONFIG, Clock, Device, Head, Kernel, Thread};
use trace::file::segment::{FORMAT_VERSION, HEADER, Header, Kind, MAGIC, PAGE, round_up, whole};
use trace::file::shared_memory::{PRIVATE, Place};

/// The shape of a synthetic trace.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// At least; the loop that is under way is finished.
    pub calls: u64,
    /// Number of threads.
    pub threads: u32,
    /// Number of kernels with a name of their own.
    pub kernels: u32,
    /// Start of the pseudo-random numbers; equal shapes give equal traces.
    pub seed: u64,
    /// Whether the file is closed, as `cutrace record` leaves it.
    pub footer: bool,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape { calls: 10_000, threads: 4, kernels: 24, seed: 1, footer: true }
    }
}

const FUNCTIONS: &[&str] = &[
    "cuInit",
    "cuDevicePrimaryCtxRetain",
    "cuCtxSetCurrent",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuStreamCreate",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoH_v2",
    "cuLaunchKernel",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventQuery",
    "cuStreamSynchronize",
    "cuCtxGetCurrent",
    "cuMemsetD8Async",
    "cuLaunchHostFunc",
];

const CHUNK: usize = 1 << 20;
const CONTEXT: u64 = 0xc000;
const SCRATCH: u64 = 0x7000_0000;
const MEMORY: u64 = 0x7f00_0000_0000;

fn id(name: &str) -> u16 {
    FUNCTIONS.iter().position(|known| *known == name).expect("one of FUNCTIONS") as u16
}

/// Writes a trace of this shape; how many calls it has.
pub fn write(path: &Path, shape: Shape) -> io::Result<u64> {
    let mut file = Output { out: BufWriter::with_capacity(4 << 20, File::create(path)?), at: 0, segments: Vec::new() };
    let preamble = whole(Kind::Preamble, 0, &encode(&preamble(path)));
    file.append(Kind::Preamble, &preamble)?;
    file.append(Kind::Preamble, &preamble)?;
    file.append(Kind::Free, &last_words())?;
    let threads = shape.threads.max(1);
    let mut lanes: Vec<Lane> = (0..threads).map(|index| Lane::new(index, shape)).collect();
    lanes[0].prologue(shape, threads);
    let start = lanes[0].clock;
    for lane in &mut lanes {
        lane.clock = lane.clock.max(start);
        lane.call("cuCtxSetCurrent", &[CONTEXT], &[], 200);
        lane.out(&mut file, false)?;
    }
    let mut calls: u64 = lanes.iter().map(|lane| lane.calls).sum();
    while calls < shape.calls {
        for lane in &mut lanes {
            let before = lane.calls;
            lane.step(shape);
            lane.out(&mut file, false)?;
            calls += lane.calls - before;
            if calls >= shape.calls {
                break;
            }
        }
    }
    for lane in &mut lanes {
        lane.out(&mut file, true)?;
    }
    if shape.footer {
        file.footer(calls)?;
    }
    file.out.flush()?;
    Ok(calls)
}

fn preamble(path: &Path) -> Preamble {
    let words = |name: &&str| (name.to_string(), api::by_name(name).map_or(0, |f| f.words() as u16));
    Preamble {
        writer: env!("CARGO_PKG_VERSION").into(),
        functions: FUNCTIONS.iter().map(words).collect(),
        data: Data::None,
        created: 0,
        clock: "monotonic".into(),
        clocks: [Clock { tsc: 0, ns: 0 }, Clock { tsc: 1_000_000, ns: 1_000_000 }],
        host: "nowhere".into(),
        program: "synthetic".into(),
        command_line: vec!["synthetic".into(), path.display().to_string()],
        directory: "/".into(),
        pid: 0,
        parent: 0,
        environment: Vec::new(),
        driver_path: "none".into(),
        driver_version: 13000,
        more: Vec::new(),
    }
}

/// As a process leaves it that has ended without any.
fn last_words() -> Vec<u8> {
    let place = Place { memory: PRIVATE, page: 0, token: 1 };
    let mut page = Header { id: place.id(), ..Header::new(Kind::Free, PAGE) }.encode().to_vec();
    page.resize(PAGE as usize - HEADER, 0);
    page.extend(Header { seal: checksum(&[]), ..Header::new(Kind::Free, PAGE) }.encode());
    page
}

struct Output {
    out: BufWriter<File>,
    at: u64,
    segments: Vec<Located>,
}

impl Output {
    fn append(&mut self, kind: Kind, bytes: &[u8]) -> io::Result<()> {
        self.segments.push(Located { kind: kind as u8, offset: self.at });
        self.at += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    fn footer(&mut self, calls: u64) -> io::Result<()> {
        let reasons = vec!["it was not recorded".to_owned()];
        let segments = std::mem::take(&mut self.segments);
        let footer = Footer { segments, calls, blob_bytes: 0, losses: vec![], verdict: "no".into(), reasons };
        let content = encode(&footer);
        let size = round_up((HEADER + content.len() + 16) as u64);
        let seal = checksum(&content);
        let mut bytes =
            Header { length: content.len() as u64, seal, ..Header::new(Kind::Footer, size) }.encode().to_vec();
        bytes.extend(content);
        bytes.resize(size as usize - 16, 0);
        bytes.extend(self.at.to_le_bytes());
        bytes.extend(MAGIC);
        self.out.write_all(&bytes)
    }
}

/// One thread, and its open chunk.
struct Lane {
    index: u32,
    random: u64,
    /// Nanoseconds.
    clock: u64,
    calls: u64,
    first: u64,
    ordinal: u64,
    content: Vec<u8>,
    steps: u64,
    allocated: Vec<u64>,
}

impl Lane {
    fn new(index: u32, shape: Shape) -> Lane {
        let mut content = Vec::with_capacity(CHUNK + 4096);
        let name = if index == 0 { "main".to_owned() } else { format!("worker-{index}") };
        content.extend(record::with_body(record::THREAD, &Thread { os_id: 1000 + index, name }));
        let random = (shape.seed.wrapping_add(u64::from(index) * 977)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let (calls, first, ordinal, steps) = (0, 0, 0, 0);
        Lane { index, random, clock: 1000, calls, first, ordinal, content, steps, allocated: Vec::new() }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below.max(1)
    }

    /// Writes the chunk if it is full, or at the end.
    fn out(&mut self, file: &mut Output, last: bool) -> io::Result<()> {
        if self.content.len() < CHUNK - 4096 && !last {
            return Ok(());
        }
        let size = round_up((HEADER + self.content.len()) as u64);
        let mut header = Header {
            thread: self.index,
            id: u128::from(self.first) | u128::from(self.ordinal) << 64,
            length: self.content.len() as u64,
            seal: checksum(&self.content),
            ..Header::new(Kind::Chunk, size)
        };
        header.version = FORMAT_VERSION;
        let mut bytes = header.encode().to_vec();
        bytes.extend_from_slice(&self.content);
        bytes.resize(size as usize, 0);
        file.append(Kind::Chunk, &bytes)?;
        self.content.clear();
        (self.first, self.ordinal) = (self.calls, self.ordinal + 1);
        Ok(())
    }

    fn head(&mut self, size: usize, kind: u8, flags: u8, function: u16) {
        let at = self.content.len();
        self.content.resize(at + record::HEAD, 0);
        let head = Head { size: size as u32, kind, flags, function };
        encode_into_slice(head, &mut self.content[at..], CONFIG).expect("a head is 8 bytes");
    }

    fn words(&mut self, words: &[u64]) {
        words.iter().for_each(|word| self.content.extend_from_slice(&word.to_le_bytes()));
    }

    /// An entry; the number of the call on this thread.
    fn enter(&mut self, name: &str, words: &[u64], inner: bool) -> u32 {
        self.clock += 20 + self.random(300);
        self.head(record::ENTRY_SIZE + 8 * words.len(), record::ENTRY, if inner { record::INNER } else { 0 }, id(name));
        self.words(&[self.clock]);
        self.words(words);
        self.calls += 1;
        self.calls as u32 - 1
    }

    /// A return; each attachment is a form, the argument word that holds its address, and 8-byte words.
    fn leave(&mut self, call: u32, name: &str, attachments: &[(u8, u8, &[u64])], took: u64, result: u32) {
        self.clock += took;
        let size = record::RETURN_SIZE + attachments.iter().map(|a| record::ATTACHMENT + 8 * a.2.len()).sum::<usize>();
        self.head(size, record::RETURN, 0, id(name));
        self.words(&[self.clock, u64::from(call) | u64::from(result) << 32]);
        for (form, field, data) in attachments {
            self.words(&[u64::from(*form) | u64::from(*field) << 8 | (8 * data.len() as u64) << 32]);
            self.words(data);
        }
    }

    fn call(&mut self, name: &str, words: &[u64], out: &[(u8, &[u64])], took: u64) {
        let call = self.enter(name, words, false);
        let took = took / 2 + self.random(took + 1);
        let attachments: Vec<(u8, u8, &[u64])> =
            out.iter().map(|(field, data)| (record::INLINE, *field, *data)).collect();
        self.leave(call, name, &attachments, took, 0);
    }

    fn prologue(&mut self, shape: Shape, threads: u32) {
        let device = Device { ordinal: 0, name: "Synthetic".into(), uuid: [0; 16], memory: 1 << 36, compute: (9, 0) };
        self.content.extend(record::with_body(record::DEVICE, &device));
        for kernel in 0..shape.kernels {
            let name = KERNELS[kernel as usize % KERNELS.len()].to_owned();
            let name = if (kernel as usize) < KERNELS.len() { name } else { format!("{name}_{kernel}") };
            let params = Some(vec![(0, 8), (8, 8)]);
            let kernel =
                Kernel { id: kernel, handle: function(kernel), is_kernel: false, name, params, module: 0x1000 };
            self.content.extend(record::with_body(record::KERNEL, &kernel));
        }
        self.call("cuInit", &[0], &[], 20_000_000);
        self.call("cuDevicePrimaryCtxRetain", &[SCRATCH, 0], &[(0, &[CONTEXT])], 50_000_000);
        self.call("cuCtxSetCurrent", &[CONTEXT], &[], 200);
        self.call("cuModuleLoadData", &[SCRATCH, SCRATCH + 64], &[(0, &[0x1000])], 3_000_000);
        for kernel in 0..shape.kernels {
            self.call("cuModuleGetFunction", &[SCRATCH, 0x1000, SCRATCH + 64], &[(0, &[function(kernel)])], 4_000);
        }
        for thread in 0..threads {
            self.call("cuStreamCreate", &[SCRATCH, 1], &[(0, &[stream(thread)])], 9_000);
            self.call("cuEventCreate", &[SCRATCH, 0], &[(0, &[event(thread)])], 900);
        }
    }

    /// One turn of the loop: 16 calls or so.
    fn step(&mut self, shape: Shape) {
        self.steps += 1;
        let (stream, event) = (stream(self.index), event(self.index));
        if self.steps % 16 == 1 {
            let name = "cuMemAlloc_v2";
            let bytes = 4096 << self.random(12);
            let call = self.enter(name, &[SCRATCH, bytes], false);
            if self.steps / 16 % 9 == 4 {
                self.leave(call, name, &[], 30_000, 2);
            } else {
                let address = MEMORY + u64::from(self.index) * (1 << 36) + self.random(1 << 10) * (1 << 26);
                let took = 2_000 + self.random(8_000);
                self.leave(call, name, &[(record::INLINE, 0, &[address])], took, 0);
                self.allocated.push(address);
            }
        }
        let base = self.allocated.last().copied().unwrap_or(MEMORY);
        self.call("cuMemcpyHtoDAsync_v2", &[base, SCRATCH, 64, stream], &[(1, &[7; 8])], 2_500);
        for _ in 0..8 + self.random(4) {
            let kernel = (self.random(u64::from(shape.kernels.max(1)).pow(2)) as f64).sqrt() as u32;
            let grid = 1 + self.random(512);
            let words = [function(kernel), grid, 1, 1, 256, 1, 1, 0, stream, SCRATCH, 0];
            let call = self.enter("cuLaunchKernel", &words, false);
            let took = if self.random(3000) == 0 { 2_000_000 } else { 1_500 + self.random(3_000) };
            let arguments: &[u64] = &[u64::from(kernel) | 2 << 32, base, grid * 256];
            self.leave(call, "cuLaunchKernel", &[(record::ARGUMENTS, 9, arguments)], took, 0);
        }
        self.call("cuCtxGetCurrent", &[SCRATCH], &[(0, &[CONTEXT])], 60);
        self.call("cuEventRecord", &[event, stream], &[], 900);
        let call = self.enter("cuEventQuery", &[event], false);
        let answer = if self.random(3) == 0 { 0 } else { 600 };
        self.leave(call, "cuEventQuery", &[], 300, answer);
        if self.steps.is_multiple_of(8) {
            let outer = self.enter("cuLaunchHostFunc", &[stream, SCRATCH, 0], false);
            let inner = self.enter("cuCtxGetCurrent", &[SCRATCH], true);
            self.leave(inner, "cuCtxGetCurrent", &[(record::INLINE, 0, &[CONTEXT])], 50, 0);
            self.leave(outer, "cuLaunchHostFunc", &[], 1_200, 0);
        }
        match self.steps % 32 {
            4 | 20 => self.call("cuStreamSynchronize", &[stream], &[], 400_000),
            9 => self.call("cuMemcpyDtoH_v2", &[SCRATCH, base, 4096], &[], 90_000),
            17 if self.allocated.len() > 3 => {
                let address = self.allocated.remove(0);
                self.call("cuMemFree_v2", &[address], &[], 6_000);
            }
            25 => self.clock += 3_000_000 + self.random(4_000_000),
            _ => {}
        }
    }
}

fn function(kernel: u32) -> u64 {
    0xf000 + 16 * u64::from(kernel)
}

fn stream(thread: u32) -> u64 {
    0x5000 + 16 * u64::from(thread)
}

fn event(thread: u32) -> u64 {
    0xe000 + 16 * u64::from(thread)
}

const KERNELS: &[&str] = &[
    "gemm_f16_128x128",
    "softmax_forward",
    "layer_norm",
    "_ZN2at6native29vectorized_elementwise_kernelILi4EfEEvi",
    "adam_step",
    "embedding_lookup",
    "reduce_sum",
    "void at::native::copy_kernel<float>(int, float*)",
    "flash_attention_fwd",
    "gelu",
    "dropout",
    "cross_entropy",
];
