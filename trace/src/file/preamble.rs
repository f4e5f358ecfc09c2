//! Metadata of a trace: the preamble, written before the first call, and the footer, written after the last.

use crate::file::record::{CONFIG, Clock};
use bincode::{Decode, Encode};

/// The share of the application's data that a trace holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Data {
    /// Calls alone: for profiling; not replayable.
    None,
    /// All inputs, and hashes of results: replayable and checkable.
    Inputs,
    /// Results too.
    All,
}

impl Data {
    /// All values by their names in `--data` and in JSON.
    pub const NAMES: &[(&str, Data)] = &[("none", Data::None), ("inputs", Data::Inputs), ("all", Data::All)];

    /// The name in `--data` and in JSON.
    pub fn name(self) -> &'static str {
        Data::NAMES.iter().find(|(_, data)| *data == self).map_or("?", |(name, _)| name)
    }
}

/// Facts about the recorded process, and the function ids of the file.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Preamble {
    /// cutrace's own version.
    pub writer: String,
    /// Name and number of argument words of each function, by the ids used in this file.
    pub functions: Vec<(String, u16)>,
    /// The bytes that were recorded beside calls.
    pub data: Data,
    /// Nanoseconds since 1970.
    pub created: u64,
    /// "tsc" or "monotonic": what the time stamps count.
    pub clock: String,
    /// Two pairs, some hundred microseconds apart.
    pub clocks: [Clock; 2],
    /// Name of the host.
    pub host: String,
    /// Path of the executable.
    pub program: String,
    /// The command line, program included.
    pub command_line: Vec<String>,
    /// The working directory.
    pub directory: String,
    /// The process id.
    pub pid: u32,
    /// The parent's process id.
    pub parent: u32,
    /// CUDA_*, NVIDIA_*, LD_* and CUTRACE_* variables.
    pub environment: Vec<(String, String)>,
    /// Path of the driver's library.
    pub driver_path: String,
    /// As cuDriverGetVersion tells it, 1000 * major + 10 * minor; 0 if unknown.
    pub driver_version: i32,
    /// Facts added later: name and value.
    pub more: Vec<(String, String)>,
}

/// Name of each device of the simulated driver.
pub const SIMULATED_DEVICE: &str = "cutrace simulated device";

/// Of `more`: the number of the process in its job, of how many, and among those of its host.
pub const RANK: &str = "rank";
/// Number of processes in the job.
pub const RANKS: &str = "ranks";
/// Number of the process among those of its host.
pub const LOCAL_RANK: &str = "local rank";

/// Of `more`: that data which was recorded is not in this copy, and what has left it out. The preamble's `data`
/// is none then.
pub const DATA_LEFT_OUT: &str = "data left out";

impl Preamble {
    /// A number among the facts that were added later.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.more.iter().find(|(of, _)| of == name)?.1.parse().ok()
    }

    /// Whether this is a copy without the data that was recorded: what it says is lost was left out.
    pub fn is_data_left_out(&self) -> bool {
        self.data == Data::None && self.more.iter().any(|(of, _)| of == DATA_LEFT_OUT)
    }

    /// Why neither module images nor what was copied are in the file, if that was wanted.
    pub fn without_data(&self) -> Option<&'static str> {
        match self.data {
            Data::None if self.is_data_left_out() => Some("copied without its data"),
            Data::None => Some("recorded with --data=none"),
            Data::Inputs | Data::All => None,
        }
    }

    /// Whether a launch, of a kernel or a graph, had ended when it returned, and with it what was before it
    /// on its stream (driver 580: tests/gpu/facts/launch_blocking.c).
    pub fn launches_wait(&self) -> bool {
        let value = self.environment.iter().find(|(name, _)| name == "CUDA_LAUNCH_BLOCKING");
        value.is_some_and(|(_, value)| value.trim().parse::<i64>().is_ok_and(|value| value != 0))
    }
}

/// One segment of the file, for readers that already know where the segments are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Located {
    /// Kind of the segment, as in its header.
    pub kind: u8,
    /// Byte in the file at which its header begins.
    pub offset: u64,
}

/// Totals of a closed trace, and its segments.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Default)]
pub struct Footer {
    /// All usable segments, in any order.
    pub segments: Vec<Located>,
    /// Number of recorded calls.
    pub calls: u64,
    /// Bytes of payload and module images in blobs.
    pub blob_bytes: u64,
    /// Kinds of lost data, with counts.
    pub losses: Vec<(String, u64)>,
    /// `replayable`, `partly` or `no`, and why; empty if nobody has judged the trace so far.
    pub verdict: String,
    /// The reasons for the verdict, as phrases.
    pub reasons: Vec<String>,
}

/// Encodes with [`CONFIG`].
pub fn encode<T: Encode>(value: &T) -> Vec<u8> {
    bincode::encode_to_vec(value, CONFIG).expect("encoding into memory")
}

/// Decodes `bytes`, allocating no more than a bounded multiple of their length: a list takes its memory by
/// the length that it claims, before any of it is read. Values take a few times their encoding, and the
/// decoder's limit is a constant: 16 to 256 times the bytes.
pub fn decode<T: Decode<()>>(bytes: &[u8]) -> Option<T> {
    match bytes.len() {
        0..=0x100 => decode_with_limit::<0x1000, T>(bytes),
        0x101..=0x1000 => decode_with_limit::<0x1_0000, T>(bytes),
        0x1001..=0x1_0000 => decode_with_limit::<0x10_0000, T>(bytes),
        0x1_0001..=0x10_0000 => decode_with_limit::<0x100_0000, T>(bytes),
        0x10_0001..=0x100_0000 => decode_with_limit::<0x1000_0000, T>(bytes),
        0x100_0001..=0x1000_0000 => decode_with_limit::<0x1_0000_0000, T>(bytes),
        0x1000_0001..=0x4000_0000 => decode_with_limit::<0x4_0000_0000, T>(bytes),
        _ => None,
    }
}

fn decode_with_limit<const LIMIT: usize, T: Decode<()>>(bytes: &[u8]) -> Option<T> {
    bincode::decode_from_slice(bytes, CONFIG.with_limit::<LIMIT>()).ok().map(|(value, _)| value)
}
