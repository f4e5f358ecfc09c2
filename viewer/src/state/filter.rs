//! The search's pattern, and the filter's expression.

use crate::data::Model;
use crate::data::event::{Category, Event};
use crate::data::lane::{Lane, Source};
use crate::data::open::Opened;
use crate::data::uses::{Uses, uses};
use analysis::text::numbers::time;
use regex::{Regex, RegexBuilder};
use std::ops::Range;

/// A pattern over names, and the number of events with such names.
#[derive(Debug, Clone)]
pub struct Search {
    /// The pattern as it was typed.
    pub text: String,
    /// By name.
    hit: Vec<bool>,
    /// Number of matching events.
    pub count: u64,
}

/// Small letters match both, as in many pagers.
fn pattern(text: &str) -> Result<Regex, String> {
    let insensitive = !text.contains(char::is_uppercase);
    let built = RegexBuilder::new(text).case_insensitive(insensitive).size_limit(1 << 20).build();
    built.map_err(|error| {
        let why = error.to_string();
        format!("{text}: {}", why.lines().last().unwrap_or("not a regular expression").trim())
    })
}

impl Search {
    pub(crate) fn new(text: &str, model: &Model) -> Result<Search, String> {
        let pattern = pattern(text)?;
        let hit: Vec<bool> = model.summary.names.iter().map(|name| pattern.is_match(&name.text)).collect();
        let summary = &model.summary;
        let tables = summary.functions.iter().chain(&summary.kernels).chain(&summary.ranges);
        let count = tables.filter(|row| hit.get(row.name as usize) == Some(&true)).map(|row| row.count).sum();
        Ok(Search { text: text.into(), hit, count })
    }

    pub(crate) fn hits(&self, name: u32) -> bool {
        self.hit.get(name as usize) == Some(&true)
    }
}

/// All terms must hold.
#[derive(Debug, Clone)]
pub struct Filter {
    /// The expression as it was typed.
    pub text: String,
    terms: Vec<Term>,
    /// By lane of the model: the events that pass.
    pub lanes: Vec<Passing>,
    /// Number of events that pass.
    pub count: u64,
}

/// A lane of the events that pass the filter, each with its place in the whole lane.
#[derive(Clone)]
pub struct Passing {
    pub(crate) lane: Lane,
    pub(crate) index: Vec<u32>,
}

impl std::fmt::Debug for Passing {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{} events", self.index.len())
    }
}

#[derive(Debug, Clone)]
enum Term {
    Name(Vec<bool>),
    Failed,
    Longer(u64),
    Shorter(u64),
    Is(Category),
    Thread(u32),
    Calls(Range<u64>),
    /// Numbers, rising. `second`: of a second trace, whose calls have numbers of their own.
    Uses {
        first: Vec<u32>,
        second: Option<Vec<u32>>,
    },
    Not(Box<Term>),
}

impl Filter {
    /// Parses the expression and applies it to all lanes. An error is a message for the user.
    pub fn new(text: &str, opened: &Opened) -> Result<Filter, String> {
        let model = &opened.model;
        let term = |word| term(word, opened);
        let terms: Vec<Term> = text.split_whitespace().map(term).collect::<Result<_, _>>()?;
        let mut filter = Filter { text: text.into(), terms, lanes: Vec::new(), count: 0 };
        filter.lanes = model.lanes.iter().map(|lane| filter.passing(lane)).collect();
        let threads = filter.lanes.iter().filter(|lane| matches!(lane.lane.source, Source::Thread { .. }));
        filter.count = threads.map(|lane| lane.index.len() as u64).sum();
        Ok(filter)
    }

    pub(crate) fn passes(&self, event: &Event, source: &Source) -> bool {
        self.passes_work(event, source, event.name)
    }

    /// Of work, or of a launch by its kernel's name: the function that submitted it is a name of it as well.
    /// `source`: the thread's.
    pub fn passes_work(&self, event: &Event, source: &Source, function: u32) -> bool {
        self.terms.iter().all(|term| term.holds(event, source, function))
    }

    fn passing(&self, lane: &Lane) -> Passing {
        let index: Vec<u32> =
            (0..lane.len()).filter(|at| self.passes(&lane.event(*at), &lane.source)).map(|at| at as u32).collect();
        let mut kept = Lane::empty(lane.source.clone());
        kept.begin = index.iter().map(|at| lane.begin[*at as usize]).collect::<Vec<_>>().into();
        kept.length = index.iter().map(|at| lane.length[*at as usize]).collect::<Vec<_>>().into();
        kept.name = index.iter().map(|at| lane.name[*at as usize]).collect::<Vec<_>>().into();
        kept.flags = index.iter().map(|at| lane.flags[*at as usize]).collect::<Vec<_>>().into();
        kept.call = index.iter().map(|at| lane.call[*at as usize]).collect::<Vec<_>>().into();
        let long = index.iter().enumerate().filter(|(_, at)| lane.length[**at as usize] == u32::MAX);
        kept.long = long.map(|(new, at)| [new as u64, lane.length(*at as usize)]).collect::<Vec<_>>().into();
        kept.build_pyramid();
        Passing { lane: kept, index }
    }
}

impl Term {
    fn holds(&self, event: &Event, source: &Source, function: u32) -> bool {
        match self {
            Term::Name(hit) => [event.name, function].iter().any(|name| hit.get(*name as usize) == Some(&true)),
            Term::Failed => event.flags.failed(),
            Term::Longer(ns) => event.length() > *ns,
            Term::Shorter(ns) => event.length() < *ns,
            Term::Is(category) => event.flags.category() == *category,
            Term::Thread(wanted) => match source {
                Source::Thread { thread, .. } => thread == wanted,
                Source::Range { thread, .. } => *thread == Some(*wanted),
                _ => false,
            },
            Term::Calls(range) => range.contains(&event.call.into()),
            Term::Uses { first, second } => {
                let calls = second.as_ref().filter(|_| matches!(source, Source::Second(_))).unwrap_or(first);
                let is_here = !matches!(source, Source::Peer { .. } | Source::Operations { .. });
                is_here && calls.binary_search(&event.call).is_ok()
            }
            Term::Not(term) => !term.holds(event, source, function),
        }
    }
}

/// The calls that name an object; none if the trace has none of that name.
fn calls_naming(opened: &Opened, title: &str) -> Result<Option<Vec<u32>>, String> {
    let lives = opened.lives().ok_or("object names are still being read")?;
    let Some(life) = lives.titled(title) else { return Ok(None) };
    let Uses { mut calls, after } = uses(opened, lives, life)?;
    calls.extend(after);
    Ok(Some(calls))
}

fn term(word: &str, opened: &Opened) -> Result<Term, String> {
    let model = &opened.model;
    if let Some(rest) = word.strip_prefix('!').filter(|rest| !rest.is_empty()) {
        return Ok(Term::Not(Box::new(term(rest, opened)?)));
    }
    if word == "failed" {
        return Ok(Term::Failed);
    }
    if let Some(rest) = word.strip_prefix('>') {
        return Ok(Term::Longer(time(rest)?));
    }
    if let Some(rest) = word.strip_prefix('<') {
        return Ok(Term::Shorter(time(rest)?));
    }
    if let Some(rest) = word.strip_prefix("is:") {
        let found = Category::ALL.into_iter().find(|category| category.name() == rest);
        let known = || Category::ALL.map(Category::name).join(", ");
        return found.map(Term::Is).ok_or_else(|| format!("is:{rest}: expected one of {}", known()));
    }
    if let Some(rest) = word.strip_prefix("call:") {
        let number = |text: &str, otherwise| match text {
            "" => Ok(otherwise),
            text => text
                .parse::<u64>()
                .map_err(|_| format!("call:{rest}: expected call:7, call:10..20, call:10.. or call:..20")),
        };
        return Ok(Term::Calls(match rest.split_once("..") {
            Some((from, to)) => number(from, 0)?..number(to, u64::MAX)?,
            None => number(rest, 0).map(|only| only..only.saturating_add(1))?,
        }));
    }
    if let Some(title) = word.strip_prefix("uses:") {
        // Of two traces, each has its own object of that name.
        let second = opened.second.as_deref().map(|second| calls_naming(&second.opened, title)).transpose()?.flatten();
        let first = calls_naming(opened, title)?;
        if first.is_none() && second.is_none() {
            return Err(format!("no object {title}; the table of objects (9) has all names"));
        }
        return Ok(Term::Uses { first: first.unwrap_or_default(), second });
    }
    if let Some(thread) = word.strip_prefix('t').and_then(|rest| rest.parse::<u32>().ok()) {
        return Ok(Term::Thread(thread));
    }
    let pattern = pattern(word)?;
    Ok(Term::Name(model.summary.names.iter().map(|name| pattern.is_match(&name.text)).collect()))
}
