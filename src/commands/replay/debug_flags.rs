//! The flags of `replay` for debugging the program or the replay.

use crate::arguments::reading::call_number;
use crate::commands::replay::comparison::Verify;
use crate::files::output::Output;
use crate::terminal::exit::{USAGE, failure};
use analysis::text::figures::size;
use analysis::text::kernel_name::{Names, Style};
use anyhow::{Context, Result};
use replayer::{Dump, DumpMemory, HashedLaunches, Tolerance, Tools};
use std::collections::BTreeSet;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use trace::Trace;
use trace::file::preamble::Data;

#[derive(clap::Args)]
#[command(next_help_heading = "Finding the culprit")]
pub(super) struct Finding {
    /// Wait for every launch and name the first one that fails
    ///
    /// Graphs run node by node. As under CUDA_LAUNCH_BLOCKING, a launch that waits for a later call never
    /// ends. A launch that had not finished when recorded gets its recorded time plus 5 s, and is named.
    /// During a stream capture nothing is waited for.
    #[arg(long, conflicts_with = "dry_run")]
    pub sync_launches: bool,
    /// Stop after call CALL
    #[arg(long, hide_short_help = true, value_name = "CALL", value_parser = call_number, conflicts_with = "stop")]
    until: Option<u64>,
    /// Stop before the n-th call of driver function NAME, or launch of kernel NAME [default n: 1]
    ///
    /// A kernel's name can be given as recorded or as reports show it.
    #[arg(long = "break", hide_short_help = true, id = "stop", value_name = "NAME[#n]")]
    stop: Option<Point>,
    /// Put cuProfilerStart and cuProfilerStop only around launches of this kernel (or the n-th of them), for
    /// other tools: ncu --profile-from-start off cutrace replay --only-kernel NAME
    #[arg(long, hide_short_help = true, value_name = "NAME[#n]", conflicts_with = "loop")]
    only_kernel: Option<String>,
    /// Write device memory to a file where the replay stops; may be repeated
    ///
    /// MEMORY is START+LENGTH or START..END in recorded addresses, or an allocation with the numbers of
    /// `cutrace dump`: mem#n, alloc#n or global#n, with an offset mem#n+OFFSET, and with a length
    /// mem#n+OFFSET+LENGTH.
    #[arg(long, hide_short_help = true, num_args = 2, value_names = ["MEMORY", "FILE"], conflicts_with = "dry_run")]
    dump_memory: Vec<String>,
    /// Do not explain a divergence
    ///
    /// A replay that diverges is repeated twice in new processes, launch by launch as with --bisect, to find
    /// whether two replays agree, which launch differs first, and what in its code is nondeterministic.
    #[arg(long, hide_short_help = true, conflicts_with = "bisect")]
    no_explain: bool,
    /// Limit the explanation of a divergence to SECONDS; skip it if this replay took more than half of that
    #[arg(long, hide_short_help = true, value_name = "SECONDS", default_value = "120", value_parser = seconds, conflicts_with_all = ["bisect", "no_explain"])]
    explain_within: Duration,
    /// On a divergence, name the first nondeterministic launch
    ///
    /// Replays again in a new process; implies --sync-launches. Before and after every launch, the memory
    /// that its arguments point to is hashed: whole allocations, and for those over 64 MiB at least 8 MiB
    /// from each address. A launch whose result differs between two replays is nondeterministic; if none
    /// does, the replay itself, its driver or its device differs from the recording.
    #[arg(long, conflicts_with_all = ["no_verify", "dump_memory", "dry_run"])]
    pub bisect: bool,
    /// Run as another replay, which explains a divergence, and print only its JSON
    #[arg(long, hide = true, requires = "json")]
    pub again: bool,
    /// The last call that the first one has followed
    #[arg(long, hide = true, value_name = "CALL", requires = "again")]
    trail_end: Option<u64>,
    /// Fill allocations with BYTE, to find reads of uninitialised memory
    ///
    /// A program that reads uninitialised memory differs with another fill; the replay reports whether
    /// differing bytes still hold it. Physical memory of cuMemCreate and variables of modules are not filled.
    #[arg(long, value_name = "BYTE", value_parser = byte, conflicts_with = "dry_run")]
    fill: Option<u8>,
    /// Compare as numbers within ATOL + RTOL * |recorded| [default: exact]
    ///
    /// TYPE is f16, bf16, f32 (the default) or f64. Comparing numbers needs a trace of record --data=all.
    #[arg(
        long,
        value_name = "RTOL,ATOL[,TYPE]",
        default_value = "exact",
        conflicts_with = "no_verify",
        hide_default_value = true
    )]
    verify: Verify,
}

/// NAME or NAME#n
#[derive(Debug, Clone, PartialEq, Eq)]
struct Point {
    name: String,
    nth: u64,
}

impl FromStr for Point {
    type Err = String;

    fn from_str(text: &str) -> Result<Point, String> {
        let (name, nth) = numbered(text);
        match nth.unwrap_or(1) {
            nth @ 1.. if !name.is_empty() => Ok(Point { name: name.to_owned(), nth }),
            _ => Err("expected NAME or NAME#n, with n from 1".into()),
        }
    }
}

/// `NAME#n` taken apart. Names of C++ may have a `#` of their own: `f()::{lambda(int)#1}::operator()`.
fn numbered(text: &str) -> (&str, Option<u64>) {
    match text.rsplit_once('#').map(|(name, nth)| (name, nth.parse::<u64>())) {
        Some((name, Ok(nth))) => (name, Some(nth)),
        _ => (text, None),
    }
}

/// Whether a kernel is called this, as recorded or as the reports show it.
fn called(name: &str) -> impl Fn(&str) -> bool {
    let shown = [Style::Full, Style::Short].map(Names::new);
    move |kernel| kernel == name || shown.iter().any(|names| names.display_name(kernel) == name)
}

fn byte(text: &str) -> Result<u8, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u8::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "expected a byte: 0 to 255, or 0x00 to 0xff".into())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let parsed = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    parsed.ok_or_else(|| "expected a number of seconds".into())
}

/// What --dump-memory names.
#[derive(Debug, PartialEq)]
struct Piece {
    memory: DumpMemory,
    /// Of an allocation: from this byte on, so many bytes or to its end.
    from: u64,
    len: Option<u64>,
}

impl Piece {
    fn find(&self, trace: &Trace, end: u64) -> Result<Range<u64>, String> {
        let whole = replayer::find_memory(trace, end, &self.memory)?;
        let bytes = whole.end - whole.start;
        let to = self.len.map_or(bytes, |len| self.from.saturating_add(len));
        match self.from < to && to <= bytes {
            true => Ok(whole.start + self.from..whole.start + to),
            false => Err(format!("the allocation has only {bytes} bytes")),
        }
    }
}

fn memory(text: &str) -> Result<Piece, String> {
    let number = |text: &str| {
        let digits = text.trim().replace('_', "");
        let parsed = match digits.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => digits.parse(),
        };
        parsed.map_err(|_| format!("{text:?} is not a number"))
    };
    if let Some((label, place)) = text.split_once('#') {
        let mut numbers = place.splitn(3, '+').map(number);
        let n = numbers.next().unwrap_or_else(|| number(""))?;
        let (from, len) = (numbers.next().transpose()?.unwrap_or(0), numbers.next().transpose()?);
        let memory = match label {
            "mem" | "alloc" => DumpMemory::Allocation("mem", n),
            "global" => DumpMemory::Allocation("global", n),
            _ => return Err(format!("{label:?} is not device memory; expected mem#n, alloc#n or global#n")),
        };
        return Ok(Piece { memory, from, len });
    }
    let range = match (text.split_once(".."), text.split_once('+')) {
        (Some((start, end)), _) => Some((number(start)?, number(end)?)),
        (_, Some((start, len))) => Some((number(start)?, number(start)?.saturating_add(number(len)?))),
        _ => None,
    };
    match range {
        Some((start, end)) if start < end => Ok(Piece { memory: DumpMemory::Range(start..end), from: 0, len: None }),
        Some(_) => Err("the range is empty".into()),
        None => {
            Err("expected START+LENGTH, START..END, mem#n, mem#n+OFFSET, mem#n+OFFSET+LENGTH, or the same of alloc#n \
                     or global#n"
                .into())
        }
    }
}

impl Finding {
    /// An option that was given and concerns one process alone.
    pub(super) fn of_one_process(&self) -> Option<&'static str> {
        let asked = [
            (self.sync_launches, "--sync-launches"),
            (self.until.is_some(), "--until"),
            (self.stop.is_some(), "--break"),
            (self.only_kernel.is_some(), "--only-kernel"),
            (!self.dump_memory.is_empty(), "--dump-memory"),
            (self.bisect, "--bisect"),
        ];
        asked.into_iter().find(|(is_set, _)| *is_set).map(|(_, option)| option)
    }

    /// What each replay of a job is asked for.
    pub(super) fn of_each(&self) -> Vec<String> {
        let fill = self.fill.iter().flat_map(|byte| ["--fill".to_owned(), byte.to_string()]);
        let verify = match self.verify {
            Verify::Exact => None,
            Verify::Within(Tolerance { relative, absolute, float }) => {
                Some(["--verify".to_owned(), format!("{relative},{absolute},{}", float.name())])
            }
        };
        fill.chain(verify.into_iter().flatten()).collect()
    }

    /// What was asked for, as the trace has it.
    pub(super) fn tools(&self, trace: &Trace) -> Result<Tools> {
        let usage = |what: &str, why: String| failure(USAGE, format_args!("{what}: {why}"));
        let calls = trace.len() as u64;
        let end = match (self.until, &self.stop) {
            (Some(last), _) if last >= calls => {
                let there = format!("the trace has calls 0 to {} only", calls.saturating_sub(1));
                return Err(usage("--until", format!("{last}: {there}")));
            }
            (Some(last), _) => Some(last + 1),
            (None, Some(Point { name, nth })) => {
                Some(replayer::find_call(trace, name, *nth, called(name)).map_err(|why| usage("--break", why))?)
            }
            (None, None) => None,
        };
        for pair in self.dump_memory.chunks_exact(2) {
            let found = memory(&pair[0]).and_then(|piece| piece.find(trace, end.unwrap_or(calls)));
            found.map_err(|why| usage("--dump-memory", format!("{}: {why}", pair[0])))?;
        }
        let tolerance = match self.verify {
            Verify::Exact => None,
            Verify::Within(_) if trace.preamble.data != Data::All => {
                let why = "the trace has hashes of results, not their bytes: comparing numbers needs a trace of record --data=all";
                return Err(usage("--verify", why.into()));
            }
            Verify::Within(tolerance) => Some(tolerance),
        };
        let marked = match &self.only_kernel {
            None => None,
            Some(text) => Some(launches(trace, text).map_err(|why| usage("--only-kernel", why))?),
        };
        let followed = self.trail_end.map_or(HashedLaunches::UntilItDiffers, HashedLaunches::Until);
        let (sync_launches, trail, fill) = (self.sync_launches, self.bisect.then_some(followed), self.fill);
        Ok(Tools { sync_launches, trail, fill, tolerance, marked, measure: None, repeat: None, end, dumps: Vec::new() })
    }

    /// The files of --dump-memory, under temporary names. `force`: files that exist are replaced; `other`:
    /// another output.
    pub(super) fn dumps(
        &self,
        trace: &Trace,
        end: Option<u64>,
        force: bool,
        other: Option<&Path>,
    ) -> Result<(Vec<Dump>, Vec<Output>)> {
        let (mut dumps, mut outputs) = (Vec::new(), Vec::<Output>::new());
        let mut taken: Vec<PathBuf> = other.map(place).into_iter().collect();
        for pair in self.dump_memory.chunks_exact(2) {
            let path = PathBuf::from(&pair[1]);
            if taken.contains(&place(&path)) {
                return Err(failure(USAGE, format_args!("--dump-memory {}: the file is given twice", path.display())));
            }
            taken.push(place(&path));
            let range = memory(&pair[0])
                .and_then(|piece| piece.find(trace, end.unwrap_or(trace.len() as u64)))
                .map_err(|why| failure(USAGE, format_args!("--dump-memory: {}: {why}", pair[0])))?;
            let output = Output::create("--dump-memory", &path, force, &trace.path)?;
            let file = Arc::new(output.file().try_clone().with_context(|| path.display().to_string())?);
            dumps.push(Dump { range, file, path });
            outputs.push(output);
        }
        Ok((dumps, outputs))
    }

    /// Whether a divergence is to be explained.
    pub(super) fn explains(&self) -> bool {
        !self.no_explain && !self.again
    }

    /// How long that may take; with --bisect as long as it does.
    pub(super) fn explained_within(&self) -> Option<Duration> {
        (!self.bisect).then_some(self.explain_within)
    }

    /// Whether --force has anything to replace.
    pub(super) fn writes(&self) -> bool {
        !self.dump_memory.is_empty()
    }
}

/// Where a file is or will be, whatever way leads there.
fn place(path: &Path) -> PathBuf {
    let directory = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let directory = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_path_buf());
    std::fs::canonicalize(path).unwrap_or_else(|_| directory.join(path.file_name().unwrap_or_default()))
}

fn launches(trace: &Trace, text: &str) -> Result<BTreeSet<u64>, String> {
    let (name, nth) = numbered(text);
    let found = replayer::find_launches(trace, name, nth, called(name))?;
    let found: BTreeSet<u64> = found.into_iter().collect();
    let launches = replayer::reached(trace, &(0..u64::MAX), |call, _| found.contains(&call.number));
    match launches.is_empty() {
        true => Err(format!("{text}: it is a node of a graph that is never launched")),
        false => Ok(launches.into_keys().collect()),
    }
}

/// The files that were written.
pub(super) fn dumped(out: &mut impl Write, tools: &Tools) -> std::io::Result<()> {
    tools.dumps.iter().try_for_each(|Dump { range, path, .. }| {
        let bytes = size(range.end - range.start);
        writeln!(out, "  dumped       {:#x}..{:#x} ({bytes}) to {}", range.start, range.end, path.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_and_memory() {
        assert_eq!("f#3".parse(), Ok(Point { name: "f".into(), nth: 3 }));
        assert_eq!("f".parse(), Ok(Point { name: "f".into(), nth: 1 }));
        assert_eq!("{lambda()#1}::f#2".parse(), Ok(Point { name: "{lambda()#1}::f".into(), nth: 2 }));
        assert_eq!("{lambda()#1}::f".parse(), Ok(Point { name: "{lambda()#1}::f".into(), nth: 1 }));
        for wrong in ["", "#2", "f#0"] {
            assert!(wrong.parse::<Point>().is_err(), "{wrong}");
        }
        let range = || Ok(Piece { memory: DumpMemory::Range(16..32), from: 0, len: None });
        let of_mem = |from, len| Ok(Piece { memory: DumpMemory::Allocation("mem", 2), from, len });
        assert_eq!(memory("0x10..0x1_0"), Err("the range is empty".into()));
        assert_eq!([memory("0x10+16"), memory("16..0x20")], [range(), range()]);
        assert_eq!([memory("mem#2"), memory("alloc#2")], [of_mem(0, None), of_mem(0, None)]);
        assert_eq!([memory("mem#2+0x40"), memory("mem#2+64+8")], [of_mem(64, None), of_mem(64, Some(8))]);
        for wrong in ["", "5", "host#1", "mem#", "a..b", "1+", "mem#2+", "mem#2+1+2+3"] {
            assert!(memory(wrong).is_err(), "{wrong}");
        }
    }
}
