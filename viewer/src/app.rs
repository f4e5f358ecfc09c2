//! The viewer on a terminal: it reads inputs and draws frames, and does slow work in the background.

use crate::config::Config;
use crate::data::compare;
use crate::data::job::{self, Specs};
use crate::data::open::{Error as OpenError, Opened};
use crate::data::store::INDEX;
use crate::state::command::PrintedFrame;
use crate::state::parts::tab::Tab;
use crate::state::{Effect, Input, State};
use crate::terminal::input::input;
use crate::terminal::screen::Term;
use crate::view::theme::Theme;
use crate::{export, report, view};
use analysis::findings::finding::Find;
use crossterm::event;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// At most 30 frames a second.
const FRAME: Duration = Duration::from_millis(33);
/// How often a trace that is still being written is looked at, at most.
const FOLLOW: Duration = Duration::from_secs(1);
/// Inputs taken between two frames: bounded, so that a storm of them cannot keep the screen from being drawn.
const DRAINED: usize = 256;
/// Calls that make or end objects: the names that so many give are there with the first frame, those of more
/// follow it.
const AT_ONCE: usize = 10_000;
/// The size of a screen that nobody sees.
const PRINTED: (u16, u16) = (120, 40);

/// A failure that ends the viewer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The trace cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The terminal cannot be read, written or set.
    #[error("terminal: {0}")]
    Terminal(#[from] io::Error),
    /// The signal that asked the viewer to end.
    #[error("ended by signal {0}")]
    Signal(i32),
}

/// The options of the viewer.
#[derive(Debug, Clone)]
pub struct Options {
    /// Colours and glyphs of the terminal.
    pub theme: Theme,
    /// The user's settings.
    pub config: Config,
    /// Whether an index may be read and written.
    pub index: bool,
    /// A trace to compare with.
    pub second: Option<PathBuf>,
    /// The processes of a job, to be shown with the first of them.
    pub job: Option<Specs>,
    /// Finds out what is worth looking at in a trace.
    pub find: Find,
    /// What to show first.
    pub shown: PrintedFrame,
    /// Tells the user something when no screen is shown.
    pub say: fn(&str),
}

/// What is done beside.
enum News {
    Input(event::Event),
    /// What objects are called is known, or what is worth looking at.
    Learned,
    /// Some of the data is, which the status line tells.
    Damaged,
    /// The trace as it is now.
    Grown(Box<Opened>),
    /// The index turned out not to be what was written: the trace was read again.
    Rebuilt(Box<Opened>),
    Say(String),
    NoTerminal(io::Error),
}

/// Reading so many calls takes longer than keeping what is found.
const LONG: u64 = 100_000;

/// Keeps an index of a long trace that is looked at once, as it is kept of one that is looked at for long.
pub fn keep_index(opened: &Opened, options: &Options) {
    for opened in both(opened) {
        opened.unfit.iter().for_each(|unfit| (options.say)(unfit));
        let is_kept = options.index && opened.summary().calls >= LONG;
        let said = is_kept.then(|| opened.save()).and_then(|saved| index_message(opened, saved));
        said.iter().for_each(|said| (options.say)(said));
    }
}

/// What there is to say of an index that was to be kept.
fn index_message(opened: &Opened, saved: io::Result<Option<PathBuf>>) -> Option<String> {
    match saved {
        Ok(path) => INDEX.displaced(&opened.path, &path?),
        Err(error) => Some(format!("cannot write the index: {error}")),
    }
}

/// One frame of that size as text, and what was asked for that is not there.
/// `paints`: with its colours.
pub fn once(opened: Opened, options: &Options, (width, height): (u16, u16), paints: bool) -> (String, Option<String>) {
    name_objects(&opened);
    // A walk over all calls, for those who look at it.
    if options.shown.view == Some(Tab::Findings) || opened.summary().calls <= AT_ONCE as u64 {
        opened.find_findings();
    }
    opened.check_data();
    let mut state = begin(Arc::new(opened), options, (width, height));
    let beyond = state.set(&options.shown);
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    view::draw(&state, &options.theme, &mut buffer);
    (if paints { export::painted(&buffer) } else { export::frame(&buffer) }, beyond)
}

/// The tables as plain text, of what the options select; and what was asked for that is not there.
pub fn printed(opened: Opened, options: &Options) -> (String, Option<String>) {
    let mut state = begin(Arc::new(opened), options, PRINTED);
    let beyond = state.set(&options.shown);
    state.windowed = options.shown.window.is_some();
    (report::text(&state), beyond)
}

/// Finds the names of objects, of the second trace too.
pub fn name_objects(opened: &Opened) {
    both(opened).for_each(|opened| {
        opened.find_lives();
    });
}

fn begin(opened: Arc<Opened>, options: &Options, size: (u16, u16)) -> State {
    let mut state = State::new(opened, options.config.keymap.clone(), size);
    state.marks = export::load_marks(&state.opened.path);
    state.mouse = options.config.mouse.unwrap_or(true);
    state.gap = options.config.gap.unwrap_or(state.gap);
    state.start();
    state
}

/// The trace, beside the second if there is one.
pub fn open(path: &Path, options: &Options) -> Result<Opened, OpenError> {
    match &options.job {
        Some(specs) => open_job(specs, (options.index, options.find)),
        None => open_both(path, options.second.as_deref(), (options.index, options.find), None),
    }
}

fn open_job(specs: &Specs, (index, find): (bool, Find)) -> Result<Opened, OpenError> {
    let mut all = specs.all.iter().map(|spec| Opened::open(&spec.path, index, find)).collect::<Result<Vec<_>, _>>()?;
    let first = all.remove(0);
    Ok(job::join(specs.clone(), &first, all))
}

/// `aligned`: calls of both that begin together.
fn open_both(
    path: &Path,
    second: Option<&Path>,
    (index, find): (bool, Find),
    aligned: Option<(u32, u32)>,
) -> Result<Opened, OpenError> {
    let opened = Opened::open(path, index, find)?;
    match second {
        Some(second) => Ok(compare::merge_second(&opened, Opened::open(second, index, find)?, aligned)),
        None => Ok(opened),
    }
}

/// The same once more, as it is now.
fn reopened(opened: &Opened) -> Result<Opened, OpenError> {
    let second = opened.second.as_deref();
    let how = (false, opened.find());
    if let Some(job) = &opened.job {
        return open_job(&job.specs, how);
    }
    open_both(&opened.path, second.map(|second| &*second.opened.path), how, second.and_then(|second| second.aligned))
}

/// The trace, and the second if there is one, or the others of its job.
fn both(opened: &Opened) -> impl Iterator<Item = &Opened> {
    let peers = opened.job.iter().flat_map(|job| &job.peers);
    std::iter::once(opened).chain(opened.second.as_deref().map(|second| &second.opened)).chain(peers)
}

/// Shows a trace until the user has seen enough. Gives what was asked for that is not there.
pub fn run(path: &Path, options: &Options) -> Result<Option<String>, Error> {
    let opened = Arc::new(open(path, options)?);
    if opened.model.concerned.len() <= AT_ONCE {
        name_objects(&opened);
    }
    if opened.summary().calls <= AT_ONCE as u64 && !opened.is_live() {
        opened.find_findings();
    }
    let ended = Arc::new(AtomicUsize::new(0));
    for signal in [SIGTERM, SIGHUP, SIGINT, SIGQUIT] {
        signal_hook::flag::register_usize(signal, ended.clone(), signal as usize)?;
    }
    let (sender, news) = channel();
    let mut term = Term::open(options.config.mouse.unwrap_or(true), options.theme.depth)?;
    let size = term.size()?;
    let mut state = begin(opened.clone(), options, (size.width, size.height));
    both(&opened).filter_map(|opened| opened.unfit.as_ref()).for_each(|unfit| state.say(unfit));
    let beyond = state.set(&options.shown);
    beyond.iter().for_each(|beyond| state.say(beyond));
    read_input(sender.clone())
        .map_err(|error| io::Error::new(error.kind(), format!("{NO_THREAD} to read it: {error}")))?;
    let stop = Arc::new(AtomicBool::new(false));
    let mut index = load_in_background(opened, (options.index, &stop), sender.clone());
    let shown = show(&mut term, &mut state, options, &news, &ended, (&sender, &stop, &mut index));
    drop(term);
    let is_kept = |opened: &Opened| {
        let is_alone = opened.second.is_none() && opened.job.is_none();
        opened.index.is_none() && is_alone && !opened.is_live()
    };
    if shown.is_ok() && options.index && both(&state.opened).any(is_kept) {
        finish_index(&state.opened.path, &index, options.say, &ended);
    }
    stop.store(true, Ordering::SeqCst);
    // What was begun is taken away.
    let _gone_or_late = index.recv_timeout(Duration::from_secs(1));
    shown.map(|()| beyond)
}

/// Waits until the index is written, if it is being written, or somebody has no time for that.
fn finish_index(trace: &Path, index: &Receiver<()>, say: fn(&str), ended: &AtomicUsize) {
    let is_open = |wait| matches!(index.recv_timeout(wait), Err(RecvTimeoutError::Timeout));
    if !is_open(Duration::from_millis(20)) {
        return;
    }
    let index_of = trace.display();
    say(&format!("writing the index of {index_of}, for faster opening; ctrl-c skips it"));
    while is_open(Duration::from_millis(100)) {
        if ended.load(Ordering::SeqCst) != 0 {
            return say("index not written");
        }
    }
}

fn show(
    term: &mut Term,
    state: &mut State,
    options: &Options,
    news: &Receiver<News>,
    ended: &AtomicUsize,
    (sender, stop, index): (&Sender<News>, &Arc<AtomicBool>, &mut Receiver<()>),
) -> Result<(), Error> {
    let (mut changed, mut drawn) = (true, false);
    let mut last: Option<Instant> = None;
    loop {
        if changed && last.is_none_or(|last| last.elapsed() >= FRAME) {
            let size = term.size()?;
            if (size.width, size.height) != state.size {
                state.update(Input::Resize(size.width, size.height));
            }
            term.frames.frame(size, |buffer| view::draw(state, &options.theme, buffer))?;
            (changed, drawn, last) = (false, true, Some(Instant::now()));
        }
        // Signals set a flag: it is looked at between waits.
        let wait = if changed { FRAME } else { Duration::from_millis(200) };
        let first = news.recv_timeout(wait).ok();
        if first.is_none() && std::mem::take(&mut drawn) {
            both(&state.opened).for_each(Opened::rest);
        }
        if let signal @ 1.. = ended.load(Ordering::SeqCst) {
            return Err(Error::Signal(signal as i32));
        }
        let more = news.try_iter().take(DRAINED);
        for news in first.into_iter().chain(more) {
            changed = true;
            let effects = match news {
                News::Input(event) => {
                    both(&state.opened).for_each(Opened::wake);
                    input(&event).map_or_else(Vec::new, |input| state.update(input))
                }
                News::Learned => {
                    state.learned();
                    Vec::new()
                }
                News::Damaged => Vec::new(),
                News::Grown(opened) => {
                    state.reload(Arc::from(opened));
                    *index = load_in_background(state.opened.clone(), (options.index, stop), sender.clone());
                    Vec::new()
                }
                News::Rebuilt(opened) => {
                    state.reload(Arc::from(opened));
                    state.say("the index was damaged; read the trace instead");
                    *index = load_in_background(state.opened.clone(), (options.index, stop), sender.clone());
                    Vec::new()
                }
                News::Say(text) => {
                    state.say(text);
                    Vec::new()
                }
                News::NoTerminal(error) => return Err(error.into()),
            };
            for effect in effects {
                if effect == Effect::Quit {
                    return Ok(());
                }
                perform(effect, term, state, sender)?;
            }
        }
    }
}

fn perform(effect: Effect, term: &mut Term, state: &mut State, sender: &Sender<News>) -> io::Result<()> {
    match effect {
        Effect::Quit => {}
        Effect::Suspend => term.suspend()?,
        Effect::Redraw => term.redraw()?,
        Effect::Mouse(on) => term.set_mouse(on)?,
        Effect::Copy(text) => term.copy(&text)?,
        Effect::SaveMarks => {
            if let Err(error) = export::save_marks(state) {
                state.say(format!("cannot save the marks (lost on exit): {error}"));
            }
        }
        Effect::Export { path, from, to } if path.ends_with(".pftrace") => {
            state.say(format!("writing {path}"));
            let (trace, calls, sender) =
                (state.opened.path.clone(), state.opened.model.calls_between(from, to), sender.clone());
            let write = move || {
                let _closed = sender.send(News::Say(export::perfetto(&trace, &path, calls)));
            };
            if let Err(error) = thread::Builder::new().spawn(write) {
                state.say(format!("not written: {NO_THREAD}: {error}"));
            }
        }
        Effect::ExportTable(path) => {
            let path = PathBuf::from(path);
            let said = match export::table(state, &path) {
                Ok(count) => format!("{}: {}", path.display(), crate::text::counted(count, "row")),
                Err(error) => format!("{}: {error}", path.display()),
            };
            state.say(said);
        }
        Effect::Export { path, from, to } => {
            let path = PathBuf::from(path);
            let said = match export::events(state, &path, from, to) {
                Ok(count) => format!("{}: {}", path.display(), crate::text::counted(count, "event")),
                Err(error) => format!("{}: {error}", path.display()),
            };
            state.say(said);
        }
    }
    Ok(())
}

const NO_THREAD: &str = "cannot start a thread";

/// Reads the terminal until it is gone.
fn read_input(sender: Sender<News>) -> io::Result<()> {
    let read = move || {
        loop {
            let news = match event::read() {
                Ok(event) => News::Input(event),
                Err(error) => News::NoTerminal(error),
            };
            let is_over = matches!(news, News::NoTerminal(_));
            if sender.send(news).is_err() || is_over {
                return;
            }
        }
    };
    thread::Builder::new().spawn(read).map(drop)
}

/// What a trace still needs once it is on the screen: names of objects, its index kept or checked, and a look
/// at whether it has grown. What it gives is closed when the index is kept.
fn load_in_background(
    opened: Arc<Opened>,
    (index, stop): (bool, &Arc<AtomicBool>),
    sender: Sender<News>,
) -> Receiver<()> {
    let (keeping, kept) = channel();
    let (stop, told) = (stop.clone(), sender.clone());
    let learn = move || {
        if both(&opened).any(|opened| opened.unchecked.as_ref().is_some_and(|unchecked| !unchecked.check())) {
            let news = reopened(&opened)
                .map_or_else(|error| News::Say(error.to_string()), |again| News::Rebuilt(Box::new(again)));
            let _closed = sender.send(news);
            return;
        }
        let was_known = both(&opened).all(|opened| opened.lives().is_some());
        name_objects(&opened);
        if !was_known && sender.send(News::Learned).is_err() {
            return;
        }
        for opened in both(&opened).filter(|_| index) {
            if let Some(said) = index_message(opened, opened.save_unless(&stop)) {
                let _closed = sender.send(News::Say(said));
            }
        }
        drop(keeping);
        if opened.trace.footer.is_some() && look(&opened, index, &sender).is_err() {
            return;
        }
        if opened.check_data() && sender.send(News::Damaged).is_err() {
            return;
        }
        // Whoever writes it may be out of sight: in a container, or on another machine.
        if both(&opened).any(|opened| opened.trace.footer.is_none()) {
            follow(&opened, index, &sender);
        }
    };
    if let Err(error) = thread::Builder::new().spawn(learn) {
        let _closed =
            told.send(News::Say(format!("no object names, no findings, not checked for damage: {NO_THREAD}: {error}")));
    }
    kept
}

/// Finds out what is worth looking at, which is a walk over all calls, and keeps it.
fn look(opened: &Opened, index: bool, sender: &Sender<News>) -> Result<(), SendError<News>> {
    let was_found = opened.findings().is_some();
    opened.find_findings();
    if index && opened.save_findings().is_err() {
        sender.send(News::Say("cannot write the findings to the index".into()))?;
    }
    if was_found { Ok(()) } else { sender.send(News::Learned) }
}

/// Waits until the trace has grown or was closed, and reads it again: no more often than it takes five times
/// as long as reading it. What is worth looking at is found out when nobody writes it any more: each look is
/// at all of it.
fn follow(opened: &Opened, index: bool, sender: &Sender<News>) {
    let live: Vec<bool> = both(opened).map(Opened::is_live).collect();
    loop {
        thread::sleep(FOLLOW);
        let started = Instant::now();
        let is_same = |(opened, live): (&Opened, &bool)| !opened.has_changed() && opened.is_live() == *live;
        if both(opened).zip(&live).all(is_same) {
            // Kept the first time only.
            let is_due = opened.findings().is_none() && !opened.is_live();
            if is_due && look(opened, index, sender).is_err() {
                return;
            }
            continue;
        }
        match reopened(opened) {
            Ok(now) => {
                thread::sleep(started.elapsed() * 4);
                let _closed = sender.send(News::Grown(Box::new(now)));
            }
            Err(error) => {
                let _closed = sender.send(News::Say(error.to_string()));
            }
        }
        return;
    }
}
