//! The losses of a trace: parts that cannot be read, and data that was missing when it was closed.

use trace::Trace;
use trace::write::finish;

/// The damage of a trace in one line.
pub fn damage_of(trace: &Trace) -> Option<String> {
    let more = |count: usize| if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
    let path = trace.path.display();
    if let Some(first) = trace.damage.first() {
        return Some(format!("{path}: at offset {}: {}{}", first.offset, first.what, more(trace.damage.len())));
    }
    // What is lost does not come back when the trace is closed.
    let mut lost = trace.losses.iter().filter(|(what, _)| finish::is_damage(what));
    let (first, _) = lost.next()?;
    Some(format!("{path}: some of the recording is missing: {first}{}", more(1 + lost.count())))
}

/// The same of one that has lost something and was not closed without it: no replay takes that.
pub fn damage_that_loses(trace: &Trace) -> Option<String> {
    damage_of(trace).filter(|_| trace.damage.iter().any(|damage| damage.loses))
}

/// Whether something that was recorded is gone, be it that the trace was closed without it.
pub fn has_lost(trace: &Trace) -> bool {
    trace.damage.iter().any(|damage| damage.loses) || trace.losses.iter().any(|(what, _)| finish::is_damage(what))
}
