//! The output of a recording: a file name pattern, or a directory for all processes of a job.

use crate::terminal::exit::{FAILED, USAGE, failure};
use anyhow::{Context, Result};
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

pub(super) struct Output {
    /// Made absolute: processes that change their directory write beside the others.
    pub(super) pattern: OsString,
    /// The directory, if it is one for all processes of a job.
    pub(super) job: Option<PathBuf>,
    /// What to ask for instead where several processes turn out to be recorded, if one name was asked for.
    pub(super) instead: Option<String>,
    /// A file of the name that was asked for, which is kept.
    pub(super) existing: Option<PathBuf>,
}

pub(super) fn output(asked: Option<&OsStr>) -> Result<Output> {
    let (name, pattern) = match (asked, env::var_os("CUTRACE_OUTPUT").filter(|o| !o.is_empty())) {
        (Some(pattern), _) => ("--output", pattern.to_owned()),
        (None, Some(pattern)) => ("CUTRACE_OUTPUT", pattern),
        (None, None) => ("--output", "trace.bin".into()),
    };
    let refuse = |why: String| Err(failure(USAGE, format_args!("{name}: {why}")));
    let in_the_way = |why: String| Err(failure(FAILED, format_args!("{name}: {why}")));
    if pattern.is_empty() {
        return refuse("an empty name".into());
    }
    if pattern == "-" {
        return refuse("a trace cannot be written to standard output; give a file (./- for a file named -)".into());
    }
    let path = match constant(pattern.as_bytes()) {
        Ok(path) => path,
        Err(why) => return refuse(why),
    };
    let is_named_as_one = pattern.as_bytes().ends_with(b"/");
    if is_named_as_one && path.is_none() {
        return refuse("one directory is used for all processes: %p, %n and %h cannot be part of its name".into());
    }
    let job = path.clone().filter(|path| is_named_as_one && !path.is_file() || path.is_dir());
    if let Some(path) = path.as_ref().filter(|_| job.is_none()) {
        match std::fs::metadata(path) {
            Ok(found) if !found.is_file() => return in_the_way(format!("{} is not a regular file", path.display())),
            Err(_) if path.is_symlink() => {
                return in_the_way(format!("{} is a link to a missing file", path.display()));
            }
            Ok(_) if is_named_as_one => return in_the_way(format!("{} is a file, not a directory", path.display())),
            _ => {}
        }
    }
    let instead = path.as_ref().filter(|_| asked.is_some() && job.is_none()).map(|path| directory_like(path));
    let existing = path.as_ref().filter(|path| job.is_none() && path.exists());
    let existing = existing.map(std::path::absolute).transpose()?;
    let mut pattern = pattern;
    if job.is_some() && !is_named_as_one {
        pattern.push("/");
    }
    let there = |path: &PathBuf| if path.is_dir() { Some(path.clone()) } else { parent_of(path) };
    if let Some(parent) = job.as_ref().map_or_else(|| parent(&pattern), there) {
        if !parent.is_dir() {
            return in_the_way(format!("directory {} does not exist", parent.display()));
        }
        // A program that ran for hours would have no trace.
        if let Err(error) = tempfile::tempfile_in(&parent) {
            return in_the_way(format!("cannot create a file in {}: {}", parent.display(), error.kind()));
        }
    }
    if Path::new(&pattern).is_absolute() {
        return Ok(Output { pattern, job, instead, existing });
    }
    let here = env::current_dir().context("the working directory")?.into_os_string().into_vec();
    let mut whole: Vec<u8> = here.split(|byte| *byte == b'%').collect::<Vec<_>>().join(&b"%%"[..]);
    whole.push(b'/');
    whole.extend(pattern.into_vec());
    let job = job.map(std::path::absolute).transpose()?;
    Ok(Output { pattern: OsString::from_vec(whole), job, instead, existing })
}

/// A directory with the name that was meant for a file: `run1/` for `run1`, and for `run1.bin`.
fn directory_like(file: &Path) -> String {
    match file.extension().is_some_and(|ending| ending == "bin") {
        true => format!("{}/", file.with_extension("").display()),
        // A file has the name itself.
        false => format!("{}.d/", file.display()),
    }
}

fn parent_of(path: &Path) -> Option<PathBuf> {
    let parent = path.parent()?.to_path_buf();
    Some(if parent.as_os_str().is_empty() { ".".into() } else { parent })
}

/// The directory in which all traces of a pattern are, if it is one.
pub(super) fn parent(pattern: &OsStr) -> Option<PathBuf> {
    let parent = match constant(pattern.as_bytes()).ok()? {
        Some(path) => path.parent().map(Path::to_path_buf),
        None => constant(Path::new(pattern).parent().map_or(&[][..], |p| p.as_os_str().as_bytes())).ok().flatten(),
    };
    parent.map(|parent| if parent.as_os_str().is_empty() { ".".into() } else { parent })
}

/// The path that a pattern stands for, if it is one for all processes, whose variables are those here; what
/// is wrong with it.
fn constant(pattern: &[u8]) -> Result<Option<PathBuf>, String> {
    let (mut path, mut codes) = (Vec::with_capacity(pattern.len()), 0);
    let mut rest = pattern.iter();
    while let Some(byte) = rest.next() {
        match (byte, if *byte == b'%' { rest.next() } else { None }) {
            (b'%', Some(b'%')) => path.push(b'%'),
            (b'%', Some(b'p' | b'n' | b'h')) => codes += 1,
            (b'%', Some(b'q')) if rest.as_slice().starts_with(b"{") && rest.as_slice().contains(&b'}') => {
                let variable: Vec<u8> = rest.by_ref().skip(1).take_while(|byte| **byte != b'}').copied().collect();
                let variable = OsStr::from_bytes(&variable);
                if variable.is_empty() || variable.as_bytes().contains(&b'=') || env::var_os(variable).is_none() {
                    return Err(format!("%q{{{}}}: no such environment variable", variable.display()));
                }
                path.extend_from_slice(env::var_os(variable).unwrap_or_default().as_bytes());
            }
            (b'%', code) => {
                let code: String =
                    code.map_or("at the end".into(), |code| (*code as char).escape_default().to_string());
                return Err(format!("%{code} is unknown (known: %p %n %h %q{{VAR}} %%)"));
            }
            (byte, _) => path.push(*byte),
        }
    }
    Ok((codes == 0).then(|| OsString::from_vec(path).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_in_place_of_a_file() {
        for (file, directory) in [("run1", "run1.d/"), ("there/app.bin", "there/app/"), ("app.v2", "app.v2.d/")] {
            assert_eq!(directory_like(Path::new(file)), directory);
        }
    }

    #[test]
    fn patterns_without_codes_are_paths() {
        let of = |pattern: &[u8]| constant(pattern).map(|path| path.map(|path| path.into_os_string().into_vec()));
        assert_eq!(of(b"a%%\xfe.bin"), Ok(Some(b"a%\xfe.bin".to_vec())));
        assert_eq!(of(b"%p.bin"), Ok(None));
        let searched = env::var_os("PATH").unwrap_or_default().into_vec();
        assert_eq!(of(b"%q{PATH}.bin"), Ok(Some([&searched[..], b".bin"].concat())));
        assert!(of(b"%q{NOT_SET_ANYWHERE}.bin").is_err_and(|why| why.contains("no such environment variable")));
        for wrong in [&b"%z"[..], b"%q{X", b"%qX}", b"a%"] {
            assert!(of(wrong).is_err_and(|why| why.contains("is unknown")));
        }
    }
}
