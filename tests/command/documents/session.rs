//! The sessions of a page, run one after the other in one shell.

use super::page::{Block, Page};
use super::{root, shell};
use regex::Regex;
use std::fmt::Write as _;
use std::os::unix::fs::symlink;
use std::time::Duration;
use tests::*;

/// Between what two commands print. The exit status of the first follows.
const BORDER: &str = "=== the command before this line ended with";

struct Typed {
    place: String,
    command: String,
    shown: Vec<String>,
    numbers_vary: bool,
}

pub struct Session(Vec<Typed>);

impl Session {
    pub fn new(page: &Page) -> Session {
        let run = page.blocks.iter().filter(|block| matches!(block.kind.as_str(), "console" | "console numbers"));
        Session(run.flat_map(typed).collect())
    }

    /// What came otherwise than the page says.
    pub fn failures(&self) -> Vec<String> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let place = Place::new();
        let output = self.output(&place);
        let parts: Vec<&str> = output.split(BORDER).collect();
        let mut failures = Vec::new();
        for (n, typed) in self.0.iter().enumerate() {
            let (Some(part), Some(next)) = (parts.get(n), parts.get(n + 1)) else {
                failures.push(format!("{}: was not reached: {}", typed.place, typed.command));
                break;
            };
            let printed = if n == 0 { part } else { part.split_once('\n').map_or("", |(_, rest)| rest) };
            let status = next.split('\n').next().unwrap_or_default().trim();
            let is_told = self.0.get(n + 1).is_some_and(|next| next.command == "echo $?");
            if status != "0" && !is_told {
                failures.push(format!("{}: {} ended with {status}:\n{printed}", typed.place, typed.command));
            } else if !typed.agrees(printed) {
                failures.push(format!("{}: {} prints\n{printed}", typed.place, typed.command));
            }
        }
        failures
    }

    /// Of all commands, each followed by a border.
    fn output(&self, place: &Place) -> String {
        // The sources, as a checkout has them.
        for name in ["tests", "scripts", "LICENSE-MIT"] {
            symlink(root().join(name), place.join(name)).expect("linked");
        }
        std::fs::create_dir_all(place.join("target")).expect("made");
        symlink(root().join("target/cuda"), place.join("target/cuda")).expect("linked");
        std::fs::create_dir(place.join("bin")).expect("made");
        symlink(artifact("cutrace"), place.join("bin/cutrace")).expect("linked");

        let mut script = String::from("exec 2>&1\n");
        for Typed { command, .. } in &self.0 {
            let _ = writeln!(script, "{command}\n_status=$?; echo; echo '{BORDER}' $_status; (exit $_status)");
        }
        let mut bash = shell(place.path());
        let path = format!("{}:{}", place.join("bin").display(), std::env::var("PATH").unwrap_or_default());
        bash.arg("-c").arg(script).env("PATH", path).env("HOME", place.path()).env("LC_ALL", "C.UTF-8");
        run_within(&mut bash, Duration::from_secs(300)).stdout
    }
}

/// The commands of a block. One goes on behind a backslash.
fn typed(block: &Block) -> Vec<Typed> {
    let mut all: Vec<Typed> = Vec::new();
    let mut goes_on = false;
    for line in block.text.lines() {
        match (line.strip_prefix("$ "), all.last_mut()) {
            (_, Some(last)) if goes_on => last.command.extend(["\n", line]),
            (Some(command), _) => all.push(Typed {
                place: block.place.clone(),
                command: command.to_owned(),
                shown: Vec::new(),
                numbers_vary: block.kind == "console numbers",
            }),
            (None, Some(last)) => last.shown.push(line.to_owned()),
            (None, None) => panic!("{}: output before any command: {line}", block.place),
        }
        goes_on = (goes_on || line.starts_with("$ ")) && line.ends_with('\\');
    }
    all
}

impl Typed {
    fn agrees(&self, printed: &str) -> bool {
        let alike = |line: &str| constant(line, self.numbers_vary);
        let filled = |line: &&str| !line.trim().is_empty();
        let shown: Vec<String> = self.shown.iter().map(String::as_str).filter(filled).map(alike).collect();
        let printed_sizes: Vec<f64> = printed.lines().flat_map(sizes).collect();
        let printed: Vec<String> = printed.lines().filter(filled).map(alike).collect();
        shown.is_empty() || lines_agree(&shown, &printed) && self.sizes_agree(&printed_sizes)
    }

    /// Sizes of traces depend on the environment that they keep: those of the page are about right.
    fn sizes_agree(&self, printed: &[f64]) -> bool {
        let shown: Vec<f64> = self.shown.iter().flat_map(|line| sizes(line)).collect();
        let are_close = |shown: &f64| printed.iter().any(|printed| (shown / printed - 1.0).abs() < 0.1);
        shown.iter().all(are_close)
    }
}

/// Of traces that a line names, in bytes.
fn sizes(line: &str) -> Vec<f64> {
    const UNITS: [(&str, f64); 4] = [("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9)];
    if !line.contains(".bin") {
        return Vec::new();
    }
    let all = Regex::new(SIZE).expect("sound");
    let bytes = |found: regex::Captures| {
        let unit = UNITS.iter().find(|(name, _)| *name == &found[2])?.1;
        Some(found[1].parse::<f64>().ok()? * unit)
    };
    all.captures_iter(line).filter_map(bytes).collect()
}

const SIZE: &str = r"\b(\d+(?:\.\d+)?) ([kMG]?B)\b";

/// A line without what differs from run to run. Spaces follow from the widths of that.
fn constant(line: &str, numbers_vary: bool) -> String {
    let replaced = |line: &str, pattern: &str, with: &str| {
        Regex::new(pattern).expect("sound").replace_all(line, with).into_owned()
    };
    let mut line = replaced(line, r"0x[0-9a-f]+", "<address>");
    line = replaced(&line, r"\b\d+\.\d{9}\b|\b\d+(?:[.,]\d+)* (?:ns|us|ms|s)\b", "<time>");
    if line.contains(".bin") {
        line = replaced(&line, SIZE, "<size>");
    }
    if numbers_vary {
        line = replaced(&line, r"\d+(?:[.,]\d+)*(?: (?:[kMGT]?B(?:/s)?|[num]?s)\b)?|<(?:time|size)>", "<number>");
    }
    line = replaced(&line, r"-{2,}", "--");
    replaced(line.trim(), r"\s+", " ")
}

fn lines_agree(shown: &[String], printed: &[String]) -> bool {
    let Some((first, rest)) = shown.split_first() else { return printed.is_empty() };
    if first == "..." {
        return (0..=printed.len()).any(|skipped| lines_agree(rest, &printed[skipped..]));
    }
    printed.first().is_some_and(|line| line_agrees(first, line)) && lines_agree(rest, &printed[1..])
}

fn line_agrees(shown: &str, printed: &str) -> bool {
    let pattern: Vec<String> = shown.split("...").map(regex::escape).collect();
    Regex::new(&format!("^{}$", pattern.join(".*"))).expect("sound").is_match(printed)
}

#[test]
fn what_differs_is_noticed() {
    let agree = |kind: &str, shown: &str, printed: &str| {
        let block = Block { place: String::new(), kind: kind.into(), text: format!("$ command\n{shown}\n") };
        typed(&block).remove(0).agrees(printed)
    };
    assert!(agree("console", "a\n...\nd", "a\nb\nc\nd\n") && !agree("console", "a\n...\nd", "a\nb\nc\n"));
    assert!(agree("console", "12 calls in 1.5 ms", "12 calls in 800 us") && !agree("console", "12 calls", "13 calls"));
    assert!(agree("console", "t.bin: 3 calls, 1.2 kB", "t.bin: 3 calls, 1.3 kB") && !agree("console", "1.2 kB", "9 B"));
    assert!(!agree("console", "t.bin: 3 calls, 1.2 kB", "t.bin: 3 calls, 1.5 kB"));
    assert!(
        agree("console numbers", "---  12 calls", "-----  1,300.5 calls") && !agree("console numbers", "1 a", "1 b")
    );
    assert!(agree("console", "at ...: no", "at 0x12: no") && !agree("console", "at ...: no", "at 0x12: yes"));
    assert!(agree("console", "", "what it likes"));
}
