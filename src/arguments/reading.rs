//! The flags that all reading commands share.

use analysis::filter::selection::{Range, Selection, Window};
use clap::error::Error;
use clap::{ArgMatches, Args, ColorChoice, Command, FromArgMatches};

#[derive(Args)]
struct Flags {
    /// Only these calls, by number: 7, 10..20 (without 20), 10.. or ..20
    #[arg(long, value_name = "RANGE")]
    calls: Option<Range>,
    /// Only calls that begin in this window: 1.5ms..2ms, 2s.. or ..20ms
    ///
    /// Times count from the start of the trace, for a job from the start of its first trace. The end is not
    /// included.
    #[arg(long, value_name = "FROM..TO")]
    window: Option<Window>,
    /// Only this thread: its index (t0, 0), its name, or its operating-system id
    #[arg(long, value_name = "THREAD")]
    thread: Option<String>,
    /// Only calls that match this regular expression
    #[arg(long, value_name = "REGEX")]
    grep: Option<regex::Regex>,
    /// Stop after N results
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = count)]
    limit: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// When to use colour: auto follows the terminal and NO_COLOR
    #[arg(long, hide_short_help = true, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
}

pub(crate) struct Reading {
    pub selection: Selection,
    pub json: bool,
    color: ColorChoice,
}

impl Reading {
    pub(crate) fn colored(&self) -> bool {
        crate::terminal::color::is_wanted_with(self.color)
    }
}

impl FromArgMatches for Reading {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Reading, Error> {
        let Flags { calls, window, thread, grep, limit, json, color } = Flags::from_arg_matches(matches)?;
        let selection = Selection { calls, window, thread, grep, limit, ..Selection::default() };
        Ok(Reading { selection, json, color })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Reading::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Reading {
    fn augment_args(command: Command) -> Command {
        Flags::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Flags::augment_args_for_update(command)
    }
}

/// The number of a call, as `dump` prints it.
pub(crate) fn call_number(text: &str) -> Result<u64, String> {
    text.trim().replace('_', "").parse().map_err(|_| "expected a call number, such as 1234".into())
}

/// A number of results.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    text.trim().replace('_', "").parse().map_err(|_| format!("expected a count, from 0 to {}", u64::MAX))
}
