//! `cutrace redact`: makes a copy of a trace that can be shown to others.

use crate::arguments::input::File;
use crate::arguments::rank_filter::Among;
use crate::files::output::Output;
use crate::process::signals;
use crate::terminal::exit;
use crate::terminal::exit::DONE;
use crate::terminal::standard_output::{Results, print_json};
use crate::verdict;
use analysis::text::figures::{counted, size};
use anyhow::{Context, Result};
use memchr::memmem;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use trace::api::roles::Role;
use trace::base::job::PROCESSES;
use trace::file::preamble::{DATA_LEFT_OUT, Data, Preamble};
use trace::model::decode::decode;
use trace::model::value::Value;
use trace::show::text::plain;
use trace::write::extend::Extension;
use trace::write::redact::{Redaction, Redactions};
use trace::{Call, Trace};

/// Write a copy of a trace without names of the machine and its user
///
/// Removed are the host name, directories, the program's arguments, and all environment variables except
/// those known to change what the driver does. Paths in calls, and these names in records of calls, are
/// overwritten with x; arguments and values of variables are overwritten in NVTX texts and in names of
/// threads and NCCL communicators. Data of the program stays, and module images can contain the paths of
/// their source files: images and data that contain a removed directory, or any directory in /home or /Users,
/// are counted. --drop-data removes module images, data, kernel arguments, logs and hashes; such a copy can
/// be viewed but not replayed. --drop-texts overwrites NVTX texts and the names of threads and communicators.
/// Names of kernels, variables and devices stay, and numbers in call arguments (docs/record.md has the list).
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cutrace redact trace.bin -o shared.bin
  cutrace redact trace.bin -o shared.bin --drop-data --drop-texts
  cutrace redact run/ --rank 3 -o rank3.bin

Exit status:
  0 written
  1 OUT exists or cannot be written, or data in the copy still contains
    removed names
  2 usage
  3 written, but a part of the trace is damaged and lost; or not a trace")]
pub(crate) struct Arguments {
    #[command(flatten)]
    file: File,
    #[command(flatten)]
    among: Among,
    /// The new file to write
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    /// Remove module images, data, kernel arguments, logs and hashes
    #[arg(long)]
    drop_data: bool,
    /// Overwrite NVTX texts and the names of threads and NCCL communicators
    #[arg(long)]
    drop_texts: bool,
    /// Print JSON
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
        "; redact each with its own command, and do not copy {} along: it names the host, programs and command \
         lines",
        list.display()
    )
}

/// Variables of the driver whose values are choices from a few, numbers, or devices: the programming guide of
/// CUDA 13, 5.2. Any other may hold anything.
const HARMLESS: [&str; 28] = [
    "CUDA_AUTO_BOOST",
    "CUDA_BINARY_LOADER_THREAD_COUNT",
    "CUDA_CACHE_DISABLE",
    "CUDA_CACHE_MAXSIZE",
    "CUDA_DEVICE_DEFAULT_PERSISTING_L2_CACHE_PERCENTAGE_LIMIT",
    "CUDA_DEVICE_DEFAULT_STACK_SIZE_MAX",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_MAX_COPY_CONNECTIONS",
    "CUDA_DEVICE_ORDER",
    "CUDA_DEVICE_WAITS_ON_EXCEPTION",
    "CUDA_DISABLE_JIT",
    "CUDA_DISABLE_PERF_BOOST",
    "CUDA_DISABLE_PTX_JIT",
    "CUDA_ENABLE_COREDUMP_ON_EXCEPTION",
    "CUDA_ENABLE_CPU_COREDUMP_ON_EXCEPTION",
    "CUDA_ENABLE_LIGHTWEIGHT_COREDUMP",
    "CUDA_ENABLE_USER_TRIGGERED_COREDUMP",
    "CUDA_FORCE_JIT",
    "CUDA_FORCE_PRELOAD_LIBRARIES",
    "CUDA_FORCE_PTX_JIT",
    "CUDA_GRAPHS_USE_NODE_PRIORITY",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MANAGED_FORCE_DEVICE_ALLOC",
    "CUDA_MODULE_DATA_LOADING",
    "CUDA_MODULE_LOADING",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "CUDA_SCALE_LAUNCH_QUEUES",
    "CUDA_VISIBLE_DEVICES",
];

pub(crate) fn run(mut arguments: Arguments) -> Result<u8> {
    let status = match arguments.among.is_all() {
        true => DONE,
        false => arguments.file.choose(&arguments.among)?,
    };
    let path = arguments.file.path_or(of_several)?;
    let mut trace = Trace::open(&path)?;
    trace.check_blobs();
    let taken = Taken::of(&trace, arguments.drop_texts);
    let preamble = taken.preamble(&trace.preamble, &arguments);
    let redaction = Redaction {
        names: &taken.names,
        words: &taken.words,
        drop_data: arguments.drop_data,
        drop_texts: arguments.drop_texts,
        find: memmem::find,
    };
    let output = Output::create("-o", &arguments.output, arguments.force, &path)?;
    let partial = output.partial().to_path_buf();
    signals::on_interruption(move |signal| {
        let _gone_already = std::fs::remove_file(&partial);
        exit::say_last(format_args!("interrupted by {signal}; nothing was written"));
    });
    let mut found = Redactions::default();
    let mut written = || -> std::io::Result<(u64, Trace)> {
        let file = output.file().try_clone()?;
        let copy = Extension::redacted(&trace, file, &preamble, !arguments.drop_data, |header, records| {
            redaction.chunk(&trace, header, records, &mut found)
        })?;
        let bytes = copy.finish_judged(&trace, output.partial(), verdict::in_words)?;
        Ok((bytes, Trace::open(output.partial()).map_err(std::io::Error::other)?))
    };
    let (bytes, copy) = written().with_context(|| arguments.output.display().to_string())?;
    let holds = |content: &&[u8]| redaction.names_home(content) || taken.names_any(content);
    let in_blobs = copy.blobs().filter_map(|(hash, _)| copy.blob(hash)).filter(holds).count() as u64;
    output.finish()?;
    let done = Done { trace: &trace, copy: &copy, bytes, names: taken.count(), found, kept: in_blobs + found.homes };
    done.tell(&arguments)?;
    if done.kept > 0 {
        exit::say(format_args!(
            "{}: {} of module images or data still contain a removed name or a home directory; --drop-data removes \
             them",
            plain(&arguments.output.display().to_string()),
            counted(done.kept, "piece")
        ));
        return Ok(exit::FAILED);
    }
    Ok(exit::damage(&trace, 0).max(status))
}

/// A copy that was written.
struct Done<'t> {
    trace: &'t Trace,
    copy: &'t Trace,
    bytes: u64,
    names: u64,
    found: Redactions,
    /// Pieces of data that name what was taken out.
    kept: u64,
}

impl Done<'_> {
    fn tell(&self, arguments: &Arguments) -> Result<()> {
        let Done { trace, copy, bytes, names, found, kept } = *self;
        let name = arguments.output.display().to_string();
        let mut out = Results::begin();
        let stays = self.stays(arguments);
        if arguments.json {
            let whole = json!({
                "schema": SCHEMA, "path": name, "calls": copy.calls_made(), "bytes": bytes, "names": names,
                "overwritten": found.overwritten, "stays": stays, "damage": analysis::text::json::damage(trace),
                "data_with_names": kept, "verdict": copy.footer.as_ref().map(|footer| &footer.verdict),
            });
            return print_json(&whole);
        }
        let calls = counted(copy.calls_made(), "call");
        writeln!(out, "{}: {calls}, {}; {} removed", plain(&name), size(bytes), counted(names, "name"))?;
        if found.overwritten > 0 {
            writeln!(out, "overwritten in records: {}", counted(found.overwritten, "time"))?;
        }
        writeln!(out, "still in the copy: {}", stays.join(", "))?;
        let verdict = copy.footer.as_ref().map_or("?", |footer| &footer.verdict);
        writeln!(out, "verdict: {}", verdict::describe(verdict))?;
        Ok(())
    }

    /// What the copy holds of the program's own.
    fn stays(&self, arguments: &Arguments) -> Vec<String> {
        let found = &self.found;
        let blobs = self.copy.blobs().count() as u64;
        let data = if arguments.drop_data { 0 } else { blobs };
        let counts = [
            ("module images, data and kernel arguments: ", data, "blob", ""),
            ("texts of ", found.annotations, "annotation", " (--drop-texts)"),
            ("names of ", found.threads, "thread", " (--drop-texts)"),
            ("names of ", found.communicators, "communicator", " (--drop-texts)"),
            ("names of ", self.copy.kernels.len() as u64, "kernel", ""),
            ("names and UUIDs of ", self.copy.devices.len() as u64, "device", ""),
        ];
        let there = counts.into_iter().filter(|(_, count, ..)| *count > 0);
        let there = there.map(|(what, count, of, how)| format!("{what}{}{how}", counted(count, of)));
        there.chain(["names of module variables, numbers and addresses in call arguments".into()]).collect()
    }
}

/// What is not to stand in the copy.
struct Taken {
    /// Of the machine and its files.
    names: Vec<String>,
    /// Those, and what the program was started with.
    words: Vec<String>,
    drops_texts: bool,
}

impl Taken {
    fn of(trace: &Trace, drops_texts: bool) -> Taken {
        let preamble = &trace.preamble;
        let values = preamble.environment.iter().chain(&preamble.more).map(|(_, value)| value);
        let profile = trace.profile.iter().flat_map(|profile| [&profile.driver, &profile.why]);
        let all = values.chain(&preamble.command_line).chain(profile).chain([
            &preamble.host,
            &preamble.program,
            &preamble.directory,
            &preamble.driver_path,
        ]);
        let mut names: Vec<String> = vec![preamble.host.clone()];
        for text in all {
            let pieces = text.split([':', ',', ';', '=', ' ']).filter(|piece| piece.starts_with('/'));
            // Whose directory it is stands at its beginning.
            let homes = pieces.clone().filter(|piece| piece.starts_with("/home/") || piece.starts_with("/Users/"));
            names.extend(homes.map(|home| home.split('/').take(3).collect::<Vec<_>>().join("/")));
            names.extend(pieces.map(str::to_owned));
        }
        names.extend(paths(trace));
        names.extend(trace.named_files().map(|source| source.path.clone()));
        let mut words = names.clone();
        let variables = preamble.environment.iter().filter(|variable| !is_harmless(variable)).map(|(_, value)| value);
        for text in preamble.command_line.iter().skip(1).chain(variables) {
            words.extend(text.split_once('=').map(|(_, value)| value.to_owned()));
            words.push(text.clone());
        }
        Taken { names: longest_first(names), words: longest_first(words), drops_texts }
    }

    fn count(&self) -> u64 {
        self.words.len() as u64
    }

    fn names_any(&self, content: &[u8]) -> bool {
        self.names.iter().any(|name| memmem::find(content, name.as_bytes()).is_some())
    }

    /// What the trace may say of itself.
    fn preamble(&self, preamble: &Preamble, arguments: &Arguments) -> Preamble {
        let last = |path: &str| path.rsplit('/').next().unwrap_or("").to_owned();
        let program = last(&preamble.program);
        // In the program's own words it says which range was recorded.
        let is_shown = |(name, value): &&(String, String)| {
            let is_words = name == RANGE && (self.drops_texts || self.words.iter().any(|word| value.contains(word)));
            !value.contains('/') && !is_words
        };
        let mut shown = Preamble {
            host: String::new(),
            command_line: vec![program.clone()],
            program,
            directory: String::new(),
            environment: preamble.environment.iter().filter(|variable| is_harmless(variable)).cloned().collect(),
            driver_path: last(&preamble.driver_path),
            more: preamble.more.iter().filter(is_shown).cloned().collect(),
            ..preamble.clone()
        };
        if arguments.drop_data && !shown.is_data_left_out() {
            shown.data = Data::None;
            shown.more.push((DATA_LEFT_OUT.into(), "by cutrace redact --drop-data".into()));
        }
        shown
    }
}

/// The key in the preamble's `more`.
const RANGE: &str = "range";

fn is_harmless((name, value): &(String, String)) -> bool {
    HARMLESS.contains(&name.as_str()) && !value.contains('/')
}

/// What covers another is found before it.
fn longest_first(mut names: Vec<String>) -> Vec<String> {
    names.retain(|name| name.len() >= SHORTEST);
    names.sort_by_key(|name| (std::cmp::Reverse(name.len()), name.clone()));
    names.dedup();
    names
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
