//! Errors, by the action that they require: the command has an exit status for each kind.

use std::fmt::Display;
use std::io;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What is asked for does not fit the trace, or contradicts itself.
    #[error("{0}")]
    Usage(String),
    /// What should be read is not there, or not all of it.
    #[error("{0}")]
    Unreadable(String),
    #[error(transparent)]
    Trace(#[from] trace::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Of a library that writes a format.
    #[error(transparent)]
    Format(Box<dyn std::error::Error + Send + Sync>),
    /// What was being done, or to which file.
    #[error("{what}")]
    At { what: String, source: Box<Error> },
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub fn usage(what: impl Display) -> Error {
        Error::Usage(what.to_string())
    }

    pub fn with_place(self, what: impl Display) -> Error {
        Error::At { what: what.to_string(), source: Box::new(self) }
    }
}
