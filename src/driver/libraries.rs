//! The location of our own libraries, the recorder and the simulated driver: named by a variable, in
//! cutrace's installation, or within its own file.

use super::{Found, Tried, why};
use crate::driver::embedded;
use crate::terminal::exit::say;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, ReadCache};
use std::env;
use std::ffi::CStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use trace::file::mark::{self, MARK};

const RECORDER: &str = "libcutrace.so";
pub(super) const SIM: &str = "libcuda_sim.so";
const WITHIN: &str = "within cutrace";

/// The recorder, `libcutrace.so`. Of another version it would be asked for what it does not do.
pub(crate) fn recorder() -> Result<Found, Tried> {
    find("CUTRACE_SHIM", RECORDER, |path| match mark_of(path).as_deref() {
        Some(mark) if mark == MARK => with_this_glibc(path),
        other => {
            let other = other.map_or("unknown".into(), mark::describe);
            Err(format!("its version is {other}, cutrace's {}", mark::describe(&MARK)))
        }
    })
}

/// With an older glibc than a preloaded library asks for, the loader ends each program before it begins.
fn with_this_glibc(path: &Path) -> Result<(), String> {
    // SAFETY: a string that is there as long as the process.
    let here = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    let (needed, here) = (glibc_of(path), version(here.to_bytes()));
    match (needed, here) {
        (Some((major, minor)), Some(here)) if (major, minor) > here => Err(format!(
            "it needs glibc {major}.{minor}, this machine has {}.{}: build cutrace here, or install its package",
            here.0, here.1
        )),
        _ => Ok(()),
    }
}

pub(super) fn simulated() -> Result<Found, Tried> {
    find("CUTRACE_SIM", SIM, |_| Ok(()))
}

/// Where the recorder is within cutrace, also if the path of an installed simulated driver has a space: who knows where the
/// one is put finds the other.
pub(crate) fn put_simulated_with_recorder() {
    if recorder().is_ok_and(|found| found.how == WITHIN) {
        // Who only wants the recorder does without.
        let _placed = embedded::put(SIM);
    }
}

/// Of whatever version: a driver it is not.
pub(super) fn is_recorder(path: &Path) -> bool {
    mark_of(path).is_some()
}

fn find(variable: &str, name: &str, fits: impl Fn(&Path) -> Result<(), String>) -> Result<Found, Tried> {
    let mut tried = Tried::default();
    let mut misfit = None;
    let named = env::var_os(variable).filter(|path| !path.is_empty());
    let places = match &named {
        Some(path) => vec![(std::path::absolute(path).unwrap_or(path.into()), variable)],
        None => installed(name),
    };
    // One within cutrace is put where it can be preloaded from.
    let is_passed_over = |path: &Path| named.is_none() && name == RECORDER && !can_be_preloaded(path);
    for (path, how) in places {
        let refused = match std::fs::canonicalize(&path) {
            Ok(path) => match fits(&path) {
                Ok(()) if is_passed_over(&path) => format!("{} ({how}): {NOT_PRELOADED}", path.display()),
                Ok(()) => return Ok(Found { path, how: how.into() }),
                Err(why) => misfit.insert(format!("{} ({how}): {why}", path.display())).clone(),
            },
            Err(error) => format!("{} ({how}): {}", path.display(), why(&error)),
        };
        tried.0.push(refused);
    }
    if named.is_none() {
        match embedded::put(name) {
            Ok(path) => {
                if let Some(misfit) = misfit {
                    say(format_args!("{misfit}; using the one within cutrace; remove this file"));
                }
                return Ok(Found { path, how: WITHIN.into() });
            }
            Err(refused) => tried.0.extend(refused.0),
        }
    }
    tried.0.push(format!("set {variable} to its path"));
    Err(tried)
}

pub(super) const NOT_PRELOADED: &str = "LD_PRELOAD cannot contain a path with a space or a colon";

/// Spaces and colons separate the paths of LD_PRELOAD.
pub(super) fn can_be_preloaded(path: &Path) -> bool {
    !path.as_os_str().as_bytes().iter().any(|byte| b" :".contains(byte))
}

/// Where packages, and builds, have them.
fn installed(name: &str) -> Vec<(PathBuf, &'static str)> {
    let exe = env::current_exe().ok();
    let Some(directory) = exe.as_deref().and_then(Path::parent) else { return Vec::new() };
    vec![
        (directory.join(name), "next to cutrace"),
        (directory.join("../lib/cutrace").join(name), "../lib/cutrace"),
        (directory.join("../lib").join(name), "../lib"),
    ]
}

/// The newest glibc that a library takes functions from.
fn glibc_of(path: &Path) -> Option<(u32, u32)> {
    let file = ReadCache::new(File::open(path).ok()?);
    let header = FileHeader64::<Endianness>::parse(&file).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, &file).ok()?;
    let (mut libraries, strings) = sections.gnu_verneed(endian, &file).ok()??;
    let strings = sections.strings(endian, &file, strings).ok()?;
    let mut newest = None;
    while let Some((_, mut versions)) = libraries.next().ok()? {
        while let Some(named) = versions.next().ok()? {
            newest = newest.max(named.name(endian, strings).ok()?.strip_prefix(b"GLIBC_").and_then(version));
        }
    }
    newest
}

fn version(text: &[u8]) -> Option<(u32, u32)> {
    let mut numbers = str::from_utf8(text).ok()?.split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

fn mark_of(path: &Path) -> Option<Vec<u8>> {
    let file = ReadCache::new(File::open(path).ok()?);
    let header = FileHeader64::<Endianness>::parse(&file).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, &file).ok()?;
    let (_, section) = sections.section_by_name(endian, mark::SECTION.as_bytes())?;
    section.data(endian, &file).ok().map(<[u8]>::to_vec)
}
