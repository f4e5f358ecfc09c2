//! A test's own directory, and the ways to run a program in it.

use crate::artifacts::{artifact, driver_directory, home, kernels};
use crate::recording::sound;
use crate::run::{Outcome, run};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use trace::Trace;

pub struct Place {
    directory: TempDir,
}

impl Default for Place {
    fn default() -> Place {
        Place::new()
    }
}

/// A process that was killed leaves its chunks in shared memory until its trace is closed, which few tests
/// do.
impl Drop for Place {
    fn drop(&mut self) {
        for path in self.trace_paths() {
            Trace::open(path).iter().for_each(Trace::release_memory);
        }
    }
}

impl Place {
    pub fn new() -> Place {
        Place { directory: tempfile::Builder::new().prefix("cutrace-test-").tempdir().expect("a temporary directory") }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// As `command_in`, in this directory.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        command_in(self.path(), program)
    }

    /// The program on the simulated driver, unrecorded.
    pub fn bare(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.command(program);
        command.env("LD_LIBRARY_PATH", driver_directory());
        command
    }

    /// The program with the recorder preloaded and nothing else: it finds the driver by itself.
    pub fn preloaded(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.bare(program);
        command.env("LD_PRELOAD", artifact("libcutrace.so"));
        command
    }

    /// The program under `cutrace record --driver sim`.
    pub fn recorded(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.cutrace(["record", "--driver", "sim", "--"]);
        command.arg(program);
        command
    }

    pub fn cutrace<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.command(artifact("cutrace"));
        command.args(arguments);
        command
    }

    /// Runs bare, with the recorder preloaded, and by `cutrace record`: exit status and output must be the
    /// same, and every trace whole; those of `record` are closed. Returns the preloaded run, whose traces
    /// stay here.
    #[track_caller]
    pub fn unchanged<S: AsRef<OsStr>>(&self, program: impl AsRef<OsStr>, arguments: &[S]) -> Outcome {
        let bare = run(self.bare(&program).args(arguments));
        self.no_traces();
        let mut record = self.cutrace(["record", "--output", "record/trace.bin", "--driver"]);
        record.arg(driver_directory().join("libcuda.so.1")).arg("--").arg(&program).args(arguments);
        record.env("LD_LIBRARY_PATH", driver_directory());
        std::fs::create_dir(self.join("record")).expect("our own directory");
        self.same(&bare, &run(&mut record));
        let recorded = run(self.preloaded(&program).args(arguments));
        self.same(&bare, &recorded);
        let closed = traces_in(&self.join("record"));
        assert_eq!(closed.len(), self.trace_paths().len());
        assert!(closed.iter().all(|path| sound(path).footer.is_some()));
        recorded
    }

    /// Compares what a program's user sees: exit status and output.
    #[track_caller]
    pub fn same(&self, bare: &Outcome, recorded: &Outcome) {
        assert_eq!(bare.code(), recorded.code(), "bare: {bare:?}\nrecorded: {recorded:?}");
        assert_eq!(bare.stdout, recorded.stdout, "stderr: {}", recorded.stderr);
    }

    /// Paths of the traces here: trace.bin, trace.1.bin, ...
    pub fn trace_paths(&self) -> Vec<PathBuf> {
        traces_in(self.path())
    }

    /// All traces here, in the order in which they were begun. Each must be whole.
    #[track_caller]
    pub fn traces(&self) -> Vec<Trace> {
        self.trace_paths().iter().map(sound).collect()
    }

    /// The only trace here.
    #[track_caller]
    pub fn trace(&self) -> Trace {
        let mut all = self.traces();
        assert_eq!(all.len(), 1, "traces: {:?}", self.trace_paths());
        all.remove(0)
    }

    #[track_caller]
    pub fn no_traces(&self) {
        assert_eq!(self.trace_paths(), Vec::<PathBuf>::new());
    }
}

/// A command whose environment holds nothing of CUDA, of the loader, of cutrace, or of the user's own
/// configuration and caches.
pub fn command_in(directory: &Path, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory).env_clear().env("KERNELS", kernels()).env("LC_ALL", "C").env("HOME", home());
    for name in ["PATH", "TMPDIR", "RUST_BACKTRACE"] {
        command.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    command
}

fn traces_in(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("our own directory");
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    all.retain(|path| path.extension().is_some_and(|e| e == "bin"));
    let number = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.split('.').nth(1).and_then(|n| n.parse::<u32>().ok()).unwrap_or(0)
    };
    all.sort_by_key(|path| (number(path), path.clone()));
    all
}
