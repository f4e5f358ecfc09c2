//! The command's output, and its end. Imports no other folder.

pub mod bar;
pub mod color;
pub mod exit;
pub mod help;
pub mod standard_output;
