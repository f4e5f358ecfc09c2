//! Records: the contents of a chunk, one after another, each a multiple of 8 bytes long.
//!
//! Encoded by bincode in its legacy configuration (little endian, fixed width), straight into the mapped
//! chunk.
//!
//! ```text
//! head     size u32 | kind u8 | flags u8 | function u16
//! entry    head | begin u64 | argument words, 8 bytes each | attachments
//! return   head | end u64 | call u32 | result u32 | attachments
//! attachment  form u8 | field u8 | zero u16 | len u32 | address u64, if field is NESTED | data, padded to 8
//! ```
//!
//! `field` is the index of the argument word that holds the address, or NESTED.
//!
//! An attachment is a piece of the application's memory as the call saw it: `len` bytes at that address.
//! Address 0 holds the contents of the file that the call names by its path.

pub mod imported_memory;
pub mod nccl;

use crate::base::hash::checksum;
use bincode::{Decode, Encode};
use std::collections::HashMap;

/// bincode configuration of everything in a trace: fixed width, little endian, as bincode 1 wrote it.
pub type Config = bincode::config::Configuration<bincode::config::LittleEndian, bincode::config::Fixint>;
/// The configuration itself.
pub const CONFIG: Config = bincode::config::legacy();

/// The first 8 bytes of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Head {
    /// Bytes of the whole record, this head included.
    pub size: u32,
    /// The kind: [`ENTRY`] and the constants behind it.
    pub kind: u8,
    /// Or of [`INNER`] and [`OPTIONAL`].
    pub flags: u8,
    /// Id of the function, by the list in this file's preamble.
    pub function: u16,
}

impl Head {
    /// As [`CONFIG`] decodes it, which takes longer: every record is read by its head.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Head> {
        let [a, b, c, d, kind, flags, e, f] = *bytes.first_chunk()?;
        Some(Head { size: u32::from_le_bytes([a, b, c, d]), kind, flags, function: u16::from_le_bytes([e, f]) })
    }
}

/// A call begins: the head, a time, its argument words and attachments.
pub const ENTRY: u8 = 1;
/// A call returned: the time, the call, its result and attachments.
pub const RETURN: u8 = 2;
/// The thread that writes this chunk: operating-system id and name.
pub const THREAD: u8 = 3;
/// Name and parameter layout of a function or kernel, before its first launch.
pub const KERNEL: u8 = 4;
/// Bytes that a finished copy brought, once the application could see them.
pub const OBSERVED: u8 = 5;
/// A (tsc, ns) pair.
pub const CLOCK: u8 = 6;
/// A device as the driver describes it.
pub const DEVICE: u8 = 7;
/// Something that was not recorded, and how often.
pub const LOSS: u8 = 8;
/// A module image that was found without the call that loaded it.
pub const ADOPTED: u8 = 9;

/// Host memory that the CPU had written without a call, and the runs of callbacks. Attachments follow the
/// body.
pub const WRITTEN: u8 = 10;
/// What the program itself says it is doing. Text follows the body.
pub const ANNOTATION: u8 = 11;

/// When a device did what a call gave it, as a replay measured it.
pub const TIMED: u8 = 12;
/// The replay that measured.
pub const PROFILE: u8 = 13;
/// What a number in TIMED records stands for.
pub const NAMED: u8 = 14;

/// Calls that a capture range left out.
pub const LEFT_OUT: u8 = 15;

/// What the program's standard output got.
pub const PRINTED: u8 = 16;

/// Further calls like the one whose return stands before it.
pub const REPEATED: u8 = 17;

/// Recording was switched on or off from outside.
pub const SWITCHED: u8 = 18;

/// How the program ended.
pub const ENDED: u8 = 19;

/// Bytes that lie in a file of the program, which the trace names in their place.
pub const REFERENCED: u8 = 20;

/// The file behind a descriptor that a call has exported or imported.
pub const PASSED: u8 = 24;

/// What registered host memory is a mapping of, where other processes may have it, too.
pub const SHARED: u8 = 26;

/// A reader that does not know the kind may pass over the record.
pub const OPTIONAL: u8 = 0x80;
/// The call was made inside another call of the same thread.
pub const INNER: u8 = 0x01;
/// Of repeated queries one in `TIMED_ONE_IN` was timed, the first of them first.
pub const TIMED_IN_PART: u8 = 0x02;
/// A power of two.
pub const TIMED_ONE_IN: u64 = 16;

/// Fixed part of an ENTRY record.
#[derive(Debug, Clone, Copy, Encode, Decode)]
pub struct Entry {
    /// The record's head.
    pub head: Head,
    /// Ticks of the recording's clock.
    pub begin: u64,
}

/// Fixed part of a RETURN record.
#[derive(Debug, Clone, Copy, Encode, Decode)]
pub struct Return {
    /// The record's head.
    pub head: Head,
    /// Ticks of the recording's clock.
    pub end: u64,
    /// The call's number on its thread, as counted by its entries (low 32 bits).
    pub call: u32,
    /// The CUresult.
    pub result: u32,
}

/// Fixed part of an attachment: a piece of the application's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Attachment {
    /// Form of the data: [`INLINE`] and the constants behind it.
    pub form: u8,
    /// Argument word that holds the address, or `NESTED`.
    pub field: u8,
    /// The JIT option (CUjit_option) in whose buffer it lies, if no argument of the call leads there; else 0.
    pub option: u16,
    /// Bytes of the application's memory this stands for.
    pub len: u32,
}

/// The address is in an 8-byte word of its own behind the fixed part.
pub const NESTED: u8 = 0xff;
/// The bytes themselves.
pub const INLINE: u8 = 1;
/// 16 bytes: the hash of a blob in this file.
pub const BLOB: u8 = 2;
/// 16 bytes: the hash of bytes that are not in this file.
pub const HASH: u8 = 3;
/// No data: the memory could not be read, or capture had stopped.
pub const LOST: u8 = 4;
/// No data: an OBSERVED record follows when the copy has finished.
pub const PENDING: u8 = 5;
/// Kernel arguments: id of the KERNEL record u32, number of arguments u32, then each argument's bytes padded
/// to 8.
pub const ARGUMENTS: u8 = 6;
/// Or-ed into the form: the rows of a pitched region, packed; the region follows from the copy's descriptor.
pub const ROWS: u8 = 0x80;

/// Payloads up to this many bytes stand inline; longer ones are blobs.
pub const INLINE_LIMIT: usize = 2048;
/// Longer payloads and results are attached in pieces of this size, one behind the other. Each is named by
/// its content: what has changed of a buffer is stored, and the rest of it is known.
pub const PIECE: usize = 256 << 10;
/// What is longer and no payload (an image of code) is attached in pieces of this size: to read one may take
/// a copy of it.
pub const LONGEST: usize = 64 << 20;

/// A recorded thread.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Thread {
    /// The operating-system id.
    pub os_id: u32,
    /// The name when its first record was written.
    pub name: String,
}

/// The device-side layout of a kernel's parameters: (offset, size), by ordinal.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Kernel {
    /// Unique in the file; ARGUMENTS attachments name it.
    pub id: u32,
    /// The CUfunction or CUkernel that was launched.
    pub handle: u64,
    /// Whether `handle` is a CUkernel.
    pub is_kernel: bool,
    /// Mangled name.
    pub name: String,
    /// None: neither the driver nor the code would tell, and the arguments are not recorded.
    pub params: Option<Vec<(u32, u32)>>,
    /// The CUmodule, when the driver would tell; 0 otherwise.
    pub module: u64,
}

/// The result of an asynchronous copy, read when a wait covered it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Observed {
    /// Ticks of the recording's clock, at the read.
    pub time: u64,
    /// The copy: thread index and call number on that thread.
    pub thread: u32,
    /// Number of the copying call on that thread, low 32 bits.
    pub call: u32,
    /// Address of the bytes in host memory.
    pub address: u64,
    /// Number of bytes.
    pub len: u64,
    /// Hash of the bytes.
    pub hash: [u8; 16],
    /// HASH or BLOB, or LOST.
    pub form: u8,
    /// Taken at a point later than the first at which the application could look.
    pub late: bool,
}

/// A CPU write found in host memory that the device can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Written {
    /// Ticks of the recording's clock, when the bytes were found or the callback began.
    pub begin: u64,
    /// Later than `begin` only for the run of a callback.
    pub end: u64,
    /// Found before this call: thread index and call number on that thread. For a callback, the call that
    /// handed it over.
    pub thread: u32,
    /// Number of the call on that thread, low 32 bits.
    pub call: u32,
    /// 0 before a call; n for what the callback's n-th run wrote.
    pub run: u32,
    /// WRITTEN_HERE, SEEN, TOLD, MEANWHILE or EITHER.
    pub seen: u32,
}

/// Written by the CPU.
pub const WRITTEN_HERE: u32 = 0;
/// In managed memory, where it is not known whether the CPU wrote the bytes or only looked at them.
pub const SEEN: u32 = 1;
/// Found before another call while the callback ran: told there, and once more for the callback, as it may be
/// the callback's.
pub const TOLD: u32 = 2;
/// Found when the call, a wait, had returned: others had written it meanwhile, into memory of kernels that
/// may have waited for that.
pub const MEANWHILE: u32 = 3;
/// The same on a page where the program writes other memory, too: it may be the CPU's or the kernel's.
pub const EITHER: u32 = 4;

/// One annotation by NVTX, or the name behind a number in annotations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub struct Annotation {
    /// Ticks of the recording's clock; 0 for a DOMAIN or TEXT.
    pub time: u64,
    /// The payload's bits, by `payload_type`.
    pub payload: u64,
    /// What it is about: a range's id, a category, a thread's operating-system id, a handle, or the number
    /// that is defined.
    pub subject: u64,
    /// 0: none; with `registered`, the number of a TEXT; else one more than the bytes of text behind the
    /// body.
    pub message: u32,
    /// 0: the default domain; else the number of a DOMAIN.
    pub domain: u32,
    /// NVTX's number of the category, 0 for none.
    pub category: u32,
    /// ARGB.
    pub color: u32,
    /// One of the constants in [`annotated`].
    pub what: u8,
    /// NVTX's nvtxPayloadType_t, 0 for none; 255: a type that the recorder did not know.
    pub payload_type: u8,
    /// Whether the program gave a `color`.
    pub has_color: bool,
    /// Whether `message` is the number of a TEXT.
    pub registered: bool,
    /// Always 0.
    pub zero: u32,
}

/// What an annotation is.
pub mod annotated {
    /// A moment.
    pub const MARK: u8 = 1;
    /// A range begins, within its thread and domain.
    pub const PUSH: u8 = 2;
    /// The last range of its thread and domain ends.
    pub const POP: u8 = 3;
    /// A range that any thread may end: `subject` is its id.
    pub const START: u8 = 4;
    /// A range ends: `subject` is its id.
    pub const END: u8 = 5;
    /// `subject` is the category, in the record's domain.
    pub const CATEGORY: u8 = 6;
    /// `subject` is the thread's operating-system id.
    pub const THREAD: u8 = 7;
    /// `subject` is the handle, or the device's ordinal.
    pub const DEVICE: u8 = 8;
    /// Name of a context: `subject` is its handle.
    pub const CONTEXT: u8 = 9;
    /// Name of a stream: `subject` is its handle.
    pub const STREAM: u8 = 10;
    /// Name of an event: `subject` is its handle.
    pub const EVENT: u8 = 11;
    /// The program destroyed the record's domain.
    pub const DOMAIN_DESTROYED: u8 = 12;
    /// The domain or text that has the number `subject`. Written before the thread's record that needs it;
    /// another thread's may come first.
    pub const DOMAIN: u8 = 13;
    /// A registered text; see [`DOMAIN`].
    pub const TEXT: u8 = 14;
}

/// One kernel, copy or fill on a device. All times are nanoseconds since the trace's first clock pair; those
/// of a replay are shifted so that its first call begins when the recorded one did. Unknown numbers are
/// [`UNKNOWN`](timed::UNKNOWN).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Timed {
    /// Nanoseconds since the first clock pair, when the work began on the device.
    pub start: i64,
    /// Nanoseconds since the first clock pair, when the work ended on the device.
    pub end: i64,
    /// When the replay made the call, and when the call returned.
    pub submitted: i64,
    /// When the replay's call returned.
    pub returned: i64,
    /// Of a copy or fill.
    pub bytes: u64,
    /// The node of a graph, by the number that its source gives it; 0 if it is none.
    pub node: u64,
    /// The call that put it there: thread index and call number on that thread.
    pub thread: u32,
    /// Number of the call on that thread, low 32 bits.
    pub call: u32,
    /// The kernel, by the number of a NAMED record; 0 if it is none.
    pub name: u32,
    /// As the replay's driver and its source count them.
    pub device: u32,
    /// The context's number.
    pub context: u32,
    /// The stream's number; the legacy default stream is 7.
    pub stream: u32,
    /// Blocks of a kernel in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// A thread's.
    pub registers: u32,
    /// Bytes a block.
    pub static_shared: u32,
    /// Bytes of a block that the launch requested.
    pub dynamic_shared: u32,
    /// Bytes a thread.
    pub local: u32,
    /// Warps that fit on a multiprocessor, as the driver computes it, in thousandths of those that it can
    /// hold.
    pub occupancy: u16,
    /// CUPTI's CUpti_ActivityMemcpyKind.
    pub copy: u8,
    /// Always 0.
    pub zero: u8,
    /// One of [`timed::KERNEL`], [`timed::COPY`], [`timed::FILL`] and [`timed::GRAPH`].
    pub what: u8,
    /// One of the sources in [`timed`].
    pub source: u8,
    /// CUPTI's CUpti_ActivityMemoryKind; of a fill `to` alone.
    pub from: u8,
    /// The same of the destination.
    pub to: u8,
}

impl Timed {
    /// Of work that is yet to be described and timed.
    pub const BLANK: Timed = Timed {
        start: 0,
        end: 0,
        submitted: 0,
        returned: 0,
        bytes: 0,
        node: 0,
        thread: timed::UNKNOWN,
        call: timed::UNKNOWN,
        name: 0,
        device: timed::UNKNOWN,
        context: timed::UNKNOWN,
        stream: timed::UNKNOWN,
        grid: [timed::UNKNOWN; 3],
        block: [timed::UNKNOWN; 3],
        registers: timed::UNKNOWN,
        static_shared: timed::UNKNOWN,
        dynamic_shared: timed::UNKNOWN,
        local: timed::UNKNOWN,
        occupancy: timed::UNKNOWN_OCCUPANCY,
        copy: 0,
        zero: 0,
        what: 0,
        source: 0,
        from: 0,
        to: 0,
    };
}

/// Values in [`Timed`] records.
pub mod timed {
    /// A number that the source does not report.
    pub const UNKNOWN: u32 = u32::MAX;
    /// An occupancy that the source does not report.
    pub const UNKNOWN_OCCUPANCY: u16 = u16::MAX;

    /// A kernel.
    pub const KERNEL: u8 = 1;
    /// A copy.
    pub const COPY: u8 = 2;
    /// A fill.
    pub const FILL: u8 = 3;
    /// A whole launch of a graph: its source cannot look inside.
    pub const GRAPH: u8 = 4;

    /// Activity records of CUPTI.
    pub const CUPTI: u8 = 1;
    /// Events of the driver round the submission: what the device did before it began the work may be in it.
    pub const EVENTS: u8 = 2;
    /// Activity records of CUPTI, of the recorded run itself: `submitted` and `returned` are 0 in the file,
    /// and those of the recorded call to a reader.
    pub const RECORDED: u8 = 3;
    /// In a PROFILE record: there are no times, though the recording was to have them.
    pub const NONE: u8 = 0;

    /// The thread that chunks name which hold nothing but TIMED, PROFILE and NAMED records: no recorded one.
    pub const THREAD: u32 = u32::MAX;
}

/// The replay or recording that measured the times; the last record in its chunks counts.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Profile {
    /// Nanoseconds since 1970.
    pub created: u64,
    /// As in TIMED records.
    pub source: u8,
    /// The source's own version, as it tells it; 0 for events.
    pub version: u32,
    /// Why it is not CUPTI.
    pub why: String,
    /// Path of the driver's library that ran the replay.
    pub driver: String,
    /// Its version, as cuDriverGetVersion returns it.
    pub driver_version: i32,
    /// Ordinal and name.
    pub devices: Vec<(u32, String)>,
    /// What was added to the replay's times (CLOCK_MONOTONIC).
    pub offset: i64,
    /// By how many nanoseconds device times may be off against times of calls.
    pub uncertainty: u64,
    /// Number of TIMED records.
    pub works: u64,
    /// Work of recorded calls that was not timed: why, and how often.
    pub untimed: Vec<(String, u64)>,
    /// Facts added later: name and value.
    pub more: Vec<(String, String)>,
}

/// The name of a kernel in TIMED records.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Name {
    /// Number of the name in the file.
    pub number: u32,
    /// Mangled name.
    pub name: String,
}

/// The checksum of each line of the program's standard output, from any source: it includes the output of
/// kernels.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Printed {
    /// XXH3-64 of each line, in order.
    pub lines: Vec<u64>,
}

impl Printed {
    /// Hashes the lines of this output, without empty ones.
    pub fn from_text(text: &[u8]) -> Printed {
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        Printed { lines: lines.map(checksum).collect() }
    }

    /// How many of another's lines are among these, each as often.
    pub fn hold(&self, others: &Printed) -> usize {
        let mut left: HashMap<u64, usize> = HashMap::new();
        self.lines.iter().for_each(|line| *left.entry(*line).or_default() += 1);
        let is_there =
            |line: &&u64| left.get_mut(line).is_some_and(|left| left.checked_sub(1).map(|less| *left = less).is_some());
        others.lines.iter().filter(is_there).count()
    }
}

/// Calls of this thread while the capture range was closed. The counts are updated in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct LeftOut {
    /// When the first one came.
    pub begin: u64,
    /// Number of calls.
    pub calls: u64,
    /// Of those, calls that may have changed what devices hold.
    pub works: u64,
}

/// Recorded calls of its thread, launches and queries, that queries go on being counted across: fewer.
pub const ACROSS: u32 = 64;

/// Consecutive polls of a thread, or queries with only launches and other queries in between, with the same
/// arguments and results as the first, which is not counted. The record is updated in place, from the last
/// word to the first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub struct Repeated {
    /// Number of calls.
    pub calls: u64,
    /// Ticks inside them all, or those of them that were timed.
    pub time: u64,
    /// Of the last timed. If it begins later than it ends, one has not returned.
    pub begin: u64,
    /// When the last one that was timed returned.
    pub end: u64,
}

/// One moment on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Clock {
    /// Ticks of the recording's clock.
    pub tsc: u64,
    /// Nanoseconds of CLOCK_MONOTONIC_RAW.
    pub ns: u64,
}

/// A device that the process saw.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Device {
    /// The ordinal that the process used.
    pub ordinal: i32,
    /// The device's name by cuDeviceGetName.
    pub name: String,
    /// The device's UUID.
    pub uuid: [u8; 16],
    /// Bytes of memory.
    pub memory: u64,
    /// Compute capability, major and minor.
    pub compute: (i32, i32),
}

/// A kind of data that was not recorded.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Loss {
    /// The kind as a phrase.
    pub what: String,
    /// Count so far in the process.
    pub count: u64,
}

/// Of what these copied, a replay compares less.
pub const UNREAD_COPIES: &str = "launches of graphs that copy more to pageable memory than is read";

/// What is lost of a recording that has ended at its size limit: the preamble's `more` has it.
pub const BEYOND_LIMIT: &str = "calls beyond the size limit, at least";
/// The key there.
pub const SIZE_LIMIT: &str = "size limit";

/// Whether nothing is missing in a replay that has lost this: annotations, and what it would be compared
/// with.
pub fn no_replay_needs(what: &str) -> bool {
    what.contains("annotations") || what == UNREAD_COPIES
}

/// The image of a module that appeared without a load call.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Adopted {
    /// The CUmodule.
    pub module: u64,
    /// Blobs of the fatbins that were in the process: one of them is the module's.
    pub images: Vec<[u8; 16]>,
    /// Where they were found.
    pub origin: String,
}

/// From `time` on, calls are recorded or left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Switched {
    /// Ticks of the recording's clock.
    pub time: u64,
    /// Whether calls are recorded from then on.
    pub is_on: bool,
}

/// The end of a process: its exit status, or its signal. In the file its time follows, in nanoseconds of
/// CLOCK_MONOTONIC_RAW; 0, or nothing, if it is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Ended {
    /// Exit status; 0 if a signal ended the program.
    pub status: i32,
    /// 0: none.
    pub signal: i32,
}

/// A file of the program, in its state when pieces of it were copied to the device.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Referenced {
    /// Path of the file in the recorded process.
    pub path: String,
    /// Bytes of the file.
    pub size: u64,
    /// When it was last changed, in nanoseconds since 1970.
    pub modified: i64,
    /// The pieces that were copied.
    pub pieces: Vec<Referred>,
}

/// The blob of this hash, which is not stored, and the place of its bytes in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Referred {
    /// Hash of the piece.
    pub hash: [u8; 16],
    /// Byte in the file at which the piece begins.
    pub offset: u64,
    /// Bytes of the piece.
    pub len: u64,
}

/// The identity of the open file behind a descriptor, when the call returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Passed {
    /// The call's number on its thread.
    pub call: u32,
    /// Marks that the exporting process leaves on the open file, and that all copies of the descriptor show
    /// (fcntl's F_GETOWN and F_GETSIG).
    pub owner: i32,
    /// The second of these marks: F_GETSIG.
    pub signal: i32,
    /// Always 0.
    pub zero: u32,
    /// Device of the open file (`st_dev`).
    pub device: u64,
    /// Inode of the open file (`st_ino`).
    pub inode: u64,
}

/// Host memory that a call has registered, if it is a shared mapping of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Shared {
    /// The call's number on its thread.
    pub call: u32,
    /// Always 0.
    pub zero: u32,
    /// Offset in the registered memory at which the part begins.
    pub start: u64,
    /// Bytes of the part.
    pub len: u64,
    /// Device of the mapped file (`st_dev`).
    pub device: u64,
    /// Inode of the mapped file (`st_ino`).
    pub inode: u64,
    /// Where in the file the first byte lies.
    pub offset: u64,
}

/// Bytes of a [`Head`].
pub const HEAD: usize = 8;
/// Where in a record its kind stands.
pub const KIND_AT: usize = 4;
/// Bytes of an [`Entry`], without argument words.
pub const ENTRY_SIZE: usize = 16;
/// Bytes of a [`Return`], without attachments.
pub const RETURN_SIZE: usize = 24;
/// Bytes of an [`Attachment`], without address and data.
pub const ATTACHMENT: usize = 8;
/// Where the attachments of a WRITTEN record begin.
pub const WRITTEN_SIZE: usize = HEAD + size_of::<Written>();
/// Where the text of an ANNOTATION record begins.
pub const ANNOTATION_SIZE: usize = HEAD + size_of::<Annotation>();

/// The first of several records, and those behind it; none where none fits.
pub fn first(records: &[u8]) -> Option<(&[u8], &[u8])> {
    let size = u32::from_le_bytes(records.first_chunk().copied()?) as usize;
    records.split_at_checked(size).filter(|_| size >= HEAD)
}

/// A record of a bincode-encoded body, padded to 8 bytes.
pub fn with_body<T: Encode>(kind: u8, body: &T) -> Vec<u8> {
    let mut out = vec![0; HEAD];
    out.extend(bincode::encode_to_vec(body, CONFIG).expect("encoding into memory"));
    out.resize(out.len().div_ceil(8) * 8, 0);
    let head = Head { size: out.len() as u32, kind, flags: OPTIONAL, function: 0 };
    bincode::encode_into_slice(head, &mut out, CONFIG).expect("a head is 8 bytes");
    out
}

/// Adds an attachment of memory at `address` to a record made by [`with_body`].
pub fn attach(record: &mut Vec<u8>, form: u8, address: u64, len: u32, data: &[u8]) {
    let head = Attachment { form, field: NESTED, option: 0, len };
    record.extend(bincode::encode_to_vec((head, address), CONFIG).expect("encoding into memory"));
    record.extend_from_slice(data);
    record.resize(record.len().next_multiple_of(8), 0);
    let size = (record.len() as u32).to_le_bytes();
    record[..4].copy_from_slice(&size);
}
