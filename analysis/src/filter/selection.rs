//! The selection of a trace's calls.

use crate::error::{Error, Result};
use crate::text::numbers::time;
use std::collections::HashMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::OnceLock;
use trace::{Call, Trace};

/// The selected calls; by default all of them.
#[derive(Debug, Default, Clone)]
pub struct Selection {
    /// Numbers of calls.
    pub calls: Option<Range>,
    /// Times of calls.
    pub window: Option<Window>,
    /// By its index, its name or its operating-system id.
    pub thread: Option<String>,
    /// What their names match.
    pub grep: Option<regex::Regex>,
    /// How many at most.
    pub limit: Option<u64>,
    /// When the traces of a job start, in nanoseconds since the first of them does.
    pub starts: OnceLock<HashMap<PathBuf, u64>>,
}

/// Call numbers from `start` up to, but not including, `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    start: u64,
    end: u64,
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Range, String> {
        const FORMS: &str = "expected 7, 10..20 (without 20), 10.. or ..20";
        let number = |text: &str| {
            let digits = text.trim();
            digits.replace('_', "").parse().map_err(|_| format!("{digits:?} is not a call number; {FORMS}"))
        };
        let (start, end) = match ends(text, number)? {
            Some(ends) => ends,
            None if text.trim().is_empty() => return Err(FORMS.into()),
            None => number(text).map(|only: u64| (only, only.saturating_add(1)))?,
        };
        if start >= end {
            return Err(format!("the range is empty; {FORMS}"));
        }
        Ok(Range { start, end })
    }
}

/// Nanoseconds since the start of the trace, from `from` up to, but not including, `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    from: u64,
    to: u64,
}

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Window, String> {
        let (from, to) = ends(text, moment)?.ok_or("expected 1.5ms..2ms, 2s.. or ..20ms")?;
        if from < to { Ok(Window { from, to }) } else { Err("the window ends before it begins".into()) }
    }
}

/// A time with its unit: of a number alone nobody can tell whether seconds or nanoseconds are meant.
pub fn moment(text: &str) -> Result<u64, String> {
    match text.trim().parse::<f64>() {
        Ok(number) if number != 0.0 => {
            Err(format!("{text:?} has no unit; expected a time such as 300ns, 20us, 1.5ms or 2s"))
        }
        _ => time(text),
    }
}

/// Both ends of `from..to`, each of which may be left out; none if it is not two.
fn ends(text: &str, end: impl Fn(&str) -> Result<u64, String>) -> Result<Option<(u64, u64)>, String> {
    let Some((from, to)) = text.split_once("..") else { return Ok(None) };
    let end = |text: &str, otherwise| if text.trim().is_empty() { Ok(otherwise) } else { end(text) };
    Ok(Some((end(from, 0)?, end(to, u64::MAX)?)))
}

impl Selection {
    /// Whether no call is left out.
    pub fn selects_all(&self) -> bool {
        self.calls.is_none() && self.window.is_none() && self.thread.is_none() && self.grep.is_none()
    }

    /// The test that a call passes by its number, its time and its thread; pattern and limit are for who asks.
    pub fn test(&self, trace: &Trace) -> Result<impl Fn(&Call) -> bool + use<>> {
        self.check(trace)?;
        let calls = self.numbers(trace);
        let thread = self.thread.as_deref().map(|wanted| find_thread(trace, wanted)).transpose()?;
        Ok(move |call: &Call| calls.contains(&call.number) && thread.is_none_or(|thread| thread == call.thread))
    }

    /// Refuses what is beyond the end of the trace.
    fn check(&self, trace: &Trace) -> Result<()> {
        let recorded = trace.len() as u64;
        if self.calls.is_some_and(|calls| calls.start > 0 && calls.start >= recorded) {
            let there = match recorded {
                0 => "no call".into(),
                1 => "call 0 only".into(),
                n => format!("calls 0 to {} only", n - 1),
            };
            return Err(Error::usage(format_args!("--calls: beyond the end of the trace, which has {there}")));
        }
        match self.ends_before(trace) {
            Some(there) => Err(Error::usage(format_args!("--window: beyond the end of the trace: {there}"))),
            None => Ok(()),
        }
    }

    /// When the last call began, in words, if that is before the window.
    pub fn ends_before(&self, trace: &Trace) -> Option<String> {
        let recorded = trace.len() as u64;
        self.window_of(trace).filter(|window| window.from > 0 && trace.call_from_time(window.from) >= recorded)?;
        let Some(last) = recorded.checked_sub(1).and_then(|last| trace.call(last)) else {
            return Some("the trace has no calls".into());
        };
        let at = (trace.nanoseconds(last.begin).max(0) as u64).saturating_add(self.start(trace));
        Some(format!("its last call begins at {}.{:09} s", at / 1_000_000_000, at % 1_000_000_000))
    }

    /// When the trace starts, in nanoseconds since the first of its job does.
    pub fn start(&self, trace: &Trace) -> u64 {
        self.starts.get().and_then(|starts| starts.get(&trace.path)).copied().unwrap_or(0)
    }

    /// The window as the trace counts time.
    fn window_of(&self, trace: &Trace) -> Option<Window> {
        let start = self.start(trace);
        let shifted = |time: u64| if time == u64::MAX { time } else { time.saturating_sub(start) };
        self.window.map(|Window { from, to }| Window { from: shifted(from), to: shifted(to) })
    }

    /// Of several processes those that had not ended before the window, and of the others why they are left
    /// out; all if none is left, which is refused.
    /// `starts`: when each started, in nanoseconds since the first did.
    pub fn of_window(&self, traces: Vec<Trace>, starts: &[u64]) -> (Vec<Trace>, Vec<String>) {
        self.starts.get_or_init(|| traces.iter().map(|trace| trace.path.clone()).zip(starts.iter().copied()).collect());
        if traces.len() < 2 || traces.iter().all(|trace| self.ends_before(trace).is_some()) {
            return (traces, Vec::new());
        }
        let (mut all, mut ended) = (Vec::new(), Vec::new());
        for trace in traces {
            match self.ends_before(&trace) {
                None => all.push(trace),
                Some(there) => {
                    ended.push(format!("process {} has no call in --window: {there}", trace.preamble.pid));
                }
            }
        }
        (all, ended)
    }

    /// The test for what stands before a call, by thread and that call's number; behind the last call that is
    /// how many there are.
    pub fn annotation_filter(&self, trace: &Trace) -> Result<impl Fn(u32, u64) -> bool + use<>> {
        let (calls, recorded) = (self.numbers(trace), trace.len() as u64);
        let behind = (calls.end >= recorded).then_some(recorded);
        let thread = self.thread.as_deref().map(|wanted| find_thread(trace, wanted)).transpose()?;
        Ok(move |of: u32, next: u64| {
            let is_within = calls.contains(&next) || behind == Some(next);
            is_within && thread.is_none_or(|thread| thread == of)
        })
    }

    /// The numbers of calls that can be asked for: the trace may end before.
    pub fn numbers(&self, trace: &Trace) -> std::ops::Range<u64> {
        let calls = self.calls.unwrap_or(Range { start: 0, end: u64::MAX });
        let Some(window) = self.window_of(trace) else { return calls.start..calls.end };
        let (from, to) = (trace.call_from_time(window.from), trace.call_from_time(window.to));
        // Whoever asks beyond the last call asks for what stands behind it, too.
        let to = if to == trace.len() as u64 { u64::MAX } else { to };
        calls.start.max(from)..calls.end.min(to).max(calls.start.max(from))
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
            Err(Error::usage(format_args!("no thread {wanted:?} in the trace; its threads: {}", known.join(", "))))
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

    #[test]
    fn windows() {
        let window = |from, to| Ok(Window { from, to });
        assert_eq!("1.5us..2ms".parse(), window(1500, 2_000_000));
        assert_eq!(["2s..".parse(), "0..7ns".parse()], [window(2_000_000_000, u64::MAX), window(0, 7)]);
        assert!(
            ["2ms", "2ms..1ms", "1ns..1ns", "1..2", "x..", "-1..2"]
                .iter()
                .all(|wrong| wrong.parse::<Window>().is_err())
        );
    }
}
