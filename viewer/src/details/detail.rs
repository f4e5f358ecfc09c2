//! A line of the details.

/// A line of the details pane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detail {
    /// The name of the fact; empty for a title.
    pub label: String,
    /// The value.
    pub text: String,
    pub(crate) tone: Tone,
}

/// The kind of a line, for its style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// The heading of a group.
    Title,
    /// A fact.
    Plain,
    /// A failure, or a fact that needs attention.
    Bad,
    /// A remark.
    Quiet,
}

pub(crate) fn detail(label: impl Into<String>, text: impl Into<String>, tone: Tone) -> Detail {
    Detail { label: label.into(), text: text.into(), tone }
}
