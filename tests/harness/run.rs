//! Runs of a program, each with a time limit.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The end of a program, and its output.
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

/// What takes so long hangs, however busy the machine is.
pub const HANG: Duration = Duration::from_secs(600);

/// Runs to the end, or panics: a hang is a failure.
#[track_caller]
pub fn run(command: &mut Command) -> Outcome {
    run_within(command, HANG)
}

#[track_caller]
pub fn run_within(command: &mut Command, limit: Duration) -> Outcome {
    started(command).end_within(limit)
}

/// A running program, and its output. Its process group is killed at the latest when this is dropped.
pub struct Running {
    child: Child,
    command: String,
    out: File,
    err: File,
}

#[track_caller]
fn started(command: &mut Command) -> Running {
    // Into files: a grandchild that outlives the program would keep a pipe open.
    let [out, err] = [(); 2].map(|()| tempfile::tempfile().expect("a temporary file"));
    let clone = |file: &File| Stdio::from(file.try_clone().expect("a second descriptor"));
    command.stdin(Stdio::null()).stdout(clone(&out)).stderr(clone(&err)).process_group(0);
    let child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    Running { child, command: format!("{command:?}"), out, err }
}

/// Starts a program that signals are sent to while it runs.
#[track_caller]
pub fn begin(command: &mut Command) -> Running {
    let as_from_a_terminal = || {
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
            // SAFETY: allowed between fork and exec. What the tests run in may ignore them.
            let _as_before = unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: as above.
    unsafe { command.pre_exec(as_from_a_terminal) };
    started(command)
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    #[track_caller]
    pub fn send(&self, signal: i32) {
        self.send_to(self.child.id() as i32, signal);
    }

    /// To what it has started, too, as a terminal and `timeout` do it.
    #[track_caller]
    pub fn send_to_all(&self, signal: i32) {
        self.send_to(-(self.child.id() as i32), signal);
    }

    #[track_caller]
    fn send_to(&self, whom: i32, signal: i32) {
        // SAFETY: the process group is the child's own, and the child has not been waited for.
        assert_eq!(unsafe { libc::kill(whom, signal) }, 0, "{}", std::io::Error::last_os_error());
    }

    #[track_caller]
    pub fn end(self) -> Outcome {
        self.end_within(HANG)
    }

    #[track_caller]
    fn end_within(mut self, limit: Duration) -> Outcome {
        let started = Instant::now();
        let mut pause = Duration::from_millis(1);
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("our own child") {
                break Some(status);
            }
            if started.elapsed() > limit {
                break None;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        };
        let (stdout, stderr) = (text(&mut self.out), text(&mut self.err));
        match status {
            Some(status) => Outcome { status, stdout, stderr },
            None => panic!("still running after {limit:?}: {}\nstdout:\n{stdout}\nstderr:\n{stderr}", self.command),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.send_to_all(libc::SIGKILL);
            self.child.wait().expect("our own child");
        }
    }
}

fn text(file: &mut File) -> String {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).expect("a temporary file can be read");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether a replay has printed that all of it agrees, without an exception.
pub fn is_verified(stdout: &str) -> bool {
    let first = stdout.lines().next().unwrap_or_default();
    first.starts_with("verified: ") && (first.ends_with(" identical") || first.ends_with(" within the tolerance"))
}
