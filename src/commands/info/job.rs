//! The summary of a job: a line for each of its processes, and the verdict on the whole.

use super::as_json::SCHEMA;
use crate::arguments::rank_filter::{self, Among};
use crate::arguments::reading::Reading;
use crate::commands::info::verdicts::{Judged, judge_together, worst};
use crate::terminal::exit::say;
use analysis::calls::collectives::{self, Group, Member, groups};
use analysis::calls::losses::damage_of;
use analysis::calls::unfinished::Unfinished;
use analysis::job::{Job, Process};
use analysis::tables::render::{Format, Output};
use analysis::tables::table::{Cell, Column, Head, Layout, Table, column};
use analysis::text::figures::{counted, grouped};
use analysis::text::json;
use analysis::text::shell::shell;
use anyhow::Result;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use trace::Trace;
use trace::api::effect::Effect;
use trace::api::types::Kind;
use trace::file::record::Ended;
use trace::model::change::{Change, resolve};
use trace::show::text::plain;

/// Of one trace.
#[derive(Default)]
struct Recorded {
    calls: u64,
    failed: u64,
    /// That it had contexts on.
    devices: BTreeSet<i32>,
    ended: Option<Ended>,
    said: Judged,
    unfinished: Value,
    inside: Vec<String>,
    /// Of NCCL's communicators.
    members: Vec<Member>,
}

/// The job, from all its traces.
pub(super) struct Whole {
    job: Job,
    /// Of each process.
    all: Vec<Option<Recorded>>,
}

impl Whole {
    pub(super) fn of(directory: &Path, among: &Among) -> Result<Whole> {
        let mut job = among.job(directory)?;
        if job.processes.is_empty() {
            return Err(job.has_no_trace().into());
        }
        among.choose(&mut job, |_| true)?;
        let mut all = Vec::new();
        for at in 0..job.processes.len() {
            let opened = job.processes[at].trace.as_ref().map(Trace::open).transpose();
            let recorded = opened.unwrap_or_else(|error| {
                job.lacks(error.to_string());
                None
            });
            recorded.as_ref().and_then(damage_of).into_iter().for_each(|damage| job.is_damaged_by(damage));
            all.push(recorded.map(|trace| recorded_in(&trace)));
        }
        judge_together(&job, all.iter_mut().map(|recorded| recorded.as_mut().map(|recorded| &mut recorded.said)));
        Ok(Whole { job, all })
    }

    /// As `info` of a trace.
    pub(super) fn tell(&self, out: &mut impl Write, reading: &Reading) -> Result<(Option<Value>, u8)> {
        let Whole { job, all } = self;
        job.warnings.iter().for_each(say);
        let status = rank_filter::status(job);
        let groups = groups(all.iter().flatten().flat_map(|recorded| &recorded.members));
        if reading.json {
            return Ok((Some(object(job, all, &groups)), status));
        }
        write(out, job, all, &groups, reading)?;
        Ok((None, status))
    }
}

fn recorded_in(trace: &Trace) -> Recorded {
    let said = Judged::alone(trace);
    let mut found = Recorded { calls: trace.calls_made(), ended: trace.ended, said, ..Recorded::default() };
    for call in trace.calls() {
        found.failed += u64::from(!matches!(call.result, None | Some(0 | analysis::calls::line::NOT_READY)));
        let makes_context = |function: &trace::Function| {
            let hands_out = |kind| function.hands_out(kind).is_some();
            function.effect == Effect::RetainPrimary || hands_out(Kind::Context) || hands_out(Kind::GreenContext)
        };
        let function = call.function().filter(|function| call.took_effect() && makes_context(function));
        if let Some(Change::PrimaryRetained { device, .. } | Change::ContextMade { device, .. }) =
            function.and_then(|function| resolve(&call, function))
        {
            found.devices.insert(device);
        }
    }
    found.members = collectives::collectives_of(trace).members;
    if let Some(unfinished) = Unfinished::find(trace) {
        found.unfinished = unfinished.json(trace);
        found.inside = unfinished.open_calls();
    }
    found
}

/// Where ranks disagree that is told here.
const NOTES: usize = 8;

fn how_it_ended(process: &Process, recorded: Option<&Recorded>) -> Option<Ended> {
    recorded.and_then(|recorded| recorded.ended).or(process.ended)
}

/// In words, also of one that did not.
fn ended_in_words(process: &Process, recorded: Option<&Recorded>) -> String {
    match how_it_ended(process, recorded) {
        Some(ended) => ended.to_string(),
        None if process.is_running() => "runs".into(),
        None => "unknown".into(),
    }
}

fn object(job: &Job, all: &[Option<Recorded>], groups: &[Group]) -> Value {
    let processes = job.processes.iter().zip(all).map(|(process, recorded)| {
        let recorded = recorded.as_ref();
        json!({
            "recording": process.recording,
            "rank": process.rank,
            "ranks": process.ranks,
            "local_rank": process.local_rank,
            "host": process.host,
            "pid": process.pid,
            "parent": process.parent,
            "program": process.program,
            "command_line": process.command,
            "started_ns": process.began,
            "forked": process.is_forked,
            "ended": how_it_ended(process, recorded).map(json::how_ended),
            "runs": process.is_running(),
            "trace": process.trace.as_ref().map(|path| path.display().to_string()),
            "not_recorded": process.untraced,
            "calls": recorded.map(|recorded| recorded.calls),
            "failed": recorded.map(|recorded| recorded.failed),
            "devices": recorded.map(|recorded| &recorded.devices),
            "unfinished": recorded.map(|recorded| &recorded.unfinished),
            "verdict": recorded.map(|recorded| &recorded.said.verdict),
            "reasons": recorded.map(|recorded| &recorded.said.reasons),
            "verdict_alone": recorded.map(|Recorded { said, .. }| said.alone.as_ref().unwrap_or(&said.verdict)),
        })
    });
    let recordings = job.recordings.iter().zip(1..).map(|(recording, number): (_, u64)| {
        json!({
            "recording": number,
            "started_ns": recording.began,
            "processes": recording.processes,
            "read": recording.is_read,
        })
    });
    json!({
        "schema": SCHEMA,
        "directory": job.directory.display().to_string(),
        "recordings": recordings.collect::<Vec<_>>(),
        "processes": processes.collect::<Vec<_>>(),
        "warnings": job.warnings,
        "collectives": groups.iter().filter(|group| group.is_reported_by_nccl()).flat_map(Group::notes).collect::<Vec<_>>(),
        "verdict": worst(all.iter().flatten().map(|recorded| &recorded.said)),
    })
}

/// Where several recordings are read, else all but the first.
const COLUMNS: &[Column] = &[
    column("recording", "recording"),
    column("rank", "rank"),
    column("process", "pid"),
    column("device", "devices"),
    column("calls", "calls"),
    column("failed", "failed"),
    column("ended", "ended"),
    column("verdict", "verdict"),
    column("inside", "inside"),
    column("trace, or program", "trace"),
];

const HEAD: Head = Head {
    report: "processes",
    part: "",
    title: "Processes, by rank",
    columns: COLUMNS.split_first().expect("not empty").1,
    layout: Layout::Grid,
};

fn write(out: &mut impl Write, job: &Job, all: &[Option<Recorded>], groups: &[Group], reading: &Reading) -> Result<()> {
    let traces = all.iter().flatten().count() as u64;
    let directory = plain(&job.directory.display().to_string()).into_owned();
    let (processes, traced) = (counted(all.len() as u64, "process"), counted(traces, "trace"));
    writeln!(out, "{directory}: {processes}, {traced}")?;
    if let Some(words) = job.recordings_in_words() {
        writeln!(out, "{}", plain(&words))?;
    }
    writeln!(out)?;
    let has_many = job.has_several();
    let mut table = Table::new(if has_many { Head { columns: COLUMNS, ..HEAD } } else { HEAD });
    // A script starts many that do nothing worth a line.
    let quiet = job.processes.iter().filter(|process| is_quiet(process)).count();
    let is_folded = quiet > QUIET;
    let listed = job.processes.iter().zip(all).filter(|(process, _)| !is_folded || !is_quiet(process));
    for (process, recorded) in listed {
        let recording = has_many.then_some(Cell::Number(process.recording));
        let row = row(process, recorded.as_ref(), job.has_hosts());
        table.row(recording.into_iter().chain(row).collect::<Vec<_>>());
    }
    table.limit(reading.selection.limit.unwrap_or(u64::MAX));
    let mut shown = Output::new(&mut *out, Format::Table, reading.colored(), false, &Value::Null)?;
    shown.table(&table)?;
    shown.finish()?;
    if is_folded {
        writeln!(out, "{} more never called CUDA, without a known failure (--json lists them)", grouped(quiet as u64))?;
    }
    let notes: Vec<String> = groups.iter().filter(|group| group.is_reported_by_nccl()).flat_map(Group::notes).collect();
    if !notes.is_empty() {
        writeln!(out)?;
        notes.iter().take(NOTES).try_for_each(|note| writeln!(out, "{note}"))?;
        let directory = shell(&[job.directory.display().to_string()]);
        writeln!(out, "  details: cutrace report {directory} -r collectives")?;
    }
    writeln!(
        out,
        "\nverdict: {}",
        crate::verdict::describe(worst(all.iter().flatten().map(|recorded| &recorded.said)))
    )?;
    if all.iter().flatten().any(|recorded| recorded.said.alone.is_some()) {
        let directory = shell(&[job.directory.display().to_string()]);
        writeln!(
            out,
            "  for the whole job (cutrace replay {directory}); a single process may need memory of its peers"
        )?;
    }
    for (process, recorded) in job.processes.iter().zip(all) {
        let Some(Recorded { said, .. }) = recorded.as_ref().filter(|of| of.said.verdict != "replayable") else {
            continue;
        };
        let whose = whose(process);
        let reasons = said.reasons.first().map_or("", |reason| reason.as_str());
        let more = match said.reasons.len() {
            0 | 1 => String::new(),
            n => format!(", and {} more", n - 1),
        };
        writeln!(out, "  {whose}: {}: {}{more}", said.verdict, plain(reasons))?;
    }
    Ok(())
}

/// So many that never called the driver are listed.
const QUIET: usize = 8;

/// Whether it never called the driver, and is not known to have failed.
fn is_quiet(process: &Process) -> bool {
    process.is_silent() && process.ended.is_none_or(|ended| ended.is_success())
}

fn row(process: &Process, recorded: Option<&Recorded>, has_hosts: bool) -> Vec<Cell> {
    let devices = |recorded: &Recorded| {
        let all: Vec<String> = recorded.devices.iter().map(i32::to_string).collect();
        (!all.is_empty()).then(|| all.join(","))
    };
    let name = process.trace.as_ref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned());
    let program = || {
        let forked = if process.is_forked { " (forked)" } else { "" };
        let host = if has_hosts { format!(" on {}", process.host) } else { String::new() };
        format!("{}{forked}{host}", process.program)
    };
    let calls = match (recorded, &process.untraced) {
        (Some(recorded), _) => Cell::Count(recorded.calls),
        (None, Some(why)) if process.is_lost() => why.as_str().into(),
        (None, Some(why)) => format!("not recorded: {why}").into(),
        (None, None) => "never called CUDA".into(),
    };
    vec![
        process.rank.map_or(Cell::None, Cell::Number),
        Cell::Number(process.pid.into()),
        recorded.and_then(devices).into(),
        calls,
        recorded.map_or(Cell::None, |recorded| Cell::Count(recorded.failed)),
        ended_in_words(process, recorded).into(),
        recorded.map(|recorded| recorded.said.verdict.clone()).into(),
        recorded.and_then(|recorded| recorded.inside.first().cloned()).into(),
        name.unwrap_or_else(program).into(),
    ]
}

/// `rank 3`, or `process 123` of one that has none.
fn whose(process: &Process) -> String {
    process.rank.map_or_else(|| format!("process {}", process.pid), |rank| format!("rank {rank}"))
}
