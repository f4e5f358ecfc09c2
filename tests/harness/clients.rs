//! Client programs, compiled from tests/apps.

use crate::artifacts::{cuda_include, link_directory, source, target, temporary};
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program (or, if the source is called lib*, the library) made of the source of this name in a folder of
/// `tests/apps`.
///
/// Compiled when its source, the shared header or the flags have changed. Linked against the driver only if
/// it calls the driver by name.
pub fn client(name: &str) -> PathBuf {
    client_with(name, &[])
}

/// Sources by subject: no two in all folders have one name. What lies elsewhere is named with its way from
/// `tests`.
fn app(name: &str) -> PathBuf {
    if name.contains('/') {
        return source(name);
    }
    let folders = std::fs::read_dir(source("apps")).expect("tests/apps").flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = folders.map(|folder| folder.join(name)).filter(|file| file.exists()).collect();
    assert_eq!(found.len(), 1, "{name} in the folders of tests/apps: {found:?}");
    found.remove(0)
}

/// As [`client`], with further compiler flags.
pub fn client_with(name: &str, flags: &[&str]) -> PathBuf {
    let file = app(name);
    let stem = file.file_stem().expect("a file name").to_string_lossy().into_owned();
    let is_library = stem.starts_with("lib");
    let mut command = Command::new(if name.ends_with(".cpp") { "g++" } else { "gcc" });
    command.args([
        "-g",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pthread",
        "-D_GNU_SOURCE",
        "-Wno-deprecated-declarations",
    ]);
    command.arg("-I").arg(cuda_include()).arg("-I").arg(source("apps"));
    if is_library {
        command.args(["-shared", "-fPIC"]);
    }
    command.arg(&file).args(flags);
    if !flags.contains(&"-static") {
        // The C library first: the recorder has a dlopen, too.
        command.arg("-L").arg(link_directory());
        command.args(["-lc", "-Wl,--as-needed", "-Wl,--allow-shlib-undefined", "-lcuda"]);
    }

    let mut hasher = DefaultHasher::new();
    format!("{command:?}").hash(&mut hasher);
    let headers = [source("apps/check.h"), source("gpu/coverage/tell.h")];
    for part in headers.iter().chain([&file]) {
        std::fs::read(part).unwrap_or_else(|e| panic!("{}: {e}", part.display())).hash(&mut hasher);
    }
    let directory = target().join("clients").join(format!("{:016x}", hasher.finish()));
    let made = directory.join(if is_library { format!("{stem}.so") } else { stem });
    if !made.exists() {
        compile(command, &directory, &made);
    }
    made
}

fn compile(mut command: Command, directory: &Path, made: &Path) {
    std::fs::create_dir_all(directory).expect("a directory in target");
    let new = temporary(made);
    let done = command.arg("-o").arg(&new).output().expect("gcc and g++ are needed");
    assert!(done.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&done.stderr));
    std::fs::rename(&new, made).expect("renamed in place");
}
