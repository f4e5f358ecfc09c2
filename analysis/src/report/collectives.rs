//! `collectives`: the progress of each rank on its communicators, and the operations on them.

use super::device::Scope;
use super::walk::{Ending, Report, Step};
use crate::calls::collectives::{Group, Kind, Member, Operation, TraceCollectives, collectives_of, groups, is_kernel};
use crate::tables::table::{Cell, Column, Head, Layout, Table, column};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use trace::Trace;
use trace::api::roles::Class;
use trace::read::device_times::ByCall;
use trace::show::launch::launched;

pub(crate) struct Collectives<'t> {
    trace: &'t Trace,
    found: TraceCollectives,
    /// Operations by when they were given to the device, the next last.
    given: Vec<usize>,
    /// The last launch of each thread.
    last: HashMap<u32, Launch>,
    /// By operation: its launch, and what became of that.
    launches: Vec<Launch>,
    /// Nanoseconds, of those that are known to have finished.
    finished: Vec<Option<i64>>,
    under_way: Vec<usize>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Launch {
    /// None, or one that is not NCCL's.
    #[default]
    None,
    Captured(u64),
    Put(u64),
}

pub(crate) fn make<'t>(trace: &'t Trace) -> Box<dyn Report<'t> + 't> {
    let found = collectives_of(trace);
    let count = found.operations.len();
    let mut given: Vec<usize> = (0..count).filter(|at| time_of(&found.operations[*at]).is_some()).collect();
    given.sort_by_key(|at| Reverse((time_of(&found.operations[*at]), *at)));
    Box::new(Collectives {
        trace,
        found,
        given,
        last: HashMap::new(),
        launches: vec![Launch::None; count],
        finished: vec![None; count],
        under_way: Vec::new(),
    })
}

/// From when on its launch is known.
fn time_of(operation: &Operation) -> Option<u64> {
    operation.given.map(|(time, _)| time).or(operation.launch.map(|_| operation.begin))
}

const MEMBERS: Head = Head {
    report: "collectives",
    part: "communicators",
    title: "Ranks by communicator (collectives)",
    columns: MEMBER_COLUMNS.split_first().expect("not empty").1,
    layout: Layout::Grid,
};
const MEMBER_COLUMNS: &[Column] = &[
    column("recording", "recording"),
    column("communicator", "communicator"),
    column("id", "id"),
    column("comm rank", "rank"),
    column("rank", "job_rank"),
    column("process", "pid"),
    column("ranks", "ranks"),
    column("begun", "begun"),
    column("finished", "finished"),
    column("last begun", "last_begun"),
    column("last finished", "last_finished"),
    column("trace", "trace"),
];
const FINISHED_AT: usize = 7;

pub(crate) const OPERATIONS: Head = Head {
    report: "collectives",
    part: "operations",
    title: "NCCL operations, the latest first (collectives)",
    columns: OPERATION_COLUMNS.split_first().expect("not empty").1,
    layout: Layout::Grid,
};
const OPERATION_COLUMNS: &[Column] = &[
    column("recording", "recording"),
    column("communicator", "communicator"),
    column("id", "id"),
    column("comm rank", "rank"),
    column("rank", "job_rank"),
    column("process", "pid"),
    column("number", "number"),
    column("function", "function"),
    column("bytes", "bytes"),
    column("peer", "peer"),
    column("root", "root"),
    column("begin", "begin_ns"),
    column("returned", "returned_ns"),
    column("call", "call"),
    column("device from", "device_start_ns"),
    column("device to", "device_end_ns"),
    column("finished by", "done_by_ns"),
    column("state", "state"),
    column("type", "datatype"),
    column("way", "way"),
];
/// Where several recordings of a directory are read.
pub(crate) const OF_RECORDINGS: [Head; 2] =
    [Head { columns: MEMBER_COLUMNS, ..MEMBERS }, Head { columns: OPERATION_COLUMNS, ..OPERATIONS }];
/// In both tables.
const ID_AT: usize = 1;
const RANK_AT: usize = 2;
const PID_AT: usize = 4;
/// In the second.
const NUMBER_AT: usize = 5;
const PEER_AT: usize = 8;
/// Times, which count from the start of a trace.
const TIMES_AT: [usize; 5] = [10, 11, 13, 14, 15];

/// Operations that are shown where nobody asked for more.
pub(crate) const SHOWN: u64 = 40;

impl Collectives<'_> {
    /// Operations that were given to the device before then have their launch.
    fn assign(&mut self, before: u64) {
        while let Some(&at) = self.given.last() {
            let operation = &self.found.operations[at];
            if time_of(operation).is_none_or(|time| time >= before) {
                break;
            }
            self.given.pop();
            let of_thread = operation.given.and_then(|(_, thread)| self.last.get(&thread)).copied();
            let launch = operation.launch.map_or(of_thread.unwrap_or_default(), Launch::Put);
            self.launches[at] = launch;
            if let Launch::Put(_) = launch {
                self.under_way.push(at);
            }
        }
    }

    fn state(&self, at: usize) -> &'static str {
        let operation = &self.found.operations[at];
        match self.launches[at] {
            _ if self.finished[at].is_some() => "finished",
            Launch::Captured(_) => "captured",
            _ if operation.is_captured => "captured",
            Launch::Put(_) => "in flight",
            Launch::None if operation.end.is_none() => "in the call",
            Launch::None if operation.given.is_none() => "called",
            Launch::None => "given",
        }
    }

    /// By member, what there is of these operations.
    fn counts(&self, wanted: &[usize]) -> Vec<Counts> {
        let mut all = vec![Counts::default(); self.found.members.len()];
        let collectives =
            || wanted.iter().map(|at| (*at, &self.found.operations[*at])).filter(|(_, of)| of.is_collective);
        for (at, operation) in collectives() {
            let (counts, number) = (&mut all[operation.member], operation.number as usize);
            counts.begun += 1;
            counts.last_begun = counts.last_begun.max(number);
            if matches!(self.state(at), "finished" | "captured") {
                counts.last_finished = counts.last_finished.max(number);
            }
        }
        for (_, operation) in collectives() {
            let counts = &mut all[operation.member];
            counts.finished += usize::from(operation.number as usize <= counts.last_finished);
        }
        all
    }

    /// Whether its launch was asked for; of one that has none, whether it began among the calls that were. A
    /// pattern may match the operation's own name, too.
    fn is_wanted(&self, at: usize, scope: &Scope) -> bool {
        let operation = &self.found.operations[at];
        let function = &self.found.members[operation.member].kinds[operation.kind].function;
        let launch = match self.launches[at] {
            Launch::None => None,
            Launch::Captured(call) | Launch::Put(call) => self.trace.call(call),
        };
        match launch {
            Some(call) => scope.has(&call) || scope.is_begun_here(call.thread, call.begin, function),
            None => scope.is_begun_here(operation.thread, operation.begin, function),
        }
    }
}

/// Collectives of a communicator: up to the last that is known to have finished all have.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    begun: usize,
    finished: usize,
    /// By their numbers, 0 if there is none.
    last_begun: usize,
    last_finished: usize,
}

impl<'t> Report<'t> for Collectives<'t> {
    fn visit(&mut self, step: &Step<'_, 't>) {
        self.assign(step.call.begin);
        if step.class() == Some(Class::launch) && !step.call.inner {
            let number = step.call.number;
            let launch = match launched(step.call, step.objects).filter(|kernel| is_kernel(kernel)) {
                Some(_) if step.followed.is_captured => Launch::Captured(number),
                Some(_) => Launch::Put(number),
                None => Launch::None,
            };
            self.last.insert(step.call.thread, launch);
        }
        if step.outcome.wait.is_some_and(|wait| wait.covered > 0) {
            let done = step.last_end().unwrap_or(step.begin);
            let (launches, finished) = (&self.launches, &mut self.finished);
            self.under_way.retain(|at| match launches[*at] {
                Launch::Put(call) if !step.outstanding.is_under_way(call) => {
                    finished[*at] = Some(done);
                    false
                }
                _ => true,
            });
        }
    }

    fn tables(&mut self, ending: &Ending<'t>) -> Vec<Table> {
        self.assign(u64::MAX);
        let count = self.found.operations.len();
        let wanted: Vec<usize> = (0..count).filter(|at| self.is_wanted(*at, &ending.scope)).collect();
        let counts = self.counts(&wanted);
        let mut members = Table::new(MEMBERS);
        for (member, counts) in self.found.members.iter_mut().zip(counts) {
            members.row(member_row(member, counts, ending.trace));
            member.unfinished = Some(counts.last_finished);
        }
        let mut operations = Table::new(OPERATIONS);
        let timed = ByCall::new(ending.trace);
        for at in wanted {
            operations.row(self.row(at, &timed));
        }
        sort(&mut operations.rows);
        members.notes = notes(&self.found.members, ending.scope.is_everything(), false);
        vec![members, operations]
    }
}

fn name_of(member: &Member) -> Cell {
    match (member.id, member.name.as_str()) {
        (None, _) => "unknown".into(),
        (_, "") => Cell::None,
        (_, name) => name.into(),
    }
}

fn id_of(member: &Member) -> Cell {
    member.id.map(|id| format!("{id:#018x}")).into()
}

fn member_row(member: &Member, counts: Counts, trace: &Trace) -> Vec<Cell> {
    let last = |number: usize| number.checked_sub(1).map(|at| member.described(at));
    let file = trace.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    vec![
        name_of(member),
        id_of(member),
        number(member.rank),
        member.job_rank.map_or(Cell::None, Cell::Number),
        Cell::Number(member.pid.into()),
        if member.ranks > 0 { Cell::Count(member.ranks.into()) } else { Cell::None },
        Cell::Count(counts.begun as u64),
        Cell::Count(counts.finished as u64),
        last(counts.last_begun).into(),
        last(counts.last_finished).into(),
        file.into(),
    ]
}

fn number(rank: Option<i32>) -> Cell {
    rank.and_then(|rank| u64::try_from(rank).ok()).map_or(Cell::None, Cell::Number)
}

impl Collectives<'_> {
    fn row(&self, at: usize, timed: &ByCall) -> Vec<Cell> {
        let operation = &self.found.operations[at];
        let member = &self.found.members[operation.member];
        let Kind { function, bytes, datatype, root } = &member.kinds[operation.kind];
        let time = |stamp: u64| self.trace.nanoseconds(stamp);
        let call = match self.launches[at] {
            Launch::None => None,
            Launch::Captured(call) | Launch::Put(call) => Some(call),
        };
        let works = || call.into_iter().flat_map(|call| timed.call(call));
        let (from, to) = (works().map(|work| work.about.start).min(), works().map(|work| work.about.end).max());
        let shown = |time: Option<i64>| time.map_or(Cell::None, Cell::Time);
        vec![
            name_of(member),
            id_of(member),
            number(member.rank),
            member.job_rank.map_or(Cell::None, Cell::Number),
            Cell::Number(member.pid.into()),
            Cell::Number(operation.number),
            function.clone().into(),
            bytes.map_or(Cell::None, Cell::Bytes),
            number(operation.peer),
            number(*root),
            Cell::Time(time(operation.begin)),
            shown(operation.end.map(time)),
            call.map_or(Cell::None, Cell::Number),
            shown(from),
            shown(to),
            shown(self.finished[at]),
            self.state(at).into(),
            datatype.clone().into(),
            operation.way.clone().into(),
        ]
    }
}

/// By communicator; operations with the latest first, and what all ranks have of one beside each other.
fn sort(rows: &mut [Vec<Cell>]) {
    let mut communicators: HashMap<String, usize> = HashMap::new();
    let mut first_met = |of: &Cell| {
        let next = communicators.len();
        *communicators.entry(format!("{of:?}")).or_insert(next)
    };
    let of = |cell: &Cell| match cell {
        Cell::Number(number) => Some(*number),
        _ => None,
    };
    // One operation: its communicator and number, and of a transfer both its ranks.
    let one = |row: &Vec<Cell>| {
        let peer = Some(row).filter(|row| row.len() == OPERATIONS.columns.len()).and_then(|row| of(&row[PEER_AT]));
        let ranks = peer
            .map(|peer| [Some(peer), of(&row[RANK_AT])])
            .map(|ranks| (ranks.iter().min().copied(), ranks.iter().max().copied()));
        (format!("{:?}", row[ID_AT]), ranks, of(&row[NUMBER_AT]))
    };
    let mut latest = HashMap::new();
    for row in rows.iter().filter(|row| row.len() == OPERATIONS.columns.len()) {
        if let Cell::Time(begin) = row[TIMES_AT[0]] {
            latest.entry(one(row)).and_modify(|last: &mut i64| *last = begin.max(*last)).or_insert(begin);
        }
    }
    rows.sort_by_cached_key(|row| {
        let one = one(row);
        let began = latest.get(&one).copied();
        (first_met(&row[ID_AT]), Reverse(began), one.1, Reverse(one.2), of(&row[RANK_AT]), of(&row[PID_AT]))
    });
}

/// `is_everything`: whether no operation is left out. `is_job`: whether all of the job's traces are at hand.
fn notes(members: &[Member], is_everything: bool, is_job: bool) -> Vec<String> {
    const BY_NAMES: &str = "NCCL reported no operations (NCCL_PROFILER_PLUGIN): all NCCL kernels of a process \
                            count as one communicator, and their names stand for operations";
    let of_group = |group: Group| {
        let missing = group.missing().filter(|_| is_job).map(|note| format!("{}: {note}", group.name()));
        group.notes().into_iter().chain(missing).collect::<Vec<_>>()
    };
    const SELECTED: &str = "the counts follow the selection; which rank is behind is found from all operations, without --calls, \
                            --window, --thread and --grep";
    const NONE: &str = "no NCCL activity: it reported no communicator, and no NCCL kernel was launched";
    let by_names = match members {
        [] => Some(NONE.to_owned()),
        _ => members.iter().any(|member| member.id.is_none()).then(|| BY_NAMES.to_owned()),
    };
    let compared = groups(members).into_iter().filter(|_| is_everything).flat_map(of_group);
    let selected = (!is_everything && !members.is_empty()).then(|| SELECTED.to_owned());
    compared.chain(by_names).chain(selected).collect()
}

/// The tables of several traces in one of each kind; their times are of one clock, by which `later` is when a
/// trace starts. `is_everything`: as for [`notes`].
pub(crate) fn merge<'t>(
    all: impl IntoIterator<Item = (&'t Trace, Vec<Table>)>,
    later: impl Fn(&Trace) -> u64,
    is_everything: bool,
) -> Vec<Table> {
    let (mut members, mut operations) = (Table::new(MEMBERS), Table::new(OPERATIONS));
    let (mut of_all, mut hosts) = (Vec::new(), HashSet::new());
    for (trace, tables) in all {
        let later = i64::try_from(later(trace)).unwrap_or(i64::MAX);
        hosts.insert(&*trace.preamble.host);
        let Ok([told, done]) = <[Table; 2]>::try_from(tables) else { continue };
        for (mut member, row) in collectives_of(trace).members.into_iter().zip(told.rows) {
            if let Cell::Count(finished) = row[FINISHED_AT] {
                member.unfinished = Some(finished as usize);
            }
            of_all.push(member);
            members.rows.push(row);
        }
        operations.rows.extend(done.rows.into_iter().map(|mut row| {
            for at in TIMES_AT {
                if let Cell::Time(time) = &mut row[at] {
                    *time = time.saturating_add(later);
                }
            }
            row
        }));
    }
    sort(&mut members.rows);
    sort(&mut operations.rows);
    members.notes = notes(&of_all, is_everything, true);
    if hosts.len() > 1 {
        operations.note("each host has its own clock: times of different hosts are aligned by the time of day");
    }
    vec![members, operations]
}
