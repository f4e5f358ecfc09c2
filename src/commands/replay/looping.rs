//! The flags of `replay` that repeat a range of calls, and the text of the result.

use crate::terminal::exit::{USAGE, failure};
use analysis::calls::device_work;
use analysis::text::figures::{counted, duration, grouped, size};
use analysis::text::kernel_name::{Names, Style};
use anyhow::Result;
use replayer::{Repeat, RepeatTimes};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;
use trace::Trace;
use trace::api::roles::Class;
use trace::read::annotation::Wanted;
use trace::show::text::plain;

#[derive(clap::Args)]
#[command(next_help_heading = "Repeating a range of calls")]
pub(super) struct Looping {
    /// Repeat a range of calls N times and measure it
    ///
    /// Replays up to the range, then repeats it with arguments prepared before the clock starts. Memory that
    /// the range writes is restored each time. Host and wall times are measured without a profiler, device
    /// times in as many further runs. Without --scope or --nvtx the range goes from the first launch to the
    /// last call that waits.
    #[arg(
        id = "loop",
        long = "loop",
        value_name = "N",
        value_parser = repetitions,
        conflicts_with_all = ["profile", "sync_launches", "bisect", "until", "stop", "dry_run"]
    )]
    times: Option<u64>,
    /// Repeat the range M times before measuring
    #[arg(long, hide_short_help = true, value_name = "M", default_value_t = 3, requires = "loop")]
    warmup: u64,
    /// The range as call numbers: A..B (without B)
    #[arg(long, value_name = "A..B", requires = "loop")]
    scope: Option<Scope>,
    /// The range as the n-th NVTX range NAME [default n: 1]
    ///
    /// NAME is written as for record --range: NAME, NAME@DOMAIN, or DOMAIN:NAME and :NAME as reports print
    /// it.
    #[arg(long, hide_short_help = true, value_name = "NAME[#n]", requires = "loop", conflicts_with = "scope")]
    nvtx: Option<String>,
}

fn repetitions(text: &str) -> Result<u64, String> {
    text.trim().parse().ok().filter(|times| *times > 0).ok_or_else(|| "expected a count of 1 or more".into())
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Scope(Range<u64>);

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Scope, String> {
        let number = |text: &str| text.trim().replace('_', "").parse::<u64>().ok();
        let pair = text.split_once("..").and_then(|(from, to)| Some((number(from)?, number(to)?)));
        match pair {
            Some((from, to)) if from < to => Ok(Scope(from..to)),
            Some(_) => Err("the range is empty".into()),
            None => Err("expected A..B, two call numbers".into()),
        }
    }
}

impl Looping {
    pub(super) fn is_asked(&self) -> bool {
        self.times.is_some()
    }

    /// The range of calls, if one is to be repeated.
    pub(super) fn range(&self, trace: &Trace) -> Result<Option<Range<u64>>> {
        if self.times.is_none() {
            return Ok(None);
        }
        let calls = trace.len() as u64;
        let found = match (&self.scope, &self.nvtx) {
            (Some(Scope(range)), _) if range.end > calls => {
                let there = format!("the trace has calls 0 to {} only", calls.saturating_sub(1));
                return Err(failure(USAGE, format_args!("--scope {}..{}: {there}", range.start, range.end)));
            }
            (Some(Scope(range)), _) => range.clone(),
            (None, Some(name)) => annotated(trace, name)?,
            (None, None) => launches(trace)?,
        };
        Ok(Some(found))
    }

    /// What to do if the range cannot be repeated, where it is not one that was asked for.
    pub(super) fn other_range(&self, trace: &Trace) -> Option<String> {
        if self.scope.is_some() || self.nvtx.is_some() {
            return None;
        }
        let known = names_of_ranges(trace);
        let more = if known.len() > NAMED { ", ..." } else { "" };
        let named = known.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
        Some(match known.is_empty() {
            true => "repeat a part with --scope A..B".into(),
            false => format!("repeat a part with --nvtx NAME: {named}{more}"),
        })
    }

    pub(super) fn repeat(&self, range: Range<u64>, cupti: Result<Vec<PathBuf>, String>) -> Repeat {
        Repeat { range, warmup: self.warmup, times: self.times.unwrap_or(1), cupti }
    }
}

/// Ranges that are named where none was asked for.
const NAMED: usize = 8;

/// Of NVTX, each once.
fn names_of_ranges(trace: &Trace) -> Vec<String> {
    let ranges = trace.annotated_ranges();
    let names: BTreeSet<String> = ranges.iter().map(|range| range.opened.wanted().to_string()).collect();
    names.iter().map(|name| plain(name).into_owned()).collect()
}

/// The calls that were made while a range was open.
fn annotated(trace: &Trace, wanted: &str) -> Result<Range<u64>> {
    let ranges = trace.annotated_ranges();
    let (name, nth) = match wanted.rsplit_once('#').map(|(name, nth)| (name, nth.parse::<usize>())) {
        Some((name, Ok(nth @ 1..))) => (name, nth),
        _ => (wanted, 1),
    };
    let asked = Wanted::parse(name);
    let is_asked = |opened| asked.as_ref().is_some_and(|asked| asked.covers(opened));
    let named: Vec<_> = ranges.iter().filter(|range| is_asked(&range.opened)).collect();
    let Some(range) = named.get(nth - 1) else {
        let there = match (named.len(), &names_of_ranges(trace)[..]) {
            (0, []) => "the trace has no NVTX ranges".to_owned(),
            (0, known) => format!("no NVTX range has this name; the trace has {}", known.join(", ")),
            (count, _) => format!("the trace has {count} ranges of this name only"),
        };
        return Err(failure(USAGE, format_args!("--nvtx {}: {there}", plain(wanted))));
    };
    let number =
        |stamp: u64| trace.calls().find(|call| call.begin >= stamp).map_or(trace.len() as u64, |call| call.number);
    let (from, to) = (number(range.opened.about.time), range.end.map_or(trace.len() as u64, number));
    if from < to {
        Ok(from..to)
    } else {
        Err(failure(USAGE, format_args!("--nvtx {}: the range has no calls", plain(wanted))))
    }
}

/// From the first launch to behind the last call that waits.
fn launches(trace: &Trace) -> Result<Range<u64>> {
    let class = |call: &trace::Call| call.function().map(|function| function.class);
    let first = trace.calls().find(|call| class(call) == Some(Class::launch) && call.succeeded());
    let waits = |call: &trace::Call| matches!(class(call), Some(Class::synchronize | Class::copy));
    let last = trace.calls().filter(waits).last();
    match first.zip(last) {
        Some((first, last)) if first.number < last.number => Ok(first.number..last.number + 1),
        Some((first, _)) => Ok(first.number..first.number + 1),
        None => {
            Err(failure(USAGE, "--loop: no launch is followed by a call that waits: choose a range with --scope A..B"))
        }
    }
}

/// Least, median and 99th percentile (nearest rank), of times that are not empty.
fn figures(times: &[i64]) -> [i64; 3] {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let last = sorted.len() - 1;
    let median = (sorted[last / 2] + sorted[sorted.len() / 2]) / 2;
    let rank = (sorted.len() * 99).div_ceil(100).max(1) - 1;
    [sorted[0], median, sorted[rank]]
}

pub(super) fn text(out: &mut impl Write, range: &Range<u64>, repeated: &RepeatTimes) -> Result<()> {
    let times = counted(repeated.wall.len() as u64, "time");
    let who = match repeated.threads {
        1 => String::new(),
        threads => format!(" of {} by one", counted(threads, "thread")),
    };
    let calls = counted(repeated.calls, "call");
    writeln!(out, "  repeated     {calls} of {}..{}{who}, {times}", range.start, range.end)?;
    for (why, count) in &repeated.left_out {
        writeln!(out, "  skipped      {}: {why}", counted(*count, "call"))?;
    }
    if repeated.delivered > 0 || repeated.brought > 0 {
        let launches = counted(repeated.delivered, "launch");
        let bytes = size(repeated.brought);
        writeln!(
            out,
            "  alone        {bytes} of recorded results in each run replace {launches} of NCCL and other processes, included in the times"
        )?;
    }
    writeln!(out, "  restored     {} each time", size(repeated.restored))?;
    if repeated.unread > 0 {
        writeln!(out, "  not restored {} that cannot be read", counted(repeated.unread, "allocation"))?;
    }
    if repeated.differing > 0 {
        let (differing, runs) = (grouped(repeated.differing), counted(repeated.runs, "run"));
        writeln!(out, "  differs      {differing} of {runs} ended with other bytes than the first")?;
    }
    if !repeated.why.is_empty() {
        writeln!(out, "  events       {}", repeated.why)?;
    }
    writeln!(out, "\n  {:<12} {:>10} {:>10} {:>10}", "", "min", "median", "p99")?;
    let mut line = |name: &str, times: &[i64]| -> Result<()> {
        if !times.is_empty() {
            let [min, median, p99] = figures(times).map(duration);
            writeln!(out, "  {name:<12} {min:>10} {median:>10} {p99:>10}")?;
        }
        Ok(())
    };
    line("wall", &repeated.wall)?;
    line("host", &repeated.host)?;
    line("device", &repeated.device)?;
    line("device busy", &repeated.busy)?;
    let per_call = grouped(figures(&repeated.host)[1].unsigned_abs() / repeated.calls.max(1));
    writeln!(out, "\n  host: until the last call had returned, {per_call} ns a call; wall: until all work was done")?;
    let source = device_work::source(repeated.source, repeated.version);
    writeln!(out, "  device: from the first start to the last end, in runs of their own, by {source}\n")?;
    let mut all: Vec<(&String, &Vec<i64>)> = repeated.works.iter().collect();
    all.sort_by_key(|(name, times)| (std::cmp::Reverse(times.iter().sum::<i64>()), *name));
    writeln!(out, "  {:>10} {:>10} {:>10} {:>10}  kernel or copy", "min", "median", "p99", "instances")?;
    let names = Names::new(Style::Full);
    for (name, times) in all {
        let [min, median, p99] = figures(times).map(duration);
        let (count, name) = (grouped(times.len() as u64), names.display_name(name));
        writeln!(out, "  {min:>10} {median:>10} {p99:>10} {count:>10}  {}", plain(&name))?;
    }
    Ok(())
}

pub(super) fn object(range: &Range<u64>, repeated: &RepeatTimes) -> Value {
    let figures_of = |times: &[i64]| match times {
        [] => Value::Null,
        times => {
            let [min, median, p99] = figures(times);
            json!({ "min_ns": min, "median_ns": median, "p99_ns": p99, "times": times.len() })
        }
    };
    let works = repeated.works.iter().map(|(name, times)| (name.clone(), figures_of(times)));
    json!({
        "range": [range.start, range.end],
        "calls": repeated.calls,
        "threads": repeated.threads,
        "left_out": repeated.left_out.iter().map(|(why, count)| json!({ "reason": why, "count": count }))
            .collect::<Vec<_>>(),
        "delivered_launches": repeated.delivered,
        "result_bytes": repeated.brought,
        "restored_bytes": repeated.restored,
        "unread_allocations": repeated.unread,
        "runs": repeated.runs,
        "differing_runs": repeated.differing,
        "wall": figures_of(&repeated.wall),
        "host": figures_of(&repeated.host),
        "device": figures_of(&repeated.device),
        "device_busy": figures_of(&repeated.busy),
        "works": Map::from_iter(works),
        "source": device_work::source_name(repeated.source),
        "version": repeated.version,
        "why": repeated.why,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_by_rank() {
        assert_eq!(figures(&[7]), [7, 7, 7]);
        assert_eq!(figures(&[4, 1, 3, 2]), [1, 2, 4]);
        let hundred: Vec<i64> = (1..=200).rev().collect();
        assert_eq!(figures(&hundred), [1, 100, 198]);
    }

    #[test]
    fn scopes() {
        assert_eq!("3..1_0".parse(), Ok(Scope(3..10)));
        for wrong in ["", "3", "3..", "..3", "5..5", "a..b"] {
            assert!(wrong.parse::<Scope>().is_err(), "{wrong}");
        }
    }
}
