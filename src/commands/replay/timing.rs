//! The flags of `replay` that measure device times.

use crate::driver::Choice;
use crate::driver::cupti;
use crate::files::output::Output;
use crate::terminal::exit::{FAILED, failure};
use crate::verdict;
use analysis::calls::device_work;
use analysis::text::figures::{grouped, size};
use anyhow::{Context, Result};
use parking_lot::Mutex;
use replayer::Options;
use replayer::profile::timed_trace::TimedTrace;
use replayer::profile::{Measure, Measurement};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trace::Trace;

#[derive(clap::Args)]
#[command(next_help_heading = "Taking times")]
pub(super) struct Timing {
    /// Write a copy of the trace with device times
    ///
    /// The copy has the time of each kernel, copy and fill in this replay, from CUPTI's activity records if
    /// libcupti is found, else from events around each submission. Events time a graph as a whole and include
    /// the launch latency of an idle device.
    #[arg(long, conflicts_with_all = ["sync_launches", "bisect", "dry_run"])]
    pub profile: bool,
    /// The trace to write [default: timed.bin]
    #[arg(short, long, value_name = "FILE", requires = "profile")]
    output: Option<PathBuf>,
    /// Source of device times
    #[arg(long, hide_short_help = true, value_enum, value_name = "SOURCE", default_value = "auto")]
    pub times: Source,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Source {
    /// CUPTI if it is there, else events
    Auto,
    /// CUPTI's activity records, or fail
    Cupti,
    /// Pairs of events
    Events,
}

/// A trace that is being written.
pub(super) struct Timed {
    output: Output,
    written: Arc<Mutex<TimedTrace>>,
}

impl Timing {
    /// The trace to write.
    pub(super) fn path(&self) -> &Path {
        self.output.as_deref().unwrap_or(Path::new("timed.bin"))
    }

    /// Where times are to be taken from.
    pub(super) fn source(&self, driver: &Choice, path: &Path) -> Result<Result<Vec<PathBuf>, String>> {
        match (self.times, cupti::find(driver, path, None)) {
            (Source::Events, _) => Ok(Err(String::new())),
            (Source::Cupti, Err(why)) => Err(failure(FAILED, format_args!("--times cupti: {why}"))),
            (_, found) => Ok(found),
        }
    }

    /// Begins the trace: all of what is in the one that is replayed.
    pub(super) fn begin(
        &self,
        trace: &Trace,
        cupti: Result<Vec<PathBuf>, String>,
        force: bool,
    ) -> Result<(Timed, Measure)> {
        let path = self.path();
        let output = Output::create("-o", path, force, &trace.path)?;
        let shown = || path.display().to_string();
        let written = TimedTrace::begin(trace, output.file().try_clone().with_context(shown)?).with_context(shown)?;
        let written = Arc::new(Mutex::new(written));
        Ok((
            Timed { output, written: written.clone() },
            Measure { cupti, only_cupti: self.times == Source::Cupti, to: written },
        ))
    }
}

impl Timed {
    /// The name that the file has until it is whole.
    pub(super) fn partial(&self) -> &Path {
        self.output.partial()
    }

    /// Writes what is known only now, and puts the file into its place: its path and size.
    pub(super) fn finish(self, trace: &Trace, options: &Options, measured: &Measurement) -> Result<(PathBuf, u64)> {
        let path = self.output.path().to_path_buf();
        let profile = measured.profile(options.driver.display().to_string());
        let size = self.written.lock().finish(trace, &profile, verdict::in_words);
        let size = size.with_context(|| path.display().to_string())?;
        self.output.finish()?;
        Ok((path, size))
    }
}

/// `made`: the file that holds it, and its size. `on_sim`: what took the times is simulated as well.
pub(super) fn text(
    out: &mut impl Write,
    measured: &Measurement,
    made: &(PathBuf, u64),
    on_sim: bool,
) -> std::io::Result<()> {
    let (timed, source) = (grouped(measured.works), device_work::source(measured.source, measured.version));
    let simulated = if on_sim { ", simulated" } else { "" };
    writeln!(out, "  timed        {timed} kernels, copies and fills, by {source}{simulated}")?;
    for (why, count) in &measured.untimed {
        writeln!(out, "  not timed    {}: {why}", grouped(*count))?;
    }
    writeln!(out, "  written      {} ({})", made.0.display(), size(made.1))
}

pub(super) fn object(measured: &Measurement, made: &(PathBuf, u64)) -> Value {
    let untimed = measured.untimed.iter().map(|(why, count)| json!({ "reason": why, "count": count }));
    json!({
        "output": made.0.display().to_string(),
        "bytes": made.1,
        "source": device_work::source_name(measured.source),
        "version": measured.version,
        "why": measured.why,
        "works": measured.works,
        "untimed": untimed.collect::<Vec<_>>(),
        "uncertainty_ns": measured.uncertainty,
    })
}
