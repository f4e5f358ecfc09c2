//! A file that gets its name when it is whole.

use crate::exit::{FAILED, USAGE, failure};
use anyhow::{Context, Result};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

pub struct Output {
    temporary: NamedTempFile,
    path: PathBuf,
    force: bool,
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).map(|found| (found.dev(), found.ino())).ok()
}

/// Whether both names are of one file.
pub fn are_same(one: &Path, other: &Path) -> bool {
    identity(one).is_some_and(|found| Some(found) == identity(other))
}

impl Output {
    /// `flag`: that names it. `source`: what is being read, and must not be replaced.
    pub fn create(flag: &str, path: &Path, force: bool, source: &Path) -> Result<Output> {
        let shown = path.display();
        match identity(path) {
            Some(_) if are_same(path, source) => {
                return Err(failure(USAGE, format_args!("{flag} {shown}: that is the trace itself")));
            }
            // A link to nothing is one thing that is there.
            None if !force && path.is_symlink() => {
                return Err(failure(FAILED, format_args!("{shown} exists already; --force replaces it")));
            }
            Some(_) if !path.is_file() => {
                return Err(failure(FAILED, format_args!("{flag} {shown}: it is not a plain file")));
            }
            Some(_) if !force => {
                return Err(failure(FAILED, format_args!("{shown} exists already; --force replaces it")));
            }
            _ => {}
        }
        let directory = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        if !directory.is_dir() {
            return Err(failure(FAILED, format_args!("{flag} {shown}: there is no directory {}", directory.display())));
        }
        let temporary = Output::beside(flag, path, directory)?;
        Ok(Output { temporary, path: path.to_path_buf(), force })
    }

    /// A file beside it for what is only needed until it is written.
    pub fn another(&self) -> Result<NamedTempFile> {
        let directory = self.partial().parent().unwrap_or(Path::new("."));
        Output::beside("-o", &self.path, directory)
    }

    /// A file that takes the place of this one, and its mode. A link goes on naming it.
    pub fn replacing(path: &Path) -> Result<Output> {
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
        let name =
            path.file_name().ok_or_else(|| failure(USAGE, format_args!("{flag} {shown}: not the name of a file")))?;
        let mut prefix = std::ffi::OsString::from(".");
        prefix.push(name);
        prefix.push(".");
        // Mode 0600, as a trace: it holds the application's data.
        let temporary = tempfile::Builder::new().prefix(&prefix).suffix(".partial").tempfile_in(directory);
        // Without the name that the file would have had meanwhile.
        temporary
            .map_err(|error| std::io::Error::from(error.kind()))
            .with_context(|| format!("{flag} {shown}: the directory {} cannot be written to", directory.display()))
    }

    pub fn file(&self) -> &File {
        self.temporary.as_file()
    }

    /// The name that it has until it is whole.
    pub fn partial(&self) -> &Path {
        self.temporary.path()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts the file into its place. One that is replaced is there, whole, until the new one is on the disk.
    pub fn finish(self) -> Result<()> {
        let Output { temporary, path, force } = self;
        let shown = || path.display().to_string();
        if force {
            temporary.as_file().sync_all().with_context(shown)?;
        }
        let put = if force { temporary.persist(&path) } else { temporary.persist_noclobber(&path) };
        put.map_err(|error| error.error).with_context(shown)?;
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
