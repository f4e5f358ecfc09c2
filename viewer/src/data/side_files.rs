//! Files that accompany a trace, such as its index and its marks: their paths, and their replacement.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use trace::base::hash::checksum;

/// A kind of file that accompanies a trace.
pub struct Kind {
    /// Behind the trace's name.
    pub suffix: &'static str,
    /// What every such file begins with: what does not is somebody else's, and stays.
    pub begins: &'static [u8],
}

impl Kind {
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        let mut found = Vec::new();
        // Opening a pipe would wait for who writes there.
        let read = |file: File| file.take(self.begins.len() as u64).read_to_end(&mut found);
        path.is_file() && File::open(path).and_then(read).is_ok() && found == self.begins
    }

    /// Why what is kept at `at` is not beside the trace, where that is because of another file.
    pub fn displaced(&self, trace: &Path, at: &Path) -> Option<String> {
        let beside = places(trace, self).swap_remove(0);
        let is_other = at != beside && beside.symlink_metadata().is_ok() && !self.is_at(&beside);
        is_other.then(|| format!("{} is not a cutrace file; using {} instead", beside.display(), at.display()))
    }
}

/// Where a file that goes with a trace may be: beside it, or in the cache directory.
pub fn places(trace: &Path, kind: &Kind) -> Vec<PathBuf> {
    let Kind { suffix, .. } = kind;
    let mut beside = trace.as_os_str().to_owned();
    beside.push(format!(".{suffix}"));
    let mut places = vec![PathBuf::from(beside)];
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    if let (Some(cache), Ok(whole)) = (cache, fs::canonicalize(trace)) {
        let name = format!("{:016x}.{suffix}", checksum(whole.as_os_str().as_encoded_bytes()));
        places.push(cache.join("cutrace").join(name));
    }
    places
}

/// Writes a file that goes with a trace to the first place that takes it; where that was. The old one stays
/// until the new one is whole.
pub fn keep(trace: &Path, kind: &Kind, write: impl Fn(File) -> io::Result<()>) -> io::Result<PathBuf> {
    let mut refused = None;
    for path in places(trace, kind) {
        match replace(&path, kind, &write) {
            Ok(()) => return Ok(path),
            Err(error) => {
                _ = refused.get_or_insert(io::Error::new(error.kind(), format!("{}: {error}", path.display())))
            }
        }
    }
    Err(refused.unwrap_or_else(|| io::Error::other("no directory to write it to")))
}

fn replace(path: &Path, kind: &Kind, write: impl Fn(File) -> io::Result<()>) -> io::Result<()> {
    let is_new = path.symlink_metadata().is_err();
    if !is_new && !kind.is_at(path) {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "exists and is not a cutrace file"));
    }
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let temporary = create_temporary(path)?;
    write(temporary.as_file().try_clone()?)?;
    let put = if is_new { temporary.persist_noclobber(path) } else { temporary.persist(path) };
    put.map(drop).map_err(|error| error.error)
}

/// A file with a name that nothing had, not even a link, until it is given that of `path`; only its owner may
/// read it, as a trace: it holds names of the application's.
pub fn create_temporary(path: &Path) -> io::Result<NamedTempFile> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(path.file_name().unwrap_or_default());
    prefix.push(".");
    let made = tempfile::Builder::new().prefix(&prefix).suffix(".partial").tempfile_in(directory);
    // Without the name that the file would have had meanwhile.
    made.map_err(|error| error.kind().into())
}
