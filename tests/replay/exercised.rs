//! Which functions the replay of the workloads makes again: a list that SUPPORT.md is derived from.

use crate::workloads::{self, PROGRAMS};
use std::collections::BTreeSet;
use tests::*;
use trace::api::roles::Policy;

/// Functions of which a call that succeeded is in a trace whose replay comes out verified.
fn replayed(program: &str) -> BTreeSet<&'static str> {
    let place = Place::new();
    run(place.recorded(workloads::program(program)).env("CUTRACE_SIM_SEED", "1")).expect(0);
    let verified = run(place.cutrace(["replay", "--driver", "sim"]).env("CUTRACE_SIM_SEED", "1"));
    assert!(verified.stdout.starts_with("verified\n"), "{program}: {}", verified.stdout);
    let trace = place.trace();
    let functions = trace.calls().filter(|call| call.succeeded()).filter_map(|call| call.function());
    functions.filter(|f| !matches!(f.policy, Policy::refuse | Policy::skip)).map(|f| f.name).collect()
}

#[test]
fn the_list_of_what_is_exercised_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../trace/tests/exercised.txt");
    let names: BTreeSet<&str> = PROGRAMS.iter().flat_map(|program| replayed(program)).collect();
    let wanted: String = names.iter().flat_map(|name| [name, "\n"]).collect();
    let found = std::fs::read_to_string(path).unwrap_or_default();
    if found != wanted {
        std::fs::write(path, &wanted).expect("the list can be written");
        panic!(
            "trace/tests/exercised.txt was stale and has been written anew: commit it, and what `cargo test -p trace` makes of it"
        );
    }
}
