//! `cutrace dump`: one line a call.

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
/// A line holds the call's number, seconds since the start of the trace, the thread, the function with its
/// arguments by name, what it wrote behind the arrow, its result and how long it took. An ampersand stands
/// for memory that the call fills. Annotations by NVTX, what NCCL told of itself and what the CPU wrote
/// without a call stand between the calls, and below a call what a device did for it, if a replay has
/// measured that (replay --profile) or the recording (record --gpu-times). Handles are named by kind and
/// number (ctx#1, stream#3), addresses by the allocation they lie in (mem#2+0x40).
///
/// --grep is matched against function names and, for launches, "FUNCTION KERNEL", with the kernel's name as
/// recorded or as reports show it; and against the lines of NVTX and NCCL.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cutrace dump --calls ..20              the first 20 calls of trace.bin
  cutrace dump --window 1.5s..1.6s       what began in that tenth of a second
  cutrace dump app.bin --grep Launch     the launches, with kernel names and arguments
  cutrace dump run/ --rank 3             of a job the calls of one process
  cutrace dump --grep '^cuLaunch.* gemm' those of kernels with gemm in their names
  cutrace dump --json | jq -r 'select(.kind == \"call\").function'
                                         one object a line, behind one about the trace
  cutrace report -r errors               the calls that failed

Exit status:
  0 done
  1 a thread cannot be started
  2 usage
  3 the trace cannot be read, or not all of it; or a directory lacks one")]
pub struct Arguments {
    #[command(flatten)]
    file: File,
    #[command(flatten)]
    among: Among,
    #[command(flatten)]
    pub reading: Reading,
    /// Of what the CPU wrote without a call, every range with what it holds, rather than how many there are
    #[arg(long)]
    writes: bool,
}

pub fn run(mut arguments: Arguments) -> Result<u8> {
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
