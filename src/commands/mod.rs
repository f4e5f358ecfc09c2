//! One file per command, each thin over the libraries; a folder beside it holds that command's own parts.

pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod dump;
pub(crate) mod export;
pub(crate) mod info;
pub(crate) mod man;
pub(crate) mod pack;
pub(crate) mod record;
pub(crate) mod redact;
pub(crate) mod repair;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod session;
pub(crate) mod switch;
pub(crate) mod view;
pub(crate) mod watch;
