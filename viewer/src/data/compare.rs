//! Two traces on one timeline: the calls of the second beside those of the first, matched by their order on
//! each thread.

use super::column::Column;
use super::event::{Category, Flags, change};
use super::lane::{Lane, Source};
use super::model::Model;
use super::open::{Opened, Second};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Calls that are skipped at most on either side to go on together.
const SKIPPED: usize = 512;
/// Calls that must agree behind what was skipped.
const AGREEING: usize = 3;

/// The first trace with the lanes of the second among its own. `aligned`: calls of both that are to begin
/// together; the first that belong together, if nothing is said.
pub fn merge_second(first: &Opened, second: Opened, aligned: Option<(u32, u32)>) -> Opened {
    let (one, other) = (&first.model, &second.model);
    let mut pairs = Vec::new();
    for lane in one.lanes.iter().filter(|lane| matches!(lane.source, Source::Thread { depth: 0, .. })) {
        let same = other.lanes.iter().find(|other| other.source == lane.source);
        pairs.extend(same.map_or_else(Vec::new, |same| paired((one, lane), (other, same))));
    }
    pairs.sort_unstable();
    let mut back: Vec<(u32, u32)> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
    back.sort_unstable();
    let mut second = Second {
        opened: second,
        pairs,
        back,
        names: one.summary.names.len(),
        aligned,
        shift: 0,
        slower: 0,
        faster: 0,
        only_first: 0,
        only_second: 0,
    };
    let begin = |model: &Model, call: u32| model.find_call(call).map_or(0, |(lane, at)| model.lanes[lane].begin[at]);
    if let Some((a, b)) = aligned.or(second.pairs.first().copied()) {
        second.shift = begin(one, a) as i64 - begin(&second.opened.model, b) as i64;
    }
    joined(first, second)
}

/// The same two, with these calls beginning together.
pub fn aligned(now: &Opened, first: u32, second: u32) -> Option<Opened> {
    let known = now.second.as_ref()?;
    let begin = |model: &Model, call: u32| model.find_call(call).map(|(lane, at)| model.lanes[lane].begin[at]);
    let shift = begin(&now.model, first)? as i64 - begin(&known.opened.model, second)? as i64;
    let again = Second {
        opened: known.opened.shared_copy(),
        pairs: known.pairs.clone(),
        back: known.back.clone(),
        names: known.names,
        aligned: Some((first, second)),
        shift,
        slower: 0,
        faster: 0,
        only_first: 0,
        only_second: 0,
    };
    Some(joined(now, again))
}

fn joined(first: &Opened, mut second: Second) -> Opened {
    let mut all = first.shared_copy();
    let model = &mut all.model;
    model.lanes.retain(|lane| !matches!(lane.source, Source::Second(_)));
    for lane in model.lanes.iter_mut().filter(|lane| matches!(lane.source, Source::Thread { depth: 0, .. })) {
        let alone = (0..lane.len()).filter(|at| second.of_first(lane.call[*at]).is_none()).collect::<Vec<_>>();
        second.only_first += alone.len() as u64;
        let mut flags = lane.flags.to_vec();
        alone.into_iter().for_each(|at| flags[at] |= Flags::ALONE);
        lane.flags = flags.into();
        lane.build_pyramid();
    }
    // Names of the second stand behind the first's.
    let offset = second.names as u32;
    model.summary.names.truncate(second.names);
    model.summary.names.extend(second.opened.model.summary.names.iter().cloned());
    let lanes: Vec<Lane> = second.opened.model.lanes.clone();
    for lane in lanes {
        if matches!(lane.source, Source::Range { .. } | Source::Second(_) | Source::Thread { depth: 1.., .. }) {
            continue;
        }
        let mut flags = lane.flags.to_vec();
        if lane.source.is_thread() {
            for (at, flags) in flags.iter_mut().enumerate() {
                let pair = second.of_second(lane.call[at]).and_then(|call| all.model.find_call(call));
                let how = pair
                    .map_or(Category::Only, |(other, of)| change(all.model.lanes[other].length(of), lane.length(at)));
                match how {
                    Category::Slower => second.slower += 1,
                    Category::Faster => second.faster += 1,
                    Category::Only => second.only_second += 1,
                    _ => {}
                }
                *flags = coloured(*flags, how);
            }
        }
        let moved = shifted(lane, second.shift, offset, flags);
        let end = moved.len().checked_sub(1).map_or(0, |last| moved.end(last));
        all.model.summary.end = all.model.summary.end.max(end);
        all.model.lanes.push(moved);
    }
    all.second = Some(Arc::new(second));
    all
}

fn coloured(flags: u8, category: Category) -> u8 {
    let flags = Flags(flags);
    Flags::new(category, flags.failed(), flags.open()).0
}

/// What would begin before the first trace does is left out.
pub(super) fn shifted(lane: Lane, shift: i64, offset: u32, flags: Vec<u8>) -> Lane {
    let first = lane.begin.partition_point(|begin| i128::from(*begin) + i128::from(shift) < 0);
    let cut = |column: &Column<u32>| -> Column<u32> { column[first.min(column.len())..].to_vec().into() };
    let moved = |column: &Column<u64>| -> Column<u64> {
        let times = column[first.min(column.len())..].iter();
        times
            .map(|time| if *time == u64::MAX { *time } else { time.saturating_add_signed(shift) })
            .collect::<Vec<_>>()
            .into()
    };
    let long = lane.long.iter().filter(|[at, _]| *at >= first as u64);
    let mut all = Lane {
        source: Source::Second(Box::new(lane.source.clone())),
        begin: moved(&lane.begin),
        length: cut(&lane.length),
        long: long.map(|[at, length]| [at - first as u64, *length]).collect::<Vec<_>>().into(),
        name: cut(&lane.name).iter().map(|name| name + offset).collect::<Vec<_>>().into(),
        flags: flags[first..].to_vec().into(),
        call: cut(&lane.call),
        done: moved(&lane.done),
        record: lane.record[first.min(lane.record.len())..].to_vec().into(),
        pyramid: Default::default(),
    };
    all.build_pyramid();
    all
}

/// Calls of two threads that belong together: the same functions, and kernels, in the same order.
fn paired(first: (&Model, &Lane), second: (&Model, &Lane)) -> Vec<(u32, u32)> {
    let mut known: FxHashMap<(String, Option<String>), u32> = FxHashMap::default();
    let mut words = |(model, lane): (&Model, &Lane)| -> Vec<u32> {
        let mut by_name: FxHashMap<(u32, Option<u32>), u32> = FxHashMap::default();
        let word = |at: usize| {
            let launch = Flags(lane.flags[at]).own() == Category::Launch;
            let work = launch.then(|| model.find_work(lane.call[at])).flatten();
            let kernel = work.map(|(lane, at)| model.lanes[lane].name[at]);
            let (name, next) = (lane.name[at], known.len() as u32);
            *by_name.entry((name, kernel)).or_insert_with(|| {
                let text = (model.name(name).to_owned(), kernel.map(|kernel| model.name(kernel).to_owned()));
                *known.entry(text).or_insert(next)
            })
        };
        (0..lane.len()).map(word).collect()
    };
    let (one, other) = (words(first), words(second));
    let pairs = in_order(&one, &other);
    pairs.into_iter().map(|(a, b)| (first.1.call[a], second.1.call[b])).collect()
}

/// Places in two sequences that belong together. Where they part, the fewest are skipped on both sides behind
/// which a few agree again; where none do, one on each side.
fn in_order(one: &[u32], other: &[u32]) -> Vec<(usize, usize)> {
    let mut pairs = Vec::with_capacity(one.len().min(other.len()));
    let (mut a, mut b) = (0, 0);
    while a < one.len() && b < other.len() {
        if one[a] == other[b] {
            pairs.push((a, b));
            (a, b) = (a + 1, b + 1);
            continue;
        }
        let agree = |a: usize, b: usize| {
            let left = (one.len() - a).min(other.len() - b).min(AGREEING);
            left > 0 && one[a..a + left] == other[b..b + left]
        };
        let ways = (1..=SKIPPED).flat_map(|all| (0..=all).map(move |of_one| (of_one, all - of_one)));
        let mut near = ways.filter(|(of_one, of_other)| a + of_one < one.len() && b + of_other < other.len());
        let found = near.find(|(of_one, of_other)| agree(a + of_one, b + of_other));
        let (of_one, of_other) = found.unwrap_or((1, 1));
        (a, b) = (a + of_one, b + of_other);
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pairs_agree_and_rise(one in prop::collection::vec(0..5u32, 0..300), other in prop::collection::vec(0..5u32, 0..300)) {
            let pairs = in_order(&one, &other);
            prop_assert!(pairs.iter().all(|(a, b)| one[*a] == other[*b]));
            prop_assert!(pairs.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 < two[1].1));
        }

        #[test]
        fn what_was_put_in_between_parts_nothing_else(one in prop::collection::vec(0..5u32, 3..300), at in 0.0..1.0f64, more in 0..400usize) {
            let at = (at * one.len() as f64) as usize;
            let mut other = one.clone();
            other.splice(at..at, std::iter::repeat_n(9, more));
            let wanted: Vec<_> = (0..one.len()).map(|n| (n, if n < at { n } else { n + more })).collect();
            prop_assert_eq!(in_order(&one, &other), wanted.clone());
            let back: Vec<_> = wanted.into_iter().map(|(a, b)| (b, a)).collect();
            prop_assert_eq!(in_order(&other, &one), back);
        }
    }
}
