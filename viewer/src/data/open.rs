//! Opening of a trace: by its index if that agrees with the trace, else by reading the trace.

use super::build::{TooMany, build};
use super::job::Job;
use super::lives::{Life, Lives};
use super::model::{Model, Summary};
use super::store::{self, Key, Pages, Unchecked};
use crate::text::{counted, moment};
use analysis::findings::finding::{Find, Finding};
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use trace::base::hash::Hash;
use trace::model::decode::decode;
use trace::{Call, Trace};

/// A trace that cannot be viewed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened as a trace.
    #[error(transparent)]
    Trace(#[from] trace::Error),
    /// The trace has too many calls.
    #[error(transparent)]
    TooMany(#[from] TooMany),
}

/// An opened trace.
pub struct Opened {
    /// Path by which it was opened.
    pub path: PathBuf,
    /// Opened by its index, it knows its calls only one by one: ask [`Opened::call`].
    pub trace: Arc<Trace>,
    /// Lanes, sums and memory.
    pub model: Model,
    /// Of the trace as it was when the model was made.
    key: Key,
    /// The index that the model comes from, if it does.
    pub index: Option<PathBuf>,
    pub(crate) unchecked: Option<Arc<Unchecked>>,
    /// What was wrong with an index that was not used.
    pub unfit: Option<String>,
    pages: Option<Pages>,
    at_rest: AtomicBool,
    /// The trace that this one is compared with; its lanes are in the model.
    pub second: Option<Arc<Second>>,
    /// The processes beside this one in their job; their lanes are in the model.
    pub job: Option<Arc<Job>>,
    /// The names of objects, once they are known.
    lives: Arc<OnceLock<Lives>>,
    /// What is worth looking at, once it is known, and how it is found out.
    findings: Arc<OnceLock<Vec<Finding>>>,
    find: Find,
    /// The pieces of data that are not as they were written, once that is known.
    damaged: Arc<OnceLock<HashSet<Hash>>>,
}

/// The second trace of a comparison.
pub struct Second {
    /// The second trace.
    pub opened: Opened,
    /// Calls of the first and of the second that belong together, by the first's number; and by the second's.
    pub pairs: Vec<(u32, u32)>,
    pub(crate) back: Vec<(u32, u32)>,
    /// How many names are the first's; the second's stand behind them.
    pub(super) names: usize,
    /// Calls of both that are to begin together, if the user has chosen some.
    pub aligned: Option<(u32, u32)>,
    /// What is added to the second's times, ns.
    pub shift: i64,
    /// Paired calls that took more time in the second trace.
    pub slower: u64,
    /// Paired calls that took less time in the second trace.
    pub faster: u64,
    /// Calls that the other trace does not have.
    pub only_first: u64,
    /// Calls of the second trace without a partner in the first.
    pub only_second: u64,
}

impl Second {
    pub(crate) fn of_first(&self, call: u32) -> Option<u32> {
        look_up(&self.pairs, call)
    }

    pub(crate) fn of_second(&self, call: u32) -> Option<u32> {
        look_up(&self.back, call)
    }
}

fn look_up(pairs: &[(u32, u32)], call: u32) -> Option<u32> {
    pairs.binary_search_by_key(&call, |(of, _)| *of).ok().map(|at| pairs[at].1)
}

/// Data is read through only of traces that are not longer.
const READ_THROUGH: u64 = 1 << 30;

impl Opened {
    /// `index`: whether one may be used. `find`: asked for what an index does not tell.
    pub fn open(path: &Path, index: bool, find: Find) -> Result<Opened, Error> {
        let key = Key::from_path(path)?;
        let (loaded, unfit) = if index { store::load(path, key) } else { (None, None) };
        let opened = |trace: Trace, model| Opened {
            path: path.into(),
            trace: Arc::new(trace),
            model,
            key,
            index: None,
            unchecked: None,
            unfit,
            pages: None,
            at_rest: AtomicBool::new(true),
            second: None,
            job: None,
            lives: Arc::default(),
            findings: Arc::default(),
            find,
            damaged: Arc::default(),
        };
        let Some(loaded) = loaded else {
            let trace = Trace::open(path)?;
            let model = build(&trace)?;
            return Ok(opened(trace, model));
        };
        Ok(Opened {
            index: Some(loaded.path),
            unchecked: loaded.unchecked.map(Arc::new),
            pages: Some(loaded.pages),
            lives: Arc::new(loaded.lives.into()),
            findings: Arc::new(loaded.findings.map_or_else(OnceLock::new, OnceLock::from)),
            ..opened(Trace::open_summarized(path, loaded.known)?, loaded.model)
        })
    }

    /// How what is worth looking at is found out.
    pub fn find(&self) -> Find {
        self.find
    }

    /// The same once more, to be changed; what is mapped stays shared.
    pub fn shared_copy(&self) -> Opened {
        Opened {
            path: self.path.clone(),
            trace: self.trace.clone(),
            model: self.model.clone(),
            key: self.key,
            index: self.index.clone(),
            unchecked: self.unchecked.clone(),
            unfit: self.unfit.clone(),
            pages: self.pages.clone(),
            at_rest: AtomicBool::new(self.is_at_rest()),
            second: self.second.clone(),
            job: self.job.clone(),
            lives: self.lives.clone(),
            findings: self.findings.clone(),
            find: self.find,
            damaged: self.damaged.clone(),
        }
    }

    /// Nobody looks at it for a while: what of the index is in view is let go of, and what one frame looks at
    /// is not kept for the next.
    pub fn rest(&self) {
        self.at_rest.store(true, Relaxed);
        self.pages.iter().for_each(Pages::let_go);
    }

    /// Somebody does again.
    pub fn wake(&self) {
        self.at_rest.store(false, Relaxed);
    }

    /// As it is from the beginning.
    pub fn is_at_rest(&self) -> bool {
        self.at_rest.load(Relaxed)
    }

    /// The small part of the model.
    pub fn summary(&self) -> &Summary {
        &self.model.summary
    }

    /// With those that others stand for.
    pub fn calls_made(&self) -> u64 {
        self.summary().calls.saturating_add(self.trace.calls_repeated())
    }

    /// Reads a call from the trace.
    pub fn call(&self, number: u32) -> Option<Call<'_>> {
        if !self.trace.is_empty() {
            return self.trace.call(number.into());
        }
        let (thread, sequence, inner) = self.model.place(number)?;
        self.trace.call_at(thread, sequence, number.into(), inner)
    }

    /// The names of objects, if they are known.
    pub fn lives(&self) -> Option<&Lives> {
        self.lives.get()
    }

    /// The names of objects. The first time a walk over all calls that make or end one, unless an index had
    /// them.
    pub fn find_lives(&self) -> &Lives {
        self.lives.get_or_init(|| Lives::from_trace(&self.trace, &self.model.concerned))
    }

    /// The objects that a call names, as far as their names are known.
    pub fn objects_of(&self, call: u32) -> Vec<Life> {
        let found = self.call(call).and_then(|call| decode(&call)).zip(self.lives());
        found.map_or_else(Vec::new, |(decoded, lives)| lives.named_lives(&decoded, call))
    }

    /// What is worth looking at, if it is known.
    pub fn findings(&self) -> Option<&[Finding]> {
        self.findings.get().map(Vec::as_slice)
    }

    /// What is worth looking at. The first time a walk over all calls, unless an index had it.
    pub fn find_findings(&self) -> &[Finding] {
        self.findings.get_or_init(|| {
            let is_whole = self.index.is_none();
            // By an index that was kept before anything had been looked for, the trace does not know all of
            // its calls.
            let read = if is_whole { None } else { Trace::open(&self.path).ok() };
            (self.find)(read.as_ref().unwrap_or(&self.trace))
        })
    }

    /// Reads through the data of the calls, the second trace's too, unless there is very much or more is
    /// coming: whether some of it is damaged.
    pub fn check_data(&self) -> bool {
        let is_read = self.trace.length() <= READ_THROUGH && !self.is_live();
        let wrong = || self.trace.wrong_blobs().into_iter().map(|(hash, _)| hash).collect();
        let own = is_read && !self.damaged.get_or_init(wrong).is_empty();
        self.second.as_ref().is_some_and(|second| second.opened.check_data()) || own
    }

    /// Whether this is known to be damaged.
    pub fn is_damaged(&self, data: Hash) -> bool {
        self.damaged.get().is_some_and(|damaged| damaged.contains(&data))
    }

    /// Keeps the model for the next time; where. Nothing is kept of a trace that is still being written, or
    /// that comes from an index.
    pub fn save(&self) -> io::Result<Option<PathBuf>> {
        self.save_unless(&AtomicBool::new(false))
    }

    /// The same, until it is told to stop.
    pub fn save_unless(&self, stop: &AtomicBool) -> io::Result<Option<PathBuf>> {
        if self.index.is_some() || self.second.is_some() || self.job.is_some() || self.is_live() || self.has_changed() {
            return Ok(None);
        }
        let found = (self.find_lives(), self.findings());
        store::save(&self.path, self.key, &self.model, found, self.trace.summarize(), stop).map(Some)
    }

    /// Keeps what was found, too, once that is known.
    pub fn save_findings(&self) -> io::Result<()> {
        let findings = self.findings().filter(|_| !self.is_live() && !self.has_changed());
        findings.map_or(Ok(()), |findings| store::add_findings(&self.path, self.key, findings))
    }

    /// Whether the file is not what it was when the model was made.
    pub fn has_changed(&self) -> bool {
        Key::from_path(&self.path).ok() != Some(self.key)
    }

    /// Whether a process is still writing the trace.
    pub fn is_live(&self) -> bool {
        self.trace.footer.is_none() && trace::write::finish::writer(&self.trace).is_some()
    }

    /// What is wrong with the trace, in one line.
    pub fn label(&self) -> Option<String> {
        if self.is_live() {
            return Some("still being written".into());
        }
        let more = |count: usize| if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
        let holes = &self.summary().holes;
        let hole = holes.first().map(|hole| {
            let (title, at) = (hole.title(), moment(hole.begin, 1_000));
            format!("damaged: {title} at {at}{}: {}", more(holes.len()), hole.what)
        });
        let partial = self.trace.footer.is_none();
        let damage = self.trace.damage.first().map(|first| {
            let is_cut = partial && self.trace.damage.len() == 1 && first.what.starts_with("the file ends");
            let how = if is_cut { "partial" } else { "damaged" };
            format!("{how} at offset {}: {}{}", first.offset, first.what, more(self.trace.damage.len()))
        });
        let data = self
            .damaged
            .get()
            .filter(|pieces| !pieces.is_empty())
            .map(|pieces| format!("damaged: {} altered (see cutrace info)", counted(pieces.len() as u64, "blob")));
        let partial = partial.then(|| "partial: the trace was not closed (see cutrace repair)".into());
        let own = hole.or(damage).or(data).or(partial);
        // What is wrong with the second of two is told when nothing is with the first.
        own.or_else(|| Some(format!("second trace: {}", self.second.as_ref()?.opened.label()?)))
    }
}
