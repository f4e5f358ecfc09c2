//! The command's output, and its end. Imports no other folder.

pub(crate) mod bar;
pub(crate) mod color;
pub(crate) mod exit;
pub(crate) mod help;
pub(crate) mod standard_output;
