//! Shared memory of unclosed recordings that no process maps, for `cutrace doctor`. While its trace exists,
//! it holds the last records of a killed process; without its trace nobody owns it, and only a restart of
//! Linux frees it.

use analysis::text::figures::{counted, size};
use analysis::text::shell::shell;
use std::collections::HashMap;
use std::ffi::CString;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use trace::file::segment::MAGIC;
use trace::file::shared_memory::Unattached;
use trace::show::text::plain;

/// What `--free` does with memory whose trace is not where it was made.
enum Search {
    At(PathBuf),
    Nowhere,
    Unknown(String),
}

type Identity = (u64, u64);

/// Lines about all of it. `free`: whether such is freed as nobody can use.
pub(crate) fn found(free: bool) -> Vec<String> {
    let all = match Unattached::all() {
        Ok(all) => all,
        Err(error) => return vec![format!("unknown: /proc/sysvipc/shm: {error}")],
    };
    let (kept, lost): (Vec<Unattached>, Vec<Unattached>) = all.into_iter().partition(is_at_its_path);
    let mut lines = vec![match kept.is_empty() && lost.is_empty() {
        true => "none left over from recordings".to_owned(),
        false => format!("{} not used by any process", amount(kept.iter().chain(&lost))),
    }];
    for (path, some) in by_path(&kept) {
        let repair = shell(&["repair".to_owned(), path.clone()]);
        lines.push(format!("{}: of {}: cutrace {repair} closes the trace and frees it", amount(some), plain(&path)));
    }
    if !lost.is_empty() && !free {
        for (path, some) in by_path(&lost) {
            lines.push(format!("{}: of {}, which no longer exists", amount(some), plain(&path)));
        }
        lines.push(
            "cutrace doctor --free searches for these traces and frees the memory of those that no longer exist".into(),
        );
    }
    if free {
        lines.extend(freed(&lost));
    }
    lines
}

fn is_at_its_path(memory: &Unattached) -> bool {
    memory.path.as_deref().is_some_and(|path| identity(path) == Some(of(memory)) && is_trace(path))
}

fn of(memory: &Unattached) -> Identity {
    (memory.owner.device, memory.owner.inode)
}

fn identity(path: &Path) -> Option<Identity> {
    path.metadata().ok().map(|about| (about.dev(), about.ino()))
}

/// An inode is used again, too.
fn is_trace(path: &Path) -> bool {
    let mut begins = [0; MAGIC.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut begins)).is_ok() && begins == MAGIC
}

fn amount<'a>(some: impl IntoIterator<Item = &'a Unattached>) -> String {
    let (count, bytes) =
        some.into_iter().fold((0, 0u64), |(count, bytes), one| (count + 1, bytes.saturating_add(one.bytes)));
    format!("{}, {}", counted(count, "segment"), size(bytes))
}

/// By the trace's path, in its order.
fn by_path(all: &[Unattached]) -> Vec<(String, Vec<&Unattached>)> {
    let mut found: Vec<(String, Vec<&Unattached>)> = Vec::new();
    for one in all {
        let name = match &one.path {
            Some(path) => path.display().to_string(),
            None => format!("a trace with inode {} on device {:#x}", one.owner.inode, one.owner.device),
        };
        match found.iter_mut().find(|(known, _)| *known == name) {
            Some((_, some)) => some.push(one),
            None => found.push((name, vec![one])),
        }
    }
    found
}

/// Frees what belongs to traces that are nowhere; what came of it.
fn freed(lost: &[Unattached]) -> Vec<String> {
    let mut searched: HashMap<u64, Result<Searched, String>> = HashMap::new();
    let mut lines = Vec::new();
    for (name, some) in by_path(lost) {
        let (device, inode) = of(some[0]);
        let wanted = || lost.iter().map(of).filter(|(on, _)| *on == device).map(|(_, inode)| inode).collect::<Vec<_>>();
        let found = match searched.entry(device).or_insert_with(|| search(device, &wanted())) {
            Ok(searched) => match (searched.found.get(&inode), searched.cover(some[0].path.as_deref())) {
                (Some(path), _) => Search::At(path.clone()),
                (None, Some(why)) => Search::Unknown(why),
                (None, None) => Search::Nowhere,
            },
            Err(why) => Search::Unknown(why.clone()),
        };
        let (memory, name) = (amount(some.iter().copied()), plain(&name).into_owned());
        lines.push(match found {
            Search::At(path) => {
                let path = path.display().to_string();
                let repair = shell(&["repair".to_owned(), path.clone()]);
                format!("{memory}: its trace is now {}: cutrace {repair} frees it", plain(&path))
            }
            Search::Unknown(why) => {
                format!("{memory}: of {name}: not freed, as the trace may exist: {}", plain(&why))
            }
            Search::Nowhere => match some.iter().try_for_each(|memory| memory.free()) {
                Ok(()) => format!("{memory}: of {name}, which no longer exists: freed"),
                Err(error) => format!("{memory}: of {name}, which no longer exists: not freed: {error}"),
            },
        });
    }
    lines
}

/// What a walk over a file system found, by inode.
struct Searched {
    root: PathBuf,
    /// Where mounts are, in mountinfo's order, and which of them was searched.
    mounts: Vec<PathBuf>,
    index: usize,
    found: HashMap<u64, PathBuf>,
}

impl Searched {
    /// Why the walk may not have seen a trace that was recorded at this path: a mount hides what is below it.
    fn cover(&self, path: Option<&Path>) -> Option<String> {
        let hides = |(index, place): (usize, &PathBuf)| {
            // One at the same place that came earlier is below the one that was searched.
            let is_below = place.starts_with(&self.root) && (*place != self.root || index > self.index);
            let is_above = index > self.index && self.root.starts_with(place);
            let is_on_path = path.is_none_or(|path| path.starts_with(place) || !path.starts_with(&self.root));
            index != self.index && (is_below && is_on_path || is_above)
        };
        let place = self.mounts.iter().enumerate().find(|mount| hides(*mount)).map(|(_, place)| place)?;
        Some(format!("a mount at {} may hide it", place.display()))
    }
}

/// Traces with these inodes on a device, by walking all that is mounted of it.
fn search(device: u64, wanted: &[u64]) -> Result<Searched, String> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").map_err(|error| error.to_string())?;
    let (major, minor) = (libc::major(device), libc::minor(device));
    let number = format!("{major}:{minor}");
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(2);
        let (on, root, place) = (fields.next()?, fields.next()?, fields.next()?);
        Some((on == number && root == "/", PathBuf::from(unescaped(place))))
    });
    let (is_whole, mounts): (Vec<bool>, Vec<PathBuf>) = mounts.unzip();
    // Something may be mounted over it.
    let index = (0..mounts.len())
        .find(|&index| is_whole[index] && mounts[index].metadata().is_ok_and(|about| about.dev() == device));
    let index = index.ok_or_else(|| format!("no file system with device {number} is fully mounted"))?;
    let mut found = HashMap::new();
    let root = mounts[index].clone();
    let is_on_device = |path: &PathBuf| path.metadata().is_ok_and(|about| about.dev() == device);
    let mut home = std::env::home_dir().and_then(|home| home.canonicalize().ok()).filter(is_on_device);
    let mut open = vec![root.clone()];
    while let Some(directory) = open.pop() {
        // The trace may be in a directory that cannot be read, or that another process moves meanwhile.
        let entries = match std::fs::read_dir(&directory) {
            // Nor can this user have put a trace there; below it, where it is at home.
            Err(error) if error.kind() == ErrorKind::PermissionDenied && !takes_files(&directory) => {
                open.extend(home.take_if(|home| home.starts_with(&directory) && *home != directory));
                continue;
            }
            read => read.map_err(|error| format!("{}: {error}", directory.display()))?,
        };
        for entry in entries {
            let entry = entry.map_err(|error| format!("{}: {error}", directory.display()))?;
            let kind = entry.file_type().map_err(|error| format!("{}: {error}", directory.display()))?;
            let path = entry.path();
            if kind.is_dir() {
                let about = path.symlink_metadata().map_err(|error| format!("{}: {error}", path.display()))?;
                open.extend((about.dev() == device).then_some(path));
            } else if kind.is_file() && wanted.contains(&entry.ino()) && is_trace(&path) {
                found.insert(entry.ino(), path);
            }
        }
    }
    Ok(Searched { root, mounts, index, found })
}

/// Whether this user may put a file into a directory.
fn takes_files(directory: &Path) -> bool {
    let path = CString::new(directory.as_os_str().as_bytes()).unwrap_or_default();
    // SAFETY: a question about a path, which ends with a zero.
    unsafe { libc::access(path.as_ptr(), libc::W_OK | libc::X_OK) == 0 }
}

/// Of mountinfo, where spaces and the like are octal.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (code, letter)| text.replace(code, letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_over_a_trace_hides_it() {
        let searched = |mounts: &[&str], index: usize| Searched {
            root: mounts[index].into(),
            mounts: mounts.iter().map(PathBuf::from).collect(),
            index,
            found: HashMap::new(),
        };
        let hides = |mounts: &[&str], index, path: &str| searched(mounts, index).cover(Some(path.as_ref())).is_some();
        assert!(!hides(&["/", "/proc", "/home"], 0, "/data/t.bin"));
        assert!(hides(&["/", "/proc", "/home"], 0, "/home/t.bin"));
        assert!(hides(&["/", "/data/t.bin"], 0, "/data/t.bin"));
        assert!(!hides(&["/", "/home", "/proc"], 1, "/home/t.bin"));
        assert!(hides(&["/", "/home", "/home"], 1, "/home/t.bin"), "one over another");
        assert!(!hides(&["/", "/home", "/home"], 2, "/home/t.bin"), "the upper one was searched");
        assert!(hides(&["/", "/disk", "/disk/a"], 1, "/elsewhere/t.bin"), "where it was mounted then is not known");
        assert!(searched(&["/", "/proc"], 0).cover(None).is_some());
    }
}
