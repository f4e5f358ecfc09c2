//! Errors, by the action that they require: the command has an exit status for each kind.

use std::fmt::Display;
use std::io;

/// A failure of an analysis.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What is asked for does not fit the trace, or contradicts itself.
    #[error("{0}")]
    Usage(String),
    /// What should be read is not there, or not all of it.
    #[error("{0}")]
    Unreadable(String),
    /// The trace cannot be opened or read.
    #[error(transparent)]
    Trace(#[from] trace::Error),
    /// Input or output failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A value cannot be written as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Of a library that writes a format.
    #[error(transparent)]
    Format(Box<dyn std::error::Error + Send + Sync>),
    /// What was being done, or to which file.
    #[error("{what}")]
    At {
        /// The action or the file, with its error as the user reads it.
        what: String,
        /// The error without its place.
        source: Box<Error>,
    },
}

/// The result of a fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An [`Error::Usage`] with this message.
    pub fn usage(what: impl Display) -> Error {
        Error::Usage(what.to_string())
    }

    /// Adds the action or file to the error.
    pub fn with_place(self, what: impl Display) -> Error {
        Error::At { what: what.to_string(), source: Box::new(self) }
    }
}
