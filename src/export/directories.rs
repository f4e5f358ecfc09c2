//! Files and directories that get their names when all of them are whole.

use super::sink::remove_when_interrupted;
use crate::exit::{FAILED, failure};
use anyhow::{Context, Result};
use std::fs::File;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub struct Set {
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
    pub fn create(into: &Path, force: bool) -> Result<Set> {
        let shown = into.display();
        let is_new = !into.exists();
        if is_new {
            std::fs::create_dir(into).with_context(|| format!("-o {shown}"))?;
        } else if !into.is_dir() {
            return Err(failure(FAILED, format_args!("-o {shown}: it is not a directory")));
        }
        let partial = tempfile::Builder::new().prefix(".cutrace.").suffix(".partial").tempdir_in(into);
        let partial = partial.map_err(|error| std::io::Error::from(error.kind()));
        let partial = partial.with_context(|| format!("-o {shown}: the directory cannot be written to"))?;
        remove_when_interrupted(partial.path(), is_new.then_some(into));
        Ok(Set { into: into.to_path_buf(), force, is_new, partial: Some(partial), names: Vec::new() })
    }

    /// Where the files of a directory go until it has its name.
    pub fn directory(&mut self, name: PathBuf) -> Result<PathBuf> {
        let shown = self.into.join(&name).display().to_string();
        let partial = self.add(name, "two of the traces are of the same recording")?;
        std::fs::create_dir_all(&partial).with_context(|| shown)?;
        Ok(partial)
    }

    pub fn file(&mut self, name: PathBuf) -> Result<File> {
        use std::os::unix::fs::OpenOptionsExt;
        let shown = self.into.join(&name).display().to_string();
        let partial = self.add(name, "two tables have this name")?;
        // Mode 0600, as a trace: it holds the application's data.
        File::options().write(true).create_new(true).mode(0o600).open(partial).with_context(|| shown)
    }

    /// What it is called until it has its name. `twice`: what is wrong with a name that is in the set.
    fn add(&mut self, name: PathBuf, twice: &str) -> Result<PathBuf> {
        let (place, shown) = (self.into.join(&name), self.into.join(&name).display().to_string());
        if self.names.contains(&name) {
            return Err(failure(FAILED, format_args!("{shown}: {twice}")));
        }
        if place.symlink_metadata().is_ok() && !self.force {
            return Err(failure(FAILED, format_args!("{shown} exists already; --force replaces it")));
        }
        let partial = self.partial.as_ref().map_or(self.into.clone(), |partial| partial.path().join(&name));
        self.names.push(name);
        Ok(partial)
    }

    /// Puts all into their places.
    pub fn finish(mut self) -> Result<()> {
        let Some(partial) = self.partial.take() else { return Ok(()) };
        for (at, name) in self.names.iter().enumerate() {
            let place = self.into.join(name);
            let shown = || place.display().to_string();
            std::fs::create_dir_all(place.parent().unwrap_or(&self.into)).with_context(shown)?;
            if place.symlink_metadata().is_ok() {
                std::fs::rename(&place, partial.path().join(format!("replaced.{at}"))).with_context(shown)?;
            }
            std::fs::rename(partial.path().join(name), &place).with_context(shown)?;
        }
        self.is_new = false;
        Ok(partial.close()?)
    }
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
