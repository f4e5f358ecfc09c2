//! The calls that name an object while it lives, and those that still name it after its end.

use super::lives::{Life, Lives, RANGES};
use super::open::Opened;
use crate::text::counted;
use trace::api::types::Kind;
use trace::base::parallel;
use trace::model::decode::decode;
use trace::model::value::Value;
use trace::{Call, Trace};

/// Calls that are looked through: the user waits for it.
const MOST: u32 = 4_000_000;

/// Numbers of calls, rising.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Uses {
    /// While it lived: the call that made it, those that used it, the one that ended it.
    pub calls: Vec<u32>,
    /// After it had ended, and before the handle or the memory was given out again.
    pub after: Vec<u32>,
}

/// Reads every call from the one that made the object up to the one that makes the next with the same value.
/// What was tried in vain, if the trace is too long for that.
pub fn uses(opened: &Opened, lives: &Lives, life: &Life) -> Result<Uses, String> {
    let next = lives.all.iter().filter(|other| overlaps(other, life) && other.made > life.made).map(|other| other.made);
    let end = next.min().unwrap_or(u32::MAX).max(life.ended.saturating_add(1)).min(opened.summary().calls as u32);
    if end - life.made.min(end) > MOST {
        let many = counted(u64::from(end - life.made), "call");
        return Err(format!("{many} between its creation and its end; the limit is {MOST}"));
    }
    // Opened by its index, a trace knows its calls only one by one.
    let whole =
        opened.trace.is_empty().then(|| Trace::open(&opened.path)).transpose().map_err(|error| error.to_string())?;
    let trace = whole.as_ref().unwrap_or(&opened.trace);
    let workers = parallel::processors() as u32;
    let size = (end - life.made.min(end)).div_ceil(workers).max(1);
    let ranges = (0..workers).map(|n| {
        let from = life.made.saturating_add(n * size).min(end);
        from..from.saturating_add(size).min(end)
    });
    let found = parallel::map(workers as usize, ranges, |range| named_in(trace, range, life));
    let (calls, after) = found.into_iter().flatten().partition(|call| *call <= life.ended);
    Ok(Uses { calls, after })
}

/// Whether the two cannot live at the same time: the same handle, or memory at the same place.
fn overlaps(a: &Life, b: &Life) -> bool {
    if a.is_range() != b.is_range() {
        return false;
    }
    match a.is_range() {
        true => a.value < b.value.saturating_add(b.len.max(1)) && b.value < a.value.saturating_add(a.len.max(1)),
        false => (a.kind, a.value) == (b.kind, b.value),
    }
}

fn named_in(trace: &Trace, range: std::ops::Range<u32>, life: &Life) -> Vec<u32> {
    range.filter(|number| trace.call((*number).into()).is_some_and(|call| names(&call, life))).collect()
}

fn names(call: &Call, life: &Life) -> bool {
    // A call that has neither the value among its words nor memory behind them cannot name it: most need not
    // be decoded.
    let may = call.number == u64::from(life.made)
        || call.number == u64::from(life.ended)
        || call.words().any(|word| holds(life, word))
        || call.images().next().is_some();
    if !may {
        return false;
    }
    if call.number == u64::from(life.made) || call.number == u64::from(life.ended) {
        return true;
    }
    let Some(decoded) = decode(call) else { return false };
    decoded.arguments.iter().chain(&decoded.outputs).any(|(_, value)| is_named(value, life))
}

fn holds(life: &Life, word: u64) -> bool {
    match life.is_range() {
        true => word >= life.value && word - life.value < life.len.max(1),
        false => word == life.value,
    }
}

fn is_named(value: &Value, life: &Life) -> bool {
    match value {
        // A kernel may be given where a function is asked for.
        Value::Handle { kind, value, .. } => {
            let alike = *kind == Kind::Function && life.kind == Kind::Kernel as u32;
            (*kind as u32 == life.kind || alike) && *value == life.value
        }
        Value::Address { value, .. } => life.kind >= RANGES && holds(life, *value),
        Value::Argument { bytes, .. } => {
            let word = bytes.as_ref().try_into().map(u64::from_le_bytes);
            life.kind >= RANGES && word.is_ok_and(|word| holds(life, word))
        }
        Value::List(all) | Value::Launch { arguments: all, .. } => all.iter().any(|value| is_named(value, life)),
        Value::Struct(fields) => fields.iter().any(|(_, value)| is_named(value, life)),
        Value::Options(pairs) => pairs.iter().any(|(_, value)| is_named(value, life)),
        _ => false,
    }
}
