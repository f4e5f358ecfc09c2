//! A line of the details.

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detail {
    pub label: String,
    pub text: String,
    pub tone: Tone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Title,
    Plain,
    Bad,
    Quiet,
}

pub(crate) fn detail(label: impl Into<String>, text: impl Into<String>, tone: Tone) -> Detail {
    Detail { label: label.into(), text: text.into(), tone }
}
