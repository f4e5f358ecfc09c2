//! Files that go with a trace, as its index and the marks do: where they are, and how they are replaced.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use trace::hash::checksum;

/// Where a file that goes with a trace, as its index (`idx`) does, may be: beside it, or in the cache
/// directory.
pub fn places(trace: &Path, kind: &str) -> Vec<PathBuf> {
    let mut beside = trace.as_os_str().to_owned();
    beside.push(format!(".{kind}"));
    let mut places = vec![PathBuf::from(beside)];
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    if let (Some(cache), Ok(whole)) = (cache, fs::canonicalize(trace)) {
        let name = format!("{:016x}.{kind}", checksum(whole.as_os_str().as_encoded_bytes()));
        places.push(cache.join("cutrace").join(name));
    }
    places
}

/// Writes a file that goes with a trace to the first place that takes it; where that was. The old one stays
/// until the new one is whole.
pub fn keep(trace: &Path, kind: &str, write: impl Fn(File) -> io::Result<()>) -> io::Result<PathBuf> {
    let mut refused = None;
    for path in places(trace, kind) {
        match replace(&path, &write) {
            Ok(()) => return Ok(path),
            Err(error) => {
                _ = refused.get_or_insert(io::Error::new(error.kind(), format!("{}: {error}", path.display())))
            }
        }
    }
    Err(refused.unwrap_or_else(|| io::Error::other("there is no directory for it")))
}

fn replace(path: &Path, write: impl Fn(File) -> io::Result<()>) -> io::Result<()> {
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        fs::create_dir_all(directory)?;
    }
    let (temporary, file) = new_beside(path)?;
    let written = write(file).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _gone_already = fs::remove_file(&temporary);
    }
    written
}

/// A file with a name that nothing had, not even a link; only its owner may read it, as a trace: it holds
/// names of the application's.
fn new_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    const TRIES: u32 = 100;
    let mut number = 0;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}.{number}", std::process::id()));
        let temporary = PathBuf::from(name);
        match File::options().write(true).create_new(true).mode(0o600).open(&temporary) {
            Ok(file) => return Ok((temporary, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < TRIES => number += 1,
            Err(error) => return Err(error),
        }
    }
}
