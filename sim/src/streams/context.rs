//! Contexts, and the stack of them that every thread has.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::abi::Handle;
use crate::abi::code::{Code, Result};
use crate::base::device;
use crate::base::registry::{Registry, handle_of};
use crate::memory::table;
use crate::streams::stream;
use crate::streams::stream::Lanes;

pub(crate) struct Context {
    pub device: i32,
    pub id: u64,
    pub flags: AtomicU32,
    pub api_version: u32,
    pub primary: bool,
    /// How many multiprocessors a green context has.
    share: Option<u32>,
    /// The first error of a kernel; the context is of no use from then on.
    error: AtomicU32,
    pub lanes: Lanes,
    pub cache_preference: AtomicU32,
    pub shared_bank_size: AtomicU32,
    limits: Mutex<[u64; LIMITS]>,
    /// A kernel has called printf, which has its FIFO from then on.
    pub has_printed: AtomicBool,
    pub peers: Mutex<BTreeSet<Handle>>,
    /// Calls of cuCtxAttach that no cuCtxDetach has undone.
    pub attached: AtomicU32,
}

const LIMITS: usize = 10;
pub(crate) const PRINTF_FIFO_SIZE: u32 = 1;
/// As an H200 answers for 32,768 and 40,000 bytes.
const SMALLEST_FIFO: u64 = 512 << 10;

static CONTEXTS: Registry<Context> = Registry::new();
/// By device: the primary context and how often it is retained, and the flags for the next one.
static PRIMARY: Mutex<Vec<Primary>> = Mutex::new(Vec::new());

#[derive(Clone, Default)]
struct Primary {
    context: Option<Arc<Context>>,
    /// The one before: a primary context has the same handle in every life.
    last: Option<Arc<Context>>,
    count: u32,
    flags: u32,
}

/// What stands for the current context in a thread that runs a host function, where driver calls are not
/// permitted.
const FORBIDDEN: Handle = usize::MAX;

thread_local! {
    /// The top of the stack.
    static CURRENT: Cell<Handle> = const { Cell::new(0) };
    /// The rest of it.
    static BELOW: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
}

/// The current context's handle, 0 for none.
#[inline]
pub(crate) fn current_handle() -> Handle {
    CURRENT.with(Cell::get)
}

pub(crate) fn set_current(handle: Handle) -> Result {
    if handle != 0 {
        CONTEXTS.get(handle).ok_or(Code::INVALID_CONTEXT)?;
    }
    CURRENT.with(|current| current.set(handle));
    if handle == 0 {
        CURRENT.with(|current| current.set(pop_below().unwrap_or(0)));
    }
    Ok(())
}

fn pop_below() -> Option<Handle> {
    BELOW.try_with(|below| below.borrow_mut().pop()).ok().flatten()
}

pub(crate) fn push(handle: Handle) -> Result {
    CONTEXTS.get(handle).ok_or(Code::INVALID_CONTEXT)?;
    let before = CURRENT.with(|current| current.replace(handle));
    if before != 0 {
        BELOW.try_with(|below| below.borrow_mut().push(before)).ok();
    }
    Ok(())
}

pub(crate) fn pop() -> Result<Handle> {
    let top = CURRENT.with(|current| current.replace(pop_below().unwrap_or(0)));
    if top == 0 { Err(Code::INVALID_CONTEXT) } else { Ok(top) }
}

/// Runs a host function's thread without permission to call the driver.
pub(crate) fn forbid_calls() {
    CURRENT.with(|current| current.set(FORBIDDEN));
}

/// Refuses in a thread that runs a host function.
pub(crate) fn permitted() -> Result {
    if current_handle() == FORBIDDEN { Err(Code::NOT_PERMITTED) } else { Ok(()) }
}

/// The current context, whatever state it is in.
pub(crate) fn current() -> Result<Arc<Context>> {
    match current_handle() {
        0 => Err(Code::INVALID_CONTEXT),
        FORBIDDEN => Err(Code::NOT_PERMITTED),
        handle => CONTEXTS.get(handle).ok_or(Code::CONTEXT_IS_DESTROYED),
    }
}

/// The current context, unless a kernel has spoilt it.
pub(crate) fn usable() -> Result<Arc<Context>> {
    let context = current()?;
    context.check()?;
    Ok(context)
}

/// As [`usable`]; where none is current, that of this memory.
pub(crate) fn usable_at(address: u64) -> Result<Arc<Context>> {
    if current_handle() != 0 {
        return usable();
    }
    let of = table::read().find(address).map(|range| range.context);
    find(of.ok_or(Code::INVALID_CONTEXT)?)
}

pub(crate) fn find(handle: Handle) -> Result<Arc<Context>> {
    CONTEXTS.get(handle).ok_or(Code::INVALID_CONTEXT)
}

/// A context given by its handle, 0 for the current one.
pub(crate) fn find_or_current(handle: Handle) -> Result<Arc<Context>> {
    if handle == 0 { current() } else { find(handle) }
}

fn make(device: i32, flags: u32, api_version: u32, primary: bool, share: Option<u32>) -> Arc<Context> {
    static IDS: AtomicU64 = AtomicU64::new(1);
    let context = Arc::new(Context {
        device,
        id: IDS.fetch_add(1, Ordering::Relaxed),
        flags: AtomicU32::new(flags),
        api_version,
        primary,
        share,
        error: AtomicU32::new(0),
        lanes: Lanes::new(),
        cache_preference: AtomicU32::new(0),
        shared_bank_size: AtomicU32::new(0),
        has_printed: AtomicBool::new(false),
        limits: Mutex::new([1024, 1 << 20, 8 << 20, 2, 2048, 64, 0, 0, 0, 0]),
        peers: Mutex::new(BTreeSet::new()),
        attached: AtomicU32::new(0),
    });
    context.lanes.open(&context);
    CONTEXTS.insert(context.clone());
    context
}

const FLAGS: u32 = 0xff;
const EXCLUSIVE_SCHEDULES: [u32; 4] = [0, 1, 2, 4];

fn check_flags(flags: u32) -> Result {
    let known = flags & !FLAGS == 0 && EXCLUSIVE_SCHEDULES.contains(&(flags & 7));
    if known { Ok(()) } else { Err(Code::INVALID_VALUE) }
}

/// Makes a context and pushes it.
pub(crate) fn create(device: i32, flags: u32, api_version: u32) -> Result<Handle> {
    device::check(device)?;
    check_flags(flags)?;
    let context = make(device, flags, api_version, false, None);
    push(handle_of(&context))?;
    Ok(handle_of(&context))
}

/// Makes a green context, which nobody's stack has.
pub(crate) fn create_green(device: i32, share: u32) -> Result<Handle> {
    // Until it is destroyed (cuda.h).
    retain_primary(device)?;
    Ok(handle_of(&make(device, 0, 3020, false, Some(share))))
}

pub(crate) fn green(handle: Handle) -> Result<Arc<Context>> {
    CONTEXTS.get(handle).filter(|context| context.is_green()).ok_or(Code::INVALID_CONTEXT)
}

/// The next life of a primary context.
fn revive(context: Arc<Context>, flags: u32) -> Arc<Context> {
    context.error.store(0, Ordering::Release);
    context.has_printed.store(false, Ordering::Release);
    context.flags.store(flags, Ordering::Relaxed);
    CONTEXTS.insert(context.clone());
    context
}

fn primary<T>(device: i32, then: impl FnOnce(&mut Primary) -> T) -> Result<T> {
    device::check(device)?;
    let mut all = PRIMARY.lock();
    if all.len() <= device as usize {
        all.resize(device as usize + 1, Primary::default());
    }
    Ok(then(&mut all[device as usize]))
}

pub(crate) fn retain_primary(device: i32) -> Result<Handle> {
    primary(device, |primary| {
        primary.count += 1;
        let flags = primary.flags;
        let last = primary.last.take();
        handle_of(primary.context.get_or_insert_with(|| match last {
            Some(context) => revive(context, flags),
            None => make(device, flags, 3020, true, None),
        }))
    })
}

/// Undoes one retaining; the context, where that was the last.
pub(crate) fn unretain_primary(device: i32) -> Result<Option<Arc<Context>>> {
    primary(device, |primary| {
        if primary.count == 0 {
            return Err(Code::INVALID_CONTEXT);
        }
        primary.count -= 1;
        Ok(if primary.count == 0 { primary.context.take() } else { None })
    })?
}

pub(crate) fn take_primary(device: i32) -> Result<Option<Arc<Context>>> {
    primary(device, |primary| primary.context.take())
}

/// Keeps a primary context that has ended for its next life.
pub(crate) fn keep_primary(device: i32, context: Arc<Context>) -> Result {
    primary(device, |primary| primary.last = Some(context))
}

/// Takes a context's handle away.
pub(crate) fn remove(context: &Arc<Context>) {
    CONTEXTS.remove(handle_of(context)).ok();
}

/// Flags, and whether the context lives.
pub(crate) fn primary_state(device: i32) -> Result<(u32, bool)> {
    primary(device, |primary| match &primary.context {
        Some(context) => (context.flags.load(Ordering::Relaxed), true),
        None => (primary.flags, false),
    })
}

pub(crate) fn set_primary_flags(device: i32, flags: u32) -> Result {
    check_flags(flags)?;
    primary(device, |primary| {
        primary.flags = flags;
        if let Some(context) = &primary.context {
            context.flags.store(flags, Ordering::Relaxed);
        }
    })
}

impl Context {
    /// The kernel error that spoilt the context.
    pub(crate) fn check(&self) -> Result {
        match self.error.load(Ordering::Acquire) {
            0 => Ok(()),
            code => Err(Code(code)),
        }
    }

    /// Spoils the context; the first error stays.
    pub(crate) fn fail(&self, code: Code) {
        self.error.compare_exchange(0, code.0, Ordering::AcqRel, Ordering::Relaxed).ok();
    }

    pub(crate) fn is_green(&self) -> bool {
        self.share.is_some()
    }

    pub(crate) fn multiprocessors(&self) -> u32 {
        self.share.unwrap_or(device::MULTIPROCESSORS as u32)
    }

    pub(crate) fn legacy(&self) -> Result<Arc<stream::Stream>> {
        self.lanes.legacy().ok_or(Code::INVALID_CONTEXT)
    }

    /// Waits for all work of the context.
    pub(crate) fn synchronize(&self) -> Result {
        self.lanes.wait_all();
        self.check()
    }

    pub(crate) fn limit(&self, which: u32) -> Result<u64> {
        self.limits.lock().get(which as usize).copied().ok_or(Code::UNSUPPORTED_LIMIT)
    }

    pub(crate) fn set_limit(&self, which: u32, value: u64) -> Result {
        if which == PRINTF_FIFO_SIZE {
            // What was launched before may be about to print.
            self.lanes.wait_all();
            if self.has_printed.load(Ordering::Acquire) {
                return Err(Code::INVALID_VALUE);
            }
        }
        match self.limits.lock().get_mut(which as usize) {
            Some(limit) if which < 7 => {
                *limit = if which == PRINTF_FIFO_SIZE { value.max(SMALLEST_FIFO) } else { value };
                Ok(())
            }
            _ => Err(Code::UNSUPPORTED_LIMIT),
        }
    }
}
