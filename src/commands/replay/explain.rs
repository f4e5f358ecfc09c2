//! The reason of a divergence. Two more replays launch one kernel at a time and hash memory after every
//! launch, to distinguish a nondeterministic kernel from a replay that differs from the recording. If the
//! kernels agree, but waiting for launches changes the results of a call, the program lacks an order between
//! submissions.

use crate::commands::replay::child_replays::{Again, Found, TooLong, say_so};
use analysis::text::kernel_name::{Names, Style};
use anyhow::Result;
use replayer::{Bisection, Divergence, FirstDifference, Options, Plan, Report, UnorderedPair, bisection};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use trace::Trace;
use trace::code::varying::Causes;
use trace::show::sources::{Launched, launched, varying};
use trace::show::text::plain;

/// A byte that programs seldom mean.
const FILL: u8 = 0xa5;

/// The explanation that was found.
pub(super) struct Explanation {
    pub why: Why,
    /// The call that brought the first difference.
    pub call: u64,
    /// Launches that were compared, up to the first that differs.
    pub compared: u64,
    /// Whether two replays, launches one by one, agree in every respect. None: they were not made.
    pub agree: Option<bool>,
    /// The first launch that is not the same in both.
    pub parting: Option<FirstDifference>,
    /// What the code of its kernel shows.
    pub causes: Option<Causes>,
    pub unordered: Option<UnorderedPair>,
    /// With other contents of memory that nobody wrote, something else differs.
    pub depends_on_fill: bool,
    /// In the replay that is explained, launches were waited for.
    pub has_waited: bool,
    /// It was one of the two itself.
    pub was_followed: bool,
}

pub(super) enum Why {
    /// A launch computes otherwise each time, or is given other memory.
    Launch,
    /// What nothing orders, or what only waiting shows.
    Order,
    /// The call brings other bytes each time; no launch shows why.
    EachTime,
    /// Every replay differs from the recording in the same way.
    Replay,
    /// It was not found out.
    GivenUp(String),
}

/// The inputs of an explanation.
pub(super) struct Question<'a> {
    pub trace: &'a Trace,
    pub plan: &'a Plan,
    pub options: &'a Options,
    pub report: &'a Report,
    pub file: &'a Path,
    /// Files that have what the trace only names.
    pub weights: &'a [PathBuf],
    /// How long all of it may take.
    pub limit: Option<Duration>,
}

impl Question<'_> {
    /// None if there is nothing to explain: nothing differs, or a launch has failed, which is named.
    pub(super) fn answer(&self) -> Option<Explanation> {
        let call = self.report.tally.first.as_ref().filter(|_| self.report.culprit.is_none())?.call;
        let elapsed = self.report.elapsed.as_secs_f64();
        if let Some(limit) = self.limit.map(|limit| limit.as_secs_f64()).filter(|limit| elapsed * 2.0 > *limit) {
            let took = format!("this replay took {elapsed:.1} s, and two more have to fit into {limit:.0} s");
            return Some(Explanation::new(Why::GivenUp(format!("{took} (raise it with --explain-within)")), call));
        }
        say_so();
        let deadline = self.limit.and_then(|limit| Instant::now().checked_add(limit));
        let (file, weights, options) = (self.file, self.weights, self.options);
        let alone = self.plan.job.single_rank.is_some();
        let again = Again { file, weights, options, alone, followed: call, deadline };
        let explained = self.followed(&again).and_then(|(one, other)| self.compare(call, one, other, &again));
        Some(explained.unwrap_or_else(|error| {
            let limit = self.limit.unwrap_or_default().as_secs_f64();
            let why = match error.is::<TooLong>() {
                true => format!("replaying again took longer than {limit:.0} s (raise it with --explain-within)"),
                false => crate::terminal::exit::in_full(&error),
            };
            Explanation::new(Why::GivenUp(why), call)
        }))
    }

    /// Two replays with launches one by one, of which the first may be the one that diverged.
    fn followed(&self, again: &Again) -> Result<(Found, Found)> {
        let own = || Found { trail: self.report.trail.clone(), first: self.report.tally.first.clone() };
        let one = if self.options.tools.trail.is_some() { own() } else { again.followed()? };
        Ok((one, again.followed()?))
    }

    fn compare(&self, call: u64, one: Found, other: Found, again: &Again) -> Result<Explanation> {
        let is_same = one.first == other.first;
        let waited = one.first;
        let Bisection { compared, first } = bisection::bisect(one.trail, other.trail);
        let mut found = Explanation::new(Why::Launch, call);
        found.was_followed = self.options.tools.trail.is_some();
        found.has_waited = found.was_followed || self.options.tools.sync_launches;
        (found.compared, found.agree) = (compared, Some(is_same && first.is_none()));
        found.causes = first.as_ref().and_then(|parting| self.causes(parting));
        found.parting = first;
        let unordered = |call| replayer::unordered(self.trace, self.plan, call);
        // What computes otherwise may be of no account for what differs.
        if let (Some(parting), false) = (&found.parting, is_same) {
            let is_shown = !parting.is_given && matches!(&found.causes, Some(Ok(causes)) if !causes.is_empty());
            found.unordered = if is_shown { None } else { unordered(parting.call) };
            return Ok(found);
        }
        found.unordered = unordered(call);
        if !is_same {
            found.why = Why::EachTime;
            return Ok(found);
        }
        let plainly = if found.has_waited { again.plainly()?.first } else { self.report.tally.first.clone() };
        if plainly != waited {
            found.why = Why::Order;
            return Ok(found);
        }
        found.why = Why::Replay;
        match self.options.tools.fill {
            // A race may come out otherwise beside any fill.
            None if found.unordered.is_none() => {
                let filled = filled(again)?;
                found.depends_on_fill = filled != plainly && filled == self::filled(again)?;
            }
            // What is as recorded with zeros, as fresh memory holds, differs by the fill and not by the order.
            Some(fill) if fill != 0 && plainly.as_ref().is_some_and(is_never_written) => {
                let zeros = again.filled(0)?.first;
                let call = |first: Option<Divergence>| first.map(|first| first.call);
                found.unordered = found.unordered.filter(|_| call(zeros) == call(plainly));
            }
            _ => {}
        }
        Ok(found)
    }

    /// What the code of the kernel shows; none if it is no kernel.
    fn causes(&self, parting: &FirstDifference) -> Option<Causes> {
        let all = launched(self.trace);
        let named: Vec<&Launched> = all.iter().filter(|launched| launched.kernel.name == parting.kernel).collect();
        let here = named.iter().filter(|launched| launched.calls.contains(&parting.call));
        let named: Vec<&Launched> = here.copied().chain(named.iter().copied()).collect();
        let mut causes = varying(self.trace, &named);
        let mut found = named.iter().filter_map(|launched| causes.remove(&launched.kernel.id));
        let first = found.next();
        first.map(|first| first.or_else(|why| found.find(Result::is_ok).unwrap_or(Err(why))))
    }
}

/// The first difference with another content of memory that nobody wrote.
fn filled(again: &Again) -> Result<Option<Divergence>> {
    let mut first = again.filled(FILL)?.first;
    // What is said of the fill itself.
    if let Some(extent) = first.as_mut().and_then(|first| first.extent.as_mut()) {
        extent.fill = None;
    }
    Ok(first)
}

fn is_never_written(first: &Divergence) -> bool {
    first.extent.as_ref().and_then(|extent| extent.fill).is_some_and(|fill| fill.never_written)
}

impl Explanation {
    fn new(why: Why, call: u64) -> Explanation {
        Explanation {
            why,
            call,
            compared: 0,
            agree: None,
            parting: None,
            causes: None,
            unordered: None,
            depends_on_fill: false,
            has_waited: false,
            was_followed: false,
        }
    }

    /// The first line of a report.
    pub(super) fn line(&self) -> String {
        let diverged = |what: String| format!("diverged: {what}");
        let something =
            |when: &str| diverged(format!("nondeterministic, call {} has another result {when}", self.call));
        match (&self.why, &self.parting, &self.unordered) {
            (Why::GivenUp(_), ..) => "diverged".into(),
            (Why::Replay, _, None) => "diverged: the replay differs from the recording".into(),
            (Why::Replay, _, Some(pair)) => {
                format!("diverged: the replay differs from the recording; {}", no_order(pair))
            }
            (_, _, Some(pair)) => diverged(no_order(pair)),
            (Why::Launch, Some(parting), None) => diverged(parted(parting, self.cause())),
            (Why::Order, ..) => something("if each launch is waited for: is a synchronisation missing?"),
            _ => something("in each run"),
        }
    }

    /// What in the kernel's code makes its result vary.
    fn cause(&self) -> Option<String> {
        let causes = self.causes.as_ref()?.as_ref().ok()?;
        causes.first().map(|cause| cause.what().to_owned())
    }

    /// Whether no kernel and no order is to blame, as far as is known.
    pub(super) fn blames_the_replay(&self) -> bool {
        matches!((&self.why, &self.unordered), (Why::Replay | Why::GivenUp(_), None))
    }

    pub(super) fn is_found(&self) -> bool {
        !matches!(self.why, Why::GivenUp(_))
    }
}

fn no_order(UnorderedPair(earlier, later): &UnorderedPair) -> String {
    format!("calls {} and {} use the same memory without an order", earlier.call, later.call)
}

/// `kernel add_time (call 18) is nondeterministic: it reads the clock`
fn parted(parting: &FirstDifference, cause: Option<String>) -> String {
    let kernel = shown(&parting.kernel);
    let node = parting.node.map_or_else(String::new, |node| format!(", node {} of its graph", node + 1));
    let what = match (parting.is_given, parting.memory.is_empty()) {
        (true, _) => "has other input in each run",
        (false, true) => "is launched in one of two replays only",
        (false, false) => "is nondeterministic",
    };
    let cause = cause.map_or_else(String::new, |cause| format!(": it {cause}"));
    format!("kernel {kernel} (call {}{node}) {what}{cause}", parting.call)
}

/// A kernel's name for people.
pub(super) fn shown(kernel: &str) -> String {
    plain(&Names::new(Style::Short).display_name(kernel)).into_owned()
}
