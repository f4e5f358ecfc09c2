//! Inputs to the state from outside, and its requests to the outside.

use super::keymap::Key;

/// An event from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    Key(Key),
    Resize(u16, u16),
    /// A press of the main button, a drag with it held, its release.
    Press(u16, u16),
    Drag(u16, u16),
    Release,
    /// The wheel at a place, up or down; with shift or control held it pans.
    Wheel {
        x: u16,
        y: u16,
        up: bool,
        pan: bool,
    },
    /// Text that was pasted.
    Paste(String),
}

/// A request to the outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    Quit,
    Suspend,
    /// All of the screen, whatever stands there.
    Redraw,
    /// To the terminal's clipboard.
    Copy(String),
    SaveMarks,
    /// What is selected, or else in the window, to this file.
    Export {
        path: String,
        from: u64,
        to: u64,
    },
    /// The table that is shown, to this file.
    ExportTable(String),
    Mouse(bool),
}
