//! What kernels print while a trace is made again is the recorded program's output, not the replay's result:
//! it goes to stderr, and is compared with what the recorded program's standard output got.

use crate::figures::{counted, grouped};
use replayer::{Outcome, Report};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread::JoinHandle;
use trace::Trace;
use trace::record::Printed;

/// Of more text it is not known what it is.
const MOST_BYTES: usize = 4 << 20;

/// Standard output leads to stderr as long as this lives. The driver prints through the C library.
pub struct Aside(Option<Led>);

struct Led {
    /// Where it led before.
    kept: OwnedFd,
    reader: JoinHandle<Vec<u8>>,
}

impl Aside {
    pub fn begin() -> Aside {
        io::stdout().flush().ok();
        // Without a stdout, or with no descriptor left, kernels print where they can.
        Aside(lead().ok())
    }

    /// What kernels have printed; none if that is too much, or not known.
    pub fn finish(mut self) -> Option<Printed> {
        let text = self.end()?;
        (text.len() <= MOST_BYTES).then(|| Printed::of(&text))
    }

    fn end(&mut self) -> Option<Vec<u8>> {
        let led = self.0.take()?;
        // SAFETY: null means all of the C library's streams; the descriptor is our own.
        unsafe {
            libc::fflush(std::ptr::null_mut());
            libc::dup2(led.kept.as_raw_fd(), libc::STDOUT_FILENO);
        }
        led.reader.join().ok()
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.end();
    }
}

fn lead() -> io::Result<Led> {
    // SAFETY: descriptors alone; a new one is owned by nobody else.
    let kept = unsafe {
        let kept = libc::fcntl(libc::STDOUT_FILENO, libc::F_DUPFD_CLOEXEC, 3);
        if kept < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(kept)
    };
    let (from, to) = io::pipe()?;
    let reader =
        std::thread::Builder::new().name("printed".into()).spawn(move || forward(File::from(OwnedFd::from(from))))?;
    // SAFETY: both are open, or the call fails and changes nothing: then there is nothing to read.
    unsafe { libc::dup2(to.as_raw_fd(), libc::STDOUT_FILENO) };
    Ok(Led { kept, reader })
}

/// To stderr, as it comes; a beginning of it is kept.
fn forward(mut from: File) -> Vec<u8> {
    let (mut text, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(len @ 1..) = from.read(&mut piece) {
        // Whoever has closed stderr does not want to read it.
        let _ = io::stderr().write_all(&piece[..len]);
        if text.len() <= MOST_BYTES {
            text.extend_from_slice(&piece[..len]);
        }
    }
    text
}

/// How what kernels printed compares with what the recorded program's standard output got.
pub struct Compared {
    pub lines: usize,
    /// So many of them were there; none if it is not known what was.
    pub as_recorded: Option<usize>,
}

impl Compared {
    pub fn of(trace: &Trace, printed: Option<&Printed>) -> Option<Compared> {
        let printed = printed.filter(|printed| !printed.lines.is_empty())?;
        let as_recorded = trace.printed.as_ref().map(|recorded| recorded.hold(printed));
        Some(Compared { lines: printed.lines.len(), as_recorded })
    }

    /// Text is a result that came back, and if all of it is as recorded it has been compared. A line that the
    /// recording lacks may be another than the program had, or the program's output has it in another form:
    /// no pass, and no divergence.
    pub fn judge(&self, report: &mut Report) {
        report.came_back = true;
        report.printed_otherwise = self.as_recorded.is_some_and(|some| some < self.lines);
        let is_as_recorded = self.as_recorded.map(|some| some == self.lines);
        report.outcome = match (report.outcome, is_as_recorded) {
            (Outcome::Unverified, Some(true)) => Outcome::Verified,
            (Outcome::Verified, Some(false)) => Outcome::Unverified,
            (outcome, _) => outcome,
        };
    }

    pub fn text(&self, out: &mut impl Write) -> io::Result<()> {
        let lines = counted(self.lines as u64, "line");
        let how = match self.as_recorded {
            None => "not compared: the recorded program's output was no plain file, or too long".into(),
            Some(all) if all == self.lines => "as in the recorded program's output".into(),
            Some(some) => {
                let missing = self.lines - some;
                let are = if missing == 1 { "is" } else { "are" };
                format!("of which {} {are} not in the recorded program's output", grouped(missing as u64))
            }
        };
        writeln!(out, "  printed      {lines} by kernels, {how}")
    }

    pub fn object(&self) -> Value {
        json!({ "lines": self.lines, "as_recorded": self.as_recorded })
    }
}
