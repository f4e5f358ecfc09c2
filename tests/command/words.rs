//! Words: what a user reads is plain English (docs/internals/style.md). Some turns of phrase say too little, and are in no
//! string of the product and in no help text.

use crate::names::sources;
use regex::Regex;
use std::path::Path;

const CRATES: &[&str] =
    &["trace/src", "shim/src", "sim/src", "replayer/src", "analysis/src", "export/src", "viewer/src", "src"];

/// Each with what to say.
const BANNED: &[(&str, &str)] = &[
    (r"tells?|told", "report, print, name"),
    (r"brings?|brought", "copy, cause, contain"),
    (r"(is|are|was|were|be) had", "can be read, can be created"),
    (r"comes? (to|back|further)|came (to|back|further)|did not come", "return, arrive, make progress"),
    (r"so (many|long)", "N, SECONDS, BYTES"),
    (r"what it|who (names|asks|wants|has)|of which", "a noun"),
    (r"manieth|besides?|nobody|anew|meanwhile|stood in", "plain words"),
    (r"(gives?|gave|given|got|gets) (back|hold)|handed out", "free, return"),
    (r"for want of|(is|are) about|as it may", "because, concerns"),
    (r"under way", "in flight, active"),
    (r"(is|are|was|were) not (here|there)|there (is|are) none|is none", "does not exist, is missing"),
    (r"in the way|at hand|how far|cut short", "in use by, available, size, truncated"),
    (r"pieces? of memory", "allocation, range"),
];

#[test]
fn users_read_plain_words() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    // The second stands in traces, where it is recognised.
    let allowed = Regex::new(r"told apart|each launch of the graph tells it").expect("a pattern");
    let banned: Vec<(Regex, &str)> = BANNED
        .iter()
        .map(|(pattern, instead)| (Regex::new(&format!(r"(?i)\b({pattern})\b")).expect("a pattern"), *instead))
        .collect();
    let mut wrong = Vec::new();
    for path in CRATES.iter().flat_map(|of_crate| sources(&root.join(of_crate))) {
        let source = std::fs::read_to_string(&path).expect("text");
        let product = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let shown = path.strip_prefix(root).expect("below it").display().to_string();
        let strings = strings(product).into_iter().filter(|text| text.contains(' '));
        for text in strings.chain(help(&shown, product)) {
            let text = allowed.replace_all(&text, "");
            let found = banned.iter().find_map(|(pattern, instead)| Some((pattern.find(&text)?.as_str(), instead)));
            wrong.extend(found.map(|(phrase, instead)| format!("{shown}: {phrase:?} in {text:?}; say {instead}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// String literals, without the names of what is put into them.
fn strings(source: &str) -> Vec<String> {
    let literal = Regex::new(r##"(?s)//[^\n]*|'(?:\\.[^']*|[^'\\])'|b?r#"(.*?)"#|b?r"([^"]*)"|b?"((?:[^"\\]|\\.)*)""##);
    let names = Regex::new(r"\{[^{}]*\}").expect("a pattern");
    let literals = literal.expect("a pattern");
    let texts = literals.captures_iter(source).filter_map(|found| found.iter().skip(1).flatten().next());
    texts.map(|text| names.replace_all(text.as_str(), "{}").into_owned()).collect()
}

/// Comments that `clap` prints: those above its attributes.
fn help(path: &str, source: &str) -> Vec<String> {
    let is_help = path.starts_with("src/commands") || path.starts_with("src/arguments") || path == "src/main.rs";
    let lines: Vec<&str> = source.lines().filter(|_| is_help).map(str::trim).collect();
    let mut all = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(text) = line.strip_prefix("/// ") else { continue };
        let next = lines[at..].iter().find(|line| !line.starts_with("///")).copied().unwrap_or_default();
        if ["#[arg", "#[command", "#[derive(clap", "#[derive(Args"].iter().any(|of_clap| next.starts_with(of_clap)) {
            all.push(text.to_owned());
        }
    }
    all
}
