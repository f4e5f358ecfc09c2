//! A job replayed: a replay for each of its traces, in a process of its own, and what they need of each
//! other.
//!
//! This process maps nothing and calls no driver. It knows which call opens what which other had exported
//! (by the traces), passes on what the exporting replay says of it, and ends the others where one fails that
//! shares something with them. The order between them is theirs to keep: each writes how far it has come to a
//! page that all of them map, and waits there.

mod child;
mod coordinator;
mod launcher;
mod process;
mod progress;
mod protocol;
mod request;
mod summary;
mod traces;

pub use child::Link;
pub use request::ReplayRequest;

use crate::terminal::exit;
use anyhow::Result;
use process::{Process, Running};
use protocol::Part;
use std::fs::File;

pub fn run(request: &ReplayRequest) -> Result<u8> {
    if request.processes.ranks.as_ref().is_some_and(|ranks| ranks.are_launched) {
        return launcher::run(request);
    }
    let job = request.processes.of(request.directory)?;
    if request.processes.ranks.is_some() {
        exit::say(
            "replayed ranks may wait for the ranks left out; use --alone to replay one rank from recorded peer data",
        );
    }
    let start = |process: &Process, part: &Part, times: &File| Running::start(request, process, part, times);
    Ok(traces::replay(request, job, &start)?.status)
}
