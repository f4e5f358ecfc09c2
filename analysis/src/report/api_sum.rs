//! `cuda_api_sum`: the functions by the total time of their calls, with the columns of Nsight Systems.

use super::walk::{Ending, Needs, Report, Step};
use crate::tables::durations::Durations;
use crate::tables::table::{Column, Head, Layout, Table, same};
use foldhash::HashMap;
use trace::Trace;

#[derive(Default)]
pub(crate) struct ApiSum<'t> {
    functions: HashMap<&'t str, Durations>,
    /// Counted up to the end.
    inside: u64,
    unreturned: u64,
}

pub(crate) fn make<'t>(_: &'t Trace) -> Box<dyn Report<'t> + 't> {
    Box::new(ApiSum::default())
}

const COLUMNS: &[Column] = &[
    same("Time (%)"),
    same("Total Time (ns)"),
    same("Num Calls"),
    same("Avg (ns)"),
    same("Med (ns)"),
    same("Min (ns)"),
    same("Max (ns)"),
    same("StdDev (ns)"),
    same("Name"),
];

const HEAD: Head = Head {
    report: "cuda_api_sum",
    part: "",
    title: "CUDA API Summary (cuda_api_sum)",
    columns: COLUMNS,
    layout: Layout::Grid,
};

impl<'t> Report<'t> for ApiSum<'t> {
    fn needs(&self) -> Needs {
        Needs::Nothing
    }

    fn visit(&mut self, step: &Step<'_, 't>) {
        if !step.selected {
            return;
        }
        let Some(ns) = step.duration() else {
            self.unreturned += 1;
            return;
        };
        self.inside += u64::from(step.call.end.is_none());
        let durations = self.functions.entry(step.call.name()).or_default();
        durations.add(ns);
        durations.add_alike(step.call.count() - 1, step.call.repeats_took());
    }

    fn tables(&mut self, _: &Ending<'t>) -> Vec<Table> {
        let mut table = Table::new(HEAD);
        let mut functions: Vec<_> = self.functions.iter().collect();
        functions.sort_by_key(|(name, durations)| (std::cmp::Reverse(durations.sum), **name));
        let whole = functions.iter().fold(0i64, |whole, (_, durations)| whole.saturating_add(durations.sum));
        for (name, durations) in functions {
            table.row([&durations.cells(whole)[..], &[(*name).into()]].concat());
        }
        if self.inside > 0 {
            let calls = crate::text::figures::counted(self.inside, "call");
            table.note(format!(
                "{calls} had not returned: their time counts up to the end of the process, or until now"
            ));
        }
        if self.unreturned > 0 {
            table.note(format!(
                "{} did not return and is not counted",
                crate::text::figures::counted(self.unreturned, "call")
            ));
        }
        vec![table]
    }
}
