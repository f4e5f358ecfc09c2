//! A request for reports on a trace, and the form of the output.

use super::list::{Stream, Way};
use super::selection::Report;
use super::{api_trace, collectives, device, walk};
use crate::error::Result;
use crate::filter::progress::Progress;
use crate::filter::selection::Selection;
use crate::job::recordings::Recordings;
use crate::tables::render::{Format, Output};
use crate::tables::table::Table;
use crate::tables::unit::Unit;
use crate::text::json::{damage, ended};
use crate::text::kernel_name::{Names, Style};
use device::Scope;
use serde_json::{Value, json};
use std::io::Write;
use trace::Trace;

/// Reports, and the form in which they are printed.
pub struct Request {
    /// Each once.
    pub reports: Vec<Report>,
    /// The calls that reports are about.
    pub selection: Selection,
    /// What kernels are called, unless it is said for a report.
    pub style: Style,
    /// Table, CSV or JSON.
    pub format: Format,
    /// Of times; none where each stands in the one that fits it.
    pub unit: Option<Unit>,
    /// Whether tables contain escape sequences for colours.
    pub colored: bool,
}

/// A report, and its tables if it is not written row by row.
pub type ReportTables = (Report, Option<Vec<Table>>);

impl Request {
    /// These of the reports on one trace. `about`: what the JSON form says of it.
    pub fn write(
        &self,
        out: &mut impl Write,
        trace: &Trace,
        about: &Value,
        which: &dyn Fn(&Report) -> bool,
        progress: &mut dyn Progress,
    ) -> Result<()> {
        let made = self.make(trace, which, progress)?;
        let many = made.iter().map(|(_, tables)| tables.as_ref().map_or(1, Vec::len)).sum::<usize>() > 1;
        let mut out = self.output(out, many, about)?;
        for (report, tables) in &made {
            match tables {
                Some(tables) => tables.iter().try_for_each(|table| out.table(table))?,
                None => self.stream(trace, report, &mut out, progress)?,
            }
        }
        out.finish()
    }

    /// `many`: whether several tables come.
    pub fn output<W: Write>(&self, out: W, many: bool, about: &Value) -> Result<Output<W>> {
        Ok(Output::new(out, self.format, self.colored, many, about)?.in_unit(self.unit))
    }

    /// Makes those requested reports of one trace that `which` accepts, in one walk.
    pub fn make(
        &self,
        trace: &Trace,
        which: &dyn Fn(&Report) -> bool,
        progress: &mut dyn Progress,
    ) -> Result<Vec<ReportTables>> {
        let asked: Vec<Report> = self.reports.iter().copied().filter(|report| which(report)).collect();
        asked.iter().try_for_each(|report| report.check(trace))?;
        let mut walked = Vec::new();
        for report in &asked {
            if let Way::Walk(make) = report.chosen.way() {
                walked.push(make(trace));
            }
        }
        let ending = match walked.is_empty() {
            true => None,
            false => Some(walk::walk(trace, &self.selection, self.style, progress, &mut walked)?),
        };
        let mut walked = walked.into_iter();
        let mut made = Vec::new();
        for report in asked {
            let mut tables = match (report.chosen.way(), &ending) {
                (Way::Walk(_), Some(ending)) => walked.next().map(|mut report| report.tables(ending)),
                (Way::Measured(make), _) => Some(make(&self.scope(trace, &report)?)),
                _ => None,
            };
            tables.iter_mut().flatten().for_each(|table| self.limit(table));
            made.push((report, tables));
        }
        Ok(made)
    }

    /// A report that is written row by row.
    pub fn stream(
        &self,
        trace: &Trace,
        report: &Report,
        out: &mut Output<impl Write>,
        progress: &mut dyn Progress,
    ) -> Result<()> {
        let limit = self.selection.limit.unwrap_or(u64::MAX);
        let scope = || self.scope(trace, report);
        match report.chosen.way() {
            Way::Stream(Stream::Calls) => api_trace::write(trace, &self.selection, out, progress),
            Way::Stream(Stream::Works) => device::trace::write(&scope()?, limit, out, progress),
            Way::Stream(Stream::Launches) => device::exec::write(&scope()?, limit, out, progress),
            Way::Stream(Stream::Pushed) => device::ranges::pushed(&scope()?, limit, out, progress),
            Way::Stream(Stream::Projected) => device::ranges::projected(&scope()?, limit, out, progress),
            Way::Walk(_) | Way::Measured(_) => Ok(()),
        }
    }

    fn scope<'t>(&'t self, trace: &'t Trace, report: &Report) -> Result<Scope<'t>> {
        let scope = Scope::new(trace, &self.selection, Names::new(report.style.unwrap_or(self.style)))?;
        Ok(if report.in_ranges { scope.in_ranges() } else { scope })
    }

    /// To the rows that a table may have.
    pub fn limit(&self, table: &mut Table) {
        let is_long = self.format == Format::Table && table.head.part == collectives::OPERATIONS.part;
        table.limit(self.selection.limit.unwrap_or(if is_long { collectives::SHOWN } else { u64::MAX }));
    }
}

/// What the JSON form says of a trace.
pub fn about(trace: &Trace, recordings: &Recordings) -> Value {
    let mut about = json!({
        "path": trace.path.display().to_string(),
        "calls": trace.calls_made(),
        "program": trace.preamble.program,
        "pid": trace.preamble.pid,
        "closed": trace.footer.is_some(),
        "ended": ended(trace),
        "losses": trace.losses.iter().map(|(what, count)| json!({ "what": what, "count": count })).collect::<Vec<_>>(),
        "damage": damage(trace),
    });
    if let Some(recording) = recordings.get(&trace.path) {
        about["recording"] = (*recording).into();
    }
    about
}
