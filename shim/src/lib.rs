//! libcutrace.so: stands in front of the CUDA driver and records every call.
//!
//! Rules of the house, for a guest in somebody else's process:
//!
//! 1. Never hold a lock across a call of the real driver.
//! 2. Never change an argument or a result. (Three exceptions: the addresses that cuGetProcAddress hands out,
//!    callbacks that run when work gets to them, and, with --collectives, the graph that a launch names if it
//!    holds collectives: its clone has copies of what they deliver; see `substitute`.)
//! 3. On the hot path no lock, no allocation, no system call, no logging, no thread-local with Drop. (What
//!    the CPU writes without a call has to be looked for: once memory is pinned or managed, calls that give
//!    work or wait are off that path.)
//! 4. Dormant until the first driver call: no file and no thread, so that children which never touch CUDA
//!    cost nothing. The driver is opened when the program, which may be linked with it, opens it or looks one
//!    of its functions up; so is the directory of the trace. The environment is copied before the program
//!    begins (`constructor`). (Where traces go to a directory, a process says there that it has begun
//!    and that it ends: `processes`.)
//! 5. A fault of the recorder switches recording off, says so once, and the program lives on.
//! 6. What is not recorded is counted.
//! 7. Unwinding and cancellation pass through: wrappers and real functions are `extern "C-unwind"`, and
//!    nothing here needs its destructor run.
//!
//! The way of a call: `wrappers` (one function a table line) -> `call` (entry record) -> the real driver ->
//! `call` (return record). `hook` says at compile time which calls are followed beyond that, `effects` what
//! is done then. `pointers` follows pointers where the table says there is more than words. `lane` is the
//! buffer that a thread's records go into, `thread_start` how a thread begins to record, `process_start`
//! makes the file and the recorder thread, `recorder` holds what one recording needs, `chunk` the memory
//! records are written to (`shared`), `file` and `chunk_slots` all that is on disk, `range` says when.
//! `interpose` and `real_driver` see to it that we are asked and that we know whom to ask. `times` has CUPTI
//! tell when devices worked, where asked for. `nvtx` is asked by the program itself, and `notes` writes into
//! the lane what it says; so are `nccl` and `operations` by NCCL.
//!
//! The folders are the layers, from the lowest: `os`, `driver`, `in_flight`, `trace_file`, `kernels`, `readback`,
//! `host_memory`, `recording`, `records`, `submission`, `capture`, `job`, `entry`. Each `mod.rs` says what lives
//! there; no file imports from a folder above its own (tests/command/layers.rs).

mod capture;
mod driver;
mod entry;
mod host_memory;
mod in_flight;
mod job;
mod kernels;
mod os;
mod readback;
mod recording;
mod records;
mod submission;
mod trace_file;
