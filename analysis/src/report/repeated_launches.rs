//! Repeated sequences of launches with nothing between them: a graph would launch each sequence by one call.

use super::walk::{Ending, Needs, Report, Step};
use crate::findings::finding::{Cost, Finding};
use crate::tables::table::Table;
use crate::tables::tally::Tally;
use crate::text::figures::{counted, duration};
use foldhash::HashMap;
use foldhash::quality::FixedState;
use std::hash::BuildHasher;
use trace::Function;
use trace::api::roles::Class;

/// Fewer launches are no row, and fewer repetitions no habit.
const ROW: usize = 8;
const OFTEN: u64 = 3;
/// Launches after which a row is looked at, even if it goes on; and different rows that are told apart.
const LONGEST: usize = 4096;
const DIFFERENT: usize = 10_000;
/// Kernels that take longer than this on average, ns, hide what their launches cost.
const SHORT: u64 = 50_000;
const HASHER: FixedState = FixedState::with_seed(0);

#[derive(Default)]
pub(crate) struct RepeatedLaunches {
    /// By stream: the row that it is in; and the streams with launches since the last wait that covered any.
    open: Vec<Row>,
    begun: Vec<usize>,
    rows: HashMap<u64, Repeated>,
}

/// Launches on one stream, one behind the other: the kernel, the call, and nanoseconds of the call.
#[derive(Default)]
struct Row {
    launches: Vec<(u32, u64, i64)>,
    /// Whether its stream is among those that have begun.
    is_begun: bool,
}

#[derive(Default)]
struct Repeated {
    /// Launches of the row.
    length: usize,
    kernels: Vec<u32>,
    /// A call for each time that it came: its first launch.
    times: Tally,
}

impl<'t> Report<'t> for RepeatedLaunches {
    fn needs(&self) -> Needs {
        Needs::Outcome
    }

    fn visits(&self, function: &Function, succeeds: bool) -> bool {
        let waits = matches!(function.class, Class::synchronize | Class::poll | Class::copy);
        succeeds && (waits || function.work().is_some())
    }

    fn visit(&mut self, step: &Step<'_, 't>) {
        if step.outcome.wait.is_some_and(|wait| wait.covered > 0) {
            for stream in self.begun.drain(..) {
                self.open[stream].end(&mut self.rows);
                self.open[stream].is_begun = false;
            }
        }
        let Some(stream) = step.outcome.put else { return };
        let kernel = step.kernel().map(|kernel| kernel.id);
        let took = step.duration().filter(|_| step.outcome.is_launched && step.selected);
        match (kernel, took) {
            (Some(kernel), Some(took)) => {
                if self.open.len() <= stream {
                    self.open.resize_with(stream + 1, Row::default);
                }
                let row = &mut self.open[stream];
                if !std::mem::replace(&mut row.is_begun, true) {
                    self.begun.push(stream);
                }
                row.launches.push((kernel, step.call.number, took));
                if row.launches.len() >= LONGEST {
                    row.end(&mut self.rows);
                }
            }
            // A copy, or a graph: what comes behind it is another row.
            _ => self.open.get_mut(stream).into_iter().for_each(|row| row.end(&mut self.rows)),
        }
    }

    fn tables(&mut self, _: &Ending<'t>) -> Vec<Table> {
        Vec::new()
    }

    fn findings(&self, ending: &Ending<'t>) -> Vec<Finding> {
        let mut rows = Vec::new();
        // Rows that no wait has ended.
        let mut all: HashMap<u64, Repeated> = HashMap::default();
        self.begun.iter().for_each(|stream| self.open[*stream].count(&mut all));
        for (key, row) in &self.rows {
            let open = all.remove(key);
            rows.push((row, open.map_or((0, 0), |open| (open.times.calls, open.times.time))));
        }
        let rest: Vec<Repeated> = all.into_values().collect();
        rows.extend(rest.iter().map(|row| (row, (0, 0))));
        let short = Short::measure(ending);
        rows.retain(|(row, (more, _))| row.times.calls + more >= OFTEN && short.holds(row));
        rows.sort_by_key(|(row, (_, more))| (std::cmp::Reverse(row.times.time + more), row.times.first));
        let Some((costliest, (more, _))) = rows.first() else { return Vec::new() };
        let (mut launches, mut times, mut time, mut saved) = (0, 0, 0i64, 0i64);
        for (row, (more, longer)) in &rows {
            let (count, took) = (row.times.calls + more, row.times.time + longer);
            (launches, times, time) = (launches + count * row.length as u64, times + count, time + took);
            // One call for each row is left.
            saved += took - took / row.length.max(1) as i64;
        }
        let evidence = format!(
            "{} in these calls; the costliest sequence has {} and runs {}, first at call {}; {}",
            duration(time),
            counted(costliest.length as u64, "launch"),
            counted(costliest.times.calls + more, "time"),
            costliest.times.first.unwrap_or(0),
            short.describe(),
        );
        vec![Finding {
            kind: "repeated_launches".into(),
            what: format!(
                "{} in repeated sequences: capture each sequence in a CUDA graph",
                counted(launches, "launch")
            ),
            evidence,
            next: "cutrace report -r launches".into(),
            cost: Cost::Time(saved),
            times,
            calls: costliest.times.costliest(),
        }]
    }
}

impl Row {
    fn end(&mut self, rows: &mut HashMap<u64, Repeated>) {
        self.count(rows);
        self.launches.clear();
    }

    /// Counts the pieces of the row that are alike.
    fn count(&self, rows: &mut HashMap<u64, Repeated>) {
        if self.launches.len() < ROW {
            return;
        }
        let kernels: Vec<u32> = self.launches.iter().map(|(kernel, ..)| *kernel).collect();
        let length = unit(&kernels);
        for piece in self.launches.chunks_exact(length) {
            let kernels: Vec<u32> = piece.iter().map(|(kernel, ..)| *kernel).collect();
            let key = HASHER.hash_one(&kernels);
            if rows.len() >= DIFFERENT && !rows.contains_key(&key) {
                continue;
            }
            let row = rows.entry(key).or_insert_with(|| Repeated { length, kernels, times: Tally::default() });
            row.times.add(piece[0].1, piece.iter().map(|(.., took)| took).sum());
        }
    }
}

/// How many launches make a row: as many as repeat within it, if they do, so that there are enough.
fn unit(kernels: &[u32]) -> usize {
    // Of each prefix the longest that it begins and ends with: what is left repeats.
    let mut borders = vec![0; kernels.len()];
    for at in 1..kernels.len() {
        let mut border: usize = borders[at - 1];
        while border > 0 && kernels[at] != kernels[border] {
            border = borders[border - 1];
        }
        borders[at] = border + usize::from(kernels[at] == kernels[border]);
    }
    let period = kernels.len() - borders.last().copied().unwrap_or(0);
    let length = period * ROW.div_ceil(period.max(1));
    let is_often = kernels.len() / length.max(1) >= OFTEN as usize;
    if is_often { length } else { kernels.len() }
}

/// How long kernels took on a device, on average, if the trace holds it.
struct Short {
    averages: Option<HashMap<u32, u64>>,
}

impl Short {
    fn measure(ending: &Ending) -> Short {
        let trace = ending.trace;
        if trace.profile.is_none() {
            return Short { averages: None };
        }
        let mut sums: HashMap<&str, (u64, u64)> = HashMap::default();
        for work in trace.timed().filter(|work| work.is_kernel()) {
            let (count, sum) = sums.entry(work.name.unwrap_or("")).or_default();
            (*count, *sum) = (*count + 1, *sum + work.duration().max(0) as u64);
        }
        let kernels = trace.kernels.values();
        let average = |name: &str| sums.get(name).map(|(count, sum)| sum / (*count).max(1));
        Short { averages: Some(kernels.filter_map(|kernel| Some((kernel.id, average(&kernel.name)?))).collect()) }
    }

    fn holds(&self, row: &Repeated) -> bool {
        let Some(averages) = &self.averages else { return true };
        let times: Vec<u64> = row.kernels.iter().filter_map(|kernel| averages.get(kernel).copied()).collect();
        times.iter().sum::<u64>() <= SHORT * times.len() as u64
    }

    fn describe(&self) -> String {
        match self.averages {
            Some(_) => format!("their kernels took less than {} each", duration(SHORT as i64)),
            None => "without device times, their kernels' durations are unknown".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::unit;

    #[test]
    fn rows_are_what_repeats() {
        let row: Vec<u32> = (0..10).collect();
        assert_eq!(unit(&row), 10);
        assert_eq!(unit(&row.repeat(4)), 10);
        // Short ones are taken together, and a rest is no reason against it.
        assert_eq!(unit(&[1, 2, 3].repeat(9)), 9);
        assert_eq!(unit(&[1, 2, 3].repeat(7)), 21);
        assert_eq!(unit(&[7; 100]), 8);
        assert_eq!(unit(&[[1, 2, 3, 4, 5, 6, 7, 8].repeat(3), vec![1, 2]].concat()), 8);
    }
}
