//! A recorded program is made again, and checked; a trace that is not what was recorded is found out.

mod bisecting;
mod checking;
mod comparing;
mod culprit;
mod elsewhere;
mod stopping;
mod tampering;
mod waits;
mod workloads;
