//! `cutrace redact`: a copy of a trace that can be shown to others.

use crate::exit::DONE;
use crate::figures::{counted, size};
use crate::job::among::Among;
use crate::latest::File;
use crate::output::Output;
use crate::results::Results;
use crate::{exit, signals, verdict};
use anyhow::{Context, Result};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use trace::api::roles::Role;
use trace::decode::decode;
use trace::extend::Extension;
use trace::job::PROCESSES;
use trace::preamble::{DATA_LEFT_OUT, Data, Preamble};
use trace::record::{KIND_AT, REFERENCED};
use trace::text::plain;
use trace::value::Value;
use trace::{Call, Trace};

/// Write a copy of a trace without what it says of the machine and its user
///
/// Left out are the host's name, directories, the program's arguments, and all variables of the environment
/// but CUDA_* without a path. Where such a name stands in the records of calls as well, and where a call was
/// given a path, it is overwritten with x. Names of threads, NVTX ranges and devices stay, and what the
/// program gave to the device: module images may hold the paths of their source files. --drop-data leaves
/// data and images out; the copy can then be looked at, but not replayed.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cutrace redact trace.bin -o shared.bin
  cutrace redact trace.bin -o shared.bin --drop-data
  cutrace redact run/ --rank 3 -o rank3.bin

Exit status:
  0 written
  1 OUT exists or cannot be written, or names stand in data that was kept
  2 usage
  3 written, but something of the trace was damaged and is lost; or no trace at all")]
pub struct Arguments {
    #[command(flatten)]
    file: File,
    #[command(flatten)]
    among: Among,
    /// Write the copy to this new file
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    /// Leave out module images and copied data
    #[arg(long)]
    drop_data: bool,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Version of the JSON form. Fields may be added within a version.
const SCHEMA: u32 = 1;
/// Shorter names would be found where they are none.
const SHORTEST: usize = 6;

/// What to do with a directory of several traces.
fn of_several(directory: &Path) -> String {
    let list = directory.join(PROCESSES);
    format!(
        "; each is redacted by a command of its own, and the list in {} names host, programs and command lines and \
         should not be copied along",
        list.display()
    )
}

pub fn run(mut arguments: Arguments) -> Result<u8> {
    let status = match arguments.among.is_all() {
        true => DONE,
        false => arguments.file.choose(&arguments.among)?,
    };
    let path = arguments.file.path_or(of_several)?;
    let mut trace = Trace::open(&path)?;
    trace.check_blobs();
    let (mut preamble, mut names) = redacted(&trace.preamble);
    if arguments.drop_data && preamble.data != Data::None {
        preamble.data = Data::None;
        preamble.more.push((DATA_LEFT_OUT.into(), "by cutrace redact --drop-data".into()));
    }
    names.extend(paths(&trace));
    names.extend(trace.named_files().map(|source| source.path.clone()));
    names.retain(|name| name.len() >= SHORTEST);
    // The longest first: what it covers is not found again.
    names.sort_by_key(|name| (std::cmp::Reverse(name.len()), name.clone()));
    names.dedup();
    let output = Output::create("-o", &arguments.output, arguments.force, &path)?;
    let partial = output.partial().to_path_buf();
    signals::on_interruption(move |signal| {
        let _gone_already = std::fs::remove_file(&partial);
        exit::say_last(format_args!("interrupted by {signal}; nothing was written"));
    });
    let mut overwritten = 0;
    let mut written = || -> std::io::Result<(u64, Trace)> {
        let file = output.file().try_clone()?;
        let copy = Extension::redacted(&trace, file, &preamble, !arguments.drop_data, |records| {
            if arguments.drop_data {
                drop_references(records);
            }
            overwritten += names.iter().map(|name| overwrite(records, name)).sum::<u64>();
        })?;
        let bytes = copy.finish_judged(&trace, output.partial(), verdict::in_words)?;
        Ok((bytes, Trace::open(output.partial()).map_err(std::io::Error::other)?))
    };
    let (bytes, copy) = written().with_context(|| arguments.output.display().to_string())?;
    let holds = |content: &&[u8]| names.iter().any(|name| memchr::memmem::find(content, name.as_bytes()).is_some());
    let kept = copy.blobs().filter_map(|(hash, _)| copy.blob(hash)).filter(holds).count() as u64;
    output.finish()?;
    let name = arguments.output.display().to_string();
    let mut out = Results::begin();
    if arguments.json {
        let whole = json!({
            "schema": SCHEMA, "path": name, "calls": copy.calls_made(), "bytes": bytes, "names": names.len(), "overwritten": overwritten,
            "damage": crate::json::damage(&trace), "data_with_names": kept, "verdict": copy.footer.as_ref().map(|footer| &footer.verdict),
        });
        serde_json::to_writer_pretty(&mut out, &whole)?;
        writeln!(out)?;
    } else {
        let calls = counted(copy.calls_made(), "call");
        writeln!(out, "{}: {calls}, {}; {} taken out", plain(&name), size(bytes), counted(names.len() as u64, "name"))?;
        if overwritten > 0 {
            writeln!(out, "overwritten in records: {}", counted(overwritten, "time"))?;
        }
        let verdict = copy.footer.as_ref().map_or("?", |footer| &footer.verdict);
        writeln!(out, "verdict: {verdict}")?;
    }
    if kept > 0 {
        exit::say(format_args!(
            "{}: {} of module images or data still name what was taken out; --drop-data leaves them out",
            plain(&name),
            counted(kept, "piece")
        ));
        return Ok(exit::FAILED);
    }
    Ok(exit::damage(&trace, 0).max(status))
}

/// What the trace may say of itself, and the names that it may not.
fn redacted(preamble: &Preamble) -> (Preamble, Vec<String>) {
    let last = |path: &str| path.rsplit('/').next().unwrap_or("").to_owned();
    let is_plain = |(name, value): &&(String, String)| name.starts_with("CUDA_") && !value.contains('/');
    let program = last(&preamble.program);
    let shown = Preamble {
        host: String::new(),
        command_line: vec![program.clone()],
        program,
        directory: String::new(),
        environment: preamble.environment.iter().filter(is_plain).cloned().collect(),
        driver_path: last(&preamble.driver_path),
        more: preamble.more.iter().filter(|(_, value)| !value.contains('/')).cloned().collect(),
        ..preamble.clone()
    };
    let values = preamble.environment.iter().chain(&preamble.more).map(|(_, value)| value);
    let all = values.chain(&preamble.command_line).chain([
        &preamble.host,
        &preamble.program,
        &preamble.directory,
        &preamble.driver_path,
    ]);
    let mut names: Vec<String> = Vec::new();
    for text in all {
        let pieces = text.split([':', ',', ';', '=', ' ']).filter(|piece| piece.starts_with('/'));
        // Whose directory it is stands at its beginning.
        let homes = pieces.clone().filter(|piece| piece.starts_with("/home/") || piece.starts_with("/Users/"));
        names.extend(homes.map(|home| home.split('/').take(3).collect::<Vec<_>>().join("/")));
        names.extend(pieces.map(str::to_owned));
    }
    names.push(preamble.host.clone());
    (shown, names)
}

/// Paths that calls were given.
fn paths(trace: &Trace) -> Vec<String> {
    let takes_text = |call: &Call| {
        let function = call.function();
        function.is_some_and(|function| function.params.iter().any(|p| matches!(p.role, Role::Path | Role::Text)))
    };
    let decoded = trace.calls().filter(takes_text).filter_map(|call| {
        let decoded = decode(&call)?;
        Some(
            decoded
                .arguments
                .into_iter()
                .filter_map(|(_, value)| match value {
                    Value::Text(text) if text.contains('/') => Some(text.into_owned()),
                    _ => None,
                })
                .collect::<Vec<_>>(),
        )
    });
    decoded.flatten().collect()
}

/// Leaves out what names data in other files.
fn drop_references(records: &mut Vec<u8>) {
    let mut kept = Vec::with_capacity(records.len());
    let mut rest = &records[..];
    while let Some((record, behind)) = trace::record::first(rest) {
        if record[KIND_AT] != REFERENCED {
            kept.extend_from_slice(record);
        }
        rest = behind;
    }
    *records = kept;
}

/// Puts as many x in the place of each; how often.
fn overwrite(records: &mut [u8], name: &str) -> u64 {
    let found: Vec<usize> = memchr::memmem::find_iter(records, name).collect();
    for at in &found {
        records[*at..at + name.len()].fill(b'x');
    }
    found.len() as u64
}
