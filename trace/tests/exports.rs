//! The table against the driver: it names every export of libcuda.so.1 of release 580 once. Its other names
//! came later; `scripts/check-api` compares those with the header.

use std::collections::BTreeSet;
use trace::api::{FUNCTIONS, base, by_name};

const EXPORTS: &str = include_str!("libcuda-580-exports.txt");

#[test]
fn the_table_contains_the_export_list() {
    let exported: BTreeSet<&str> = EXPORTS.lines().collect();
    let described: BTreeSet<&str> = FUNCTIONS.iter().map(|f| f.name).collect();
    let missing: Vec<_> = exported.difference(&described).collect();
    assert!(missing.is_empty(), "exported but not described: {missing:?}");
    assert_eq!(FUNCTIONS.len(), described.len(), "a function is described twice");
}

#[test]
fn ids_follow_the_families() {
    let mut family = "";
    for (id, function) in FUNCTIONS.iter().enumerate() {
        if function.family != family {
            family = function.family;
            assert_eq!(usize::from(base(family)), id, "{family}");
        }
        assert_eq!(by_name(function.name).map(|f| f.name), Some(function.name));
    }
}

#[test]
fn twins_share_their_line() {
    for twin in FUNCTIONS {
        let Some(of) = twin.twin_of else { continue };
        let function = by_name(of).unwrap();
        assert!(std::ptr::eq(function.params, twin.params), "{}", twin.name);
        assert!(twin.name == format!("{of}_ptsz") || twin.name == format!("{of}_ptds"), "{}", twin.name);
    }
}
