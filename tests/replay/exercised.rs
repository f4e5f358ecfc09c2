//! The functions that replays of the workloads call: a list from which SUPPORT.md is derived.

use crate::workloads::{self, PROGRAMS};
use std::collections::{BTreeMap, BTreeSet};
use tests::*;
use trace::api::enums::CUresult;
use trace::api::roles::Policy;
use trace::show::text::symbol;

/// What each function in a trace returned whose replay comes out verified: 0 if one call succeeded. Calls
/// that failed, and that the replay then left out, tell nothing.
fn replayed(program: &str) -> BTreeMap<&'static str, u32> {
    let place = Place::new();
    run(workloads::on(&mut place.recorded(workloads::program(program)), "1")).expect(0);
    let verified = run(workloads::on(&mut place.cutrace(["replay", "--driver", "sim"]), "1"));
    assert!(is_verified(&verified.stdout), "{program}: {}", verified.stdout);
    let skipped =
        verified.stdout.lines().filter_map(|line| line.trim().strip_prefix("skipped")?.split_whitespace().next());
    let skipped: BTreeSet<&str> = skipped.collect();
    let trace = place.trace();
    let returned = trace.calls().filter_map(|call| Some((call.function()?, call.result?)));
    let mut results = BTreeMap::new();
    for (function, result) in returned {
        if function.policy == Policy::refuse || result != 0 && skipped.contains(function.name) {
            continue;
        }
        let least: &mut u32 = results.entry(function.name).or_insert(result);
        *least = result.min(*least);
    }
    results
}

#[test]
fn the_list_of_what_is_exercised_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../trace/tests/exercised.txt");
    let mut results = BTreeMap::new();
    for (name, result) in PROGRAMS.iter().flat_map(|program| replayed(program)) {
        let least: &mut u32 = results.entry(name).or_insert(result);
        *least = result.min(*least);
    }
    let line = |(name, result): (&&str, &u32)| match *result {
        0 => format!("{name}\n"),
        failed => format!("{name} {}\n", symbol(CUresult::ENUM, failed.into())),
    };
    let wanted: String = results.iter().map(line).collect();
    let found = std::fs::read_to_string(path).unwrap_or_default();
    if found != wanted {
        std::fs::write(path, &wanted).expect("the list can be written");
        panic!(
            "trace/tests/exercised.txt was stale and has been written anew: commit it, and what `cargo test -p trace` makes of it"
        );
    }
}
