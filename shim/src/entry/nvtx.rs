//! NVTX: the program's own annotations.
//!
//! NVTX is a header. Its first call in a program or library loads the library that NVTX_INJECTION64_PATH
//! names, and passes it tables of pointers to fill in. Numbers and layouts are those of nvtx3/nvToolsExt.h
//! and nvtxDetail/nvtxTypes.h. Entries that are not filled in behave as without a tool.
//!
//! Results are as without a tool where NVTX allows it: a push returns that levels are not tracked.

use crate::os::text::Text;
use crate::recording::nvtx_registry;
use crate::records::annotation;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use trace::file::record::{Annotation, annotated};

type Wide = libc::wchar_t;
type Entry = unsafe extern "C" fn();

#[repr(C)]
struct Callbacks {
    size: usize,
    module: Option<unsafe extern "C" fn(c_uint, *mut *const *mut Entry, *mut c_uint) -> c_int>,
}

type Tables = unsafe extern "C" fn(u32) -> *const c_void;

/// NVTX_ETID_CALLBACKS
const CALLBACKS: u32 = 1;
/// NVTX_NO_PUSH_POP_TRACKING
const NOT_TRACKED: c_int = -2;

/// NvtxCallbackModule
const CORE: c_uint = 1;
const CUDA: c_uint = 2;
const RUNTIME: c_uint = 4;
const CORE2: c_uint = 5;

/// Version 3: each program or library that annotates has a copy of its own, which asks here.
#[unsafe(export_name = "InitializeInjectionNvtx2")]
extern "C" fn of_version_3(tables: Option<Tables>) -> c_int {
    // SAFETY: NVTX calls with a function of this type.
    tables.map_or(0, |tables| unsafe { attach(tables) })
}

/// Version 2, libnvToolsExt.so.1, which has the same tables.
#[unsafe(export_name = "InitializeInjectionNvtx")]
extern "C" fn of_version_2(tables: Option<Tables>) -> c_int {
    // SAFETY: as above.
    tables.map_or(0, |tables| unsafe { attach(tables) })
}

/// Whether NVTX looks this name up, or a driver's.
pub(crate) fn is_entry(name: &[u8]) -> bool {
    matches!(name, b"InitializeInjectionNvtx2" | b"InitializeInjectionNvtx")
}

unsafe fn attach(tables: Tables) -> c_int {
    // SAFETY: the table, if there is one, begins with its size, and each module's holds as many places as it
    // says: null, or a pointer that NVTX owns and waits to see filled.
    unsafe {
        let callbacks = tables(CALLBACKS).cast::<Callbacks>();
        if callbacks.is_null() || (*callbacks).size < size_of::<Callbacks>() {
            return 0;
        }
        let Some(module) = (*callbacks).module else { return 0 };
        for (number, entries) in modules() {
            let (mut places, mut count) = (std::ptr::null(), 0);
            if module(number, &mut places, &mut count) == 0 || places.is_null() {
                continue;
            }
            for (id, entry) in entries.iter().enumerate().skip(1).take((count as usize).saturating_sub(1)) {
                let place = *places.add(id);
                if let (Some(entry), false) = (entry, place.is_null()) {
                    *place = std::mem::transmute::<*const (), Entry>(*entry);
                }
            }
        }
    }
    1
}

/// By module, what its entries do, in the order of their ids from 0.
fn modules() -> [(c_uint, Vec<Option<*const ()>>); 4] {
    macro_rules! entries {
        ($($entry:expr),* $(,)?) => { vec![None, $(Some($entry as *const ())),*] };
    }
    let core = entries![
        mark_ex,
        mark,
        mark_wide,
        start_ex,
        start,
        start_wide,
        end,
        push_ex,
        push,
        push_wide,
        pop,
        name_category,
        name_category_wide,
        name_thread,
        name_thread_wide,
    ];
    let mut core2 = entries![domain_mark, domain_start, domain_end, domain_push, domain_pop];
    // Resources.
    core2.extend([None, None]);
    core2.extend(
        &entries![domain_category, domain_category_wide, register, register_wide, domain, domain_wide, domain_destroy,]
            [1..],
    );
    let cuda = entries![
        name_device,
        name_device_wide,
        name_context,
        name_context_wide,
        name_stream,
        name_stream_wide,
        name_event,
        name_event_wide,
    ];
    // A cudaStream_t is a CUstream, a cudaEvent_t a CUevent.
    let runtime = entries![name_device, name_device_wide, name_stream, name_stream_wide, name_event, name_event_wide,];
    [(CORE, core), (CUDA, cuda), (RUNTIME, runtime), (CORE2, core2)]
}

fn annotation(what: u8, domain: u64, subject: u64) -> Annotation {
    Annotation { what, domain: nvtx_registry::domain(domain), subject, ..Annotation::default() }
}

fn note(what: u8, domain: u64, subject: u64, text: Text) {
    annotation::write(annotation(what, domain, subject), text, None);
}

fn note_with(what: u8, domain: u64, subject: u64, attributes: *const u8) {
    let mut about = annotation(what, domain, subject);
    // SAFETY: NVTX's contract: null, or attributes as long as they say.
    let (text, trouble) = unsafe { read(&mut about, attributes) };
    annotation::write(about, text, trouble);
}

/// Ids of ranges; 0 is what a program has without a tool.
fn next_range() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Relaxed) + 1
}

const NOTHING: &str = "attributes of annotations without a version or a size";
const SHORT: &str = "some attributes of annotations shorter than their version requires";
const LATER: &str = "some attributes of annotations by a later NVTX";
const PAYLOAD: &str = "payloads of annotations of a type unknown to this cutrace";
const MESSAGE: &str = "messages of annotations of a type unknown to this cutrace";

/// nvtxEventAttributes_t, as far as `size` goes: a later version has more behind these.
///
/// # Safety
/// `at` is null or points to attributes that are as long as they say.
unsafe fn read(about: &mut Annotation, at: *const u8) -> (Text, Option<&'static str>) {
    const SIZE: usize = 48;
    const VERSION: u16 = 3;
    if at.is_null() {
        return (Text::None, Some(NOTHING));
    }
    // SAFETY: every attribute struct begins with its version and size.
    let (version, size) = unsafe { (at.cast::<u16>().read_unaligned(), at.cast::<u16>().add(1).read_unaligned()) };
    if version == 0 || size < 4 {
        return (Text::None, Some(NOTHING));
    }
    let bytes = |offset: usize, len: usize| {
        let mut word = [0; 8];
        if offset + len <= size as usize {
            // SAFETY: within the size that the caller vouches for.
            unsafe { std::ptr::copy_nonoverlapping(at.add(offset), word.as_mut_ptr(), len) };
        }
        u64::from_le_bytes(word)
    };
    let mut trouble = match size as usize {
        ..SIZE => Some(SHORT),
        SIZE if version <= VERSION => None,
        _ => Some(LATER),
    };
    about.category = bytes(4, 4) as u32;
    about.has_color = bytes(8, 4) == 1;
    about.color = if about.has_color { bytes(12, 4) as u32 } else { 0 };
    (about.payload_type, about.payload) = match bytes(16, 4) {
        0 => (0, 0),
        ty @ 1..=3 => (ty as u8, bytes(24, 8)),
        ty @ 4..=6 => (ty as u8, bytes(24, 4)),
        _ => {
            trouble = Some(PAYLOAD);
            (255, bytes(24, 8))
        }
    };
    let message = bytes(40, 8);
    let text = match bytes(32, 4) {
        0 => Text::None,
        1 => Text::Narrow(message as *const c_char),
        2 => Text::Wide(message as *const Wide),
        3 => Text::Registered(message),
        _ => {
            trouble = Some(MESSAGE);
            Text::None
        }
    };
    (text, trouble)
}

/// Two functions of NVTX: one for each width of characters.
macro_rules! by_width {
    ($($narrow:ident, $wide:ident($($param:ident: $ty:ty),*) $(-> $result:ty)?, $text:ident: $do:expr;)*) => {$(
        extern "C" fn $narrow($($param: $ty,)* text: *const c_char) $(-> $result)? {
            let $text = Text::Narrow(text);
            $do
        }

        extern "C" fn $wide($($param: $ty,)* text: *const Wide) $(-> $result)? {
            let $text = Text::Wide(text);
            $do
        }
    )*};
}

by_width! {
    mark, mark_wide(), text: note(annotated::MARK, 0, 0, text);
    push, push_wide() -> c_int, text: {
        note(annotated::PUSH, 0, 0, text);
        NOT_TRACKED
    };
    start, start_wide() -> u64, text: {
        let id = next_range();
        note(annotated::START, 0, id, text);
        id
    };
    name_category, name_category_wide(category: u32), text: note(annotated::CATEGORY, 0, category.into(), text);
    domain_category, domain_category_wide(domain: u64, category: u32), text: {
        note(annotated::CATEGORY, domain, category.into(), text);
    };
    name_thread, name_thread_wide(thread: u32), text: note(annotated::THREAD, 0, thread.into(), text);
    name_device, name_device_wide(device: c_int), text: note(annotated::DEVICE, 0, device as u32 as u64, text);
    name_context, name_context_wide(context: u64), text: note(annotated::CONTEXT, 0, context, text);
    name_stream, name_stream_wide(stream: u64), text: note(annotated::STREAM, 0, stream, text);
    name_event, name_event_wide(event: u64), text: note(annotated::EVENT, 0, event, text);
    register, register_wide(domain: u64) -> u64, text: nvtx_registry::text(domain, text);
    domain, domain_wide() -> u64, text: nvtx_registry::named_domain(text);
}

extern "C" fn mark_ex(attributes: *const u8) {
    note_with(annotated::MARK, 0, 0, attributes);
}

extern "C" fn domain_mark(domain: u64, attributes: *const u8) {
    note_with(annotated::MARK, domain, 0, attributes);
}

extern "C" fn push_ex(attributes: *const u8) -> c_int {
    domain_push(0, attributes)
}

extern "C" fn domain_push(domain: u64, attributes: *const u8) -> c_int {
    note_with(annotated::PUSH, domain, 0, attributes);
    NOT_TRACKED
}

extern "C" fn pop() -> c_int {
    domain_pop(0)
}

extern "C" fn domain_pop(domain: u64) -> c_int {
    note(annotated::POP, domain, 0, Text::None);
    NOT_TRACKED
}

extern "C" fn start_ex(attributes: *const u8) -> u64 {
    domain_start(0, attributes)
}

extern "C" fn domain_start(domain: u64, attributes: *const u8) -> u64 {
    let id = next_range();
    note_with(annotated::START, domain, id, attributes);
    id
}

extern "C" fn end(range: u64) {
    domain_end(0, range);
}

extern "C" fn domain_end(domain: u64, range: u64) {
    note(annotated::END, domain, range, Text::None);
}

extern "C" fn domain_destroy(domain: u64) {
    note(annotated::DOMAIN_DESTROYED, domain, 0, Text::None);
}
