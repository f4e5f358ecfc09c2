//! Calls and work that were unfinished when the recording ended, or now, if the program still runs.

use crate::text::figures::{counted, duration};
use serde_json::{Value, json};
use trace::model::objects::Objects;
use trace::model::outstanding::{Work, outstanding};
use trace::show::launch::launched;
use trace::show::text::plain;
use trace::write::finish::{last_moment, now, writer};
use trace::{Call, Trace};

/// Of a trace that has no end yet, why: to be put behind its size.
pub fn not_closed(trace: &Trace) -> String {
    if trace.footer.is_some() {
        return String::new();
    }
    match writer(trace) {
        Some(pid) => format!(", open: process {pid} is still writing it"),
        None => ", not closed (see cutrace repair)".into(),
    }
}

/// Calls that have not returned and work in flight, when the recording ended.
pub struct Unfinished<'t> {
    /// Calls that have not returned, by thread, each with the kernel that it launches.
    inside: Vec<(Call<'t>, Option<String>)>,
    pending: Vec<Work>,
}

/// Submissions that are listed of each stream.
const LISTED: usize = 16;

impl<'t> Unfinished<'t> {
    /// None where the program ended by itself: what it had not waited for then, nobody asks.
    pub fn find(trace: &'t Trace) -> Option<Unfinished<'t>> {
        let mut inside: Vec<Call> = trace.calls().filter(|call| call.inside_since().is_some()).collect();
        // Nor where recording ended before the program did.
        let is_over = inside.is_empty() && trace.footer.is_some();
        if is_over || trace.size_limit_reached().is_some() {
            return None;
        }
        inside.sort_by_key(|call| (call.thread, call.number));
        let kernels = kernels(trace, &inside);
        Some(Unfinished { inside: inside.into_iter().zip(kernels).collect(), pending: outstanding(trace) })
    }

    /// Lines for `info`, one for each call and each submission.
    pub fn lines(&self, trace: &Trace) -> Vec<String> {
        let (now, until) = (now(trace), last_moment(trace));
        let inside = self.inside.iter().map(|(call, kernel)| {
            let of = kernel.as_ref().map_or(String::new(), |kernel| format!(" of {}", plain(kernel)));
            let name = trace.threads.get(call.thread as usize).map_or("", |thread| &thread.name);
            let (number, since) = (call.number, since(trace, call));
            let lasted = |until: i64| duration((until - since).max(0));
            let still = match (now, until) {
                (Some(now), _) => format!(", for {} so far", lasted(now)),
                (None, Some(end)) => format!(", for {} until the process ended", lasted(end)),
                (None, None) => String::new(),
            };
            let since = since as f64 / 1e9;
            format!(
                "thread t{} {name:?} is inside call {number} {}{of}, since {since:.3} s{still}",
                call.thread,
                call.name()
            )
        });
        let pending = self.pending.iter().map(|work| {
            let count = counted(work.calls.len() as u64, "submission");
            let first = work.calls.first().and_then(|number| trace.call(*number));
            let first = first.map_or(String::new(), |call| format!("{} {}", call.number, call_name(&call)));
            format!("{}: {count} possibly unfinished, the first is call {first}", work.stream)
        });
        inside.chain(pending).collect()
    }

    /// The calls that have not returned: `cuStreamSynchronize (call 12)`.
    pub fn open_calls(&self) -> Vec<String> {
        let shown = |(call, kernel): &(Call, Option<String>)| {
            let of = kernel.as_ref().map_or(String::new(), |kernel| format!(" of {}", plain(kernel)));
            format!("{}{of} (call {})", call.name(), call.number)
        };
        self.inside.iter().map(shown).collect()
    }

    /// The same for `info --json`.
    pub fn json(&self, trace: &Trace) -> Value {
        let call = |call: Call| json!({ "call": call.number, "function": call.name(), "kernel": kernel(&call) });
        let until = last_moment(trace);
        let inside = self.inside.iter().map(|(inside, kernel)| {
            let since = since(trace, inside);
            json!({
                "thread": inside.thread, "call": inside.number, "function": inside.name(), "kernel": kernel,
                "since_ns": since,
                "for_ns": until.map(|until| (until - since).max(0)),
            })
        });
        let pending = self.pending.iter().map(|work| {
            let calls = work.calls.iter().take(LISTED).filter_map(|number| trace.call(*number)).map(call);
            json!({ "stream": work.stream, "submissions": work.calls.len(), "calls": calls.collect::<Vec<_>>() })
        });
        json!({ "inside": inside.collect::<Vec<_>>(), "pending": pending.collect::<Vec<_>>() })
    }
}

fn since(trace: &Trace, call: &Call) -> i64 {
    trace.nanoseconds(call.inside_since().unwrap_or(call.begin))
}

/// What each of these calls launches.
fn kernels(trace: &Trace, calls: &[Call]) -> Vec<Option<String>> {
    let (mut objects, mut found) = (Objects::default(), vec![None; calls.len()]);
    let Some(last) = calls.iter().map(|call| call.number).max() else { return found };
    for call in trace.calls().take_while(|call| call.number <= last) {
        objects.follow(&call);
        if let Some(index) = calls.iter().position(|of| of.number == call.number) {
            found[index] = launched(&call, &objects);
        }
    }
    found
}

/// The kernel that a launch names.
fn kernel(call: &Call) -> Option<String> {
    call.named_kernel().map(|kernel| plain(&kernel.name).into_owned())
}

fn call_name(call: &Call) -> String {
    match kernel(call) {
        Some(kernel) => format!("{} of {kernel}", call.name()),
        None => call.name().to_owned(),
    }
}
