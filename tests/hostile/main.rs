//! Programs that are hard for a preloaded recorder: each must behave as it does without, and be recorded.

mod annotations;
mod before_first_call;
mod closing;
mod cut_short;
mod processes;
mod ranges;
mod ranks;
mod reaching;
mod size_limit;
mod surroundings;
mod switching;
mod threads;
mod unwinding;
