//! The screen of the terminal: always restored, whatever happens, and written only where something changed.

use crate::terminal::classic::Classic;
use crate::view::theme::Depth;
use crossterm::clipboard::CopyToClipboard;
use crossterm::cursor::{Hide, Show};
use crossterm::event::{DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture};
use crossterm::execute;
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode,
};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::io::{self, BufWriter, Stdout, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// Whether the terminal is ours, so that giving it back twice does nothing.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The mode that it had before, once it is known.
static COOKED: AtomicPtr<libc::termios> = AtomicPtr::new(std::ptr::null_mut());

/// The terminal in full-screen mode, until it is dropped.
pub struct Term {
    pub(crate) frames: Frames<BufWriter<Classic<Stdout>>>,
    mouse: bool,
}

/// The output to a terminal: only the changes since the last frame, and nothing if there are none.
pub struct Frames<W: Write> {
    pub(crate) terminal: Terminal<CrosstermBackend<W>>,
    /// What is on the screen; none if that is not known.
    shown: Option<Buffer>,
}

impl<W: Write> Frames<W> {
    /// Nothing has been drawn yet.
    pub fn new(terminal: Terminal<CrosstermBackend<W>>) -> Frames<W> {
        Frames { terminal, shown: None }
    }

    /// Draws one frame of this size, shown at once by terminals that know how.
    pub fn frame(&mut self, size: Rect, draw: impl FnOnce(&mut Buffer)) -> io::Result<()> {
        let mut buffer = Buffer::empty(size);
        draw(&mut buffer);
        if self.shown.as_ref() == Some(&buffer) {
            return Ok(());
        }
        crossterm::queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        // If the terminal has got another size by now, the next frame has it.
        let is_of_size = |frame: &ratatui::Frame| frame.area() == size;
        let mut was_shown = false;
        self.terminal.draw(|frame| {
            was_shown = is_of_size(frame);
            if was_shown {
                frame.buffer_mut().content.clone_from(&buffer.content);
            }
        })?;
        crossterm::queue!(self.terminal.backend_mut(), EndSynchronizedUpdate)?;
        self.shown = Some(buffer).filter(|_| was_shown);
        self.terminal.backend_mut().flush()
    }

    /// Everything is sent with the next frame.
    fn forget(&mut self, size: Rect) -> io::Result<()> {
        self.shown = None;
        self.terminal.resize(size)
    }
}

impl Term {
    /// Takes the terminal. It is given back when this is dropped, and when something panics.
    pub fn open(mouse: bool, depth: Depth) -> io::Result<Term> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                restore();
                before(info);
            }));
            on_faults();
        });
        // Whether there are colours has been decided: crossterm would leave them out for NO_COLOR by itself.
        crossterm::style::force_color_output(depth != Depth::None);
        enter(mouse)?;
        // A frame is one write: what is between two writes can be seen to tear.
        let out = Classic::new(io::stdout(), matches!(depth, Depth::Eight | Depth::Sixteen));
        let out = BufWriter::with_capacity(1 << 20, out);
        let terminal = Terminal::new(CrosstermBackend::new(out)).inspect_err(|_| restore())?;
        Ok(Term { frames: Frames::new(terminal), mouse })
    }

    /// The terminal's, in cells.
    pub(crate) fn size(&self) -> io::Result<Rect> {
        let size = self.frames.terminal.size()?;
        Ok(Rect::new(0, 0, size.width, size.height))
    }

    /// Draws everything anew with the next frame. Terminal::clear asks where the cursor is, and the answer
    /// would go to the thread that reads input.
    pub(crate) fn redraw(&mut self) -> io::Result<()> {
        let size = self.size()?;
        self.frames.forget(size)
    }

    pub(crate) fn set_mouse(&mut self, on: bool) -> io::Result<()> {
        self.mouse = on;
        let out = self.frames.terminal.backend_mut();
        if on { execute!(out, EnableMouseCapture) } else { execute!(out, DisableMouseCapture) }
    }

    /// Gives the terminal to the shell, stops, and takes it again when the shell says so.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        restore();
        signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP)?;
        enter(self.mouse)?;
        self.redraw()
    }

    /// Text to the terminal's clipboard, if it takes any: OSC 52.
    pub(crate) fn copy(&mut self, text: &str) -> io::Result<()> {
        execute!(self.frames.terminal.backend_mut(), CopyToClipboard::to_clipboard_from(text))
    }
}

impl Drop for Term {
    fn drop(&mut self) {
        restore();
    }
}

fn enter(mouse: bool) -> io::Result<()> {
    keep_mode();
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::SeqCst);
    let mut out = io::stdout();
    let entered = execute!(out, EnterAlternateScreen, EnableBracketedPaste, Hide);
    let entered = entered.and_then(|()| if mouse { execute!(out, EnableMouseCapture) } else { Ok(()) });
    entered.inspect_err(|_| restore())
}

/// A file that is cut short while it is on the screen, or an abort: the terminal is given back as well as a
/// signal's handler can, and the signal does what it does. (SIGSEGV is left alone: the standard library tells
/// an overflown stack by it.)
fn on_faults() {
    use signal_hook::consts::{SIGABRT, SIGBUS};
    for signal in [SIGBUS, SIGABRT] {
        let given_back = move || {
            const BACK: &[u8] =
                b"\x1b[?2026l\x1b[?1006l\x1b[?1015l\x1b[?1003l\x1b[?1002l\x1b[?1000l\x1b[?2004l\x1b[?1049l\x1b[?25h";
            const CUT: &[u8] = b"cutrace: the trace was truncated while it was shown\n";
            if TAKEN.swap(false, Ordering::SeqCst) {
                let cooked = COOKED.load(Ordering::SeqCst);
                // SAFETY: both calls are allowed in a signal's handler; the mode is never freed.
                unsafe {
                    libc::write(1, BACK.as_ptr().cast(), BACK.len());
                    if !cooked.is_null() {
                        libc::tcsetattr(0, libc::TCSANOW, cooked);
                    }
                    if signal == SIGBUS {
                        libc::write(2, CUT.as_ptr().cast(), CUT.len());
                    }
                }
            }
            let _ends = signal_hook::low_level::emulate_default_handler(signal);
        };
        // SAFETY: the action does nothing but what a handler may.
        let _as_before = unsafe { signal_hook::low_level::register(signal, given_back) };
    }
}

/// Keeps the terminal's mode for a signal's handler.
fn keep_mode() {
    // SAFETY: plain numbers, for which zeros are valid, and an output struct.
    let mode = unsafe {
        let mut mode = std::mem::zeroed::<libc::termios>();
        (libc::tcgetattr(0, &mut mode) == 0).then_some(mode)
    };
    if let Some(mode) = mode.filter(|_| COOKED.load(Ordering::SeqCst).is_null()) {
        COOKED.store(Box::into_raw(Box::new(mode)), Ordering::SeqCst);
    }
}

/// Gives the terminal back as it was. There is nobody to tell if that fails.
fn restore() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let mut out = io::stdout();
        let _gone = execute!(
            out,
            EndSynchronizedUpdate,
            DisableMouseCapture,
            DisableBracketedPaste,
            LeaveAlternateScreen,
            Show
        );
        let _gone = disable_raw_mode();
    }
}
