//! `cutrace demo`: a first recording and replay, with a program of our own.

use crate::driver::calls::sample::{self, Sample};
use crate::process::signals;
use crate::terminal::color;
use crate::terminal::exit::{DONE, FAILED, failure};
use crate::terminal::standard_output::Results;
use anyhow::{Context, Result};
use std::env;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Record a small program and show info, replay, report and view of its trace
///
/// Needs no GPU: the simulated driver interprets the program's kernel. Each command is printed before it
/// runs, so that you can try it by hand.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cutrace demo                  takes seconds, leaves no files
  cutrace demo -o demo.bin      save the trace
  cutrace demo --gpu            use this machine's GPU
  cutrace record --driver sim -- cutrace demo --sample fault
                                record a sample program of docs/tutorial.md

Exit status: 0 all commands worked, else the status of the command that failed.")]
pub(crate) struct Arguments {
    /// Save the trace under this name
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Use this machine's driver instead of the simulated one
    #[arg(long)]
    gpu: bool,
    /// Only run the sample program NAME, to be recorded [default: steps]
    #[arg(long, exclusive = true, value_name = "NAME", num_args = 0..=1, default_missing_value = "steps")]
    sample: Option<Sample>,
}

pub(crate) fn run(arguments: Arguments) -> Result<u8> {
    if let Some(sample) = arguments.sample {
        writeln!(
            Results::begin(),
            "{}",
            sample::run(sample).map_err(|why| failure(FAILED, format!("sample: {why}")))?
        )?;
        return Ok(DONE);
    }
    let directory = tempfile::Builder::new()
        .prefix("cutrace-demo-")
        .tempdir()
        .with_context(|| crate::commands::session::temporary("directory"))?;
    let kept = arguments.output.map(|path| std::path::absolute(&path).unwrap_or(path));
    // A recording would take another name, and what is there be shown as its trace.
    if let Some(path) = kept.as_deref().filter(|path| path.exists()) {
        return Err(failure(FAILED, format_args!("{}: exists already; choose a new file name", path.display())));
    }
    let trace = kept.as_deref().map_or("trace.bin".into(), |path| path.to_string_lossy());
    let driver: &[&str] = if arguments.gpu { &[] } else { &["--driver", "sim"] };
    let record = [&["record"], driver, &["-o", &trace, "--", "cutrace", "demo", "--sample"]].concat();
    let steps: [(&str, &[&str]); 5] = [
        ("record every driver call of a program", &record),
        ("show what was recorded, and whether it can be replayed", &["info", &trace]),
        ("replay the calls and compare results and copied data", &["replay", &trace]),
        ("report time, memory and findings", &["report", &trace]),
        (
            "show the timeline (interactive without --once)",
            &["view", "--once", "--size", "100x22", "--at", "10", &trace],
        ),
    ];
    for (what, arguments) in steps {
        let status = step(what, arguments, directory.path())?;
        if status != DONE {
            return Ok(status);
        }
    }
    let mut out = Results::begin();
    match &kept {
        Some(path) => writeln!(out, "\nThe trace is {}. Next: cutrace view {0}", path.display())?,
        None => writeln!(out, "\nDemo files removed. Next: cutrace record ./app, then cutrace view")?,
    }
    Ok(DONE)
}

/// Shows a command and runs it, in this directory.
fn step(what: &str, arguments: &[&str], directory: &Path) -> Result<u8> {
    let shown = arguments.join(" ");
    let mut out = Results::begin();
    match color::is_wanted() {
        true => writeln!(out, "\n\x1b[1m$ cutrace {shown}\x1b[0m\n\x1b[2m# {what}\x1b[0m")?,
        false => writeln!(out, "\n$ cutrace {shown}\n# {what}")?,
    }
    out.flush()?;
    drop(out);
    let program = env::current_exe().context("the path of cutrace")?;
    let mut command = Command::new(&program);
    for argument in arguments {
        // What PATH has by this name may be another one.
        if *argument == "cutrace" {
            command.arg(&program)
        } else {
            command.arg(argument)
        };
    }
    command.arg0("cutrace").current_dir(directory);
    // What recordings and replays are asked for here is not meant for this one.
    let ours = |name: &str| {
        name.starts_with("CUTRACE_") && !matches!(name, "CUTRACE_SHIM" | "CUTRACE_SIM" | "CUTRACE_LIBCUDA")
    };
    env::vars_os().filter(|(name, _)| name.to_str().is_some_and(ours)).for_each(|(name, _)| {
        command.env_remove(name);
    });
    let (_, status) = signals::run(&mut command).context(program.display().to_string())?;
    Ok(status.code().map_or(FAILED, |code| code as u8))
}
