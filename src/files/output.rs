//! A file that gets its name only when it is complete.

use crate::process::signals;
use crate::terminal::exit::{FAILED, USAGE, failure, say_last};
use analysis::text::figures::counted;
use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::mem::ManuallyDrop;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;
use tempfile::NamedTempFile;

const PARTIAL: &str = ".partial";

pub(crate) struct Output {
    temporary: NamedTempFile,
    path: PathBuf,
    force: bool,
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).map(|found| (found.dev(), found.ino())).ok()
}

/// Whether both names are of one file.
pub(crate) fn are_same(one: &Path, other: &Path) -> bool {
    identity(one).is_some_and(|found| Some(found) == identity(other))
}

/// What a signal interrupts.
#[derive(Default)]
struct Begun {
    /// What is being written: its name until it is whole, and the one that it is to get.
    partial: Option<(PathBuf, PathBuf)>,
    /// Traces that were put into their places before.
    finished: u64,
}

static BEGUN: Mutex<Begun> = Mutex::new(Begun { partial: None, finished: 0 });

fn begun() -> MutexGuard<'static, Begun> {
    BEGUN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One that is younger may be another process's that has not locked it yet.
const YOUNG: Duration = Duration::from_secs(60);

/// Whether a file that its writer keeps locked has none any more, and is this user's.
pub(crate) fn is_left(path: &Path) -> bool {
    let about = path.symlink_metadata().ok().filter(Metadata::is_file);
    // SAFETY: asks alone.
    let is_ours = about.as_ref().is_some_and(|about| about.uid() == unsafe { libc::geteuid() });
    let is_old = about.and_then(|about| about.modified().ok()?.elapsed().ok()).is_some_and(|age| age > YOUNG);
    is_ours && is_old && File::open(path).is_ok_and(|file| file.try_lock().is_ok())
}

/// Removes what a process that was killed has left of such a file.
fn remove_left(directory: &Path, prefix: &OsStr) {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().as_bytes();
        let random = name.strip_prefix(prefix.as_bytes()).and_then(|rest| rest.strip_suffix(PARTIAL.as_bytes()));
        let is_one = random.is_some_and(|random| random.len() == 6 && random.iter().all(u8::is_ascii_alphanumeric));
        if is_one && is_left(&path) {
            let _gone_already = std::fs::remove_file(&path);
        }
    }
}

impl Output {
    /// `flag`: that names it. `source`: what is being read, and must not be replaced.
    pub(crate) fn create(flag: &str, path: &Path, force: bool, source: &Path) -> Result<Output> {
        let shown = path.display();
        match identity(path) {
            Some(_) if are_same(path, source) => {
                return Err(failure(USAGE, format_args!("{flag} {shown}: this is the trace itself")));
            }
            // A link to nothing is one thing that is there.
            None if !force && path.is_symlink() => {
                return Err(failure(FAILED, format_args!("{shown} exists already; --force replaces it")));
            }
            Some(_) if !path.is_file() => {
                return Err(failure(FAILED, format_args!("{flag} {shown}: not a regular file")));
            }
            Some(_) if !force => {
                return Err(failure(FAILED, format_args!("{shown} exists already; --force replaces it")));
            }
            _ => {}
        }
        let directory = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        if !directory.is_dir() {
            return Err(failure(
                FAILED,
                format_args!("{flag} {shown}: directory {} does not exist", directory.display()),
            ));
        }
        let temporary = Output::beside(flag, path, directory)?;
        Ok(Output { temporary, path: path.to_path_buf(), force })
    }

    /// A file that takes the place of this one, and its mode. A link goes on naming it.
    pub(crate) fn replacing(path: &Path) -> Result<Output> {
        let shown = path.display();
        let path = path.canonicalize().with_context(|| shown.to_string())?;
        let directory = path.parent().unwrap_or(Path::new("/"));
        let temporary = Output::beside("to replace", &path, directory)?;
        let found = std::fs::metadata(&path).with_context(|| shown.to_string())?;
        temporary.as_file().set_permissions(found.permissions()).with_context(|| shown.to_string())?;
        Ok(Output { temporary, path, force: true })
    }

    fn beside(flag: &str, path: &Path, directory: &Path) -> Result<NamedTempFile> {
        let shown = path.display();
        let name = path.file_name().ok_or_else(|| failure(USAGE, format_args!("{flag} {shown}: not a file name")))?;
        let mut prefix = std::ffi::OsString::from(".");
        prefix.push(name);
        prefix.push(".");
        remove_left(directory, &prefix);
        // Mode 0600, as a trace: it holds the application's data.
        let temporary = tempfile::Builder::new().prefix(&prefix).suffix(PARTIAL).tempfile_in(directory);
        // Where there are no locks, one that is left stays.
        let temporary = temporary.inspect(|temporary| drop(temporary.as_file().try_lock()));
        // Without the name that the file would have had meanwhile.
        temporary
            .map_err(|error| std::io::Error::from(error.kind()))
            .with_context(|| format!("{flag} {shown}: directory {} is not writable", directory.display()))
    }

    pub(crate) fn file(&self) -> &File {
        self.temporary.as_file()
    }

    /// The name that it has until it is whole.
    pub(crate) fn partial(&self) -> &Path {
        self.temporary.path()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// From here on a signal that ends this process leaves nothing of this trace behind, and that is said.
    pub(crate) fn remove_when_interrupted(&self) {
        static ONCE: Once = Once::new();
        begun().partial = Some((self.partial().to_path_buf(), self.path.clone()));
        ONCE.call_once(|| {
            signals::on_interruption(move |signal| {
                // Until the process ends: no trace gets its name after it was said which ones did.
                let mut begun = ManuallyDrop::new(begun());
                let traces = counted(begun.finished, "trace");
                match (begun.partial.take(), begun.finished) {
                    (Some((partial, path)), finished) => {
                        let _gone_already = std::fs::remove_file(partial);
                        let before = if finished > 0 { format!("; {traces} written before it") } else { String::new() };
                        let path = path.display();
                        say_last(format_args!("interrupted by {signal}; nothing was written to {path}{before}"));
                    }
                    (None, _) => say_last(format_args!("interrupted by {signal}; {traces} written")),
                }
            });
        });
    }

    /// Puts the file into its place. One that is replaced is there, whole, until the new one is on the disk.
    pub(crate) fn finish(self) -> Result<()> {
        let Output { temporary, path, force } = self;
        let shown = || path.display().to_string();
        if force {
            temporary.as_file().sync_all().with_context(shown)?;
        }
        // A signal comes before this, or finds the trace in its place.
        let mut begun = begun();
        let put = if force { temporary.persist(&path) } else { temporary.persist_noclobber(&path) };
        begun.partial = None;
        put.map_err(|error| error.error).with_context(shown)?;
        begun.finished += 1;
        Ok(())
    }
}

impl std::io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.temporary.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.temporary.flush()
    }
}
