//! README.md and docs/: their commands work, and the files and options that they name exist.
//!
//! A fenced block of `console` is a session in a directory with the sources, on the simulated driver: `$ `
//! begins a command, and its output, stdout and stderr, follows. `...` stands for any text, alone on a line
//! for any lines. Durations and addresses are not compared, and the sizes of traces to a tenth; in `console
//! numbers`, no other numbers are. A command without output below it may print anything. It must end with 0,
//! unless `$ echo $?` follows.
//!
//! `console gpu` and `console elsewhere` need a GPU, or something else that is missing here (Docker, Slurm,
//! vLLM). In these, in all other blocks and in text in backquotes only the subcommands and options of cutrace
//! and the files are checked.

mod options;
mod page;
mod session;

use options::Options;
use page::{Page, pages};
use session::Session;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use tests::*;

#[test]
fn what_they_show_is_what_happens() {
    let failures: Vec<String> = std::thread::scope(|scope| {
        let all: Vec<_> = pages().into_iter().map(|page| scope.spawn(move || Session::new(&page).failures())).collect();
        all.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn blocks_are_of_a_known_kind() {
    for page in pages() {
        for block in &page.blocks {
            let known = ["console", "console numbers", "console gpu", "console elsewhere"];
            let is_text = ["text", "yaml", "dockerfile", "c", "python"].contains(&block.kind.as_str());
            assert!(known.contains(&block.kind.as_str()) || is_text, "{}: a block of {:?}", block.place, block.kind);
            let commands = block.text.lines().any(|line| line.starts_with("$ "));
            assert_eq!(commands, !is_text, "{}: {:?}", block.place, block.kind);
        }
    }
}

#[test]
fn what_they_name_of_the_command_exists() {
    let options = Options::ask();
    let wrong: Vec<String> = pages()
        .iter()
        .flat_map(|page| page.commands())
        .filter_map(|(place, command)| options.wrong(&command).map(|why| format!("{place}: {command}: {why}")))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_and_links_lead_somewhere() {
    let mut wrong = Vec::new();
    for page in &every_page() {
        for (place, target) in page.links() {
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path = if path.is_empty() { page.path.clone() } else { page.directory().join(path) };
            if !path.exists() || !anchor.is_empty() && !Page::read(&path).anchors().iter().any(|a| a == anchor) {
                wrong.push(format!("{place}: {target}"));
            }
        }
        wrong.extend(
            page.files()
                .into_iter()
                .filter(|(_, file)| !root().join(file).exists() && !page.directory().join(file).exists())
                .map(|(place, file)| format!("{place}: {file}")),
        );
    }
    assert!(wrong.is_empty(), "lead nowhere:\n{}", wrong.join("\n"));
}

/// A source file that a page names by the end of its path.
#[test]
fn sources_exist() {
    let sources = every_file("rs");
    let mut wrong = Vec::new();
    for page in every_page() {
        for (place, name) in page.sources() {
            wrong.extend((!sources.iter().any(|path| path.ends_with(&name))).then(|| format!("{place}: {name}")));
        }
    }
    assert!(wrong.is_empty(), "no such file:\n{}", wrong.join("\n"));
}

/// A type, function, field or module that a page names stands in the code under that name.
#[test]
fn items_of_the_code_exist() {
    let sources: Vec<String> = every_file("rs")
        .iter()
        .map(|path| std::fs::read_to_string(path).expect("text") + &path.to_string_lossy())
        .collect();
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let words: HashSet<&str> = sources.iter().flat_map(|source| source.split(|c| !is_part(c))).collect();
    let mut wrong = Vec::new();
    for page in every_page() {
        for (place, item) in page.items() {
            wrong.extend((!item.split("::").all(|name| words.contains(name))).then(|| format!("{place}: {item}")));
        }
    }
    assert!(wrong.is_empty(), "name nothing:\n{}", wrong.join("\n"));
}

#[test]
fn the_first_page_is_short_and_the_contents_are_whole() {
    let first = Page::read("README.md");
    assert!(first.text.lines().count() <= 150, "README.md has {} lines; docs/ has room", first.text.lines().count());
    let contents: Vec<String> = Page::read("docs/README.md").links().into_iter().map(|(_, link)| link).collect();
    for page in pages() {
        let below = page.path.strip_prefix(root().join("docs")).unwrap_or(Path::new("README.md"));
        let name = below.to_string_lossy().into_owned();
        assert!(name == "README.md" || contents.contains(&name), "docs/README.md does not name {name}");
    }
}

#[test]
fn the_pictures_are_screens_of_this_viewer() {
    let pictures: [(&str, &[&str]); 2] = [
        ("viewer", &["weight_gradient", "backward", "NVIDIA H200"]),
        ("viewer-job", &["rank 2 1016", "NCCL world", "7.65 ms earlier"]),
    ];
    for (name, parts) in pictures {
        let place = Place::new();
        let mut picture = place.command(root().join("scripts/picture"));
        let ran = run(picture.args(["-", name]).env("CUTRACE", artifact("cutrace"))).expect(0);
        let kept = std::fs::read_to_string(root().join(format!("docs/{name}.svg"))).expect("the picture");
        assert!(kept == ran.stdout, "docs/{name}.svg is another screen: run scripts/picture, and look at it");
        parts.iter().for_each(|part| assert!(kept.contains(part), "{name}: {part}"));
    }
}

/// Every page of the repository, those for contributors as well.
fn every_page() -> Vec<Page> {
    every_file("md").into_iter().map(Page::read).collect()
}

/// The files with this ending, but for what is built.
fn every_file(ending: &str) -> Vec<PathBuf> {
    let mut open = vec![root().to_path_buf()];
    let mut files = Vec::new();
    while let Some(directory) = open.pop() {
        for path in std::fs::read_dir(&directory).expect("a directory").map(|entry| entry.expect("an entry").path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() && !path.is_symlink() && name != "target" && !name.starts_with('.') {
                open.push(path);
            } else if path.extension().is_some_and(|end| end == ending) {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn shell(directory: &Path) -> Command {
    let mut command = Command::new("bash");
    command.current_dir(directory).env_clear();
    command
}
