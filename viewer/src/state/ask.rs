//! What the prompt asks, and what has been typed.

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    Search,
    Filter,
    GoTo,
    Note,
    Export,
    Palette,
}

impl Ask {
    pub fn title(self) -> &'static str {
        match self {
            Ask::Search => "/",
            Ask::Filter => "filter: ",
            Ask::GoTo => "go to (1234, 1.5s, 50%): ",
            Ask::Note => "note of the mark: ",
            Ask::Export => "write to (.json, .csv, .pftrace; a table .csv): ",
            Ask::Palette => ":",
        }
    }
}

/// What has been typed so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    pub ask: Ask,
    pub text: String,
    /// The chosen one of [`State::offered`].
    pub choice: usize,
}
