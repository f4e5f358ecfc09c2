//! The viewer on a terminal: inputs in, frames out, and what takes long done beside.

use crate::config::Config;
use crate::data::compare;
use crate::data::lives::Lives;
use crate::data::open::{Error as OpenError, Opened};
use crate::input::input;
use crate::state::command::Shown;
use crate::state::{Effect, Input, State};
use crate::term::Term;
use crate::view::theme::Theme;
use crate::{export, view};
use crossterm::event;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// At most 30 frames a second.
const FRAME: Duration = Duration::from_millis(33);
/// How often a trace that is still being written is looked at, at most.
const FOLLOW: Duration = Duration::from_secs(1);
/// Inputs taken between two frames: bounded, so that a storm of them cannot keep the screen from being drawn.
const DRAINED: usize = 256;
/// Calls that make or end objects: the names that so many give are there with the first frame, those of more follow it.
const AT_ONCE: usize = 10_000;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("terminal: {0}")]
    Terminal(#[from] io::Error),
    /// The signal that asked the viewer to end.
    #[error("ended by signal {0}")]
    Signal(i32),
}

/// How the viewer is to be.
#[derive(Debug, Clone)]
pub struct Options {
    pub theme: Theme,
    pub config: Config,
    /// Whether an index may be read and written.
    pub index: bool,
    /// A trace to compare with.
    pub second: Option<PathBuf>,
    /// What to show first.
    pub shown: Shown,
}

/// What is done beside.
enum News {
    Input(event::Event),
    Lives(Lives),
    /// The trace as it is now.
    Grown(Box<Opened>),
    /// The index turned out not to be what was written: the trace was read again.
    Rebuilt(Box<Opened>),
    Say(String),
    NoTerminal(io::Error),
}

/// One frame of that size as text; with `go_to` as the user would type it.
pub fn once(opened: Opened, options: &Options, (width, height): (u16, u16)) -> String {
    let mut opened = opened;
    if let Some(lives) = opened.find_lives() {
        opened.model.lives = Some(lives);
    }
    let mut state = begin(Arc::new(opened), options, (width, height));
    let lives = state.opened.model.lives.clone();
    state.lives = lives.map(Arc::new);
    state.set(&options.shown);
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    view::draw(&state, &options.theme, &mut buffer);
    export::frame(&buffer)
}

fn begin(opened: Arc<Opened>, options: &Options, size: (u16, u16)) -> State {
    let mut state = State::new(opened, options.config.keymap.clone(), size);
    state.marks = export::load_marks(&state.opened.path);
    state.mouse = options.config.mouse.unwrap_or(true);
    state.pause = options.config.pause.unwrap_or(state.pause);
    state.lives = state.opened.model.lives.clone().map(Arc::new);
    state
}

/// The trace, beside the second if there is one.
pub fn open(path: &Path, options: &Options) -> Result<Opened, OpenError> {
    let opened = Opened::open(path, options.index)?;
    match &options.second {
        Some(second) => Ok(compare::beside(&opened, Opened::open(second, options.index)?, None)),
        None => Ok(opened),
    }
}

/// Shows a trace until the user has seen enough.
pub fn run(path: &Path, options: &Options) -> Result<(), Error> {
    let mut opened = open(path, options)?;
    if opened.model.concerned.len() <= AT_ONCE
        && let Some(lives) = opened.find_lives()
    {
        opened.model.lives = Some(lives);
    }
    let opened = Arc::new(opened);
    let ended = Arc::new(AtomicUsize::new(0));
    for signal in [SIGTERM, SIGHUP, SIGINT] {
        signal_hook::flag::register_usize(signal, ended.clone(), signal as usize)?;
    }
    let (sender, news) = channel();
    let mut term = Term::take(options.config.mouse.unwrap_or(true))?;
    let size = term.terminal.size()?;
    let mut state = begin(opened.clone(), options, (size.width, size.height));
    state.set(&options.shown);
    read_input(sender.clone());
    beside(opened, options.index, sender.clone());
    let shown = show(&mut term, &mut state, options, &news, &ended, &sender);
    drop(term);
    shown
}

fn show(
    term: &mut Term,
    state: &mut State,
    options: &Options,
    news: &Receiver<News>,
    ended: &AtomicUsize,
    sender: &Sender<News>,
) -> Result<(), Error> {
    let mut changed = true;
    let mut last: Option<Instant> = None;
    loop {
        if changed && last.is_none_or(|last| last.elapsed() >= FRAME) {
            term.frame(|frame| {
                let area = frame.area();
                if (area.width, area.height) != state.size {
                    state.update(Input::Resize(area.width, area.height));
                }
                view::draw(state, &options.theme, frame.buffer_mut());
            })?;
            (changed, last) = (false, Some(Instant::now()));
        }
        // Signals set a flag: it is looked at between waits.
        let wait = if changed { FRAME } else { Duration::from_millis(200) };
        let first = news.recv_timeout(wait).ok();
        if let signal @ 1.. = ended.load(Ordering::SeqCst) {
            return Err(Error::Signal(signal as i32));
        }
        let more = news.try_iter().take(DRAINED);
        for news in first.into_iter().chain(more) {
            changed = true;
            let effects = match news {
                News::Input(event) => input(&event).map_or_else(Vec::new, |input| state.update(input)),
                News::Lives(lives) => {
                    state.know(Arc::new(lives));
                    Vec::new()
                }
                News::Grown(opened) => {
                    state.reload(Arc::from(opened));
                    state.lives = None;
                    beside(state.opened.clone(), options.index, sender.clone());
                    Vec::new()
                }
                News::Rebuilt(opened) => {
                    state.reload(Arc::from(opened));
                    state.say("the index was damaged: the trace was read again");
                    beside(state.opened.clone(), options.index, sender.clone());
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
        Effect::Mouse(on) => term.set_mouse(on)?,
        Effect::Copy(text) => term.copy(&text)?,
        Effect::SaveMarks => {
            if let Err(error) = export::save_marks(state) {
                let path = export::marks_path(&state.opened.path);
                state.say(format!("{}: {error}; the mark is kept until you quit", path.display()));
            }
        }
        Effect::Export { path, from, to } if path.ends_with(".pftrace") => {
            state.say(format!("writing {path}"));
            let (trace, calls, sender) =
                (state.opened.path.clone(), state.opened.model.calls_between(from, to), sender.clone());
            thread::spawn(move || {
                let _closed = sender.send(News::Say(export::perfetto(&trace, &path, calls)));
            });
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

/// Reads the terminal until it is gone.
fn read_input(sender: Sender<News>) {
    thread::spawn(move || {
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
    });
}

/// What a trace still needs once it is on the screen: names of objects, its index kept or checked, and a look at whether
/// it has grown.
fn beside(opened: Arc<Opened>, index: bool, sender: Sender<News>) {
    thread::spawn(move || {
        if opened.unchecked.as_ref().is_some_and(|unchecked| !unchecked.check()) {
            let again = Opened::open(&opened.path, false);
            let news =
                again.map_or_else(|error| News::Say(error.to_string()), |opened| News::Rebuilt(Box::new(opened)));
            let _closed = sender.send(news);
            return;
        }
        let found = opened.find_lives();
        if let Some(lives) = found.as_ref().or(opened.model.lives.as_ref()).filter(|_| index)
            && let Err(error) = opened.save(lives)
        {
            let _closed = sender.send(News::Say(format!("no index was kept: {error}")));
        }
        if found.is_some_and(|lives| sender.send(News::Lives(lives)).is_err()) {
            return;
        }
        // Beside another, a trace is shown as it is now.
        if opened.is_live() && opened.second.is_none() {
            follow(&opened, &sender);
        }
    });
}

/// Waits until the trace has grown or was closed, and reads it again: no more often than it takes five times as long as
/// reading it.
fn follow(opened: &Opened, sender: &Sender<News>) {
    loop {
        thread::sleep(FOLLOW);
        let started = Instant::now();
        if !opened.has_changed() && opened.is_live() {
            continue;
        }
        match Opened::open(&opened.path, false) {
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
