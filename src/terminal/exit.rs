//! The end of a command: its exit status, and the one line that gives the reason.

use crate::terminal::standard_output::Results;
use analysis::calls::losses;
use analysis::error::Error;
use analysis::text::figures::counted;
use std::fmt::Display;
use std::io::{self, Write};
use trace::file::preamble::Data;
use trace::show::text::plain;

pub(crate) const DONE: u8 = 0;
pub(crate) const FAILED: u8 = 1;
pub(crate) const USAGE: u8 = 2;
pub(crate) const UNREADABLE: u8 = 3;
pub(crate) const DIVERGED: u8 = 4;
pub(crate) const NO_DRIVER: u8 = 5;
pub(crate) const UNVERIFIED: u8 = 6;
pub(crate) const CANNOT_EXECUTE: u8 = 126;
pub(crate) const NOT_FOUND: u8 = 127;

/// An error with an exit status of its own.
#[derive(Debug)]
pub(crate) struct Failure {
    pub status: u8,
    pub message: String,
}

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

pub(crate) fn failure(status: u8, message: impl Display) -> anyhow::Error {
    Failure { status, message: message.to_string() }.into()
}

/// Says why on stderr, and in JSON on stdout for who expects that there; gives the exit status.
pub(crate) fn explain(error: anyhow::Error, as_json: bool) -> u8 {
    let message = in_full(&error);
    say(&message);
    let status = status_of(&error);
    if as_json {
        tell_in_json(status, &message);
    }
    status
}

/// Why a command fails, on stdout.
pub(crate) fn tell_in_json(status: u8, message: &str) {
    let object = serde_json::json!({ "schema": 1, "error": { "status": status, "message": message } });
    let text = analysis::text::json::text(&object).unwrap_or_default();
    let _full = writeln!(Results::begin(), "{text}");
}

/// How a command ends that fails with it.
pub(crate) fn status_of(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<Failure>() {
        Some(failure) => failure.status,
        None if error.is::<trace::Error>() || lacks_memory(error) => UNREADABLE,
        None => error.downcast_ref().map_or(FAILED, of_kind),
    }
}

fn of_kind(error: &Error) -> u8 {
    match error {
        Error::Usage(_) => USAGE,
        Error::Unreadable(_) | Error::Trace(_) => UNREADABLE,
        Error::At { source, .. } => of_kind(source),
        Error::Io(_) | Error::Json(_) | Error::Format(_) => FAILED,
    }
}

/// A trace that does not fit into memory is one that cannot be read, whoever finds that.
fn lacks_memory(error: &anyhow::Error) -> bool {
    let is_it = |cause: &io::Error| cause.kind() == io::ErrorKind::OutOfMemory;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_it))
}

/// An error with its causes, without those that it quotes already.
pub(crate) fn in_full(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |text, cause| match cause.to_string() {
        cause if text.contains(&cause) => text,
        cause if text.is_empty() => cause,
        cause => format!("{text}: {cause}"),
    })
}

/// Ends the process without what libraries do at its end.
pub(crate) fn at_once(status: u8) -> ! {
    // Whoever read it may be gone: then nobody needs the rest.
    let _ = io::stdout().flush();
    // SAFETY: ends the process.
    unsafe { libc::_exit(status.into()) }
}

/// One line on stderr. There is nowhere left to report a stderr that is gone.
pub(crate) fn say(message: impl Display) {
    let _gone = writeln!(io::stderr(), "cutrace: {}", plain(&message.to_string()));
}

/// As `say`, of a process that ends now: no other thread's line comes after this one.
pub(crate) fn say_last(message: impl Display) {
    let mut until_the_end = std::mem::ManuallyDrop::new(io::stderr().lock());
    let _gone = writeln!(until_the_end, "cutrace: {}", plain(&message.to_string()));
}

/// Tells of damage, and gives the exit status for having met it. `missing`: pieces of data that the calls
/// name and the file lacks; a cut between two segments leaves no other sign. A trace without data lacks it on
/// purpose.
pub(crate) fn damage(trace: &trace::Trace, missing: u64) -> u8 {
    let cut = || {
        let pieces = counted(missing, "piece");
        format!("{}: not in the file, lost or truncated: {pieces} of data of these calls", trace.path.display())
    };
    let is_cut = missing != 0 && trace.preamble.data != Data::None;
    let Some(line) = losses::damage_of(trace).or_else(|| is_cut.then(cut)) else { return DONE };
    say(line);
    UNREADABLE
}
