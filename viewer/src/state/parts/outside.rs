//! Inputs to the state from outside, and its requests to the outside.

use super::keymap::Key;

/// An event from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A key was pressed.
    Key(Key),
    /// The terminal has this number of columns and rows.
    Resize(u16, u16),
    /// A press of the main button, a drag with it held, its release.
    Press(u16, u16),
    /// The mouse moved to this column and row with the main button held.
    Drag(u16, u16),
    /// The main button was released.
    Release,
    /// The wheel at a place, up or down; with shift or control held it pans.
    Wheel {
        /// Column of the mouse.
        x: u16,
        /// Row of the mouse.
        y: u16,
        /// Whether the wheel turned up.
        up: bool,
        /// Whether shift or control is held.
        pan: bool,
    },
    /// Text that was pasted.
    Paste(String),
}

/// A request to the outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// End the viewer.
    Quit,
    /// Stop the process until the shell continues it.
    Suspend,
    /// All of the screen, whatever stands there.
    Redraw,
    /// To the terminal's clipboard.
    Copy(String),
    /// Write the marks to their file.
    SaveMarks,
    /// What is selected, or else in the window, to this file.
    Export {
        /// Path of the file.
        path: String,
        /// Start of the stretch of time, ns.
        from: u64,
        /// End of the stretch of time, ns.
        to: u64,
    },
    /// The table that is shown, to this file.
    ExportTable(String),
    /// Switch reports of the mouse on or off.
    Mouse(bool),
}
