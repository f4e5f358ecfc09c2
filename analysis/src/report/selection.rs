//! Reports by the names on the command line: `cuda_gpu_kern_sum`, `cuda_gpu_kern_sum:nvtx-name:base`.

use super::list::{self, Chosen, NO_ANNOTATIONS};
use crate::error::{Error, Result};
use crate::text::kernel_name::Style;
use trace::Trace;

/// The value of `--report`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ReportRequest {
    /// What reports there are.
    List,
    /// A report with its options.
    Report(Report),
}

/// A report with the options behind its name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Report {
    /// The report.
    pub chosen: Chosen,
    /// What kernels are called, if it is said for this report.
    pub style: Option<Style>,
    /// Behind the range in which they were launched.
    pub in_ranges: bool,
}

impl Report {
    /// Says why it cannot be made of this trace.
    pub fn check(&self, trace: &Trace) -> Result<()> {
        if self.in_ranges && !trace.has_annotations() {
            let why = format_args!("report {}:nvtx-name {NO_ANNOTATIONS}", self.chosen.name());
            return Err(Error::usage(why));
        }
        self.chosen.check(trace)
    }
}

/// What asks for the list.
pub const HELP: &str = "help";

/// As an argument is read; Nsight Systems' suffixes behind colons.
pub fn parse(text: &str) -> Result<ReportRequest, String> {
    let mut parts = text.split(':');
    let name = parts.next().unwrap_or_default();
    if text == HELP {
        return Ok(ReportRequest::List);
    }
    let chosen = list::find(name)?;
    let mut report = Report { chosen, style: None, in_ranges: false };
    for suffix in parts {
        match suffix {
            _ if !chosen.has_kernels() => {
                return Err(format!("{name} has no kernel names, so :{suffix} does not apply"));
            }
            "base" => report.style = Some(Style::Short),
            "mangled" => report.style = Some(Style::Mangled),
            "nvtx-name" if chosen.has_ranges() => return Err(format!("{name} takes no :nvtx-name: it is by range")),
            "nvtx-name" => report.in_ranges = true,
            _ => return Err(format!("{name} takes :base, :mangled and :nvtx-name, not :{suffix}")),
        }
    }
    Ok(ReportRequest::Report(report))
}
