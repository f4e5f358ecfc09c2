//! One file per command, each thin over the libraries; a folder beside it holds that command's own parts.

pub mod completions;
pub mod demo;
pub mod doctor;
pub mod dump;
pub mod export;
pub mod info;
pub mod man;
pub mod pack;
pub mod record;
pub mod redact;
pub mod repair;
pub mod replay;
pub mod report;
pub mod session;
pub mod switch;
pub mod view;
pub mod watch;
