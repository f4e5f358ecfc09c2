//! Files and directories that get their names only when all of them are complete.

use super::sink::{finish_when_interrupted, hold, remove_when_interrupted};
use crate::terminal::exit::{FAILED, failure};
use anyhow::{Context, Result};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(crate) struct Set {
    into: PathBuf,
    force: bool,
    /// Whether the directory is ours.
    is_new: bool,
    partial: Option<TempDir>,
    /// What each is to be called, within both.
    names: Vec<PathBuf>,
}

impl Set {
    /// `into`: the directory for them, which is made if it is not there.
    pub(crate) fn create(into: &Path, force: bool) -> Result<Set> {
        let shown = into.display();
        let is_new = !into.exists();
        if is_new {
            std::fs::create_dir(into).with_context(|| format!("-o {shown}"))?;
        } else if !into.is_dir() {
            return Err(failure(FAILED, format_args!("-o {shown}: not a directory")));
        }
        let partial = tempfile::Builder::new().prefix(".cutrace.").suffix(".partial").tempdir_in(into);
        let partial = partial.map_err(|error| std::io::Error::from(error.kind()));
        let partial = partial.with_context(|| format!("-o {shown}: the directory is not writable"))?;
        remove_when_interrupted(partial.path(), is_new.then_some(into));
        Ok(Set { into: into.to_path_buf(), force, is_new, partial: Some(partial), names: Vec::new() })
    }

    /// Where the files of a directory go until it has its name.
    pub(crate) fn directory(&mut self, name: PathBuf) -> Result<PathBuf> {
        let shown = self.into.join(&name).display().to_string();
        let partial = self.add(name, true, "two of the traces are of the same recording")?;
        let _held = hold();
        std::fs::create_dir_all(&partial).with_context(|| shown)?;
        Ok(partial)
    }

    pub(crate) fn file(&mut self, name: PathBuf) -> Result<File> {
        let shown = self.into.join(&name).display().to_string();
        let partial = self.add(name, false, "two tables have this name")?;
        let held = hold();
        std::fs::create_dir_all(partial.parent().unwrap_or(&self.into)).with_context(|| shown.clone())?;
        drop(held);
        create(&partial).with_context(|| shown)
    }

    /// What it is called until it has its name. `twice`: what is wrong with a name that is in the set.
    fn add(&mut self, name: PathBuf, is_directory: bool, twice: &str) -> Result<PathBuf> {
        let (place, shown) = (self.into.join(&name), self.into.join(&name).display().to_string());
        if self.names.contains(&name) {
            return Err(failure(FAILED, format_args!("{shown}: {twice}")));
        }
        match place.symlink_metadata() {
            Ok(_) if !self.force => {
                return Err(failure(FAILED, format_args!("{shown} exists already; --force replaces it")));
            }
            // Whatever is in a directory was not made by us.
            Ok(found) if found.is_dir() != is_directory => {
                let what = if is_directory { "not a directory" } else { "a directory" };
                return Err(failure(FAILED, format_args!("{shown}: {what}, not replaced")));
            }
            _ => {}
        }
        let partial = self.partial.as_ref().map_or(self.into.clone(), |partial| partial.path().join(&name));
        self.names.push(name);
        Ok(partial)
    }

    /// Puts all into their places. A signal that comes from now on comes too late.
    pub(crate) fn finish(mut self) -> Result<()> {
        let Some(partial) = self.partial.take() else { return Ok(()) };
        finish_when_interrupted();
        for at in 0..self.names.len() {
            if let Err(error) = self.place(partial.path(), at) {
                return Err(self.half_done(partial, at, error));
            }
        }
        self.is_new = false;
        Ok(partial.close()?)
    }

    /// A file takes the place of another in one step. A directory cannot: that one is moved aside, and back
    /// if its place cannot be taken.
    fn place(&self, partial: &Path, at: usize) -> io::Result<()> {
        let (made, place) = (partial.join(&self.names[at]), self.into.join(&self.names[at]));
        std::fs::create_dir_all(place.parent().unwrap_or(&self.into))?;
        if !made.is_dir() || place.symlink_metadata().is_err() {
            return std::fs::rename(made, place);
        }
        std::fs::rename(&place, aside(partial, at))?;
        std::fs::rename(made, &place).or_else(|error| std::fs::rename(aside(partial, at), &place).and(Err(error)))
    }

    /// Says what is where when not all could be put into their places. Nothing that was there, or was made,
    /// is lost.
    fn half_done(&self, partial: TempDir, at: usize, error: io::Error) -> anyhow::Error {
        let shown = |at: usize| self.into.join(&self.names[at]).display().to_string();
        let is_aside = aside(partial.path(), at).symlink_metadata().is_ok();
        if at == 0 && !is_aside {
            return anyhow::Error::from(error).context(shown(at));
        }
        let kept = partial.keep();
        let mut told = format!("{}: {error}; of {} files, ", shown(at), self.names.len());
        told += &match at {
            0 => "none in place".to_owned(),
            _ => format!("{at} in place, up to {}", shown(at - 1)),
        };
        told += &format!(", the others are in {}", kept.display());
        if is_aside {
            told += &format!(", where {} is the file to be replaced by this one", aside(&kept, at).display());
        }
        failure(FAILED, told)
    }
}

/// A file in a directory that has not got its name yet.
pub(crate) fn create(partial: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let _held = hold();
    // Mode 0600, as a trace: it holds the application's data.
    File::options().write(true).create_new(true).mode(0o600).open(partial)
}

/// Where a directory is while another one takes its place.
fn aside(partial: &Path, at: usize) -> PathBuf {
    partial.join(format!("replaced.{at}"))
}

impl Drop for Set {
    fn drop(&mut self) {
        drop(self.partial.take());
        if self.is_new {
            // There may be others' files in it by now.
            let _kept = std::fs::remove_dir(&self.into);
        }
    }
}
