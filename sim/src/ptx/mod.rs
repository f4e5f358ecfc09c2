//! The PTX interpreter: text to syntax (`lexer`, `parse`, `body`), syntax to instructions (`lower`),
//! instructions to effects (`exec`). `image` has the containers of PTX texts, `jit` the compiler's options
//! and the linker. Imports `memory` and below.

mod alu;
mod ast;
mod body;
mod code;
mod convert;
pub(crate) mod exec;
mod float;
mod half;
pub(crate) mod image;
mod inst;
pub(crate) mod jit;
mod lexer;
mod lower;
mod operator;
mod parse;
mod program;
mod soft;
mod special;
#[cfg(test)]
mod tests;
mod types;
mod variable;

pub(crate) use program::{Kernel, Layout, Program};

/// The reason why a text is not runnable PTX, in the words of the assembler's log.
#[derive(Clone, Debug)]
pub(crate) struct Error {
    pub line: u32,
    pub text: String,
    /// The text is written in a way that is not known here.
    pub syntax: bool,
}

impl Error {
    pub(crate) fn new(line: u32, text: impl Into<String>) -> Self {
        Self { line, text: text.into(), syntax: false }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "ptxas application ptx input, line {}; error   : {}", self.line, self.text)?;
        write!(f, "ptxas fatal   : Ptx assembly aborted due to errors")
    }
}

pub(crate) type Result<T> = std::result::Result<T, Error>;
