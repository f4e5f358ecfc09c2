//! The closing of a trace, killed between any two writes and after each page of a write: the records can be
//! read, replayed and repaired as if closing had not begun, and no lost shared memory remains.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use tests::forge::Forge;
use tests::*;
use trace::Trace;
use trace::file::record::{self, Ended, Printed, with_body};
use trace::file::segment::{HEADER, Header, Kind, PAGE};
use trace::file::shared_memory::{OWNER, Owner, PRIVATE, Place as InMemory};
use trace::file::storage::Storage;
use trace::write::finish::{self, finish_on};

/// The file of a process that is killed after so many steps.
struct Killed {
    file: File,
    left: Cell<usize>,
}

impl Killed {
    fn step(&self) -> io::Result<()> {
        let left = self.left.get().checked_sub(1).ok_or_else(|| io::Error::other("killed"))?;
        self.left.set(left);
        Ok(())
    }
}

impl Storage for Killed {
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let (mut rest, mut at) = (bytes, at);
        while !rest.is_empty() {
            self.step()?;
            let (page, behind) = rest.split_at(rest.len().min((PAGE - at % PAGE) as usize));
            self.file.write_all_at(page, at)?;
            (rest, at) = (behind, at + page.len() as u64);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.step()?;
        self.file.set_len(len)
    }

    fn give_back(&self, from: u64, to: u64) {
        if self.step().is_ok() {
            self.file.give_back(from, to);
        }
    }
}

/// Shared memory like this, of the trace with this device and inode.
fn like(id: i32, (device, inode): (u64, u64)) -> i32 {
    // SAFETY: the sizes are those of the memory, which this process alone has by then; the first page is longer
    // than what it says of its owner.
    unsafe {
        let mut about: libc::shmid_ds = std::mem::zeroed();
        assert_eq!(libc::shmctl(id, libc::IPC_STAT, &mut about), 0, "{}", io::Error::last_os_error());
        let new = libc::shmget(libc::IPC_PRIVATE, about.shm_segsz, libc::IPC_CREAT | 0o600);
        let (from, to) = (libc::shmat(id, std::ptr::null(), libc::SHM_RDONLY), libc::shmat(new, std::ptr::null(), 0));
        assert!(new >= 0 && from as isize != -1 && to as isize != -1, "{}", io::Error::last_os_error());
        std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast(), about.shm_segsz);
        let token = from.byte_add(8).cast::<u64>().read();
        let owner = Owner { token, device, inode }.encode();
        std::ptr::copy_nonoverlapping(owner.as_ptr(), to.cast(), OWNER);
        libc::shmdt(from);
        libc::shmdt(to);
        new
    }
}

fn is_there(id: i32) -> bool {
    // SAFETY: the call fills the struct.
    unsafe { libc::shmctl(id, libc::IPC_STAT, &mut std::mem::zeroed::<libc::shmid_ds>()) == 0 }
}

/// Copies a trace that nobody has closed, with its shared memory: the ids of that.
fn copy(from: &Path, to: &Path) -> Vec<i32> {
    let _none_yet = std::fs::remove_file(to);
    std::fs::copy(from, to).expect("room");
    let about = to.metadata().expect("a trace");
    let forge = Forge::open(to);
    let file = File::options().write(true).open(to).expect("a trace");
    let mut ids: Vec<(i32, i32)> = Vec::new();
    for (offset, header) in forge.segments(Kind::Free) {
        let Some(place) =
            InMemory::from_header(&header).filter(|place| place.memory != PRIVATE && is_there(place.memory))
        else {
            continue;
        };
        let known = ids.iter().find(|(old, _)| *old == place.memory).map(|(_, new)| *new);
        let memory = known.unwrap_or_else(|| {
            let new = like(place.memory, (about.dev(), about.ino()));
            ids.push((place.memory, new));
            new
        });
        let header = Header { id: InMemory { memory, ..place }.id(), ..header };
        file.write_all_at(&header.encode(), offset as u64).expect("room");
    }
    ids.into_iter().map(|(_, new)| new).collect()
}

/// What was recorded, and what of it is lost: what is said in two ways counts once.
fn told(trace: &Trace) -> (Vec<String>, Vec<String>) {
    let calls = trace.calls().map(|call| {
        let words: Vec<u64> = call.words().collect();
        format!("{} {} {} {:?} {:?} {words:x?}", call.thread, call.name(), call.begin, call.end, call.result)
    });
    let damage = trace.damage.iter().filter(|damage| damage.loses);
    let damage = damage.map(|damage| format!("at offset {}: {}", damage.offset, damage.what));
    let mut lost: Vec<String> = trace.losses.iter().map(|(what, _)| what.clone()).chain(damage).collect();
    lost.sort();
    lost.dedup();
    (calls.collect(), lost)
}

fn judged(_: &Trace) -> (String, Vec<String>) {
    ("replayable".into(), Vec::new())
}

/// Closes copies of the trace, each with one step more. `commands`: whether what can be run on it is run.
fn is_readable_at_any_time(place: &Place, unclosed: &Path, records: &[u8], commands: bool) {
    let path = place.join("copy.bin");
    let close = |steps: usize| {
        let ids = copy(unclosed, &path);
        let trace = Trace::open(&path).expect("a trace");
        let file = File::options().read(true).write(true).open(&path).expect("a trace");
        let storage = Killed { file, left: Cell::new(steps) };
        let done = finish_on(&trace, &storage, records, judged);
        (done.is_ok(), usize::MAX - storage.left.get(), ids, told(&trace))
    };
    let (is_done, steps, ids, before) = close(usize::MAX);
    assert!(is_done && ids.iter().all(|id| !is_there(*id)), "{ids:?}");
    let closed = Trace::open(&path).expect("a trace");
    assert!(finish::is_whole(&closed), "{:?}", closed.damage);
    assert_eq!(told(&closed), before);
    let code = if before.1.iter().any(|what| finish::is_damage(what)) { 3 } else { 0 };
    let replayed = || run(&mut place.cutrace(["replay", "--driver", "sim", "copy.bin"])).code();
    let as_closed = if commands { replayed() } else { 0 };
    for left in 0..steps {
        let (is_done, _, ids, _) = close(left);
        assert!(!is_done || left + 8 > steps, "{left} of {steps}");
        let trace = Trace::open(&path).expect("a trace");
        assert!(told(&trace) == before, "{left} of {steps}: {:?} {:?}", trace.damage, trace.losses);
        // While there is memory, the file says so.
        let named = Forge::open(&path).segments(Kind::Free);
        let named: Vec<i32> =
            named.iter().filter_map(|(_, header)| Some(InMemory::from_header(header)?.memory)).collect();
        assert!(ids.iter().all(|id| !is_there(*id) || named.contains(id)), "{left} of {steps}");
        drop(trace);
        if commands {
            run(&mut place.cutrace(["info", "copy.bin"])).expect(code);
            assert_eq!(replayed(), as_closed, "{left} of {steps}");
        }
        run(&mut place.cutrace(["repair", "copy.bin"])).expect(code);
        let repaired = Trace::open(&path).expect("a trace");
        assert!(finish::is_whole(&repaired), "{left} of {steps}: {:?}", repaired.damage);
        assert!(told(&repaired) == before, "{left} of {steps}: {:?}", repaired.losses);
        assert!(ids.iter().all(|id| !is_there(*id)), "{left} of {steps}");
    }
}

/// More than a page of them.
fn records() -> Vec<u8> {
    let printed = Printed { lines: (0..1200).collect() };
    [with_body(record::PRINTED, &printed), with_body(record::ENDED, &Ended { status: 3, signal: 0 })].concat()
}

fn release(unclosed: &Path) {
    Trace::open(unclosed).expect("a trace").release_memory();
}

#[test]
fn killed_while_a_killed_program_is_closed() {
    let place = Place::new();
    run(place.preloaded(client("ends.c")).arg("kill")).expect(128 + libc::SIGKILL);
    let unclosed = place.join("trace.bin");
    is_readable_at_any_time(&place, &unclosed, &records(), true);
    release(&unclosed);
}

/// Two chunks of threads that live, and several that were used again.
#[test]
fn killed_while_threads_are_closed() {
    let place = Place::new();
    let running = begin(place.preloaded(client("many_threads.c")).args(["2", "1000", "300"]));
    until("it calls", || Trace::open(place.join("trace.bin")).is_ok_and(|trace| trace.len() > 3000));
    running.send(libc::SIGKILL);
    running.end().expect(128 + libc::SIGKILL);
    let unclosed: PathBuf = place.join("trace.bin");
    is_readable_at_any_time(&place, &unclosed, &[], false);
    release(&unclosed);
}

/// Where the page for the mark holds what the recorder said last.
#[test]
fn killed_while_a_trace_at_its_size_limit_is_closed() {
    let place = Place::new();
    let program = client("many_calls.c");
    run(place.preloaded(&program).arg("100000").env("CUTRACE_MAX_SIZE", "1M")).expect(0);
    let unclosed = place.join("trace.bin");
    is_readable_at_any_time(&place, &unclosed, &[], false);
    is_readable_at_any_time(&place, &unclosed, &records(), false);
}

#[test]
fn killed_while_what_is_damaged_is_closed() {
    let place = Place::new();
    run(place.preloaded(client("ends.c")).arg("kill")).expect(128 + libc::SIGKILL);
    let unclosed = place.join("trace.bin");
    let mut bytes = std::fs::read(&unclosed).expect("a trace");
    // A page that is no segment's, and a preamble.
    bytes.extend([7; PAGE as usize]);
    bytes[HEADER + 8] ^= 1;
    std::fs::write(&unclosed, bytes).expect("room");
    is_readable_at_any_time(&place, &unclosed, &records(), false);
    release(&unclosed);
}
