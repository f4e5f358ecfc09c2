//! Activity records, with the layouts of CUDA 13.0's header. Times are those of events, on a clock with
//! another start.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::CString;

use parking_lot::Mutex;

use crate::abi::Handle;
use crate::base::state;
use crate::memory::copy::{Copy, Fill, Plane, Side};
use crate::memory::table;
use crate::ptx::exec::Grid;

/// Nanoseconds at which CUPTI's clock began, before the driver's.
const EPOCH: u64 = 1_000_000_000_000;

const MEMCPY: u32 = 1;
const MEMSET: u32 = 2;
const CONCURRENT_KERNEL: u32 = 10;
pub(crate) const MEMCPY2: u32 = 22;
pub(crate) const DRIVER: u32 = 4;
const EXTERNAL_CORRELATION: u32 = 39;

pub(crate) type Request = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
pub(crate) type Complete = extern "C" fn(Handle, u32, *mut u8, usize, usize);

#[derive(Default)]
pub(crate) struct Activities {
    pub kinds: Vec<u32>,
    /// Functions whose calls are recorded one by one, by id.
    pub calls: Vec<u32>,
    pub functions: Option<(Request, Complete)>,
    /// Address, size, and how much of it holds records.
    pub buffer: Option<(usize, usize, usize)>,
}

pub(crate) static ACTIVITIES: Mutex<Activities> =
    Mutex::new(Activities { kinds: Vec::new(), calls: Vec::new(), functions: None, buffer: None });

thread_local! {
    /// Kind and number of what this thread says it is in.
    pub static NUMBERS: RefCell<Vec<(u32, u64)>> = const { RefCell::new(Vec::new()) };
    /// The call that this thread makes.
    pub static CALL: Cell<u32> = const { Cell::new(0) };
    /// What this thread, a stream's or a caller's, does the work of.
    static ORIGIN: Cell<Origin> = const { Cell::new(Origin { correlation: 0, context: 0, stream: 0, device: 0, node: 0 }) };
}

/// The origin of work.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Origin {
    correlation: u32,
    context: u32,
    stream: u32,
    device: u32,
    /// Of a graph, from 1 on.
    node: u64,
}

/// A record of the call, if it is to have one, and before it those of its numbers: the last of each kind.
pub(crate) fn recorded(id: u32, correlation: u32, start: u64) {
    let activities = ACTIVITIES.lock();
    if !activities.kinds.contains(&DRIVER) && !activities.calls.contains(&id) {
        return;
    }
    drop(activities);
    let mut numbers: Vec<(u32, u64)> = Vec::new();
    NUMBERS.with_borrow(|all| {
        for (kind, number) in all {
            numbers.retain(|(known, _)| known != kind);
            numbers.push((*kind, *number));
        }
    });
    for (kind, number) in numbers {
        let mut record = Record::new(EXTERNAL_CORRELATION, 24);
        record.words(4, &[kind]);
        record.write(8, &number.to_le_bytes());
        record.words(16, &[correlation]);
        append(&record.0);
    }
    let mut record = Record::new(DRIVER, 40);
    record.words(4, &[id]);
    record.write(8, &[start.to_le_bytes(), now().to_le_bytes()].concat());
    // SAFETY: takes nothing. The C library has a name for it since 2.30.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    record.words(24, &[std::process::id(), thread as u32, correlation]);
    append(&record.0);
}

impl Origin {
    /// Of work that the calling thread puts on a stream now.
    pub(crate) fn new(stream: u64, device: i32) -> Origin {
        Origin { correlation: CALL.get(), context: 1, stream: stream as u32, device: device as u32, node: 0 }
    }

    /// Does its work on this thread.
    pub(crate) fn perform(self, work: impl FnOnce()) {
        let before = ORIGIN.replace(self);
        work();
        ORIGIN.set(before);
    }

    pub(crate) fn node(number: u64) -> Origin {
        Origin { node: number, ..ORIGIN.get() }
    }
}

/// Work of a stream that gets a record.
pub(crate) enum Activity<'a> {
    Kernel(&'a Grid),
    Copy(&'a Copy),
    Fill(&'a Fill),
}

/// Times what a stream does.
pub(crate) fn timed<T>(activity: Option<Activity<'_>>, perform: impl FnOnce() -> T) -> T {
    let Some(activity) = activity.filter(|_| !ACTIVITIES.lock().kinds.is_empty()) else { return perform() };
    let start = now();
    let done = perform();
    // What a clock of its own would tell apart, this one may not.
    record(&activity, ORIGIN.get(), start, now().max(start + 1));
    done
}

/// Nanoseconds on CUPTI's clock.
pub(crate) fn now() -> u64 {
    state::nanoseconds() + EPOCH
}

/// A record that is filled field by field.
struct Record(Vec<u8>);

impl Record {
    fn new(kind: u32, size: usize) -> Record {
        let mut record = Record(vec![0; size]);
        record.write(0, &kind.to_le_bytes());
        record
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn words(&mut self, at: usize, words: &[u32]) {
        words.iter().enumerate().for_each(|(n, word)| self.write(at + 4 * n, &word.to_le_bytes()));
    }
}

fn record(activity: &Activity<'_>, origin: Origin, start: u64, end: u64) {
    let Origin { correlation, context, stream, device, node } = origin;
    let places = [device, context, stream];
    let mut record = match activity {
        Activity::Kernel(grid) => {
            let mut record = Record::new(CONCURRENT_KERNEL, 216);
            let kernel = &grid.program.kernels[grid.kernel];
            record.write(6, &(kernel.registers as u16).to_le_bytes());
            record.words(40, &places);
            record.words(52, &grid.blocks);
            record.words(64, &grid.threads);
            record.words(76, &[kernel.static_shared as u32, grid.dynamic_shared, kernel.local as u32]);
            record.words(92, &[correlation]);
            record.write(104, &(name(grid) as u64).to_le_bytes());
            record.write(144, &node.to_le_bytes());
            record
        }
        Activity::Copy(copy) => {
            let mut record = Record::new(MEMCPY, 96);
            record.write(4, &kinds(copy));
            record.write(8, &((copy.width * copy.height * copy.depth) as u64).to_le_bytes());
            record.words(32, &places);
            record.words(44, &[correlation]);
            record.write(64, &node.to_le_bytes());
            record
        }
        Activity::Fill(fill) => {
            let mut record = Record::new(MEMSET, 88);
            record.words(4, &[fill.value as u32]);
            record.write(8, &((fill.width * fill.height * fill.element) as u64).to_le_bytes());
            record.words(32, &places);
            record.words(44, &[correlation]);
            record.write(50, &3u16.to_le_bytes());
            record.write(64, &node.to_le_bytes());
            record
        }
    };
    record.write(16, &[start.to_le_bytes(), end.to_le_bytes()].concat());
    append(&record.0);
}

/// The kernel's name, for as long as the process lives.
fn name(grid: &Grid) -> usize {
    static NAMES: Mutex<Option<HashMap<String, usize>>> = Mutex::new(None);
    let name = &grid.program.kernels[grid.kernel].name;
    let mut names = NAMES.lock();
    let names = names.get_or_insert_with(HashMap::new);
    match names.get(name) {
        Some(address) => *address,
        None => {
            let address = CString::new(name.as_str()).unwrap_or_default().into_raw() as usize;
            names.insert(name.clone(), address);
            address
        }
    }
}

/// CUpti_ActivityMemcpyKind, and CUpti_ActivityMemoryKind of both sides.
fn kinds(copy: &Copy) -> [u8; 3] {
    let kind = |plane: &Plane| match plane.side {
        Side::Device(_) => 3,
        Side::Host(at) => 1 + u8::from(table::read().find(at).is_some()),
        Side::Staged(_) => 1,
    };
    let (from, to) = (kind(&copy.from), kind(&copy.to));
    let copy = match (from, to) {
        (1 | 2, 3) => 1,
        (3, 1 | 2) => 2,
        (3, _) => 8,
        _ => 9,
    };
    [copy, from, to]
}

fn append(record: &[u8]) {
    let mut activities = ACTIVITIES.lock();
    let kind = u32::from_le_bytes(record[..4].try_into().expect("4 bytes"));
    let Some((request, complete)) = activities
        .functions
        .filter(|_| activities.kinds.contains(&kind) || kind == DRIVER && !activities.calls.is_empty())
    else {
        return;
    };
    let full = activities.buffer.take_if(|(_, size, used)| *used + record.len() > *size);
    if activities.buffer.is_none() {
        let (mut buffer, mut size, mut most) = (std::ptr::null_mut(), 0, 0);
        request(&raw mut buffer, &raw mut size, &raw mut most);
        activities.buffer = (!buffer.is_null()).then_some((buffer as usize, size, 0));
    }
    if let Some((buffer, _, used)) = &mut activities.buffer {
        // SAFETY: the profiler gave a buffer of this size, and there is room for the record.
        unsafe { std::ptr::copy_nonoverlapping(record.as_ptr(), (*buffer + *used) as *mut u8, record.len()) };
        *used += record.len();
    }
    drop(activities);
    if let Some((buffer, size, used)) = full {
        complete(0, 0, buffer as *mut u8, size, used);
    }
}

pub(crate) fn size_of(kind: u32) -> Option<usize> {
    match kind {
        MEMCPY => Some(96),
        MEMSET => Some(88),
        CONCURRENT_KERNEL => Some(216),
        DRIVER => Some(40),
        EXTERNAL_CORRELATION => Some(24),
        _ => None,
    }
}
