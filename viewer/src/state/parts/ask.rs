//! The prompt's question, and the text typed so far.

use tui_input::Input;

/// The question of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// A pattern of names to search for.
    Search,
    /// An expression that selects events.
    Filter,
    /// A call, a time or a percentage to go to.
    GoTo,
    /// A note for a mark.
    Note,
    /// A file to export to.
    Export,
    /// An action by name.
    Palette,
}

impl Ask {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Ask::Search => "/",
            Ask::Filter => "filter: ",
            Ask::GoTo => "go to (1234, 1.5s, 50%): ",
            Ask::Note => "note: ",
            Ask::Export => "write to (.json, .csv, .pftrace; table: .csv): ",
            Ask::Palette => ":",
        }
    }
}

/// The text typed so far.
#[derive(Debug, Clone)]
pub struct Prompt {
    pub(crate) ask: Ask,
    pub(crate) input: Input,
    /// The chosen one of [`State::offered`](crate::state::State::offered).
    pub choice: usize,
    /// Which of the earlier answers is shown, counted from the latest; 0: what was typed, which waits in
    /// `draft` while others are shown.
    pub recalled: usize,
    pub(crate) draft: String,
}

impl Prompt {
    pub(crate) fn new(ask: Ask, text: String) -> Prompt {
        Prompt { ask, input: Input::new(text), choice: 0, recalled: 0, draft: String::new() }
    }

    /// The typed text.
    pub fn text(&self) -> &str {
        self.input.value()
    }
}
