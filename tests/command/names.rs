//! Names: a module or a type is a noun, a function says what it does. None is only a participle, an adverb or
//! a preposition, and words that say too little are banned from all names.
//!
//! A crate that still has such names has a limit here, their present number. Lower the limit with each
//! improvement.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where a crate's sources are, and how many of its names may be other than they should be.
const CRATES: &[(&str, usize)] = &[
    ("trace/src", 0),
    ("shim/src", 0),
    ("shim/src/entry", 0),
    ("replayer/src", 0),
    ("analysis/src", 0),
    ("export/src", 0),
    ("viewer/src", 0),
    ("src", 54),
    ("sim/src", 0),
];

/// In no name: `was_told`, `HeldAddress`.
const NOWHERE: &[&str] = &[
    "told",
    "held",
    "kept",
    "asked",
    "beside",
    "given",
    "gone",
    "worked",
    "come",
    "came",
    "meanwhile",
    "brought",
    "said",
];

/// No name by themselves: `of`, but `children_of`.
const NOT_BY_THEMSELVES: &[&str] = &[
    "of", "see", "put", "on", "at", "in", "by", "for", "to", "with", "before", "after", "behind", "beneath", "beyond",
    "under", "within", "until", "around", "between", "inside", "against", "alone", "had", "made", "met", "seen",
    "taken", "shown", "found", "known", "named", "others", "theirs", "again", "together",
];

#[test]
fn names_say_what_they_are_of() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let mut wrong = Vec::new();
    for (directory, allowed) in CRATES {
        let mut found = BTreeSet::new();
        for path in sources(&root.join(directory)) {
            let source = std::fs::read_to_string(&path).expect("text");
            let shown = path.strip_prefix(root).expect("below it").display().to_string();
            let module = path.file_stem().and_then(|stem| stem.to_str()).expect("text");
            let all = std::iter::once(module).chain(names(&source));
            found.extend(all.filter(|name| is_banned(name)).map(|name| format!("{shown}: {name}")));
        }
        if found.len() > *allowed {
            let all: Vec<String> = found.iter().cloned().collect();
            wrong.push(format!("{directory}: {}, more than {allowed}:\n{}", found.len(), all.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

pub fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    let files = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    files.filter(|path| path.extension().is_some_and(|end| end == "rs")).collect()
}

/// Modules, types and functions that a file defines, up to its unit tests.
fn names(source: &str) -> impl Iterator<Item = &str> {
    let tests = source.find("\nmod tests {").unwrap_or(source.len());
    source[..tests].lines().filter_map(defined)
}

/// What a line defines: the name behind the keyword, before which nothing stands but other keywords.
fn defined(line: &str) -> Option<&str> {
    let mut words = line.trim_start().split(' ');
    let is_before = |word: &&str| {
        word.starts_with("pub") || matches!(*word, "const" | "unsafe" | "extern" | "async") || word.starts_with('"')
    };
    let keyword = words.by_ref().find(|word| !is_before(word))?;
    let is_definition = matches!(keyword, "fn" | "struct" | "enum" | "trait" | "type" | "mod" | "union");
    let rest = words.next().filter(|_| is_definition)?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    Some(&rest[..end])
}

fn is_banned(name: &str) -> bool {
    let words = words(name);
    words.iter().any(|word| NOWHERE.contains(&word.as_str()))
        || matches!(&words[..], [word] if NOT_BY_THEMSELVES.contains(&word.as_str()))
}

/// `HeldAddress`, `held_address`: held, address.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for part in name.split('_').filter(|part| !part.is_empty()) {
        let mut was_lower = true;
        for (at, c) in part.char_indices() {
            if at == 0 || c.is_uppercase() && was_lower {
                words.push(String::new());
            }
            words.last_mut().expect("one").extend(c.to_lowercase());
            was_lower = !c.is_uppercase();
        }
    }
    words
}

#[test]
fn what_is_read_of_a_line() {
    for (line, name) in [
        ("    pub(crate) const unsafe fn was_told<T>(&self) {", Some("was_told")),
        ("pub unsafe extern \"C\" fn of(x: u8) {", Some("of")),
        ("pub struct Held(u8);", Some("Held")),
        ("mod kept;", Some("kept")),
        ("    let held = fn_of(x);", None),
        ("/// fn told", None),
        ("impl Held {", None),
    ] {
        assert_eq!(defined(line), name, "{line}");
    }
    assert_eq!(words("HeldAddress"), ["held", "address"]);
    assert_eq!(words("was_told_IPC"), ["was", "told", "ipc"]);
    assert!(is_banned("Told") && is_banned("was_told") && is_banned("of") && !is_banned("children_of"));
}
