//! A recorded program is made again, and checked; a trace that is not what was recorded is found out.

mod checking;
mod elsewhere;
mod exercised;
mod older;
mod tampering;
mod translation;
mod waits;
mod workloads;
