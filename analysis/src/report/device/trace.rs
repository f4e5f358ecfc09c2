//! `cuda_gpu_trace`: all device work, with the columns of Nsight Systems. It is written as it is read.

use super::{Scope, further};
use crate::calls::streams::Streams;
use crate::error::Result;
use crate::filter::progress::Progress;
use crate::tables::render::Output;
use crate::tables::table::{Cell, Head, Layout, same};
use std::io::Write;
use trace::file::record::timed;
use trace::read::device_times::{known_number, memory_kind};

const HEAD: Head = Head {
    report: "cuda_gpu_trace",
    part: "",
    title: "CUDA GPU Trace (cuda_gpu_trace)",
    columns: &[
        same("Start (ns)"),
        same("Duration (ns)"),
        same("CorrId"),
        same("GrdX"),
        same("GrdY"),
        same("GrdZ"),
        same("BlkX"),
        same("BlkY"),
        same("BlkZ"),
        same("Reg/Trd"),
        same("StcSMem (MB)"),
        same("DymSMem (MB)"),
        same("Bytes (MB)"),
        same("Throughput (MB/s)"),
        same("SrcMemKd"),
        same("DstMemKd"),
        same("Device"),
        same("Ctx"),
        same("GreenCtx"),
        same("Strm"),
        same("Name"),
    ],
    layout: Layout::Grid,
};

/// Rows come one by one, so these are guesses.
const WIDTHS: [usize; 21] = [14, 13, 7, 5, 4, 4, 4, 4, 4, 7, 12, 12, 10, 17, 8, 8, 20, 3, 8, 4, 20];

pub(crate) fn write(
    scope: &Scope,
    limit: u64,
    out: &mut Output<impl Write>,
    progress: &mut dyn Progress,
) -> Result<()> {
    out.begin(HEAD, WIDTHS.to_vec())?;
    let devices = scope.trace.profile.iter().flat_map(|profile| &profile.devices);
    let devices: Vec<(u32, String)> = devices.map(|(at, name)| (*at, format!("{name} ({at})"))).collect();
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut works = scope.works();
    for work in works.by_ref().take(limit).take_while(|_| !progress.is_unread()) {
        let about = &work.about;
        let number = |number: u32| Cell::from(known_number(number).map(|number| Cell::Number(number.into())));
        let megabytes = |bytes: u32| Cell::from(known_number(bytes).map(|bytes| Cell::Fine(f64::from(bytes) / 1e6)));
        let memory = |kind: u8| match (about.what, memory_kind(kind)) {
            (timed::COPY | timed::FILL, kind) if !kind.is_empty() => Cell::from(kind),
            _ => Cell::None,
        };
        let moved = matches!(about.what, timed::COPY | timed::FILL).then_some(about.bytes as f64 / 1e6);
        let seconds = work.duration().max(1) as f64 / 1e9;
        let [gx, gy, gz] = about.grid.map(number);
        let [bx, by, bz] = about.block.map(number);
        let device = devices.iter().find(|(ordinal, _)| *ordinal == about.device);
        out.row(&[
            Cell::Nanoseconds(about.start),
            Cell::Nanoseconds(work.duration()),
            work.call.map(Cell::Number).into(),
            gx,
            gy,
            gz,
            bx,
            by,
            bz,
            number(about.registers),
            megabytes(about.static_shared),
            megabytes(about.dynamic_shared),
            moved.map(Cell::Fine).into(),
            moved.map(|moved| Cell::Fine(moved / seconds)).into(),
            memory(about.from),
            memory(about.to),
            device.map_or_else(|| number(about.device), |(_, name)| name.as_str().into()),
            number(about.context),
            Cell::None,
            number(about.stream),
            scope.name(&work).into(),
        ])?;
    }
    let mut notes: Vec<String> = further(works, progress).into_iter().collect();
    notes.extend(scope.notes());
    notes.push("CorrId is the call number, as in cutrace dump; Start is on the replay's clock".into());
    notes.extend(Streams::from_trace(scope.trace).note());
    out.end(&notes)
}
