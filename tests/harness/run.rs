//! Running a program, never for ever.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How a program ended and what it said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    /// The exit code, or 128 + signal, as a shell would tell.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }

    /// Panics with what the program said unless it ended with this code.
    #[track_caller]
    pub fn expect(self, code: i32) -> Outcome {
        assert_eq!(self.code(), code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// The lines that cutrace wrote on stderr.
    pub fn said(&self) -> Vec<&str> {
        self.stderr.lines().filter(|line| line.starts_with("cutrace: ")).collect()
    }
}

/// Runs to the end, or panics after a minute: a hang is a failure.
#[track_caller]
pub fn run(command: &mut Command) -> Outcome {
    run_within(command, Duration::from_secs(60))
}

#[track_caller]
pub fn run_within(command: &mut Command, limit: Duration) -> Outcome {
    // Into files: a grandchild that outlives the program would keep a pipe open.
    let [mut out, mut err] = [(); 2].map(|()| tempfile::tempfile().expect("a temporary file"));
    let clone = |file: &File| Stdio::from(file.try_clone().expect("a second descriptor"));
    command.stdin(Stdio::null()).stdout(clone(&out)).stderr(clone(&err)).process_group(0);
    let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    let status = loop {
        if let Some(status) = child.try_wait().expect("our own child") {
            break Some(status);
        }
        if started.elapsed() > limit {
            break None;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    if status.is_none() {
        // SAFETY: the process group is the child's own, and the child has not been waited for.
        unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
        child.wait().expect("our own child");
    }
    let (stdout, stderr) = (text(&mut out), text(&mut err));
    match status {
        Some(status) => Outcome { status, stdout, stderr },
        None => panic!("still running after {limit:?}: {command:?}\nstdout:\n{stdout}\nstderr:\n{stderr}"),
    }
}

fn text(file: &mut File) -> String {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).expect("a temporary file can be read");
    String::from_utf8_lossy(&bytes).into_owned()
}
