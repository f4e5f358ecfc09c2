//! The findings: the one list that `summary` and the viewer show.

use super::device::gaps;
use super::errors::Errors;
use super::host::Host;
use super::leaks::Leaks;
use super::memory::Memory;
use super::modules::Modules;
use super::pending::Pending;
use super::repeated_launches::RepeatedLaunches;
use super::sync::Sync;
use super::transfers::Transfers;
use super::walk::{Ending, Part, Report, Step, walk};
use crate::filter::selection::Selection;
use crate::findings::finding::{Cost, Finding};
use crate::report::lost_calls::Lost;
use crate::tables::table::Table;
use crate::text::kernel_name::Style;
use trace::Trace;

/// The reports from which findings are made.
#[derive(Default)]
pub(crate) struct Findings<'t> {
    errors: Errors<'t>,
    pending: Pending<'t>,
    lost: Lost,
    pub host: Host,
    pub memory: Memory<'t>,
    leaks: Leaks<'t>,
    sync: Sync<'t>,
    repeated_launches: RepeatedLaunches,
    pub transfers: Transfers<'t>,
    modules: Modules<'t>,
}

/// Findings that cost less than this part of the run are only counted.
const NEGLIGIBLE: f64 = 0.001;
/// Findings of work that a program can leave out.
const REMOVABLE: [&str; 4] =
    ["redundant_transfers", "repeated_module_loads", "needless_synchronisations", "allocation_churn"];

impl<'t> Report<'t> for Findings<'t> {
    fn visit(&mut self, _: &Step<'_, 't>) {}

    fn has_parts(&self) -> bool {
        true
    }

    fn parts(&mut self) -> Vec<Part<'_, 't>> {
        vec![
            &mut self.errors,
            &mut self.pending,
            &mut self.lost,
            &mut self.host,
            &mut self.memory,
            &mut self.leaks,
            &mut self.sync,
            &mut self.repeated_launches,
            &mut self.transfers,
            &mut self.modules,
        ]
    }

    fn tables(&mut self, _: &Ending<'t>) -> Vec<Table> {
        Vec::new()
    }

    fn findings(&self, ending: &Ending<'t>) -> Vec<Finding> {
        self.list(ending).0
    }
}

impl<'t> Findings<'t> {
    /// The most important first; and how many more there are that cost too little to be told of.
    pub(crate) fn list(&self, ending: &Ending<'t>) -> (Vec<Finding>, u64) {
        let parts: [&dyn Report<'t>; 10] = [
            &self.lost,
            &self.errors,
            &self.pending,
            &self.memory,
            &self.host,
            &self.sync,
            &self.repeated_launches,
            &self.transfers,
            &self.modules,
            &self.leaks,
        ];
        let mut found: Vec<Finding> = parts.iter().flat_map(|part| part.findings(ending)).collect();
        found.extend(gaps::findings(&ending.scope));
        let (all, least) = (found.len(), (self.host.elapsed() as f64 * NEGLIGIBLE) as i64);
        // Where times mean nothing, work that can be removed comes first, whatever it took.
        let comes_first = |finding: &Finding| ending.trace.is_simulated() && REMOVABLE.contains(&finding.kind.as_str());
        found.retain(|finding| comes_first(finding) || !matches!(finding.cost, Cost::Time(ns) if ns < least));
        let negligible = all - found.len();
        found.sort_by_key(|finding| match finding.cost {
            Cost::Wrong => (0, 0),
            Cost::Time(ns) => (if comes_first(finding) { 1 } else { 2 }, -ns),
            Cost::Memory(_) => (3, 0),
            Cost::Objects(_) => (4, 0),
        });
        (found, negligible as u64)
    }
}

/// Of a whole trace: for the viewer, which shows its own progress.
pub fn find(trace: &Trace) -> Vec<Finding> {
    let selection = Selection::default();
    let mut reports: [Box<dyn Report + '_>; 1] = [Box::new(Findings::default())];
    let ending = walk(trace, &selection, Style::Full, &mut (), &mut reports).expect("everything can be selected");
    reports[0].findings(&ending)
}
