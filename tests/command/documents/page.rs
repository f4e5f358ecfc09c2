//! A page: its fenced blocks, and the names in it.

use super::root;
use regex::Regex;
use std::path::{Path, PathBuf};

pub struct Page {
    pub path: PathBuf,
    pub text: String,
    /// Code that is set off by spaces is a block of `text`, a line each.
    pub blocks: Vec<Block>,
}

pub struct Block {
    /// `docs/replay.md:12`, of its first line.
    pub place: String,
    pub kind: String,
    pub text: String,
}

/// README.md and all of docs/ and docs/internals/.
pub fn pages() -> Vec<Page> {
    let within = |folder: &str| std::fs::read_dir(root().join(folder)).expect("a folder").flatten();
    let mut all: Vec<PathBuf> =
        ["docs", "docs/internals"].into_iter().flat_map(within).map(|entry| entry.path()).collect();
    all.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    all.sort();
    all.insert(0, root().join("README.md"));
    all.iter().map(Page::read).collect()
}

impl Page {
    /// By its path, or its name in the repository.
    pub fn read(path: impl AsRef<Path>) -> Page {
        let path = root().join(path);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut page = Page { path, text, blocks: Vec::new() };
        let mut block: Option<Block> = None;
        let mut in_list = false;
        let text = page.text.clone();
        for (number, line) in text.lines().enumerate() {
            let fence = line.trim_start().strip_prefix("```");
            match (&mut block, fence) {
                (None, Some(kind)) => {
                    block = Some(Block { place: page.place(number + 1), kind: kind.to_owned(), text: String::new() });
                }
                (Some(_), Some(_)) => page.blocks.extend(block.take()),
                (Some(block), None) => block.text.extend([line, "\n"]),
                (None, None) => {
                    in_list &= line.is_empty() || line.starts_with(' ');
                    in_list |= line.starts_with("* ") || line.starts_with("1. ");
                    if line.starts_with("    ") && !in_list {
                        let text = format!("{}\n", line.trim_start().trim_start_matches("$ "));
                        page.blocks.push(Block { place: page.place(number), kind: "text".to_owned(), text });
                    }
                }
            }
        }
        assert!(block.is_none(), "{}: a block has no end", page.path.display());
        page
    }

    pub fn directory(&self) -> &Path {
        self.path.parent().expect("a file lies in a directory")
    }

    fn place(&self, line: usize) -> String {
        let path = self.path.strip_prefix(root()).unwrap_or(&self.path);
        format!("{}:{}", path.display(), line + 1)
    }

    /// Its lines, each with its place, and whether it is in a block.
    fn lines(&self) -> Vec<(String, &str, bool)> {
        let mut inside = false;
        let each = self.text.lines().enumerate().map(|(number, line)| {
            inside ^= line.trim_start().starts_with("```");
            (self.place(number), line, inside)
        });
        each.collect()
    }

    /// Every command of cutrace: in a block (of a session, what was typed), and in backquotes.
    pub fn commands(&self) -> Vec<(String, String)> {
        let spans = Regex::new("`([^`]+)`").expect("sound");
        let command = Regex::new(r"(-p |^|[\s/(=])cutrace( [a-z-][^|;#)&>\]]*)").expect("sound");
        // The package of that name is none.
        let commands = |text: &str| -> Vec<String> {
            let found = command.captures_iter(text).filter(|found| &found[1] != "-p ");
            found.map(|found| found[2].trim().to_owned()).collect()
        };
        let names = "record|replay|report|view|info|dump|export|repair|pack|redact|doctor|demo|on|off";
        let short = Regex::new(&format!("^({names}) -")).expect("sound");
        let mut all = Vec::new();
        for block in &self.blocks {
            // A list of YAML holds the words of a command, too.
            let whole = block.text.replace("\\\n", " ").replace(", ", " ");
            let is_command = |line: &&str| match block.kind.as_str() {
                "dockerfile" => line.starts_with("RUN "),
                kind => !kind.starts_with("console") || line.starts_with("$ "),
            };
            for line in whole.lines().filter(is_command).map(|line| line.split("# ").next().unwrap_or_default()) {
                all.extend(commands(line).into_iter().map(|command| (block.place.clone(), command)));
            }
        }
        for (place, line, _) in self.lines().into_iter().filter(|(_, _, inside)| !inside) {
            for span in spans.captures_iter(line).map(|found| found[1].to_owned()) {
                all.extend(commands(&span).into_iter().map(|command| (place.clone(), command)));
                if short.is_match(&span) {
                    all.push((place.clone(), span));
                }
            }
        }
        all
    }

    /// Where its links go to, but for those to other hosts.
    pub fn links(&self) -> Vec<(String, String)> {
        let link = Regex::new(r"\]\(([^)\s]+)\)").expect("sound");
        let lines = self.lines().into_iter().filter(|(_, _, inside)| !inside);
        let all = lines.flat_map(|(place, line, _)| {
            link.captures_iter(line).map(|found| (place.clone(), found[1].to_owned())).collect::<Vec<_>>()
        });
        all.filter(|(_, target)| !target.contains("://")).collect()
    }

    /// What its headings are linked to by.
    pub fn anchors(&self) -> Vec<String> {
        let headings = self.lines().into_iter().filter(|(_, line, inside)| !inside && line.starts_with('#'));
        let anchor = |line: &str| {
            let kept = |c: char| (c.is_alphanumeric() || "-_ ".contains(c)).then_some(c);
            line.trim_start_matches('#')
                .trim()
                .to_lowercase()
                .chars()
                .filter_map(kept)
                .collect::<String>()
                .replace(' ', "-")
        };
        headings.map(|(_, line, _)| anchor(line)).collect()
    }

    /// Files of the repository that it names by their whole path.
    pub fn files(&self) -> Vec<(String, String)> {
        let file = Regex::new(r"(?:^|[\s(`\x22$./=])((?:tests|docs|scripts|trace|shim|replayer|analysis|export|viewer|sim|src)/[\w./-]*\w)").expect("sound");
        let all = self.lines().into_iter().flat_map(|(place, line, _)| {
            file.captures_iter(line).map(|found| (place.clone(), found[1].to_owned())).collect::<Vec<_>>()
        });
        all.collect()
    }

    /// What it names in backquotes as a source file.
    pub fn sources(&self) -> Vec<(String, String)> {
        self.spans(r"`([\w/]+\.rs)`")
    }

    /// What it names in backquotes as a path of our code: `Type::name`.
    pub fn items(&self) -> Vec<(String, String)> {
        self.spans(r"`([A-Za-z_]\w*(?:::[A-Za-z_]\w*)+)(?:\(\))?`")
    }

    /// What the first group of a pattern matches, with its place.
    fn spans(&self, pattern: &str) -> Vec<(String, String)> {
        let pattern = Regex::new(pattern).expect("sound");
        let all = self.lines().into_iter().flat_map(|(place, line, _)| {
            pattern.captures_iter(line).map(|found| (place.clone(), found[1].to_owned())).collect::<Vec<_>>()
        });
        all.collect()
    }
}
