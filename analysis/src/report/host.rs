//! `host`: the longest times at which no thread was in the driver, and at which no work was outstanding as
//! far as the host knew.

use super::walk::{Ending, Needs, Report, Step};
use crate::findings::finding::{Cost, Finding, IDLE};
use crate::tables::table::{Cell, Column, Head, Layout, Table, column};
use crate::tables::tally::KEPT;
use crate::text::figures::{counted, duration, grouped};
use trace::Trace;
use trace::api::roles::Class;

#[derive(Default)]
pub(crate) struct Host {
    /// The entry of the first call that was asked for, and the last return of one. Nanoseconds.
    first: Option<i64>,
    last: i64,
    /// Until when some thread was in the driver, and in which call.
    inside: Option<(i64, u64)>,
    /// A run of polls or queries that began when no thread was in the driver.
    run: Option<Run>,
    outside: Stretches,
    /// Since when nothing is outstanding, and the call that told so.
    idle: Option<(i64, u64)>,
    idled: Stretches,
}

struct Run {
    /// Until when it lasted, or its thread's next call, if it went on behind that.
    until: i64,
    goes_on: bool,
    polls: u64,
    /// Nanoseconds until then, less those inside all of them: negative if later ones took longer.
    between: i64,
}

#[derive(Clone, Copy)]
struct Stretch {
    begin: i64,
    end: i64,
    after: u64,
    before: u64,
}

impl Stretch {
    fn length(&self) -> i64 {
        self.end - self.begin
    }
}

#[derive(Default)]
struct Stretches {
    count: u64,
    time: i64,
    longest: Vec<Stretch>,
}

impl Stretches {
    fn add(&mut self, stretch: Stretch) {
        self.count += 1;
        self.time += stretch.length();
        self.longest.push(stretch);
        if self.longest.len() >= 2 * KEPT {
            sort(&mut self.longest);
        }
    }

    /// Of some it is only known how long they were together.
    fn add_short(&mut self, count: u64, time: i64) {
        self.count = self.count.saturating_add(count);
        self.time = self.time.saturating_add(time);
    }

    fn time(&self) -> i64 {
        self.time.max(0)
    }

    fn longest(&self) -> Vec<Stretch> {
        let mut all = self.longest.clone();
        sort(&mut all);
        all
    }

    fn finding(&self, kind: &str, what: String, ending: &Ending) -> Finding {
        let longest = self.longest();
        let named = |call: u64| ending.trace.call(call).map_or("?", |call| call.name());
        let told = |stretch: &Stretch| {
            let (length, before) = (duration(stretch.length()), stretch.before);
            format!("{length} before call {before} ({})", named(before))
        };
        let told: Vec<String> = longest.iter().take(TOLD).map(told).collect();
        Finding {
            kind: kind.into(),
            what,
            evidence: format!("{}; the longest: {}", counted(self.count, "gap"), told.join(", ")),
            next: "cutrace report -r host".into(),
            cost: Cost::Time(self.time()),
            times: self.count,
            calls: longest.iter().map(|stretch| stretch.before).collect(),
        }
    }
}

fn sort(all: &mut Vec<Stretch>) {
    all.sort_by_key(|stretch| (std::cmp::Reverse(stretch.length()), stretch.before));
    all.truncate(KEPT);
}

/// Stretches that a finding names, and that a table lists.
const TOLD: usize = 3;
const LISTED: usize = 20;
/// Shorter ones without work outstanding are not told of, ns.
const LEAST: i64 = 100_000;

pub(crate) fn make<'t>(_: &'t Trace) -> Box<dyn Report<'t> + 't> {
    Box::new(Host::default())
}

const COLUMNS: &[Column] = &[
    column("for", "for_ns"),
    column("from", "begin_ns"),
    column("after call", "after_call"),
    column("which was", "after_function"),
    column("before call", "before_call"),
    column("which is", "before_function"),
    column("thread", "thread"),
];

const OUTSIDE: Head = Head {
    report: "host",
    part: "outside",
    title: "Longest times with no thread in the driver (host)",
    columns: COLUMNS,
    layout: Layout::Grid,
};

const IDLED: Head =
    Head { part: "idle", title: "Longest times with no submitted work, as seen from the host (host)", ..OUTSIDE };

impl<'t> Report<'t> for Host {
    fn needs(&self) -> Needs {
        Needs::Outcome
    }

    fn visit(&mut self, step: &Step<'_, 't>) {
        if step.call.inner {
            return;
        }
        let (begin, number) = (step.begin, step.call.number);
        // Calls come in the order of their entry.
        if let Some((until, after)) = self.inside.filter(|(until, _)| *until < begin)
            && step.selected
            && self.first.is_some()
        {
            self.outside.add(Stretch { begin: until, end: begin, after, before: number });
        }
        let end = step.last_end().unwrap_or(i64::MAX);
        self.follow_run(step);
        if self.inside.is_none_or(|(until, _)| until <= end) {
            self.inside = Some((end, number));
        }
        if step.selected {
            self.first.get_or_insert(begin);
            self.last = self.last.max(step.last_return().unwrap_or(begin));
        }
        self.follow_work(step);
    }

    fn tables(&mut self, ending: &Ending<'t>) -> Vec<Table> {
        let mut tables = Vec::new();
        for (head, stretches) in [(OUTSIDE, &self.outside), (IDLED, &self.idled)] {
            let mut table = Table::new(head);
            for stretch in stretches.longest().into_iter().take(LISTED) {
                let call = |number: u64| ending.trace.call(number);
                let before = call(stretch.before);
                table.row([
                    Cell::Time(stretch.length()),
                    Cell::Time(stretch.begin),
                    Cell::Number(stretch.after),
                    call(stretch.after).map(|call| call.name()).into(),
                    Cell::Number(stretch.before),
                    before.as_ref().map(|call| call.name()).into(),
                    before.map(|call| format!("t{}", call.thread)).into(),
                ]);
            }
            let more = stretches.count.saturating_sub(table.rows.len() as u64);
            if more > 0 {
                let (all, time) = (counted(stretches.count, "gap"), duration(stretches.time()));
                table.note(format!("and {} more; all {all}: {time}", grouped(more)));
            }
            if ending.trace.calls_left_out() > 0 {
                table.note("calls outside the recorded range may have been made in these gaps");
            }
            tables.push(table);
        }
        tables
    }

    fn findings(&self, ending: &Ending<'t>) -> Vec<Finding> {
        let (mut found, elapsed) = (Vec::new(), self.elapsed());
        let share = |time: i64| {
            let percent = time as f64 * 100.0 / elapsed.max(1) as f64;
            format!("{} of {} ({percent:.0} %)", duration(time), duration(elapsed))
        };
        // What calls that were left out did in between is not known.
        if ending.trace.calls_left_out() == 0 {
            if self.outside.time() > elapsed / 2 {
                let what = format!("CPU outside the driver for {}", share(self.outside.time()));
                found.push(self.outside.finding("host_bound", what, ending));
            }
            if self.idled.time > 0 && !ending.trace.has_device_times() {
                let time = share(self.idled.time);
                let what = format!("GPU idle for at least {time}: no work was submitted");
                found.push(self.idled.finding(IDLE[1], what, ending));
            }
        }
        found
    }
}

impl Host {
    /// From the first entry to the last return. Nanoseconds.
    pub(crate) fn elapsed(&self) -> i64 {
        self.last - self.first.unwrap_or(self.last)
    }

    /// Between polls of a run no thread was in the driver, unless another thread made calls meanwhile. Of
    /// queries that went on behind later calls nobody knows where they stand: their time is taken off all.
    fn follow_run(&mut self, step: &Step) {
        let is_over = |run: &Run| run.until <= step.begin && self.first.is_some() && step.selected;
        if let Some(run) = self.run.take().filter(is_over) {
            self.outside.add_short(if run.goes_on { 0 } else { run.polls }, run.between);
        }
        let was_outside = self.inside.is_none_or(|(until, _)| until <= step.begin);
        if let (Some(repeats), Some(end), Some(last)) = (step.call.repeats, step.end, step.last_end())
            && was_outside
        {
            let goes_on = repeats.in_turn.is_some();
            let between = last.saturating_sub(end).saturating_sub(step.call.repeats_took());
            let between = if goes_on { between } else { between.max(0) };
            self.run = Some(Run { until: last, goes_on, polls: repeats.calls, between });
        }
    }

    fn follow_work(&mut self, step: &Step) {
        let copies = step.class() == Some(Class::copy) && step.outcome.wait.is_some();
        if let Some((since, after)) = self.idle.filter(|_| copies || !step.outcome.is_idle) {
            self.idle = None;
            if step.selected && step.begin - since >= LEAST {
                let before = step.call.number;
                self.idled.add(Stretch { begin: since, end: step.begin, after, before });
            }
        }
        let is_told = copies || step.outcome.wait.is_some_and(|wait| wait.covered > 0);
        if step.outcome.is_idle && is_told && self.idle.is_none() && self.first.is_some() {
            self.idle = step.end.map(|end| (end, step.call.number));
        }
    }
}
