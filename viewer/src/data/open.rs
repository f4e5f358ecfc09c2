//! Opening: by the index if there is one that agrees with the trace, else by reading the trace.

use super::build::{TooMany, build};
use super::compare::Second;
use super::lives::Lives;
use super::store::{self, Key, Unchecked};
use super::{Model, Summary};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trace::{Call, Trace};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Trace(#[from] trace::Error),
    #[error(transparent)]
    TooMany(#[from] TooMany),
}

/// A trace that can be looked at.
pub struct Opened {
    pub path: PathBuf,
    /// Opened by its index, it knows its calls only one by one: ask [`Opened::call`].
    pub trace: Arc<Trace>,
    pub model: Model,
    /// Of the trace as it was when the model was made.
    key: Key,
    /// The index that the model comes from, if it does.
    pub index: Option<PathBuf>,
    pub unchecked: Option<Unchecked>,
    /// The trace that this one is compared with; its lanes are in the model.
    pub second: Option<Arc<Second>>,
}

impl Opened {
    /// `index`: whether one may be used.
    pub fn open(path: &Path, index: bool) -> Result<Opened, Error> {
        let key = Key::of(path)?;
        let loaded = if index { store::load(path, key) } else { None };
        if let Some(loaded) = loaded {
            let trace = Trace::open_known(path, loaded.known)?;
            let (model, unchecked) = (loaded.model, loaded.unchecked);
            let (trace, index) = (Arc::new(trace), Some(loaded.path));
            return Ok(Opened { path: path.into(), trace, model, key, index, unchecked, second: None });
        }
        let trace = Trace::open(path)?;
        let model = build(&trace)?;
        let trace = Arc::new(trace);
        Ok(Opened { path: path.into(), trace, model, key, index: None, unchecked: None, second: None })
    }

    /// The same once more, to be changed; what is mapped stays shared.
    pub fn again(&self) -> Opened {
        Opened {
            path: self.path.clone(),
            trace: self.trace.clone(),
            model: self.model.clone(),
            key: self.key,
            index: self.index.clone(),
            unchecked: None,
            second: self.second.clone(),
        }
    }

    pub fn summary(&self) -> &Summary {
        &self.model.summary
    }

    pub fn call(&self, number: u32) -> Option<Call<'_>> {
        if !self.trace.is_empty() {
            return self.trace.call(number.into());
        }
        let (thread, sequence, inner) = self.model.place(number)?;
        self.trace.call_at(thread, sequence, number.into(), inner)
    }

    /// The names of objects, if the model lacks them: a walk over all calls that make or end one.
    pub fn find_lives(&self) -> Option<Lives> {
        self.model.lives.is_none().then(|| Lives::of(&self.trace, &self.model.concerned))
    }

    /// Keeps the model for the next time; where. Nothing is kept of a trace that is still being written, or that comes
    /// from an index.
    pub fn save(&self, lives: &Lives) -> io::Result<Option<PathBuf>> {
        if self.index.is_some() || self.second.is_some() || self.is_live() || self.has_changed() {
            return Ok(None);
        }
        store::save(&self.path, self.key, &self.model, lives, self.trace.known()).map(Some)
    }

    /// Whether the file is not what it was when the model was made.
    pub fn has_changed(&self) -> bool {
        Key::of(&self.path).ok() != Some(self.key)
    }

    /// Whether a process is still writing the trace.
    pub fn is_live(&self) -> bool {
        self.trace.footer.is_none() && trace::finish::writer(&self.trace).is_some()
    }

    /// What is wrong with the trace, in one line.
    pub fn label(&self) -> Option<String> {
        let damage = match self.trace.damage.as_slice() {
            [] => None,
            [only] => Some(format!("damaged at offset {}: {}", only.offset, only.what)),
            [first, more @ ..] => {
                Some(format!("damaged at offset {}: {} (and {} more places)", first.offset, first.what, more.len()))
            }
        };
        if self.is_live() {
            return Some("still being written".into());
        }
        damage.or_else(|| {
            self.trace.footer.is_none().then(|| "partial: the trace was not closed (see cutrace repair)".into())
        })
    }
}
