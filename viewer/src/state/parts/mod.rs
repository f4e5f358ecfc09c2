//! The parts of the state: values that do not know the whole. Imports `data/` and `text`.

pub mod action;
pub(crate) mod ask;
pub mod keymap;
pub mod layout;
pub(crate) mod mark;
pub(crate) mod outside;
pub(crate) mod overview;
pub(crate) mod rows;
pub mod scope;
pub mod tab;
pub(crate) mod table_rows;
pub(crate) mod window;
