//! All results of a replay and of the requested diagnoses, as text and as JSON.

use super::as_json::{ReplaySummary, Replayed};
use super::explain::Explanation;
use super::{bisect, looping, timing};
use crate::commands::replay::{debug_flags, explanation_text, kernel_output, text};
use crate::driver::is_simulated;
use anyhow::Result;
use replayer::{Options, Plan, Report};
use serde_json::Value;
use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use trace::Trace;

pub(super) struct Told<'a> {
    pub trace: &'a Trace,
    pub plan: &'a Plan,
    pub options: &'a Options,
    pub report: &'a Report,
    pub printed: Option<kernel_output::Compared>,
    /// The trace with the device's times, and its size.
    pub timed: Option<(PathBuf, u64)>,
    /// Calls that were repeated.
    pub scope: Option<Range<u64>>,
    pub explained: Option<Explanation>,
    pub is_bisection: bool,
}

impl Told<'_> {
    pub(super) fn summary(&self) -> ReplaySummary {
        let (timed, repeated) = (self.report.measured.as_ref().zip(self.timed.as_ref()), self.report.repeated.as_ref());
        let repeated = self.scope.as_ref().zip(repeated);
        let asked = self.explained.as_ref().filter(|explained| self.is_bisection && explained.is_found());
        ReplaySummary::Replayed(Box::new(Replayed {
            explanation: self.explained.as_ref().map_or(Value::Null, explanation_text::object),
            profile: timed.map_or(Value::Null, |(measured, made)| timing::object(measured, made)),
            repeated: repeated.map_or(Value::Null, |(scope, repeated)| looping::object(scope, repeated)),
            printed: self.printed.as_ref().map_or(Value::Null, kernel_output::Compared::object),
            bisection: asked.map_or(Value::Null, |explained| bisect::object(explained, self.report)),
            ..Replayed::new(self.trace, self.plan, self.report, self.options)
        }))
    }

    /// `verbose`: also what concerns the replay rather than the program.
    pub(super) fn text(&self, out: &mut impl Write, verbose: bool) -> Result<()> {
        text::text(out, self.trace, self.plan, self.report, self.explained.as_ref(), (self.options.place, verbose))?;
        self.printed.iter().try_for_each(|printed| printed.text(out, verbose))?;
        if self.is_bisection {
            bisect::text(out, self.explained.as_ref(), self.report)?;
        }
        if let Some((measured, made)) = self.report.measured.as_ref().zip(self.timed.as_ref()) {
            timing::text(out, measured, made, is_simulated(&self.options.driver))?;
        }
        if let Some((scope, repeated)) = self.scope.as_ref().zip(self.report.repeated.as_ref()) {
            looping::text(out, scope, repeated)?;
        }
        if self.report.culprit.is_none() {
            debug_flags::dumped(out, &self.options.tools)?;
        }
        Ok(())
    }
}
