//! The part of CUPTI that a profiler needs: callbacks round the calls that submit work, and activity records
//! of what streams did, with the layouts of CUDA 13.0's header. In the driver itself, where NVIDIA has a
//! library of its own.
//!
//! Times are those of events, on a clock that begins elsewhere. `CUTRACE_SIM_CUPTI_VERSION` has it say
//! another version.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CString, c_char, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::abi::{Handle, Out};
use crate::copy::{Copy, Plane, Side};
use crate::entry;
use crate::memory::table;
use crate::ptx::exec::Grid;
use crate::state;
use crate::stream::Stream;
use crate::work::Work;

const VERSION: u32 = 130_001;
/// The first that records calls of single functions: that of CUDA 12.8.
const SINGLE_CALLS: u32 = 26;
/// Nanoseconds at which CUPTI's clock began, before the driver's.
const EPOCH: u64 = 1_000_000_000_000;

const SUCCESS: u32 = 0;
const INVALID_PARAMETER: u32 = 1;
const MAX_LIMIT_REACHED: u32 = 12;
const INVALID_KIND: u32 = 21;
const MULTIPLE_SUBSCRIBERS: u32 = 39;
const DRIVER_API: u32 = 1;

const MEMCPY: u32 = 1;
const MEMSET: u32 = 2;
const CONCURRENT_KERNEL: u32 = 10;
const MEMCPY2: u32 = 22;
const DRIVER: u32 = 4;
const EXTERNAL_CORRELATION: u32 = 39;
const QUEUE_EMPTY: u32 = 36;

type Callback = extern "C" fn(*const c_void, u32, u32, *const CallbackData);
type Request = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type Complete = extern "C" fn(Handle, u32, *mut u8, usize, usize);

#[repr(C)]
pub struct CallbackData {
    site: u32,
    function: *const c_char,
    parameters: *const c_void,
    result: *const c_void,
    symbol: *const c_char,
    context: Handle,
    context_number: u32,
    data: *const c_void,
    correlation: u32,
}

#[derive(Default)]
struct Subscriber {
    callback: Option<Callback>,
    user: usize,
    /// By id.
    enabled: Vec<bool>,
}

#[derive(Default)]
struct Activities {
    kinds: Vec<u32>,
    /// Functions whose calls are recorded one by one, by id.
    calls: Vec<u32>,
    functions: Option<(Request, Complete)>,
    /// Address, size, and how much of it holds records.
    buffer: Option<(usize, usize, usize)>,
}

/// Anything to do for a call.
static ATTENDS: AtomicBool = AtomicBool::new(false);
static SUBSCRIBER: Mutex<Subscriber> = Mutex::new(Subscriber { callback: None, user: 0, enabled: Vec::new() });
static ACTIVITIES: Mutex<Activities> =
    Mutex::new(Activities { kinds: Vec::new(), calls: Vec::new(), functions: None, buffer: None });

thread_local! {
    /// Kind and number of what this thread says it is in.
    static NUMBERS: RefCell<Vec<(u32, u64)>> = const { RefCell::new(Vec::new()) };
    /// The call that this thread makes.
    static CALL: Cell<u32> = const { Cell::new(0) };
    /// What this thread, a stream's or a caller's, does the work of.
    static ORIGIN: Cell<Origin> = const { Cell::new(Origin { correlation: 0, context: 0, stream: 0, device: 0, node: 0 }) };
}

/// Where work comes from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origin {
    correlation: u32,
    context: u32,
    stream: u32,
    device: u32,
    /// Of a graph, from 1 on.
    node: u64,
}

/// One call of the driver, as callbacks see it.
pub struct Call(Option<(u32, u32, u64)>);

impl Call {
    pub fn enter(name: &'static str) -> Call {
        if !ATTENDS.load(Ordering::Relaxed) {
            return Call(None);
        }
        static CORRELATION: AtomicU32 = AtomicU32::new(1);
        let correlation = CORRELATION.fetch_add(1, Ordering::Relaxed);
        let Some(id) = ids().get(name).copied() else { return Call(None) };
        CALL.set(correlation);
        call_back(id, correlation, 0);
        Call(Some((id, correlation, state::nanoseconds() + EPOCH)))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some((id, correlation, start)) = self.0 {
            CALL.set(0);
            recorded(id, correlation, start);
            call_back(id, correlation, 1);
        }
    }
}

/// A record of the call, if it is to have one, and before it those of its numbers: the last of each kind.
fn recorded(id: u32, correlation: u32, start: u64) {
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
        record.put(8, &number.to_le_bytes());
        record.words(16, &[correlation]);
        append(&record.0);
    }
    let mut record = Record::new(DRIVER, 40);
    record.words(4, &[id]);
    record.put(8, &[start.to_le_bytes(), (state::nanoseconds() + EPOCH).to_le_bytes()].concat());
    // SAFETY: takes nothing. The C library has a name for it since 2.30.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    record.words(24, &[std::process::id(), thread as u32, correlation]);
    append(&record.0);
}

fn call_back(id: u32, correlation: u32, site: u32) {
    let subscriber = SUBSCRIBER.lock();
    let wanted = subscriber.enabled.get(id as usize).copied().unwrap_or(false);
    let (callback, user) = (subscriber.callback.filter(|_| wanted), subscriber.user);
    drop(subscriber);
    let null = std::ptr::null();
    let data = CallbackData {
        site,
        function: names()[id as usize].as_ptr(),
        parameters: null,
        result: null,
        symbol: null.cast(),
        context: 0,
        context_number: 0,
        data: null,
        correlation,
    };
    if let Some(callback) = callback {
        callback(user as *const c_void, DRIVER_API, id, &raw const data);
    }
}

/// By id; 0 is no function.
fn names() -> &'static [CString] {
    static NAMES: OnceLock<Vec<CString>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let all = entry::all();
        let names = std::iter::once("").chain(all.iter().map(|(name, _)| *name));
        names.map(|name| CString::new(name).unwrap_or_default()).collect()
    })
}

fn ids() -> &'static HashMap<&'static str, u32> {
    static IDS: OnceLock<HashMap<&'static str, u32>> = OnceLock::new();
    IDS.get_or_init(|| entry::all().iter().enumerate().map(|(at, (name, _))| (*name, at as u32 + 1)).collect())
}

impl Origin {
    /// Of work that the calling thread puts on a stream now.
    pub fn of(stream: &Stream) -> Origin {
        Origin { correlation: CALL.get(), context: 1, stream: stream.id as u32, device: stream.device as u32, node: 0 }
    }

    /// Does its work on this thread.
    pub fn perform(self, work: impl FnOnce()) {
        let before = ORIGIN.replace(self);
        work();
        ORIGIN.set(before);
    }

    pub fn node(number: u64) -> Origin {
        Origin { node: number, ..ORIGIN.get() }
    }
}

/// Times what a stream does.
pub fn timed<T>(work: &Work, perform: impl FnOnce() -> T) -> T {
    if ACTIVITIES.lock().kinds.is_empty() {
        return perform();
    }
    let start = state::nanoseconds();
    let done = perform();
    // What a clock of its own would tell apart, this one may not.
    let end = state::nanoseconds().max(start + 1);
    record(work, ORIGIN.get(), start + EPOCH, end + EPOCH);
    done
}

/// A record that is filled field by field.
struct Record(Vec<u8>);

impl Record {
    fn new(kind: u32, size: usize) -> Record {
        let mut record = Record(vec![0; size]);
        record.put(0, &kind.to_le_bytes());
        record
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn words(&mut self, at: usize, words: &[u32]) {
        words.iter().enumerate().for_each(|(n, word)| self.put(at + 4 * n, &word.to_le_bytes()));
    }
}

fn record(work: &Work, origin: Origin, start: u64, end: u64) {
    let Origin { correlation, context, stream, device, node } = origin;
    let places = [device, context, stream];
    let record = match work {
        Work::Kernel(grid) => {
            let mut record = Record::new(CONCURRENT_KERNEL, 216);
            let kernel = &grid.program.kernels[grid.kernel];
            record.put(6, &(kernel.registers as u16).to_le_bytes());
            record.words(40, &places);
            record.words(52, &grid.blocks);
            record.words(64, &grid.threads);
            record.words(76, &[kernel.static_shared as u32, grid.dynamic_shared, kernel.local as u32]);
            record.words(92, &[correlation]);
            record.put(104, &(name(grid) as u64).to_le_bytes());
            record.put(144, &node.to_le_bytes());
            record
        }
        Work::Copy(copy) => {
            let mut record = Record::new(MEMCPY, 96);
            record.put(4, &kinds(copy));
            record.put(8, &((copy.width * copy.height * copy.depth) as u64).to_le_bytes());
            record.words(32, &places);
            record.words(44, &[correlation]);
            record.put(64, &node.to_le_bytes());
            record
        }
        Work::Fill(fill) => {
            let mut record = Record::new(MEMSET, 88);
            record.words(4, &[fill.value as u32]);
            record.put(8, &((fill.width * fill.height * fill.element) as u64).to_le_bytes());
            record.words(32, &places);
            record.words(44, &[correlation]);
            record.put(50, &3u16.to_le_bytes());
            record.put(64, &node.to_le_bytes());
            record
        }
        _ => return,
    };
    let mut record = record;
    record.put(16, &[start.to_le_bytes(), end.to_le_bytes()].concat());
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

fn size_of(kind: u32) -> Option<usize> {
    match kind {
        MEMCPY => Some(96),
        MEMSET => Some(88),
        CONCURRENT_KERNEL => Some(216),
        DRIVER => Some(40),
        EXTERNAL_CORRELATION => Some(24),
        _ => None,
    }
}

macro_rules! exported {
    ($($name:ident($($argument:ident: $type:ty),*) $body:block)*) => {
        $(#[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $type),*) -> u32 $body)*
    };
}

fn version() -> u32 {
    let told = std::env::var("CUTRACE_SIM_CUPTI_VERSION").ok().and_then(|told| told.parse().ok());
    told.unwrap_or(VERSION)
}

fn set<T>(out: Out<T>, value: T) -> u32 {
    out.set(value).map_or(INVALID_PARAMETER, |()| SUCCESS)
}

exported! {
    cuptiGetVersion(version: Out<u32>) {
        set(version, self::version())
    }

    cuptiGetTimestamp(timestamp: Out<u64>) {
        set(timestamp, state::nanoseconds() + EPOCH)
    }

    cuptiGetResultString(result: u32, text: Out<*const c_char>) {
        set(text, match result {
            SUCCESS => c"CUPTI_SUCCESS",
            INVALID_PARAMETER => c"CUPTI_ERROR_INVALID_PARAMETER",
            MAX_LIMIT_REACHED => c"CUPTI_ERROR_MAX_LIMIT_REACHED",
            INVALID_KIND => c"CUPTI_ERROR_INVALID_KIND",
            MULTIPLE_SUBSCRIBERS => c"CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",
            _ => return INVALID_PARAMETER,
        }.as_ptr())
    }

    cuptiSubscribe(subscriber: Out<usize>, callback: Callback, user: usize) {
        let mut known = SUBSCRIBER.lock();
        if known.callback.is_some() {
            return MULTIPLE_SUBSCRIBERS;
        }
        *known = Subscriber { callback: Some(callback), user, enabled: vec![false; names().len()] };
        ATTENDS.store(true, Ordering::Relaxed);
        set(subscriber, 1)
    }

    cuptiUnsubscribe(_subscriber: usize) {
        *SUBSCRIBER.lock() = Subscriber::default();
        SUCCESS
    }

    cuptiEnableCallback(enable: u32, _subscriber: usize, domain: u32, id: u32) {
        match SUBSCRIBER.lock().enabled.get_mut(id as usize).filter(|_| domain == DRIVER_API) {
            Some(enabled) => {
                *enabled = enable != 0;
                SUCCESS
            }
            None => INVALID_PARAMETER,
        }
    }

    cuptiGetCallbackName(domain: u32, id: u32, name: Out<*const c_char>) {
        match names().get(id as usize).filter(|_| domain == DRIVER_API && id > 0) {
            Some(known) => set(name, known.as_ptr()),
            None => INVALID_PARAMETER,
        }
    }

    cuptiActivityRegisterCallbacks(request: Request, complete: Complete) {
        ACTIVITIES.lock().functions = Some((request, complete));
        SUCCESS
    }

    cuptiActivityEnable(kind: u32) {
        if kind != MEMCPY2 && size_of(kind).is_none() {
            return INVALID_KIND;
        }
        ATTENDS.store(true, Ordering::Relaxed);
        ACTIVITIES.lock().kinds.push(kind);
        SUCCESS
    }

    cuptiActivityDisable(kind: u32) {
        let mut activities = ACTIVITIES.lock();
        activities.kinds.retain(|enabled| *enabled != kind);
        if kind == DRIVER {
            activities.calls.clear();
        }
        SUCCESS
    }

    cuptiActivityEnableDriverApi(id: u32, enable: u32) {
        // Older versions have no such function.
        let older = version() < SINGLE_CALLS;
        if older || id == 0 || id as usize >= names().len() {
            return INVALID_PARAMETER;
        }
        let mut activities = ACTIVITIES.lock();
        activities.calls.retain(|known| *known != id);
        // An argument of one byte: the rest of its register means nothing.
        if enable as u8 != 0 {
            activities.calls.push(id);
        }
        SUCCESS
    }

    cuptiActivityPushExternalCorrelationId(kind: u32, number: u64) {
        NUMBERS.with_borrow_mut(|numbers| numbers.push((kind, number)));
        SUCCESS
    }

    cuptiActivityPopExternalCorrelationId(kind: u32, number: Out<u64>) {
        let popped = NUMBERS.with_borrow_mut(|numbers| {
            let at = numbers.iter().rposition(|(known, _)| *known == kind)?;
            Some(numbers.remove(at).1)
        });
        popped.map_or(QUEUE_EMPTY, |popped| set(number, popped))
    }

    cuptiActivityFlushAll(_flag: u32) {
        let mut activities = ACTIVITIES.lock();
        let (buffer, functions) = (activities.buffer.take(), activities.functions);
        drop(activities);
        if let Some(((buffer, size, used), (_, complete))) = buffer.zip(functions) {
            complete(0, 0, buffer as *mut u8, size, used);
        }
        SUCCESS
    }

    cuptiActivityGetNextRecord(buffer: usize, valid: usize, record: Out<usize>) {
        let kind = |at: usize| {
            // SAFETY: records lie one behind the other in the buffer, each beginning with its kind.
            unsafe { (at as *const u32).read_unaligned() }
        };
        let next = match record.get() {
            Ok(0) => buffer,
            Ok(last) => last + size_of(kind(last)).unwrap_or(valid),
            Err(_) => return INVALID_PARAMETER,
        };
        if next >= buffer + valid {
            return MAX_LIMIT_REACHED;
        }
        set(record, next)
    }

    cuptiActivityGetNumDroppedRecords(_context: Handle, _stream: u32, dropped: Out<usize>) {
        set(dropped, 0)
    }
}
