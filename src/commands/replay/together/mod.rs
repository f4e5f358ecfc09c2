//! The replay of a job: one replay for each of its traces, in a process of its own, and the data that they
//! exchange.
//!
//! This process maps nothing and calls no driver. It knows from the traces which call opens which export,
//! passes on the exporting replay's messages, and ends the replays that share something with a failed one.
//! The replays keep the order among themselves: each writes its progress to a page that all of them map, and
//! waits there.

mod child;
mod coordinator;
mod launcher;
mod process;
mod progress;
mod protocol;
mod request;
mod summary;
mod traces;

pub(super) use child::Link;
pub(super) use request::ReplayRequest;

use crate::terminal::exit;
use anyhow::Result;
use process::{Process, Running};
use protocol::Part;
use std::fs::File;

pub(super) fn run(request: &ReplayRequest) -> Result<u8> {
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
