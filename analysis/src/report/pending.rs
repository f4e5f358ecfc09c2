//! `pending`: work that is not known to have completed when the trace ends, and calls that had not returned.

use super::walk::{Ending, Report, Step};
use crate::findings::finding::{Cost, Finding};
use crate::tables::table::{Cell, Column, Head, Layout, Table, column};
use crate::tables::tally::KEPT;
use crate::text::figures::counted;
use trace::show::launch::launched;
use trace::write::finish::{last_moment, now};
use trace::{Call, Function, Trace};

#[derive(Default)]
pub(crate) struct Pending<'t> {
    /// Each with the kernel that it launches.
    inside: Vec<(Call<'t>, Option<String>)>,
}

pub(crate) fn make<'t>(_: &'t Trace) -> Box<dyn Report<'t> + 't> {
    Box::new(Pending::default())
}

const INSIDE: Head = Head {
    report: "pending",
    part: "inside",
    title: "Calls that had not returned (pending)",
    columns: &[
        column("thread", "thread"),
        column("call", "call"),
        column("since", "since_ns"),
        column("for", "for_ns"),
        column("function", "function"),
        column("kernel", "kernel"),
    ],
    layout: Layout::Grid,
};

const SUBMITTED: Head = Head {
    report: "pending",
    part: "submitted",
    title: "Submissions possibly unfinished (pending)",
    columns: SUBMITTED_COLUMNS,
    layout: Layout::Grid,
};

const SUBMITTED_COLUMNS: &[Column] = &[
    column("stream", "stream"),
    column("submissions", "submissions"),
    column("place", "place"),
    column("call", "call"),
    column("since", "since_ns"),
    column("for", "for_ns"),
    column("what", "what"),
];

/// Submissions of a stream that are listed.
const LISTED: usize = 16;

impl<'t> Report<'t> for Pending<'t> {
    fn visits(&self, _: &Function, succeeds: bool) -> bool {
        !succeeds
    }

    fn visit(&mut self, step: &Step<'_, 't>) {
        if step.call.inside_since().is_some() {
            self.inside.push((*step.call, launched(step.call, step.objects)));
        }
    }

    fn tables(&mut self, ending: &Ending<'t>) -> Vec<Table> {
        let trace = ending.trace;
        let end = last_moment(trace).unwrap_or(0).max(ending.latest);
        // Where nothing later is known it is not known how long.
        let lasted = |since: i64| Some(end - since).filter(|lasted| *lasted > 0).map(Cell::Time);
        let mut inside = Table::new(INSIDE);
        for (call, kernel) in &self.inside {
            let (since, thread) =
                (trace.nanoseconds(call.inside_since().unwrap_or(call.begin)), trace.threads.get(call.thread as usize));
            inside.row([
                format!("t{} {}", call.thread, thread.map_or("", |thread| &thread.name)).into(),
                Cell::Number(call.number),
                Cell::Time(since),
                lasted(since).into(),
                call.name().into(),
                kernel.as_ref().map(|kernel| ending.names.display_name(kernel)).into(),
            ]);
        }
        let mut submitted = Table::new(SUBMITTED);
        for work in &ending.pending {
            for (place, call) in work.calls.iter().take(LISTED).enumerate() {
                let Some(call) = trace.call(*call) else { continue };
                let since = trace.nanoseconds(call.begin);
                submitted.row([
                    work.stream.clone().into(),
                    Cell::Count(work.calls.len() as u64),
                    Cell::Number(place as u64 + 1),
                    Cell::Number(call.number),
                    Cell::Time(since),
                    lasted(since).into(),
                    ending.described(&call).into(),
                ]);
            }
        }
        let end = match (now(trace), trace.ended_at) {
            (Some(_), _) => "the process is running: times count until now",
            (None, Some(_)) => "times count until the process ended",
            (None, None) => "the end of the process is unknown: times count until the last call of the trace",
        };
        let tables = [(&mut inside, end.into()), (&mut submitted, format!("the first {LISTED} of each stream; {end}"))];
        for (table, note) in tables {
            if !table.rows.is_empty() {
                table.note(note);
            }
        }
        vec![inside, submitted]
    }

    fn findings(&self, ending: &Ending<'t>) -> Vec<Finding> {
        // What a program that ended by itself had not waited for, nobody asks.
        if self.inside.is_empty() && ending.trace.footer.is_some() {
            return Vec::new();
        }
        let calls: usize = ending.pending.iter().map(|work| work.calls.len()).sum();
        let inside = self.inside.first().map(|(call, kernel)| {
            let of =
                kernel.as_ref().map_or(String::new(), |kernel| format!(" of {}", ending.names.display_name(kernel)));
            format!("t{} is inside call {} {}{of}", call.thread, call.number, call.name())
        });
        if inside.is_none() && calls == 0 {
            return Vec::new();
        }
        let first = ending.pending.iter().filter_map(|work| work.calls.first().copied());
        let pending = format!("{} possibly unfinished", counted(calls as u64, "submission"));
        vec![Finding {
            kind: "unfinished".into(),
            what: "the program was still working when the trace ended".into(),
            evidence: inside.into_iter().chain([pending]).collect::<Vec<_>>().join("; "),
            next: "cutrace report -r pending".into(),
            cost: Cost::Wrong,
            times: self.inside.len() as u64 + calls as u64,
            calls: self.inside.iter().map(|(call, _)| call.number).chain(first).take(KEPT).collect(),
        }]
    }
}
