//! NCCL's profiler plugin: the program's communicators, and its operations on them.
//!
//! NCCL loads the library that NCCL_PROFILER_PLUGIN names, and takes from it the newest `ncclProfiler_vN`
//! that it knows: a name and five functions. It reports its events in structs that differ by version
//! (`events`).
//!
//! The plugin requests the program's calls (from version 5 on) and the work that NCCL submitted for them. The
//! thread that calls NCCL reports both, on the host. Events that would cost NCCL work are not requested:
//! those of its proxy threads, and the start of its kernels' channels.

mod events;

use crate::job::collective_results;
use crate::job::operations::{self, Communicator, Identity};
use crate::os::clock;
use crate::os::guard::guarded;
use crate::os::text::Text;
use crate::records::thread_start;
use events::{Event, OperationEvent};
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use trace::file::record::nccl::{Began, Returned, began};

/// The common beginning of all versions. The functions take NCCL's C types, which differ.
#[repr(C)]
pub(crate) struct Plugin {
    name: *const c_char,
    init: *const (),
    start: unsafe extern "C" fn(*const Communicator, *mut usize, *const u8) -> c_int,
    stop: extern "C" fn(usize) -> c_int,
    state: extern "C" fn(usize, c_int, *const c_void) -> c_int,
    finalize: extern "C" fn(*const c_void) -> c_int,
}

// SAFETY: nothing in it is ever changed.
unsafe impl Sync for Plugin {}

const fn plugin<const VERSION: u32>(init: *const ()) -> Plugin {
    Plugin { name: c"cutrace".as_ptr(), init, start: start::<VERSION>, stop, state, finalize }
}

macro_rules! plugins {
    ($($version:literal $symbol:literal $name:ident $init:ident;)*) => {$(
        #[unsafe(export_name = $symbol)]
        pub(crate) static $name: Plugin = plugin::<$version>($init::<$version> as *const ());
    )*};
}

plugins! {
    1 "ncclProfiler_v1" V1 init_unnamed;
    2 "ncclProfiler_v2" V2 init_unnamed;
    3 "ncclProfiler_v3" V3 init_unnamed;
    4 "ncclProfiler_v4" V4 init_named;
    5 "ncclProfiler_v5" V5 init_by_id;
    6 "ncclProfiler_v6" V6 init_by_id;
    7 "ncclProfiler_v7" V7 init_by_id;
}

/// Whether NCCL looks this name up, in any version.
pub(crate) fn is_entry(name: &[u8]) -> bool {
    name.starts_with(b"ncclProfiler_v")
}

/// ncclSuccess
const SUCCESS: c_int = 0;
/// The handle of an event that has no record: NCCL takes null for one that was not begun, and may leave out
/// what stands below it.
const PASSED_OVER: usize = usize::MAX;

/// Until version 3 NCCL tells of a communicator with what is done on it.
unsafe extern "C" fn init_unnamed<const VERSION: u32>(context: *mut *const Communicator, mask: *mut c_int) -> c_int {
    // SAFETY: NCCL's contract: both are its own to be filled.
    unsafe { begin::<VERSION>(context, mask, || None) }
}

#[rustfmt::skip]
unsafe extern "C" fn init_named<const VERSION: u32>(
    context: *mut *const Communicator, mask: *mut c_int,
    name: *const c_char, id: u64, hosts: c_int, ranks: c_int, rank: c_int, _log: *const c_void,
) -> c_int {
    // SAFETY: as above; the name is a C string or null.
    unsafe { begin::<VERSION>(context, mask, || Some(identity(id, name, hosts, ranks, rank))) }
}

#[rustfmt::skip]
unsafe extern "C" fn init_by_id<const VERSION: u32>(
    context: *mut *const Communicator, id: u64, mask: *mut c_int,
    name: *const c_char, hosts: c_int, ranks: c_int, rank: c_int, _log: *const c_void,
) -> c_int {
    // SAFETY: as above.
    unsafe { begin::<VERSION>(context, mask, || Some(identity(id, name, hosts, ranks, rank))) }
}

fn identity(id: u64, name: *const c_char, hosts: c_int, ranks: c_int, rank: c_int) -> Identity {
    let name = Text::Narrow(name).copied().unwrap_or_default();
    Identity { id, rank, ranks: ranks.max(0) as u32, hosts: hosts.max(0) as u32, name }
}

/// A communicator begins.
///
/// # Safety
/// Both pointers must be NCCL's own, to be filled.
#[cold]
unsafe fn begin<const VERSION: u32>(
    context: *mut *const Communicator,
    mask: *mut c_int,
    known: impl FnOnce() -> Option<Identity>,
) -> c_int {
    let mut made = std::ptr::null();
    guarded(|| made = Box::into_raw(Box::new(Communicator::new(VERSION, known()))).cast_const());
    // SAFETY: the caller's promise; what was made is never freed.
    let communicator = unsafe {
        context.write(made);
        mask.write(if made.is_null() { 0 } else { events::event_mask(VERSION) });
        made.as_ref()
    };
    if let Some(communicator) = communicator {
        thread_start::annotate(|lane| {
            if communicator.known.is_some() {
                communicator.tell(lane, clock::entry(), Identity::default);
            }
            lane.recorder().collectives().iter().for_each(|deliveries| guarded(|| deliveries.prepare()));
        });
    }
    SUCCESS
}

unsafe extern "C" fn start<const VERSION: u32>(
    context: *const Communicator,
    handle: *mut usize,
    event: *const u8,
) -> c_int {
    // SAFETY: NCCL's contract: the event is of this version, and the handle its own to be filled.
    let (event, handle) = unsafe { (events::read::<VERSION>(event), &mut *handle) };
    // SAFETY: NCCL gives back what `begin` gave it, which is never freed.
    let communicator = unsafe { context.as_ref() };
    *handle = match (event, communicator) {
        (Event::Operation(told), Some(communicator)) => write(communicator, &told),
        (Event::Parent, _) => PASSED_OVER,
        _ => 0,
    };
    SUCCESS
}

/// The handle of what is recorded here.
fn write(communicator: &Communicator, told: &OperationEvent) -> usize {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let operation = LAST.fetch_add(1, Relaxed) + 1;
    let parent = if told.parent == PASSED_OVER { 0 } else { told.parent as u64 };
    thread_start::annotate(|lane| {
        let time = clock::entry();
        communicator.tell(lane, time, || told.identity());
        let about = Began { time, operation, parent, communicator: communicator.number, ..told.about };
        operations::began(lane, &about);
        if let Some(deliveries) = lane.recorder().collectives()
            && matches!(about.what, began::COLLECTIVE | began::TRANSFER)
        {
            let identity = told.identity();
            let known = communicator.known.as_ref().unwrap_or(&identity);
            guarded(|| collective_results::record_delivery(lane, deliveries, &about, known.rank, known.ranks));
        }
    });
    // What is told when it has been given to the device returns at once.
    if told.has_call { PASSED_OVER } else { operation as usize }
}

extern "C" fn stop(handle: usize) -> c_int {
    if handle != 0 && handle != PASSED_OVER {
        let operation = handle as u64;
        thread_start::annotate(|lane| operations::returned(lane, Returned { time: clock::entry(), operation }));
    }
    SUCCESS
}

extern "C" fn state(_: usize, _: c_int, _: *const c_void) -> c_int {
    SUCCESS
}

extern "C" fn finalize(_: *const c_void) -> c_int {
    SUCCESS
}
