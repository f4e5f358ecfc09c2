//! The dependencies of the recorder, which runs inside other people's processes.

use std::collections::BTreeSet;
use std::process::Command;

/// The recorder's whole dependency list, and why each is there. A new name is a new guest in every recorded
/// process.
const SHIM: &[(&str, &str)] = &[
    ("ours", "shim trace"),
    ("system calls and libraries, records, the hash", "libc bincode xxhash-rust"),
    ("by bincode", "unty"),
    ("by trace, for its reader", "foldhash memmap2 thiserror"),
    ("when it is built", "bincode_derive virtue thiserror-impl proc-macro2 quote syn unicode-ident"),
];

#[test]
fn the_recorder_brings_few_guests() {
    let mut tree = Command::new(env!("CARGO"));
    tree.args(["tree", "--package", "shim", "--edges", "normal", "--prefix", "none", "--format", "{p}"]);
    tree.args(["--offline", "--locked", "--target", "x86_64-unknown-linux-gnu"])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    let ran = tests::run(&mut tree).expect(0);
    let found: BTreeSet<&str> = ran.stdout.lines().filter_map(|line| line.split(' ').next()).collect();
    let allowed: BTreeSet<&str> = SHIM.iter().flat_map(|(_, names)| names.split(' ')).collect();
    assert_eq!(found.difference(&allowed).collect::<Vec<_>>(), [&""; 0], "not in the list above");
    assert_eq!(allowed.difference(&found).collect::<Vec<_>>(), [&""; 0], "in the list above, and no longer needed");
}
