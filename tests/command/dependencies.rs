//! What runs inside other people's processes.

use std::collections::BTreeSet;
use std::process::Command;

/// The recorder's whole dependency list. A new name here is a new guest in every recorded process.
const SHIM: &[&str] = &[
    "shim", "trace", //
    // The card's: system calls, libraries, locks for the cold paths, records, the hash.
    "libc", "libloading", "parking_lot", "bincode", "xxhash-rust",
    // By libloading; by parking_lot; by bincode.
    "cfg-if", "lock_api", "parking_lot_core", "scopeguard", "smallvec", "unty",
    // By trace, for its reader.
    "memmap2", "thiserror",
    // At build time only.
    "bincode_derive", "virtue", "thiserror-impl", "proc-macro2", "quote", "syn", "unicode-ident",
];

#[test]
fn the_recorder_brings_few_guests() {
    let mut tree = Command::new(env!("CARGO"));
    tree.args(["tree", "--package", "shim", "--edges", "normal", "--prefix", "none", "--format", "{p}"]);
    tree.args(["--offline", "--locked", "--target", "x86_64-unknown-linux-gnu"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let ran = tests::run(&mut tree).expect(0);
    let found: BTreeSet<&str> = ran.stdout.lines().filter_map(|line| line.split(' ').next()).collect();
    let allowed: BTreeSet<&str> = SHIM.iter().copied().collect();
    assert_eq!(found.difference(&allowed).collect::<Vec<_>>(), [&""; 0], "not in the list above");
    assert_eq!(allowed.difference(&found).collect::<Vec<_>>(), [&""; 0], "in the list above, and no longer needed");
}
