//! `cuda_kern_exec_sum` and `cuda_kern_exec_trace`: the call that launches, the wait for the device, the
//! kernel, with the columns of Nsight Systems. All three times are the replay's.

use super::{Scope, further, os_id, xyz};
use crate::error::Result;
use crate::filter::progress::Progress;
use crate::tables::durations::Durations;
use crate::tables::render::Output;
use crate::tables::table::{Cell, Head, Layout, Table, same};
use std::collections::HashMap;
use std::io::Write;
use trace::read::device_times::{Work, known_number};

const SUM: Head = Head {
    report: "cuda_kern_exec_sum",
    part: "",
    title: "CUDA Kernel Launch & Exec Time Summary (cuda_kern_exec_sum)",
    columns: &[
        same("PID"),
        same("TID"),
        same("DevId"),
        same("Count"),
        same("QCount"),
        same("TAvg (ns)"),
        same("TMed (ns)"),
        same("TMin (ns)"),
        same("TMax (ns)"),
        same("TStdDev (ns)"),
        same("AAvg (ns)"),
        same("AMed (ns)"),
        same("AMin (ns)"),
        same("AMax (ns)"),
        same("AStdDev (ns)"),
        same("QAvg (ns)"),
        same("QMed (ns)"),
        same("QMin (ns)"),
        same("QMax (ns)"),
        same("QStdDev (ns)"),
        same("KAvg (ns)"),
        same("KMed (ns)"),
        same("KMin (ns)"),
        same("KMax (ns)"),
        same("KStdDev (ns)"),
        same("API Function"),
        same("Kernel Name"),
    ],
    layout: Layout::Grid,
};

const TRACE: Head = Head {
    report: "cuda_kern_exec_trace",
    part: "",
    title: "CUDA Kernel Launch & Exec Time Trace (cuda_kern_exec_trace)",
    columns: &[
        same("API Start (ns)"),
        same("API Dur (ns)"),
        same("Queue Start (ns)"),
        same("Queue Dur (ns)"),
        same("Kernel Start (ns)"),
        same("Kernel Dur (ns)"),
        same("Total Dur (ns)"),
        same("PID"),
        same("TID"),
        same("DevId"),
        same("API Function"),
        same("GridXYZ"),
        same("BlockXYZ"),
        same("Kernel Name"),
    ],
    layout: Layout::Grid,
};

/// Rows come one by one, so these are guesses.
const WIDTHS: [usize; 14] = [14, 12, 16, 14, 17, 15, 14, 8, 8, 5, 20, 14, 14, 20];

/// Of one kernel.
struct Parts {
    call: i64,
    /// From the call's return to the kernel's start; none if it began before.
    queue: Option<i64>,
    kernel: i64,
    whole: i64,
}

impl Parts {
    fn from_work(work: &Work) -> Parts {
        let about = &work.about;
        Parts {
            call: (about.returned - about.submitted).max(0),
            queue: Some(about.start - about.returned).filter(|ns| *ns > 0),
            kernel: work.duration(),
            whole: (about.end - about.submitted).max(0),
        }
    }
}

#[derive(Default)]
struct Group {
    call: Durations,
    queue: Durations,
    kernel: Durations,
    whole: Durations,
}

fn function<'t>(scope: &Scope<'t>, work: &Work) -> &'t str {
    work.call.and_then(|call| scope.trace.call(call)).map_or("", |call| call.name())
}

pub(crate) fn sum(scope: &Scope) -> Vec<Table> {
    let mut groups: HashMap<(u32, u32, &str, String), Group> = HashMap::new();
    for work in scope.works().filter(Work::is_kernel) {
        let key = (work.about.thread, work.about.device, function(scope, &work), scope.name(&work));
        let (group, parts) = (groups.entry(key).or_default(), Parts::from_work(&work));
        group.call.add(parts.call);
        parts.queue.into_iter().for_each(|ns| group.queue.add(ns));
        group.kernel.add(parts.kernel);
        group.whole.add(parts.whole);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by(|(a, one), (b, other)| other.whole.sum.cmp(&one.whole.sum).then_with(|| a.cmp(b)));
    let mut table = Table::new(SUM);
    for ((thread, device, function, kernel), group) in groups {
        let mut row = vec![
            Cell::Number(scope.trace.preamble.pid.into()),
            os_id(scope.trace, thread),
            known_number(device).map(|device| Cell::Number(device.into())).into(),
            Cell::Count(group.whole.count),
            Cell::Count(group.queue.count),
        ];
        for durations in [&group.whole, &group.call, &group.queue, &group.kernel] {
            let figures = durations.figures();
            row.extend(match durations.count {
                0 => [const { Cell::None }; 5],
                _ => [
                    Cell::Real(figures.average),
                    Cell::Real(figures.median),
                    Cell::Nanoseconds(figures.min),
                    Cell::Nanoseconds(figures.max),
                    Cell::Real(figures.deviation),
                ],
            });
        }
        row.extend([function.into(), kernel.into()]);
        table.row(row);
    }
    table.notes = scope.notes();
    vec![table]
}

pub(crate) fn write(
    scope: &Scope,
    limit: u64,
    out: &mut Output<impl Write>,
    progress: &mut dyn Progress,
) -> Result<()> {
    out.begin(TRACE, WIDTHS.to_vec())?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut works = scope.works().filter(Work::is_kernel);
    for work in works.by_ref().take(limit).take_while(|_| !progress.is_unread()) {
        let (about, parts) = (&work.about, Parts::from_work(&work));
        out.row(&[
            Cell::Nanoseconds(about.submitted),
            Cell::Nanoseconds(parts.call),
            parts.queue.map(|_| Cell::Nanoseconds(about.returned)).into(),
            parts.queue.map(Cell::Nanoseconds).into(),
            Cell::Nanoseconds(about.start),
            Cell::Nanoseconds(parts.kernel),
            Cell::Nanoseconds(parts.whole),
            Cell::Number(scope.trace.preamble.pid.into()),
            os_id(scope.trace, about.thread),
            known_number(about.device).map(|device| Cell::Number(device.into())).into(),
            function(scope, &work).into(),
            xyz(about.grid),
            xyz(about.block),
            scope.name(&work).into(),
        ])?;
    }
    let mut notes: Vec<String> = further(works, progress).into_iter().collect();
    notes.extend(scope.notes());
    notes.push("calls and kernels are those of the replay".into());
    out.end(&notes)
}
