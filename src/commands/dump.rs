//! `cutrace dump`: one line per call.

mod blocks;

use crate::arguments::input::File;
use crate::arguments::rank_filter::Among;
use crate::arguments::reading::Reading;
use crate::terminal::exit;
use crate::terminal::standard_output::{self, Results};
use analysis::calls::line;
use analysis::text::json;
use anyhow::Result;
use std::io::{BufWriter, Write};

/// Print the calls, one line each
///
/// A line has the call number, seconds since the start of the trace, the thread, the function with its named
/// arguments, its outputs after the arrow, its result and its duration. An ampersand marks memory that the
/// call fills. Lines of NVTX annotations, NCCL events and CPU writes appear between the calls; device work
/// appears below its call if the trace has device times (replay --profile, record --gpu-times). Handles have
/// a kind and a number (ctx#1, stream#3), addresses the allocation and an offset (mem#2+0x40).
///
/// --grep matches function names and, for launches, "FUNCTION KERNEL", with the kernel's name as recorded or
/// as reports show it; and the lines of NVTX and NCCL.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cutrace dump --calls ..20              the first 20 calls of trace.bin
  cutrace dump --window 1.5s..1.6s       calls that begin in this tenth of a second
  cutrace dump app.bin --grep Launch     launches, with kernel names and arguments
  cutrace dump run/ --rank 3             calls of one rank of a job
  cutrace dump --grep '^cuLaunch.* gemm' launches of kernels with gemm in their names
  cutrace dump --json | jq -r 'select(.kind == \"call\").function'
                                         one JSON object a line; the first describes the trace
  cutrace report -r errors               the failed calls

Exit status:
  0 done
  1 a thread cannot be started
  2 usage
  3 a trace is missing, or cannot be read completely")]
pub(crate) struct Arguments {
    #[command(flatten)]
    file: File,
    #[command(flatten)]
    among: Among,
    #[command(flatten)]
    pub reading: Reading,
    /// List every range of CPU writes with its contents, instead of their number
    #[arg(long)]
    writes: bool,
}

pub(crate) fn run(mut arguments: Arguments) -> Result<u8> {
    arguments.file.find()?;
    let status = arguments.file.choose(&arguments.among)?;
    let trace = arguments.file.open()?;
    let mut out = BufWriter::with_capacity(1 << 16, Results::begin());
    if arguments.reading.json {
        // Calls that are not there are told before anything is written.
        let _are_there = arguments.reading.selection.test(&trace)?;
        writeln!(out, "{}", json::text(&line::header(&trace))?)?;
    }
    let (mut left, mut missing) = (arguments.reading.selection.limit.unwrap_or(u64::MAX), 0);
    blocks::each(&trace, &arguments, |block| {
        let told = block.told.get(..left.min(usize::MAX as u64) as usize).unwrap_or(&block.told);
        let bytes = if told.len() < block.told.len() || left == 0 {
            told.last().map_or(0, |last| last.end)
        } else {
            block.bytes.len()
        };
        out.write_all(&block.bytes[..bytes])?;
        missing += told.iter().map(|told| told.missing).sum::<u64>();
        left -= told.len() as u64;
        Ok(left > 0 && !standard_output::are_unread())
    })?;
    out.flush()?;
    Ok(status.max(exit::damage(&trace, missing)))
}
