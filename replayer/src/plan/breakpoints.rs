//! Points of a trace at which a replay can stop, and memory that can be dumped there, by the names that a
//! user knows.

use crate::plan::memory::allocation_names::{AllocationNames, RangeText};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use trace::Trace;
use trace::show::launch::kernel;
use trace::show::text::plain;

/// Names shown where one is not known.
const SHOWN: usize = 8;

/// The `nth` (from 1) call of a driver function, or launch of a kernel, of this name. A function is also
/// found without the ending of its version or stream mode, and a kernel by `is_meant`. Kernels inside graphs
/// are no launches of their own.
pub fn find_call(trace: &Trace, name: &str, nth: u64, is_meant: impl Fn(&str) -> bool) -> Result<u64, String> {
    let mut seen = 0;
    let mut names: BTreeMap<&str, u64> = BTreeMap::new();
    for call in trace.calls().filter(|call| !call.inner) {
        let kernel = kernel(&call);
        if call.name() == name || stem(call.name()) == name || kernel.is_some_and(&is_meant) {
            seen += 1;
            if seen == nth {
                return Ok(call.number);
            }
        }
        [Some(call.name()), kernel].into_iter().flatten().for_each(|name| *names.entry(name).or_default() += 1);
    }
    if nth == 0 {
        return Err(format!("{name}#0: numbers start at #1"));
    }
    if seen > 0 {
        return Err(format!("{name}#{nth}: the trace has it {} only", times(seen)));
    }
    let near = nearest(name, names.keys().copied());
    Err(format!("{name:?}: no such driver function is called and no such kernel is launched; nearest: {near}"))
}

/// All launches of the kernels that are meant, or the `nth` (from 1) of them. `name` is what they are called
/// in a message.
pub fn find_launches(
    trace: &Trace,
    name: &str,
    nth: Option<u64>,
    is_meant: impl Fn(&str) -> bool,
) -> Result<Vec<u64>, String> {
    let launches = trace.calls().filter(|call| !call.inner && kernel(call).is_some_and(&is_meant));
    let all: Vec<u64> = launches.map(|call| call.number).collect();
    match nth {
        None if !all.is_empty() => Ok(all),
        Some(nth @ 1..) if nth <= all.len() as u64 => Ok(vec![all[nth as usize - 1]]),
        // Whose name it may be instead.
        _ if all.is_empty() => {
            let calls = trace.calls().filter(|call| !call.inner);
            let names: BTreeSet<&str> = calls.filter_map(|call| kernel(&call)).collect();
            let what = format!("{name:?}: no such kernel is launched");
            match names.is_empty() {
                true => Err(format!("{what}; the trace launches no kernel by a call")),
                false => Err(format!("{what}; nearest: {}", nearest(name, names.into_iter()))),
            }
        }
        Some(0) => Err(format!("{name}#0: numbers start at #1")),
        nth => Err(format!(
            "{name}#{}: it is launched, captured or added as a node {} only",
            nth.unwrap_or(1),
            times(all.len() as u64)
        )),
    }
}

fn times(count: u64) -> String {
    if count == 1 { "once".into() } else { format!("{count} times") }
}

/// The names that are most like this one.
fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> String {
    let mut near: Vec<(usize, &str)> = names.map(|known| (distance(name, known), known)).collect();
    near.sort_unstable();
    let more = if near.len() > SHOWN { ", ..." } else { "" };
    let near: Vec<String> = near.into_iter().take(SHOWN).map(|(_, name)| plain(name).into_owned()).collect();
    near.join(", ") + more
}

/// `cuMemcpyHtoD` of `cuMemcpyHtoD_v2_ptds`.
fn stem(name: &str) -> &str {
    ["_ptsz", "_ptds", "_v2", "_v3", "_v4"].iter().fold(name, |name, end| name.strip_suffix(end).unwrap_or(name))
}

/// Changes of a letter between two names; none for a part of the other.
fn distance(wanted: &str, known: &str) -> usize {
    let (wanted, known) = (wanted.to_lowercase(), known.to_lowercase());
    if !wanted.is_empty() && known.contains(&wanted) {
        return 0;
    }
    let known: Vec<char> = known.chars().collect();
    let mut row: Vec<usize> = (0..=known.len()).collect();
    for (at, letter) in wanted.chars().enumerate() {
        let mut corner = row[0];
        row[0] = at + 1;
        for (n, other) in known.iter().enumerate() {
            let changed = corner + usize::from(letter != *other);
            corner = row[n + 1];
            row[n + 1] = changed.min(row[n] + 1).min(corner + 1);
        }
    }
    row[known.len()]
}

/// Device memory to dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DumpMemory {
    /// Recorded addresses.
    Range(Range<u64>),
    /// An allocation as `cutrace dump` names it: `mem` or `global`, and its number.
    Allocation(&'static str, u64),
}

/// The recorded addresses of memory that is alive when call `end` is entered.
pub fn find_memory(trace: &Trace, end: u64, memory: &DumpMemory) -> Result<Range<u64>, String> {
    let named = AllocationNames::before_call(trace, end);
    let ends_with = |call: u64| {
        let name = trace.call(call).map_or("?", |call| call.name());
        format!("call {call} {name} frees it; stop before that call: --until {}", call.saturating_sub(1))
    };
    match memory {
        DumpMemory::Range(wanted) => {
            let holder =
                named.ranges().find(|range| (range.base..range.base.saturating_add(range.len)).contains(&wanted.start));
            let Some(holder) = holder.filter(|range| range.label != "host") else {
                return Err(format!("{:#x} is {}", wanted.start, named.place(wanted.start)));
            };
            match wanted.end.saturating_sub(holder.base.saturating_add(holder.len)) {
                0 => Ok(wanted.clone()),
                over => Err(format!("the range ends {over} bytes past the end of {}", RangeText(holder))),
            }
        }
        DumpMemory::Allocation(label, number) => {
            let is_it = |range: &trace::model::objects::Range| (range.label, range.number) == (*label, *number);
            if let Some(range) = named.ranges().find(is_it) {
                return Ok(range.base..range.base.saturating_add(range.len));
            }
            if let Some((_, call)) = named.ended_ranges().find(|(range, _)| is_it(range)) {
                return Err(format!("{label}#{number} no longer exists: {}", ends_with(call)));
            }
            if let Some(call) = AllocationNames::birth(trace, label, *number) {
                return Err(format!("{label}#{number} does not exist yet: call {call} allocates it"));
            }
            let there: Vec<String> = named
                .ranges()
                .filter(|range| range.label != "host")
                .take(SHOWN)
                .map(|range| format!("{}#{}", range.label, range.number))
                .collect();
            let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
            Err(format!("the trace has no {label}#{number}; alive at that point: {there}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_near() {
        assert_eq!(stem("cuMemcpyHtoDAsync_v2_ptsz"), "cuMemcpyHtoDAsync");
        assert_eq!(distance("vector_ad", "vector_add"), 0);
        assert_eq!(distance("vectr_add", "vector_add"), 1);
        assert_eq!(distance("cuMemcpyHtoD", "cuMemcpyDtoH"), 2);
        assert!(distance("histogram", "vector_add") > 5);
    }
}
