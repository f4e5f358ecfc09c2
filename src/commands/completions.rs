//! `cutrace completions`: completion scripts for shells.

use crate::terminal::standard_output::Results;
use anyhow::Result;
use clap::Command;
use std::io::Write;

/// Print a completion script for a shell
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cutrace completions bash > /etc/bash_completion.d/cutrace
  cutrace completions zsh > ~/.zfunc/_cutrace")]
pub(crate) struct Arguments {
    shell: clap_complete::Shell,
}

/// `command`: the whole of `cutrace`.
pub(crate) fn run(arguments: Arguments, mut command: Command) -> Result<u8> {
    // Into memory first: the generator panics on a pipe that is closed.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "cutrace", &mut script);
    Results::begin().write_all(&script)?;
    Ok(crate::terminal::exit::DONE)
}
