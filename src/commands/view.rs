//! `cutrace view`: shows the timeline in the terminal.

use crate::arguments::input::{Chosen, Files};
use crate::terminal::exit::{self, USAGE, damage, failure};
use crate::terminal::standard_output::Results;
use analysis::filter::selection::moment;
use analysis::job::time_axis::Process;
use analysis::report::findings::find;
use analysis::text::numbers::time;
use anyhow::Result;
use clap::{Args, ColorChoice, ValueEnum};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use trace::Trace;
use viewer::app::{Error, Options, keep_index, name_objects, once, open, printed, run as show};
use viewer::config;
use viewer::data::job::{Spec, Specs};
use viewer::state::arrange::Step;
use viewer::state::command::PrintedFrame;
use viewer::state::filter::Filter;
use viewer::state::parts::tab::Tab;

/// Show a trace in the terminal: timeline, calls, tables and findings
///
/// Rows show threads with their calls and NVTX ranges, and streams with their work: device times if the trace
/// has them (replay --profile, record --gpu-times), else, hatched, from the submission to the wait after
/// which the work was known to be complete. If stdout is no terminal, the tables are printed. An index next
/// to the trace (FILE.idx, or in the cache directory) makes the next start immediate; it can be deleted. Two
/// traces are compared call by call, in order. The processes of a directory share one time axis, with NCCL
/// operations and lines that connect the ranks of the collective at the cursor; tables show the process that
/// began first.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cutrace view                           the latest trace here; ? shows the keys
  cutrace view app.bin --at 1234         start at call 1234 (or 1.5s, or 50%)
  cutrace view a.bin b.bin               compare two traces
  cutrace view run/ --rank 0-3           ranks of a job on one time axis
  cutrace view --once --size 120x40      print one frame as text
  cutrace view | less                    print the tables

Exit status:
  0 done
  2 usage
  3 a trace is missing, or cannot be read completely")]
pub(crate) struct Arguments {
    #[command(flatten)]
    files: Files,
    /// Start at a call (1234), a time (1.5s, 20ms) or a percentage (50%)
    #[arg(long, value_name = "PLACE", value_parser = place)]
    at: Option<String>,
    /// Start with this view: timeline, events, kernels, api, copies, modules, findings, ranges, objects or
    /// marks
    #[arg(long, value_name = "VIEW", value_parser = view)]
    view: Option<Tab>,
    /// Start with this time window: 1.5ms..2ms
    #[arg(long, value_name = "FROM..TO", value_parser = window)]
    window: Option<(u64, u64)>,
    /// Start at row N, from 0
    #[arg(long, hide_short_help = true, value_name = "N")]
    row: Option<usize>,
    /// Start with this filter: REGEX, failed, >10us, is:copy, t0 (? lists all)
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,
    /// Hide filtered-out events instead of dimming them
    #[arg(long, requires = "filter")]
    hide: bool,
    /// Start with this time window selected
    #[arg(long, hide_short_help = true, value_name = "FROM..TO", value_parser = window)]
    select: Option<(u64, u64)>,
    /// Sort the table by this column; -COLUMN reverses the order
    #[arg(long, hide_short_help = true, value_name = "COLUMN", requires = "view", allow_hyphen_values = true)]
    sort: Option<String>,
    /// Arrange rows: fold:N, unfold:N, up:N, down:N, pin:N or hide:N; N is the number of a row, from 0, as it is
    /// without this option
    #[arg(long, hide_short_help = true, value_name = "STEP:ROW", value_delimiter = ',')]
    arrange: Vec<Step>,
    /// Start without the details panel
    #[arg(long, hide_short_help = true)]
    no_details: bool,
    /// Go from the call of --at to its device work
    #[arg(long, hide_short_help = true, requires = "at")]
    follow: bool,
    /// Print one frame as text and exit; --color always keeps its colours
    #[arg(long)]
    once: bool,
    /// Size of that frame, COLUMNSxROWS
    #[arg(long, value_name = "WIDTHxHEIGHT", default_value = "120x40", requires = "once")]
    size: Size,
    /// Neither read nor write an index file
    #[arg(long, hide_short_help = true)]
    no_index: bool,
    /// Do not capture the mouse
    #[arg(long, hide_short_help = true)]
    no_mouse: bool,
    /// Draw with ASCII only
    #[arg(long)]
    ascii: bool,
    /// Colours for a light or a dark background
    #[arg(long, hide_short_help = true, value_name = "THEME")]
    theme: Option<Background>,
    /// When to use colour: auto follows the terminal and NO_COLOR
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
}

impl Arguments {
    pub(crate) fn is_once(&self) -> bool {
        self.once
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Background {
    Light,
    Dark,
}

/// Of a frame, in cells.
#[derive(Clone, Copy)]
struct Size(u16, u16);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let wrong = || format!("{text:?} is not a size; expected COLUMNSxROWS from 1x1 to 1000x1000, such as 120x40");
        let (width, height) = text.split_once('x').ok_or_else(wrong)?;
        match (width.parse(), height.parse()) {
            (Ok(width @ 1..=1000), Ok(height @ 1..=1000)) => Ok(Size(width, height)),
            _ => Err(wrong()),
        }
    }
}

fn view(text: &str) -> Result<Tab, String> {
    let known = || Tab::ALL.iter().map(|tab| tab.name()).collect::<Vec<_>>().join(", ");
    Tab::by_name(text).ok_or_else(|| format!("expected one of {}", known()))
}

fn window(text: &str) -> Result<(u64, u64), String> {
    let (from, to) = text.split_once("..").ok_or("expected a window such as 1.5ms..2ms")?;
    let (from, to) = (moment(from)?, moment(to)?);
    if from < to { Ok((from, to)) } else { Err("the window ends before it begins".into()) }
}

/// What the viewer can go to.
fn place(text: &str) -> Result<String, String> {
    let trimmed = text.trim();
    let share = |text: &str| text.trim().parse::<f64>().is_ok_and(|share| (0.0..=100.0).contains(&share));
    let is_place = trimmed.replace(['_', ','], "").parse::<u64>().is_ok()
        || trimmed.strip_suffix('%').map_or_else(|| time(trimmed).is_ok(), share);
    is_place
        .then(|| text.to_owned())
        .ok_or_else(|| "expected a call (1234), a time (1.5s, 20ms) or a share (50%)".into())
}

const TOO_MANY: &str = "view takes one trace, two to compare, or one directory; cutrace info FILE... lists processes, \
                        and cutrace report FILE... has a page for each";

/// The processes of a job, the one that began first before the others.
fn specs(directory: &Path, paths: &[PathBuf], status: &mut u8) -> Result<Specs> {
    let traces = paths.iter().map(Trace::open).collect::<Result<Vec<_>, _>>()?;
    *status = traces.iter().map(|trace| damage(trace, 0)).fold(*status, u8::max);
    let mut all: Vec<Spec> = Process::all(&traces)
        .iter()
        .zip(paths)
        .map(|(process, path)| {
            let rank = process.rank().map(|rank| format!("rank {rank}"));
            let label = rank.unwrap_or_else(|| format!("process {}", process.trace.preamble.pid));
            Spec { path: path.clone(), label, shift: process.nanoseconds(0) - process.trace.nanoseconds(0) }
        })
        .collect();
    let first = all.iter().enumerate().min_by_key(|(_, spec)| spec.shift).map_or(0, |(at, _)| at);
    all[..=first].rotate_right(1);
    Ok(Specs { directory: directory.to_path_buf(), all })
}

pub(crate) fn run(arguments: Arguments) -> Result<u8> {
    let Chosen { paths, named, directory, mut status, .. } = arguments.files.chosen()?;
    // Also where fewer can be read: what is shown follows from what is named.
    if named > 2 && directory.is_none() {
        return Err(failure(USAGE, TOO_MANY));
    }
    let directory = directory.filter(|_| paths.len() > 1);
    let job = directory.as_deref().map(|directory| specs(directory, &paths, &mut status)).transpose()?;
    let (first, second) = match (&paths[..], &job) {
        (_, Some(job)) => (job.all[0].path.clone(), None),
        ([first], _) => (first.clone(), None),
        ([first, second], _) => (first.clone(), Some(second.clone())),
        _ => return Err(failure(USAGE, TOO_MANY)),
    };
    let mut config = config::load().map_err(|error| failure(USAGE, error))?;
    config.ascii = arguments.ascii.then_some(true).or(config.ascii);
    config.light = arguments.theme.map(|theme| matches!(theme, Background::Light)).or(config.light);
    config.mouse = arguments.no_mouse.then_some(false).or(config.mouse);
    let paints = matches!(arguments.color, ColorChoice::Always);
    let colored = match arguments.color {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
    };
    let is_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if is_terminal && colored && !arguments.once && config.light.is_none() {
        config.light = config::ask_terminal();
    }
    let theme = config::theme(&config, colored);
    let Arguments { view, window, row, follow, filter, hide, select, sort, no_details, arrange, .. } = arguments;
    let shown = PrintedFrame {
        view,
        window,
        row,
        place: arguments.at,
        follow,
        filter,
        hide,
        select,
        sort,
        no_details,
        arrange,
    };
    let say = |text: &str| exit::say(text);
    let options = Options { theme, config, index: !arguments.no_index, second, job, find, shown, say };
    if arguments.once || !is_terminal {
        let opened = open(&first, &options).map_err(explained)?;
        if let Some(text) = &options.shown.filter {
            name_objects(&opened);
            Filter::new(text, &opened).map_err(|why| failure(USAGE, format_args!("--filter {text:?}: {why}")))?;
        }
        keep_index(&opened, &options);
        if options.job.is_none() {
            status = status.max(damage(&opened.trace, 0));
        }
        let (text, beyond) = match arguments.once {
            true => once(opened, &options, (arguments.size.0, arguments.size.1), paints),
            false => printed(opened, &options),
        };
        if let Some(beyond) = beyond {
            return Err(failure(USAGE, beyond));
        }
        let mut out = Results::begin();
        out.write_all(text.as_bytes())?;
        out.flush()?;
        return Ok(status);
    }
    match show(&first, &options) {
        Ok(beyond) => {
            beyond.iter().for_each(exit::say);
            Ok(status)
        }
        Err(Error::Signal(signal)) => Ok(128 + signal as u8),
        Err(Error::Open(error)) => Err(explained(error)),
        Err(error) => Err(error.into()),
    }
}

/// So that a trace that cannot be read has its own exit status.
fn explained(error: viewer::data::open::Error) -> anyhow::Error {
    match error {
        viewer::data::open::Error::Trace(error) => error.into(),
        error => failure(exit::FAILED, error),
    }
}
