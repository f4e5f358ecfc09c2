//! The switch from dormant to recording: at the first driver call of a process, and again in a forked child.

use crate::driver::calls;
use crate::driver::{announcement, devices, logs, real_driver};
use crate::host_memory::{destinations, variables, watch};
use crate::in_flight::{long_results, node_runs};
use crate::kernels::{driver_addresses, images, modules, parameters};
use crate::os::config::{self, Config, Rank};
use crate::os::generation::{self, LAST, LAST_WORDS, OFF, generation, off, page, wiped_page};
use crate::os::log::tell;
use crate::os::transparency::{with_descriptors, without_signals};
use crate::os::{clock, counters, environment, external_writers, thread};
use crate::readback::cloned_graphs::CollectiveGraphs;
use crate::readback::imported_memory::Imported;
use crate::readback::readback_queue::Deliveries;
use crate::recording::range;
use crate::recording::recorder::{self, RECORDER, Recorder, recorder};
use crate::records::{lane, times};
use crate::trace_file::file::TraceFile;
use crate::trace_file::last_words::LastWords;
use crate::trace_file::mapped_files::MappedFiles;
use crate::trace_file::processes;
use crate::trace_file::recorder_parts::Surroundings;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::time::Duration;
use trace::base::announcements::{Announcement, VARIABLE, escape};
use trace::file::control::{Answer, Command};
use trace::file::preamble::{Preamble, encode};
use trace::file::record::{SIZE_LIMIT, Switched};

/// Starts recording if this process should and does not yet. Returns whether it records now. `scans_last`:
/// has the end of the process begin with a scan of managed memory.
#[cold]
pub(crate) fn begin(scans_last: fn()) -> bool {
    match generation() {
        0 => {}
        OFF => {
            counters::AFTERWARDS.fetch_add(1, Relaxed);
            return false;
        }
        _ => return true,
    }
    // Before anybody waits for anybody: opening the driver takes the loader's lock.
    real_driver::load();
    if let Err(why) = wiped_page() {
        return refused(&why);
    }
    // SAFETY: takes nothing.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) } as u64;
    if page().taken.swap(1, AcqRel) != 0 {
        while generation() == 0 {
            if page().starting.load(Acquire) == thread {
                return false;
            }
            // Sleeping, so that the starter gets on even under a real-time scheduler.
            let a_while = libc::timespec { tv_sec: 0, tv_nsec: 50_000 };
            // SAFETY: waits; the remaining time is not asked for.
            unsafe { libc::nanosleep(&a_while, std::ptr::null_mut()) };
        }
        return generation() != OFF;
    }
    page().starting.store(thread, Release);
    announcement::say(&Announcement::Called);
    let started =
        with_descriptors(|| std::panic::catch_unwind(|| start(scans_last))).unwrap_or(Err("an internal error".into()));
    page().starting.store(0, Release);
    match started {
        Ok(()) => true,
        Err(why) => refused(&why),
    }
}

/// There is no trace of this process. An empty reason: nobody wanted one.
fn refused(why: &str) -> bool {
    let said = if why.is_empty() { Announcement::Disabled } else { Announcement::Refused(why.into()) };
    let is_said = announcement::say(&said);
    if !why.is_empty() {
        if !is_said {
            announce(config::session().as_deref(), OsStr::new(""));
        }
        processes::not_recorded(why);
    }
    // `record` says it in its closing line.
    off(if is_said { "" } else { why });
    false
}

fn start(scans_last: fn()) -> Result<(), String> {
    let config = config::read();
    if config.disabled {
        return Err(String::new());
    }
    counters::reset();
    let clock = clock::choose();
    let file =
        TraceFile::create(&config::trace_path(&config.output), config.max_size.clone()).map_err(|e| e.to_string())?;
    let is_said = announcement::say(&Announcement::Made(file.location()));
    let preamble = preamble(&config, clock);
    let (origin, launches_wait) = (preamble.clocks[0].ns as i64, preamble.launches_wait());
    let preamble = encode(&preamble);
    let last_words = file.begin(&preamble, LastWords::new).map_err(|error| {
        // What has not begun no command reads.
        file.remove();
        format!("{}: {error}", file.path.display())
    })?;
    let generation = LAST.fetch_add(1, AcqRel) + 1;
    if !is_said || !announcement::say(&Announcement::Recorded) {
        announce(config.session.as_deref(), file.path.as_os_str());
    }
    processes::recorded(&file.path);
    let recorder = Box::leak(Box::new(Recorder {
        pid: std::process::id(),
        around: Surroundings::new(file, config.data, config.by_reference.then(MappedFiles::open).flatten()),
        supply: Arc::default(),
        session: config.session,
        launches_wait,
        looks_behind_work: launches_wait || config.collectives || config.shared_memory,
        deliveries: (config.collectives || config.shared_memory).then(Deliveries::default),
        keeps_collectives: config.collectives,
        collective_graphs: CollectiveGraphs::default(),
        imported: Imported::new(config.shared_memory),
        threads: AtomicU32::new(0),
        kernels: parameters::Layouts::default(),
        modules: modules::Modules::default(),
        images: images::Images::default(),
        logs: logs::Logs::default(),
        variables: variables::Variables::default(),
        invented: driver_addresses::Invented::default(),
        destinations: destinations::Destinations::default(),
        node_runs: node_runs::NodeRuns::default(),
        watch: watch::Watch::new(config.data, scans_last),
        long_results: long_results::Allowance::default(),
        range: range::begin(&config.range),
        last_words,
    }));
    RECORDER.store(recorder, Release);
    LAST_WORDS.get_or_init(|| |what| recorder::recorder().say_last(what, 1));
    page().recorded.store(1, Release);
    // Before the thread is made: that may wait for the loader, and whoever holds it may wait for this.
    page().process.store(std::process::id().into(), Relaxed);
    page().generation.store(generation, Release);
    spawn(if config.gpu_times { WITH_CUPTI } else { STACK });
    if config.gpu_times {
        times::start(recorder, origin);
    }
    Ok(())
}

/// Bytes of the recorder thread's stack; it calls CUPTI, too, where device times are taken.
const STACK: usize = 256 << 10;
const WITH_CUPTI: usize = 4 << 20;

/// The recorder thread: empties full chunks. Where no thread is to be had, those that record do its work.
fn spawn(stack: usize) {
    extern "C" fn tend(_: *mut libc::c_void) -> *mut libc::c_void {
        thread::begin(c"cutrace");
        let recorder = recorder();
        let control = recorder.around.file.memory.control();
        let alone = thread::LastThreads::default();
        let turn = || {
            let heard = control.heard();
            control.serve(|command| command.map_or(Answer::Unknown, |command| switch(recorder, command)));
            recorder.watch.look_for_external_writers(external_writers::SELDOM, &recorder.around);
            // That somebody has cut the file short is to be known before the process ends.
            recorder.around.file.look();
            let deliveries = recorder.deliveries.as_ref().map_or(Duration::MAX, |all| all.tend(&recorder.around));
            let a_while = recorder.range.tend().min(times::tend()).min(deliveries);
            alone.look();
            recorder.supply.tend(&recorder.around.file, heard, a_while)
        };
        while generation::recording() {
            match std::panic::catch_unwind(std::panic::AssertUnwindSafe(turn)) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => off(&format!("{}: {error}", recorder.around.file.path.display())),
                Err(_) => off("an internal error"),
            }
        }
        control.close();
        times::recording_ended();
        // Threads for payloads do not end either.
        loop {
            std::thread::sleep(thread::SELDOM);
            alone.look();
        }
    }
    if !thread::spawn(stack, tend, std::ptr::null_mut()) {
        recorder().around.file.memory.control().close();
        recorder().range.untended();
    }
}

/// `cutrace on` and `cutrace off`.
fn switch(recorder: &Recorder, command: Command) -> Answer {
    let is_on = command == Command::On;
    let answer = range::switch(is_on);
    if answer != Answer::Already {
        recorder.last_words.switched(&recorder.threads, Switched { time: clock::exit(), is_on });
    }
    answer
}

/// Tells `cutrace record` where this process's trace is; an empty path says that there is none to be had.
fn announce(session: Option<&Path>, path: &OsStr) {
    use std::io::Write;
    use std::os::unix::ffi::OsStrExt;
    let Some(session) = session else { return };
    let line = [format!("{} ", std::process::id()).as_bytes(), &escape(path.as_bytes()), b"\n"].concat();
    let written =
        without_signals(|| std::fs::File::options().append(true).open(session).and_then(|mut f| f.write_all(&line)));
    match written {
        // The launcher is gone, and a daemon it left behind goes on: nobody wants to know.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        // Of a program that has given up its rights: `cutrace record` looks for its trace where it was to go.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied && !path.is_empty() => {}
        Err(error) => {
            let path = path.to_string_lossy();
            tell(&format!("{}: {error}; cutrace record will not find {path}", session.display()));
        }
        Ok(()) => {}
    }
}

/// Read as if it could change, or the linker would drop what nobody refers to.
// SAFETY: no other section of the library has this name, and nobody writes it.
#[unsafe(link_section = ".cutrace")]
static MARK: [u8; trace::file::mark::MARK.len()] = trace::file::mark::MARK;

fn preamble(config: &Config, clock: &str) -> Preamble {
    let first = clock::sharp_pair();
    let wanted = |name: &str| ["CUDA_", "NVIDIA_", "LD_", "CUTRACE_"].iter().any(|p| name.starts_with(p));
    let environment = std::env::vars_os()
        .chain(environment::removed("CUTRACE_"))
        .filter(|(name, _)| name != VARIABLE)
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
        .filter(|(name, _)| wanted(name))
        .collect();
    let command_line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let command_line = command_line.strip_suffix(b"\0").unwrap_or(&command_line).split(|b| *b == 0);
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let mut preamble = Preamble {
        writer: String::from_utf8_lossy(&std::hint::black_box(&MARK)[1..]).into(),
        functions: trace::api::FUNCTIONS.iter().map(|f| (f.name.into(), f.words() as u16)).collect(),
        data: config.data,
        created: since.map_or(0, |d| d.as_nanos() as u64),
        clock: clock.into(),
        clocks: [first, first],
        host: config::host(),
        program: config::program(),
        command_line: command_line.map(|a| String::from_utf8_lossy(a).into_owned()).collect(),
        directory: std::env::current_dir().map_or(String::new(), |d| d.to_string_lossy().into_owned()),
        pid: std::process::id(),
        parent: std::os::unix::process::parent_id(),
        environment,
        driver_path: real_driver::path(),
        driver_version: driver_version(),
        more: [(trace::Trace::FOLLOWS.into(), "yes".into())]
            .into_iter()
            .chain(range::in_words(&config.range).map(|words| ("range".into(), words)))
            .chain(config.max_size.iter().map(|limit| (SIZE_LIMIT.into(), limit.words.clone())))
            .chain(config.by_reference.then(|| ("weights".into(), "by reference".into())))
            .chain(config.collectives.then(|| (trace::read::collective::KEPT.into(), "kept".into())))
            .chain(config.shared_memory.then(|| (trace::read::shared_handles::KEPT.into(), "kept".into())))
            .chain(forked().map(|words| ("forked".into(), words)))
            .chain(Rank::of_process().variables().map(|(name, number)| (name.into(), number.to_string())))
            .collect(),
    };
    // The rate between the clocks needs two pairs some way apart.
    while clock::pair().ns < first.ns + 200_000 {
        std::hint::spin_loop();
    }
    preamble.clocks[1] = clock::sharp_pair();
    preamble
}

/// Of which process that had called the driver this one is a fork, and what that had done by then.
fn forked() -> Option<String> {
    // SAFETY: null, or never freed: a child finds its parent's.
    let parent = unsafe { RECORDER.load(Acquire).as_ref() }?;
    let had = match devices::are_described() {
        true => "initialised the driver, which does not work in a forked child",
        false => "called the driver",
    };
    // Only the thread that forked goes on in the child, as its first.
    // SAFETY: take nothing.
    let is_it = unsafe { libc::syscall(libc::SYS_gettid) == libc::getpid().into() };
    let calls = match is_it {
        true => format!("; calls by the thread that forked: {}", lane::calls_of_thread()),
        false => String::new(),
    };
    Some(format!("of process {}, which had {had}{calls}", parent.pid))
}

/// cuDriverGetVersion needs no initialisation and changes nothing.
fn driver_version() -> i32 {
    let mut version = 0;
    // SAFETY: the output is valid.
    let result = unsafe { calls::driver_version(&mut version) };
    if result == Some(0) { version } else { 0 }
}
