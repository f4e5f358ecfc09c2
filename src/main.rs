//! The `cutrace` command: one file per subcommand, each thin over the libraries.
//!
//! Results go to stdout, everything else to stderr.

#![warn(unreachable_pub)]

mod arguments;
mod commands;
mod driver;
mod files;
mod process;
mod terminal;
mod verdict;

use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};
use commands::{
    completions, demo, doctor, dump, export, info, man, pack, record, redact, repair, replay, report, switch, view,
};
use process::{allocation, signals};
use std::io::Write;
use std::process::ExitCode;
use std::sync::LazyLock;
use terminal::{color, exit, help};
use trace::file::control;
use trace::file::segment::FORMAT_VERSION;

/// Record a program's CUDA driver calls and replay them
#[derive(Parser)]
#[command(version = version(), max_term_width = 110, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// When to use colour: auto follows the terminal and NO_COLOR
    #[arg(long, hide_short_help = true, global = true, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
}

/// With what a report of a bug has to name: the revision, and what traces can be read.
fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        format!("{} ({}, trace format {FORMAT_VERSION})", env!("CARGO_PKG_VERSION"), env!("CUTRACE_REVISION"))
    });
    &VERSION
}

/// What a user with nothing but the command needs.
const FIRST: &str = "\
cutrace demo             record, replay and view a sample program; needs no GPU
cutrace record ./app     record your program's driver calls; then cutrace info, report, view, replay
cutrace --help           list all commands; cutrace record --help lists the options of one";

const EXAMPLES: &str = "\
Examples:
  cutrace demo                      a first look, without a GPU
  cutrace record ./app              record a program's driver calls into trace.bin
  cutrace on PID, cutrace off PID   start or pause recording in a running process
  cutrace info                      what was recorded, and the verdict on its replay
  cutrace dump --grep Memcpy        the copies, one line each
  cutrace report                    time, memory and findings
  cutrace export --to perfetto -o app.pftrace
                                    the calls, for ui.perfetto.dev
  cutrace view                      timeline, calls and tables in the terminal
  cutrace replay                    replay the calls and compare the results

Exit status:
  0 done                        1 failed, or a problem was found
  2 usage                       3 a trace is missing, or cannot be read completely
  4 the replay diverged         5 no usable driver
  6 the replay is unverified: it could compare no device result
1 also: an output exists or cannot be written. 2 also: conflicting options.
  record: the program's own; 126 and 127 not started, 128 + signal";

#[derive(Subcommand)]
enum Command {
    Record(record::Arguments),
    /// Resume recording in a process under cutrace record
    On(switch::Arguments),
    /// Pause recording in a process under cutrace record
    Off(switch::Arguments),
    Replay(Box<replay::Arguments>),
    View(view::Arguments),
    Info(info::Arguments),
    Dump(dump::Arguments),
    Report(report::Arguments),
    Export(export::Arguments),
    Repair(repair::Arguments),
    Pack(pack::Arguments),
    Redact(redact::Arguments),
    Doctor(doctor::Arguments),
    Demo(demo::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}

impl Command {
    /// Whether stdout is read by a script, also of a command that fails.
    fn is_json(&self) -> bool {
        match self {
            Command::Record(_) | Command::View(_) | Command::Demo(_) | Command::Completions(_) => false,
            Command::On(arguments) | Command::Off(arguments) => arguments.json,
            Command::Man(arguments) => arguments.json,
            Command::Replay(arguments) => arguments.json,
            Command::Info(arguments) => arguments.reading.json,
            Command::Dump(arguments) => arguments.reading.json,
            Command::Report(arguments) => arguments.is_json(),
            Command::Export(arguments) => arguments.reading.json,
            Command::Repair(arguments) => arguments.json,
            Command::Pack(arguments) => arguments.json,
            Command::Redact(arguments) => arguments.json,
            Command::Doctor(arguments) => arguments.json,
        }
    }
}

/// What is asked for; or ends, saying what is wrong with it. Who expects JSON finds that there as well.
fn parsed() -> Arguments {
    let of_ours = || std::env::args_os().skip(1).take_while(|argument| argument != "--");
    let mut command = help::with_short_examples(Arguments::command());
    let matches = command.try_get_matches_from_mut(std::env::args_os());
    let arguments =
        matches.and_then(|matches| Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command)));
    arguments.unwrap_or_else(|error| {
        if error.use_stderr() && of_ours().any(|argument| argument == "--json") {
            let told = error.render().to_string();
            let message = told.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
            exit::tell_in_json(exit::USAGE, message);
        }
        error.exit()
    })
}

#[global_allocator]
static ALLOCATOR: allocation::Allocator = allocation::Allocator;

fn main() -> ExitCode {
    let arguments = parsed();
    color::choose(arguments.color);
    let Some(command) = arguments.command else {
        let _gone = writeln!(std::io::stderr(), "{FIRST}");
        return ExitCode::from(exit::USAGE);
    };
    let as_json = command.is_json();
    signals::outlive_the_file_size_limit();
    // The viewer has a terminal to give back, a replay runs a driver, whose signals are its own, and `record` is
    // the program's until that has ended.
    match &command {
        Command::Record(_) | Command::Demo(_) => {}
        Command::View(view) if !view.is_once() => {}
        Command::Replay(replay) if !replay.is_dry() => signals::end_where_a_mapped_trace_is_cut(exit::UNREADABLE),
        _ => signals::end_where_a_trace_is_cut(exit::UNREADABLE, exit::FAILED),
    }
    let ended = match command {
        Command::Record(arguments) => record::run(arguments),
        Command::On(arguments) => switch::run(arguments, control::Command::On),
        Command::Off(arguments) => switch::run(arguments, control::Command::Off),
        Command::Replay(arguments) => replay::run(*arguments),
        Command::View(arguments) => view::run(arguments),
        Command::Info(arguments) => info::run(arguments),
        Command::Dump(arguments) => dump::run(arguments),
        Command::Report(arguments) => report::run(arguments),
        Command::Export(arguments) => export::run(arguments),
        Command::Repair(arguments) => repair::run(arguments),
        Command::Pack(arguments) => pack::run(arguments),
        Command::Redact(arguments) => redact::run(arguments),
        Command::Doctor(arguments) => doctor::run(arguments),
        Command::Demo(arguments) => demo::run(arguments),
        Command::Completions(arguments) => completions::run(arguments, Arguments::command()),
        Command::Man(arguments) => man::run(arguments, Arguments::command()),
    };
    let status = ended.unwrap_or_else(|error| exit::explain(error, as_json));
    if replayer::is_left_behind() {
        // What the driver does when a process exits might wait for it, too.
        exit::at_once(status);
    }
    ExitCode::from(status)
}
