//! Output of kernels during a replay. It belongs to the recorded program, not to the replay's result, so it
//! is compared with the program's recorded standard output, and printed behind the verdict on request.

use analysis::text::figures::{counted, grouped, size};
use replayer::{Outcome, Report};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread::JoinHandle;
use trace::Trace;
use trace::file::record::Printed;
use trace::show::text::plain;

/// Text beyond that is counted, and no more.
const MOST_BYTES: usize = 4 << 20;
/// That is shown.
const SHOWN_LINES: usize = 1000;
const SHOWN_BYTES: usize = 64 << 10;

/// Standard output, redirected to a pipe while this lives. The driver prints through the C library.
pub(super) struct Aside(Option<Led>);

/// The output of kernels.
#[derive(Default)]
pub(super) struct Text {
    /// The first of it, up to [`MOST_BYTES`].
    kept: Vec<u8>,
    bytes: usize,
}

struct Led {
    /// Where it led before.
    kept: OwnedFd,
    reader: JoinHandle<Text>,
}

impl Aside {
    pub(super) fn begin() -> Aside {
        io::stdout().flush().ok();
        // Without a stdout, or with no descriptor left, kernels print where they can.
        Aside(lead().ok())
    }

    /// What kernels have printed; none if that is not known.
    pub(super) fn finish(mut self) -> Option<Text> {
        self.end()
    }

    fn end(&mut self) -> Option<Text> {
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
        std::thread::Builder::new().name("printed".into()).spawn(move || read(File::from(OwnedFd::from(from))))?;
    // SAFETY: both are open, or the call fails and changes nothing: then there is nothing to read.
    unsafe { libc::dup2(to.as_raw_fd(), libc::STDOUT_FILENO) };
    Ok(Led { kept, reader })
}

/// To its end.
fn read(mut from: File) -> Text {
    let (mut text, mut piece) = (Text::default(), [0; 4096]);
    while let Ok(len @ 1..) = from.read(&mut piece) {
        text.bytes += len;
        if text.kept.len() < MOST_BYTES {
            text.kept.extend_from_slice(&piece[..len]);
        }
    }
    text
}

/// Whatever the driver still prints until the process ends goes nowhere: the verdict has been given.
pub(super) fn silence() {
    let Ok(nowhere) = File::options().write(true).open("/dev/null") else { return };
    // SAFETY: descriptors alone.
    unsafe { libc::dup2(nowhere.as_raw_fd(), libc::STDOUT_FILENO) };
}

/// The comparison of kernel output with the recorded program's standard output.
pub(super) struct Compared {
    text: Text,
    pub lines: usize,
    /// So many of them were there; none if they were not compared.
    pub as_recorded: Option<usize>,
    not_compared: &'static str,
}

impl Compared {
    /// `why_not`: the reason for which it is not compared.
    pub(super) fn of(trace: &Trace, text: Option<Text>, why_not: Option<&'static str>) -> Option<Compared> {
        let text = text.filter(|text| text.bytes > 0)?;
        let printed = Printed::from_text(&text.kept);
        let (recorded, not_compared) = match (&trace.printed, why_not) {
            (_, Some(why)) => (None, why),
            _ if text.bytes > text.kept.len() => (None, "the output is too long"),
            (None, _) => (None, "the recorded program's output was not a regular file, or too long"),
            (recorded, _) => (recorded.as_ref(), ""),
        };
        let as_recorded = recorded.map(|recorded| recorded.hold(&printed));
        let compared = Compared { text, lines: printed.lines.len(), as_recorded, not_compared };
        (compared.lines > 0).then_some(compared)
    }

    /// Text is a result that came back, and if all of it is as recorded it has been compared. A line that the
    /// recording lacks is no difference: the program's output may have it in another form, and which kernel
    /// prints what may depend on which of them runs first.
    pub(super) fn judge(&self, report: &mut Report) {
        report.copied_results = true;
        report.printed_otherwise = self.as_recorded.is_some_and(|some| some < self.lines);
        if report.outcome == Outcome::Unverified && self.as_recorded == Some(self.lines) {
            report.outcome = Outcome::Verified;
        }
    }

    /// `verbose`: with the text itself.
    pub(super) fn text(&self, out: &mut impl Write, verbose: bool) -> io::Result<()> {
        let lines = counted(self.lines as u64, "line");
        let how = match self.as_recorded {
            None => format!("not compared: {}", self.not_compared),
            Some(all) if all == self.lines => "as in the recorded program's output".into(),
            Some(some) => {
                let missing = self.lines - some;
                let are = if missing == 1 { "is" } else { "are" };
                format!("{} {are} not in the recorded program's output", grouped(missing as u64))
            }
        };
        writeln!(out, "  printed      {lines} by kernels, {how}")?;
        if verbose {
            let (shown, left_out) = self.shown();
            shown.iter().try_for_each(|line| writeln!(out, "    | {}", plain(line)))?;
            if left_out > 0 {
                writeln!(out, "    and {} more of {}", counted(left_out as u64, "line"), size(self.text.bytes as u64))?;
            }
        }
        Ok(())
    }

    /// The first lines, and how many more there are.
    fn shown(&self) -> (Vec<String>, usize) {
        let mut bytes = 0;
        let lines = self.text.kept.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let fits = |line: &&[u8]| {
            bytes += line.len();
            bytes <= SHOWN_BYTES
        };
        let shown: Vec<String> =
            lines.take(SHOWN_LINES).take_while(fits).map(|line| String::from_utf8_lossy(line).into_owned()).collect();
        let left_out = self.lines - shown.len();
        (shown, left_out)
    }

    pub(super) fn object(&self) -> Value {
        let (shown, left_out) = self.shown();
        json!({
            "lines": self.lines, "as_recorded": self.as_recorded, "bytes": self.text.bytes,
            "text": shown, "lines_left_out": left_out,
        })
    }
}
