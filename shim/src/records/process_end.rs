//! The end of a process by `exit`: losses are reported, and records in memory are copied to their slots in
//! the file. `_exit` and signals bypass this: they leave the chunks in shared memory.

use crate::driver::announcement;
use crate::os::counters;
use crate::os::generation;
use crate::os::log::tell;
use crate::recording::recorder;
use crate::recording::recorder::Recorder;
use crate::records::{lane, pre_init_nvtx, thread_start};
use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use trace::base::maps::Mapping;
use trace::file::record::{self, BEYOND_LIMIT, Loss, UNREAD_COPIES};

/// Run by the loader before the program, as for every library that is there from the start. The C library
/// then registers the destructors of all libraries, which may call the driver: what is registered first runs
/// last.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

unsafe extern "C" {
    fn __cxa_atexit(run: extern "C" fn(*mut c_void), argument: *mut c_void, library: *mut c_void) -> c_int;
}

extern "C" fn at_start() {
    // SAFETY: plain function and arguments. Of no library, or it would run among the destructors of this one.
    // If it cannot be registered, the end is that of a process that is killed.
    let _lost = unsafe { __cxa_atexit(at_end, std::ptr::null_mut(), std::ptr::null_mut()) };
}

extern "C" fn at_end(_: *mut c_void) {
    // A panic must not leave through the C library.
    drop(std::panic::catch_unwind(finish));
    announcement::end();
}

/// Has the end of the process begin with a last scan of managed memory: what is registered last runs first,
/// and by now the driver has registered what it does then.
pub(crate) fn scans_last() {
    // SAFETY: a plain function. If it cannot be registered, what the CPU sees last is not known.
    let _lost = unsafe { libc::atexit(scan_last) };
}

extern "C" fn scan_last() {
    if generation::recording() {
        thread_start::with_any_lane(|lane| {
            let mut writes = lane.writes_before(lane.sequence());
            recorder::recorder().watch.scan_last(&mut writes);
            lane.add(writes);
        });
    }
}

fn finish() {
    lane::current().counts_afterwards();
    let after = counters::AFTERWARDS.load(Relaxed);
    if generation::recording() {
        losses();
    } else if generation::dormant() {
        if let Some(driver) = other_driver() {
            tell(&format!("nothing was recorded, although the process loaded {driver}: {AROUND}"));
        }
    } else if after > 0 && generation::has_recorded() {
        let what =
            if generation::is_full() { BEYOND_LIMIT } else { "calls after recording was switched off, at least" };
        recorder::recorder().say_last(what, after);
    }
    if generation::has_recorded() {
        let recorder = recorder::recorder();
        // A signal handler that exits may have come upon this very thread where it holds a lock of theirs.
        if !lane::current().busy.get() {
            recorder.deliveries.iter().for_each(|deliveries| deliveries.end(&recorder.around));
        }
        close(recorder);
    }
}

/// Puts what is in memory into the file. Other threads may still call.
fn close(recorder: &Recorder) {
    let file = &recorder.around.file;
    let is_closed_later = recorder.session.as_ref().is_some_and(|session| session.exists()) && file.is_at_its_path();
    let is_private = file.memory.is_private.load(Relaxed);
    let (done, closes) = match is_closed_later {
        true => (file.copy_home(), "record"),
        false => (file.bring_home(), "repair"),
    };
    if let Err(error) = done {
        let left = match is_private {
            true => "are lost".into(),
            false => format!("are in shared memory until cutrace {closes} closes the trace"),
        };
        tell(&format!("{}: {error}; the last records {left}", file.path.display()));
    }
}

const AROUND: &str = "its calls may bypass the preload (a static or deep-bound lookup)";

/// Counts that no record carries yet; a bare preload has nobody else to say them.
fn losses() {
    let recorder = recorder::recorder();
    if let Some(driver) = other_driver() {
        let what = format!("possible calls of another driver library, {driver}");
        lost(what, 1);
        tell(&format!("the process also loaded {driver}: {AROUND}"));
    }
    let counted = [
        ("calls made by signal handlers that interrupted the recorder", counters::REENTRANT.load(Relaxed)),
        ("annotations made by signal handlers that interrupted the recorder", counters::INTERRUPTING.load(Relaxed)),
        ("annotations made before the first driver call", pre_init_nvtx::lost()),
        ("calls of functions without a known prototype", counters::OPAQUE_CALLS.load(Relaxed)),
        ("unknown driver functions returned to the program", counters::UNKNOWN_NAMES.load(Relaxed)),
    ];
    for (what, count) in counted.into_iter().filter(|(_, count)| *count > 0) {
        lost(what.into(), count);
        tell(&format!("not recorded: {what}: {count}"));
    }
    recorder.watch.look_for_external_writers(Duration::ZERO, &recorder.around);
    // What a replay compares less is for `info` to tell: to whoever records nothing is missing.
    for (what, count) in recorder::recorder().around.losses.lock().iter().filter(|(what, _)| *what != UNREAD_COPIES) {
        tell(&format!("not recorded: {what}: {count}"));
    }
}

/// Into the lane of the thread that ends the process; or, if it has none, among the last words.
fn lost(what: String, count: u64) {
    let loss = Loss { what, count };
    let said = lane::with_lane(|lane| {
        lane.append(&record::with_body(record::LOSS, &loss));
        true
    });
    if !said {
        recorder::recorder().say_last(&loss.what, count);
    }
}

/// A driver that may have been used without a call coming past us: the one failure nobody would notice.
fn other_driver() -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    // One that came by a handle or a name of ours was loaded by ourselves; looking a function up is no call.
    let known: Vec<_> = [crate::driver::real_driver::own_path(), Some(crate::driver::real_driver::path().into())]
        .into_iter()
        .filter_map(|path| std::fs::canonicalize(path?).ok())
        .collect();
    let mut files = maps.lines().filter_map(|line| Mapping::parse(line)?.path);
    let other = files.find(|path| {
        path.rsplit('/').next().is_some_and(|name| name.starts_with("libcuda.so"))
            && !known.iter().any(|known| known == std::path::Path::new(path))
    });
    other.map(str::to_owned)
}
