//! Recorded programs are replayed and checked; a trace that differs from its recording is detected.

mod bisecting;
mod bounds;
mod checking;
mod comparing;
mod culprit;
mod elsewhere;
mod exercised;
mod explaining;
mod following;
mod fuzz;
mod graph_results;
mod host_results;
mod jobs;
mod looping;
mod older;
mod own_calls;
mod portable;
mod profiling;
mod random;
mod references;
mod stopping;
mod tampering;
mod translation;
mod untrusted;
mod waits;
mod workloads;
