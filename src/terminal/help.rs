//! The end of the help: a few examples after the options for `-h`, all of them and the statuses for `--help`.

use clap::Command;

/// Lines of examples in `-h`.
const LINES: usize = 4;

pub(crate) fn with_short_examples(command: Command) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|one| one.get_name().to_owned()).collect();
    let command = names.into_iter().fold(command, |command, name| command.mut_subcommand(name, shorten));
    shorten(command)
}

fn shorten(command: Command) -> Command {
    let Some(all) = command.get_after_help().map(ToString::to_string) else { return command };
    let of = if command.has_subcommands() { "cutrace COMMAND --help" } else { "--help" };
    let short = short_examples(&all, of);
    command.after_help(short).after_long_help(all)
}

/// The first whole examples, and where the rest is. An example continues on lines that are indented further.
/// `of`: the command that prints the rest.
fn short_examples(all: &str, of: &str) -> String {
    let examples: Vec<&str> = all.lines().skip_while(|line| *line != "Examples:").skip(1).collect();
    let end = examples.iter().position(|line| line.is_empty()).unwrap_or(examples.len());
    let begins = |at: &usize| examples.get(*at).is_none_or(|line| !line.starts_with("   "));
    let count = (0..=end.min(LINES)).rev().find(begins).unwrap_or(0);
    format!("Examples:\n{}\n\n{of} lists all options, examples and exit statuses.", examples[..count].join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_not_cut_in_two() {
        let all = "Examples:\n  one\n  two\n  three\n  four\n       continues\n\nExit status:\n  0 done";
        let expected = "Examples:\n  one\n  two\n  three\n\n--help lists all options, examples and exit statuses.";
        assert_eq!(short_examples(all, "--help"), expected);
    }
}
