//! Memory of other processes that a replay may wait for. The processes that share registered host memory are
//! found among the others of the job, if their traces are beside this one.

use analysis::job::{Job, Process};
use analysis::text::shell::shell;
use replayer::{PeerMemory, PeerWait};
use std::path::{Path, PathBuf};
use trace::Trace;
use trace::file::record::Shared;

/// What a replay waits for, in words: launches that were given such memory.
pub(super) fn told(path: &Path, all: &[PeerWait]) -> String {
    const NAMED: usize = 4;
    let Some(first) = all.first() else { return String::new() };
    let launches: Vec<String> =
        all.iter().take(NAMED).map(|of| format!("{} of call {}", of.kernel, of.launch)).collect();
    let more = all.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more launches") };
    let given = format!("{}{more} may wait for a write to", launches.join(", "));
    let directory = path.parent().filter(|of| *of != Path::new("")).unwrap_or(Path::new("."));
    let together = format!("cutrace replay {} replays", shell(&[format!("{}/", directory.display())]));
    let (registered, memory) = match &first.memory {
        PeerMemory::Host { registered, memory } => (registered, memory),
        PeerMemory::Device(range) => {
            let (start, len) = (range.start, range.end - range.start);
            let given = format!("{given} device memory {start:#x}+{len:#x} of a process that is not replayed");
            return if is_of_job(directory, path) { format!("{given}; {together} the whole job") } else { given };
        }
    };
    let (start, len) = (memory.start, memory.len);
    let given = format!("{given} host memory {start:#x}+{len:#x} (call {registered})");
    match &sharing(directory, path, memory)[..] {
        [] => format!("{given}, which may be shared with processes that are not replayed"),
        names => format!("{given}, which is shared with {}; {together} them together", names.join(", ")),
    }
}

/// Whether there are others beside it.
fn is_of_job(directory: &Path, path: &Path) -> bool {
    let traces = |job: Job| job.processes.into_iter().filter_map(|process| process.trace).collect::<Vec<_>>();
    let is_it = |of: &PathBuf| of.file_name() == path.file_name();
    Job::open(directory).map(traces).is_ok_and(|all| all.len() > 1 && all.iter().any(is_it))
}

/// Those of the job, in words.
fn sharing(directory: &Path, path: &Path, memory: &Shared) -> Vec<String> {
    let of_file = |trace: &Trace| {
        trace.calls().any(|call| {
            let mut parts = call.shared_mappings().iter();
            parts.any(|part| (part.device, part.inode) == (memory.device, memory.inode))
        })
    };
    let Ok(job) = Job::open(directory) else { return Vec::new() };
    let own = job
        .processes
        .iter()
        .find(|process| process.trace.as_deref().is_some_and(|of| of.file_name() == path.file_name()));
    let Some(own) = own else { return Vec::new() };
    let others = job.processes.iter().filter(|other| {
        let is_beside = (&other.host, &other.boot, other.recording) == (&own.host, &own.boot, own.recording);
        let trace = || other.trace.as_ref().and_then(|path| Trace::open(path).ok());
        is_beside && other.trace != own.trace && trace().is_some_and(|trace| of_file(&trace))
    });
    others.map(Process::name).collect()
}
