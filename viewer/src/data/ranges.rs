//! The program's NVTX annotations as lanes: a thread's ranges and marks by domain, each depth below the one
//! around it.

use super::event::{Category, Flags, NO_CALL};
use super::lane::{Lane, Source};
use super::model::Name;
use super::tables::{Row, collected, rows};
use super::threads::push;
use crate::text::tame;
use rustc_hash::FxHashMap;
use trace::Trace;
use trace::file::record::annotated;

pub(crate) struct Ranges {
    pub(crate) lanes: Vec<Lane>,
    pub(crate) rows: Vec<Row>,
    pub(crate) domains: Vec<String>,
}

/// `end`: of the trace. New names go behind the others.
pub(crate) fn ranges(trace: &Trace, end: u64, names: &mut Vec<Name>) -> Ranges {
    let ns = |ticks: u64| trace.nanoseconds(ticks).max(0) as u64;
    let opened = trace.annotated_ranges().into_iter().map(|range| (range.opened, range.end.map(ns)));
    let marks = trace.annotations().filter(|annotation| annotation.about.what == annotated::MARK);
    // A mark lasts no time.
    let marks = marks.map(|mark| (ns(mark.about.time), mark)).map(|(time, mark)| (mark, Some(time)));
    let mut all: Vec<_> = opened.chain(marks).map(|(about, end)| (ns(about.about.time), end, about)).collect();
    all.sort_by_key(|(begin, ..)| *begin);
    let mut domains: Vec<String> = Vec::new();
    let mut known: FxHashMap<String, u32> = FxHashMap::default();
    let mut lanes: FxHashMap<(Option<u32>, u32), Vec<Lane>> = FxHashMap::default();
    let mut sums = Vec::new();
    for (begin, ended, about) in all {
        let domain = tame(about.domain.as_deref().unwrap_or(""));
        let domain = domains.iter().position(|other| *other == domain).unwrap_or_else(|| {
            domains.push(domain);
            domains.len() - 1
        }) as u32;
        let text = tame(about.message.as_deref().unwrap_or("(no message)"));
        let name = *known.entry(text).or_insert_with_key(|text| {
            names.push(Name { text: text.clone(), category: Category::Range as u8, kernel: false });
            names.len() as u32 - 1
        });
        // Any thread may end a range that was started, so that such ranges nest with nothing.
        let thread = (about.about.what != annotated::START).then_some(about.thread);
        let until = ended.unwrap_or(end).max(begin);
        let depths = lanes.entry((thread, domain)).or_default();
        let free = |lane: &Lane| lane.len().checked_sub(1).is_none_or(|last| lane.end(last) <= begin);
        let depth = depths.iter().position(free).unwrap_or_else(|| {
            let depth = depths.len() as u32;
            depths.push(Lane::empty(Source::Range { thread, domain, depth }));
            depths.len() - 1
        });
        push(&mut depths[depth], begin, until, name, Flags::new(Category::Range, false, ended.is_none()).0, NO_CALL);
        collected(&mut sums, name).add(NO_CALL, until - begin, false, 0);
    }
    let mut lanes: Vec<_> = lanes.into_iter().collect();
    lanes.sort_by_key(|((thread, domain), _)| (thread.is_none(), *thread, *domain));
    Ranges { lanes: lanes.into_iter().flat_map(|(_, lanes)| lanes).collect(), rows: rows(sums), domains }
}
