//! `cutrace man`: manual pages for man(1).

use crate::terminal::exit::{FAILED, failure};
use crate::terminal::standard_output::Results;
use anyhow::{Context, Result};
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Write man pages, one for each command
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cutrace man ~/.local/share/man/man1           then: man cutrace-record")]
pub(crate) struct Arguments {
    /// The output directory; created if missing
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
    /// Replace existing files with other contents
    #[arg(long)]
    force: bool,
    /// Print the written files as JSON
    #[arg(long)]
    pub json: bool,
}

/// `command`: the whole of `cutrace`.
pub(crate) fn run(arguments: Arguments, command: Command) -> Result<u8> {
    let Arguments { directory, force, json } = arguments;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
    let all = command.get_subcommands().chain([&command]);
    let pages = all.map(|command| page(command, &directory)).collect::<io::Result<Vec<(PathBuf, Vec<u8>)>>>()?;
    let is_other = |(path, page): &&(PathBuf, Vec<u8>)| path.exists() && fs::read(path).ok().as_ref() != Some(page);
    if let Some((path, _)) = pages.iter().find(is_other).filter(|_| !force) {
        return Err(failure(FAILED, format_args!("{} exists already; --force replaces it", path.display())));
    }
    pages.iter().try_for_each(|(path, page)| fs::write(path, page).with_context(|| path.display().to_string()))?;
    if json {
        let written: Vec<&PathBuf> = pages.iter().map(|(path, _)| path).collect();
        writeln!(
            Results::begin(),
            "{}",
            analysis::text::json::text(&serde_json::json!({ "schema": 1, "files": written }))?
        )?;
    }
    Ok(crate::terminal::exit::DONE)
}

/// The file, and what goes into it.
fn page(command: &Command, directory: &Path) -> io::Result<(PathBuf, Vec<u8>)> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let notes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let man = Man::new(command.clone().after_help(None)).source(concat!("cutrace ", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    notes.split("\n\n").filter(|part| !part.is_empty()).try_for_each(|part| section(part, &mut page))?;
    Ok((directory.join(format!("{name}.1")), page))
}

/// What stands behind the options, `Examples:` and the like, line by line.
fn section(part: &str, page: &mut Vec<u8>) -> io::Result<()> {
    let (heading, text) = part.split_once(':').unwrap_or(("Notes", part));
    // `Environment (read by ...):`
    let (heading, aside) = heading.split_once('(').unwrap_or((heading, ""));
    let mut section = Roff::new();
    section.control("SH", [heading.trim().to_uppercase().as_str()]);
    if let Some(aside) = aside.strip_suffix(')') {
        section.text([roman(format!("These are {}.", aside.replace('\n', " ")))]);
    }
    section.control("nf", []);
    for line in text.strip_prefix('\n').unwrap_or(text.trim_start()).lines() {
        section.text([roman(line)]);
    }
    section.control("fi", []);
    page.write_all(section.to_roff().as_bytes())
}
