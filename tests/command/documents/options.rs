//! The subcommands and options of cutrace, as its help lists them.

use regex::Regex;
use std::collections::HashMap;
use tests::*;

/// The options of each subcommand, with the number of values that each takes.
pub struct Options(HashMap<String, HashMap<String, usize>>);

impl Options {
    pub fn ask() -> Options {
        let place = Place::new();
        let help = |arguments: &[&str]| run(&mut place.cutrace(arguments)).expect(0).stdout;
        let all = help(&["--help"]);
        let names = all.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
        let names = names
            .filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|name| !matches!(*name, "" | "help")));
        let mut found: HashMap<_, _> = names.map(|name| (name.to_owned(), listed(&help(&[name, "--help"])))).collect();
        found.insert(String::new(), listed(&all));
        Options(found)
    }

    /// Why these words behind `cutrace` are none that it takes.
    pub fn wrong(&self, command: &str) -> Option<String> {
        let mut words = command.split_whitespace().map(|word| word.trim_matches(['\'', '"'])).peekable();
        let name = words.next_if(|word| !word.starts_with('-')).unwrap_or_default();
        let Some(options) = self.0.get(name) else { return Some(format!("no subcommand is called {name}")) };
        while let Some(word) = words.next() {
            let (option, has_value) = word.split_once('=').map_or((word, false), |(option, _)| (option, true));
            match options.get(option) {
                Some(values) if !has_value => drop(words.by_ref().take(*values).count()),
                Some(_) => (),
                None if word == "--" => return None,
                None if word.starts_with('-') && word.len() > 1 => {
                    return Some(format!("{name} has no option {option}"));
                }
                // The program that is recorded, and its own options.
                None if name == "record" => return None,
                None => (),
            }
        }
        None
    }
}

fn listed(help: &str) -> HashMap<String, usize> {
    let option = Regex::new(r"^ +(?:(-\w), )?(--[a-z-]+)?(.*)$").expect("sound");
    let mut all = HashMap::new();
    for found in help.lines().filter(|line| line.trim_start().starts_with('-')).filter_map(|line| option.captures(line))
    {
        let values = found[3].matches('<').count() - found[3].matches("[<").count();
        all.extend([1, 2].iter().filter_map(|n| found.get(*n)).map(|name| (name.as_str().to_owned(), values)));
    }
    all
}
