//! `cutrace pack`: packs a trace into a tenth of its space, or unpacks it.

use crate::arguments::input::{self, is_there};
use crate::arguments::rank_filter::{self, Among};
use crate::files::directories::Set;
use crate::files::output::{Output, are_same};
use crate::files::references;
use crate::terminal::exit;
use crate::terminal::exit::{FAILED, USAGE, failure};
use crate::terminal::standard_output::{Results, print_json};
use crate::verdict;
use analysis::text::figures::{counted, size};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use trace::Trace;
use trace::base::job::{EXTENSION, PROCESSES};
use trace::show::text::plain;
use trace::write::extend::Extension;
use trace::write::finish;
use trace::write::pack;

/// Compress a trace; every command reads the result directly
///
/// Calls shrink to a tenth or less, data as zstd compresses it. The compression is lossless: --unpack
/// restores the same file, byte for byte. Only a closed trace can be packed. Data stored by reference
/// (`record --weights reference`) stays outside unless --weights embeds it. All traces of a directory are
/// packed into another directory, with the list of its processes; a trace chosen by --rank and --recording is
/// packed into a file.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cutrace pack trace.bin -o packed.bin
  cutrace pack --unpack packed.bin -o trace.bin
  cutrace record --pack ./app            pack when the program has ended
  cutrace pack run/ -o small/            all traces of a job
  cutrace pack run/ --rank 3 -o rank3.bin
  cutrace pack --weights model.gguf trace.bin -o complete.bin
                                         embed the data stored by reference

Exit status:
  0 written
  1 OUT exists or cannot be written; FILE is packed already, not packed
    (--unpack) or not closed; or referenced data is missing (--weights)
  2 usage
  3 written, but a part of the trace is damaged; or a trace is missing, or a
    file of --weights has changed")]
pub(crate) struct Arguments {
    /// The trace, or a directory of traces
    #[arg(value_name = "FILE|DIR")]
    file: PathBuf,
    #[command(flatten)]
    among: Among,
    /// The new file to write, or the new directory for the traces of a directory
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Restore the trace as it was before packing
    #[arg(long)]
    unpack: bool,
    /// Embed data stored by reference, read from this file or from files below this directory; may be
    /// repeated
    #[arg(long, value_name = "FILE|DIR", conflicts_with = "unpack")]
    weights: Vec<PathBuf>,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Version of the JSON form. Fields may be added within a version.
const SCHEMA: u32 = 1;

pub(crate) fn run(mut arguments: Arguments) -> Result<u8> {
    is_there(&arguments.file)?;
    let mut status = exit::DONE;
    match arguments.among.is_all() {
        true if arguments.file.is_dir() => return each(&arguments),
        true => {}
        false => (arguments.file, status) = input::File::one(&arguments.file, &arguments.among)?,
    }
    let mut trace = Trace::open(&arguments.file)?;
    if let Some(why) = as_it_is(&arguments, &trace) {
        return Err(failure(FAILED, format_args!("{}: {why}", arguments.file.display())));
    }
    make_ready(&arguments, &mut trace)?;
    let output = Output::create("-o", &arguments.output, arguments.force, &arguments.file)?;
    output.remove_when_interrupted();
    let bytes = write(&arguments, &trace, output.file(), &arguments.output)?;
    output.finish()?;
    let written =
        Written { path: arguments.output.clone(), calls: trace.calls_made(), bytes, from: trace.bytes_on_disk() };
    let mut out = Results::begin();
    match arguments.json {
        true => print_json(&written.object())?,
        false => written.tell(&mut out)?,
    }
    Ok(status.max(exit::damage(&trace, 0)))
}

/// The traces of a directory, of all its recordings, and what is told of its processes. What cannot be packed
/// is left out.
fn each(arguments: &Arguments) -> Result<u8> {
    let (from, to) = (&arguments.file, &arguments.output);
    if are_same(from, to) {
        let why = "this is the source directory; choose another";
        return Err(failure(USAGE, format_args!("-o {}: {why}", to.display())));
    }
    let job = rank_filter::whole(from)?;
    let (mut all, mut status) = (Vec::new(), rank_filter::status(&job));
    let mut set = Set::create(to, arguments.force)?;
    for path in job.traces() {
        let name = PathBuf::from(path.file_name().unwrap_or_default());
        let mut trace = Trace::open(path)?;
        let is_copied = as_it_is(arguments, &trace).is_some();
        if let Err(error) = if is_copied { Ok(()) } else { make_ready(arguments, &mut trace) } {
            exit::say(exit::in_full(&error));
            status = status.max(exit::status_of(&error));
            continue;
        }
        let mut file = set.file(name.clone())?;
        let shown = to.join(name);
        let bytes = match is_copied {
            true => std::io::copy(&mut File::open(path)?, &mut file).with_context(|| shown.display().to_string())?,
            false => write(arguments, &trace, &file, &shown)?,
        };
        status = status.max(exit::damage(&trace, 0));
        all.push(Written { path: shown, calls: trace.calls_made(), bytes, from: trace.bytes_on_disk() });
    }
    if all.is_empty() {
        return Err(failure(status, format_args!("{}: not written to {}", from.display(), to.display())));
    }
    copy_processes(from, to, &mut set)?;
    set.finish()?;
    let mut out = Results::begin();
    match arguments.json {
        true => {
            let traces: Vec<_> = all.iter().map(Written::object).collect();
            print_json(&json!({ "schema": SCHEMA, "directory": to.display().to_string(), "traces": traces }))?;
        }
        false => all.iter().try_for_each(|written| written.tell(&mut out))?,
    }
    Ok(status)
}

/// What is told of the processes of a job, so that what is packed is one, too.
fn copy_processes(from: &Path, to: &Path, set: &mut Set) -> Result<()> {
    let folder = from.join(PROCESSES);
    let shown = || folder.display().to_string();
    let entries = match std::fs::read_dir(&folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.with_context(shown)?,
    };
    let within = to.join(PROCESSES);
    if within.exists() && !within.is_dir() {
        return Err(failure(FAILED, format_args!("{}: not a directory, not replaced", within.display())));
    }
    for entry in entries {
        // What is missing of them would be missing of the job, and nobody could tell.
        let entry = entry.with_context(shown)?;
        let name = PathBuf::from(entry.file_name());
        let kind = entry.file_type().with_context(|| entry.path().display().to_string())?;
        if !kind.is_file() || !name.to_string_lossy().ends_with(EXTENSION) {
            continue;
        }
        // One by one: those of another job that is in the directory stay.
        let mut file = set.file(Path::new(PROCESSES).join(name))?;
        let copied = File::open(entry.path()).and_then(|mut from| std::io::copy(&mut from, &mut file));
        copied.with_context(|| entry.path().display().to_string())?;
    }
    Ok(())
}

/// Why there is nothing to be done with a trace, if so.
fn as_it_is(arguments: &Arguments, trace: &Trace) -> Option<&'static str> {
    match (arguments.unpack, trace.is_packed()) {
        (true, false) => Some("not packed"),
        (false, true) if arguments.weights.is_empty() => Some("packed already"),
        _ => None,
    }
}

fn make_ready(arguments: &Arguments, trace: &mut Trace) -> Result<()> {
    if !arguments.unpack && trace.footer.is_none() {
        finish::not_in_use(trace)?;
        let why = "not closed; run cutrace repair";
        return Err(failure(FAILED, format_args!("{}: {why}", trace.path.display())));
    }
    match arguments.weights.is_empty() {
        true => Ok(()),
        false => references::follow(trace, &arguments.weights),
    }
}

/// As it was asked for; how many bytes. `shown`: what the file will be called.
fn write(arguments: &Arguments, trace: &Trace, file: &File, shown: &Path) -> Result<u64> {
    let written = match arguments.unpack {
        true => pack::unpack(trace, file),
        false if arguments.weights.is_empty() => pack::pack(trace, file),
        false => packed_whole(trace, shown, file),
    };
    written.with_context(|| shown.display().to_string())
}

/// Packs a copy of the trace that has what this one only names.
fn packed_whole(trace: &Trace, shown: &Path, packed: &File) -> std::io::Result<u64> {
    let directory = shown.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    // Without a name, so that nothing is left of it.
    let whole = tempfile::tempfile_in(directory)?;
    Extension::with_references(trace, whole.try_clone()?)?.finish(trace, verdict::in_words)?;
    let path = format!("/proc/self/fd/{}", whole.as_raw_fd());
    pack::pack(&Trace::open(path).map_err(std::io::Error::other)?, packed)
}

/// A trace that was written.
struct Written {
    path: PathBuf,
    calls: u64,
    bytes: u64,
    from: u64,
}

impl Written {
    fn object(&self) -> Value {
        let path = self.path.display().to_string();
        json!({ "schema": SCHEMA, "path": path, "calls": self.calls, "bytes": self.bytes, "from_bytes": self.from })
    }

    fn tell(&self, out: &mut Results) -> Result<()> {
        let (calls, before) = (counted(self.calls, "call"), size(self.from));
        let name = self.path.display().to_string();
        Ok(writeln!(out, "{}: {calls}, {} from {before}", plain(&name), size(self.bytes))?)
    }
}

/// Puts a packed trace into the place of one that was just closed; its size.
pub(crate) fn in_place(path: &Path) -> Result<u64> {
    let output = Output::replacing(path)?;
    let bytes = pack::pack(&Trace::open(path)?, output.file()).with_context(|| path.display().to_string())?;
    output.finish()?;
    Ok(bytes)
}
