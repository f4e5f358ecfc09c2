//! The flags that all reading commands share.

use crate::exit::{USAGE, failure};
use anyhow::Result;
use clap::{Args, ColorChoice};
use std::str::FromStr;
use trace::{Call, Trace};

#[derive(Args)]
pub struct Reading {
    /// Only these calls, by number: 7, 10..20 (20 is not included), 10.. or ..20
    #[arg(long, value_name = "RANGE")]
    pub calls: Option<Range>,
    /// Only this thread: its index (t0, 0), its name, or its operating-system id
    #[arg(long, value_name = "THREAD")]
    pub thread: Option<String>,
    /// Only calls that this regular expression matches
    #[arg(long, value_name = "REGEX")]
    pub grep: Option<regex::Regex>,
    /// Stop after this many
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = count)]
    pub limit: Option<u64>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// Colour: auto follows the terminal and NO_COLOR
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
}

/// Call numbers from `start` up to `end`, which is not one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    start: u64,
    end: u64,
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Range, String> {
        const FORMS: &str = "expected 7, 10..20 (20 is not included), 10.. or ..20";
        let number = |text: &str, otherwise: u64| match text.trim() {
            "" => Ok(otherwise),
            digits => digits.replace('_', "").parse().map_err(|_| format!("{digits:?} is not a call number; {FORMS}")),
        };
        let (start, end) = match text.split_once("..") {
            Some((start, end)) => (number(start, 0)?, number(end, u64::MAX)?),
            None if text.trim().is_empty() => return Err(FORMS.into()),
            None => number(text, 0).map(|only: u64| (only, only.saturating_add(1)))?,
        };
        if start >= end {
            return Err(format!("no call is in it; {FORMS}"));
        }
        Ok(Range { start, end })
    }
}

/// How many.
pub fn count(text: &str) -> Result<u64, String> {
    text.trim().replace('_', "").parse().map_err(|_| format!("expected a count, from 0 to {}", u64::MAX))
}

impl Reading {
    /// Of all calls, for who asks for none in particular.
    pub fn everything() -> Reading {
        Reading { calls: None, thread: None, grep: None, limit: None, json: false, color: ColorChoice::Never }
    }

    /// Whether no call is left out.
    pub fn selects_all(&self) -> bool {
        self.calls.is_none() && self.thread.is_none() && self.grep.is_none()
    }

    /// The test that a call passes if it is asked for; `--grep` and `--limit` are the command's own affair.
    pub fn selection(&self, trace: &Trace) -> Result<impl Fn(&Call) -> bool + use<>> {
        let calls = self.calls.unwrap_or(Range { start: 0, end: u64::MAX });
        let recorded = trace.len() as u64;
        if calls.start > 0 && calls.start >= recorded {
            let there = match recorded {
                0 => "no call".into(),
                1 => "call 0 only".into(),
                n => format!("calls 0 to {} only", n - 1),
            };
            let why = format_args!("--calls: beyond the end of the trace, which holds {there}");
            return Err(failure(USAGE, why));
        }
        let thread = self.thread.as_deref().map(|wanted| find_thread(trace, wanted)).transpose()?;
        Ok(move |call: &Call| {
            (calls.start..calls.end).contains(&call.number) && thread.is_none_or(|thread| thread == call.thread)
        })
    }

    /// The test for what stands before a call, by thread and that call's number; behind the last call that is
    /// how many there are.
    pub fn between(&self, trace: &Trace) -> Result<impl Fn(u32, u64) -> bool + use<>> {
        let calls = self.calls.unwrap_or(Range { start: 0, end: u64::MAX });
        let behind = (calls.end >= trace.len() as u64).then_some(trace.len() as u64);
        let thread = self.thread.as_deref().map(|wanted| find_thread(trace, wanted)).transpose()?;
        Ok(move |of: u32, next: u64| {
            let is_within = calls.start <= next && next < calls.end || behind == Some(next);
            is_within && thread.is_none_or(|thread| thread == of)
        })
    }

    /// The first call number that can be asked for.
    pub fn start(&self) -> u64 {
        self.calls.map_or(0, |calls| calls.start)
    }

    /// The first call number that cannot be asked for any more.
    pub fn end(&self) -> u64 {
        self.calls.map_or(u64::MAX, |calls| calls.end)
    }

    pub fn colored(&self) -> bool {
        crate::color::is_wanted_with(self.color)
    }
}

fn find_thread(trace: &Trace, wanted: &str) -> Result<u32> {
    let index = wanted.strip_prefix('t').unwrap_or(wanted).parse::<usize>().ok().filter(|i| *i < trace.threads.len());
    let named = || trace.threads.iter().position(|t| t.name == wanted || t.os_id.to_string() == wanted);
    match index.or_else(named) {
        Some(index) => Ok(index as u32),
        None => {
            let known: Vec<String> =
                trace.threads.iter().enumerate().map(|(i, t)| format!("t{i} {:?} {}", t.name, t.os_id)).collect();
            Err(failure(USAGE, format_args!("no thread {wanted:?} in the trace; there are {}", known.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let range = |start, end| Ok(Range { start, end });
        assert_eq!("7".parse(), range(7, 8));
        assert_eq!("10..2_000".parse(), range(10, 2000));
        assert_eq!(["10..".parse(), "..".parse()], [range(10, u64::MAX), range(0, u64::MAX)]);
        for wrong in ["5..2", "3..3", "3-5", "3,5", "3..=5", "", "-1"] {
            let told = wrong.parse::<Range>().expect_err(wrong);
            assert!(told.contains("expected 7, 10..20"), "{told}");
        }
    }
}
