//! libcutrace.so: preloaded in front of the CUDA driver, it records every call.
//!
//! Rules for a guest in another process:
//!
//! 1. Never hold a lock across a call of the real driver.
//! 2. Never change an argument or a result. (Three exceptions: the addresses that cuGetProcAddress returns,
//!    callbacks that run as work, and, with --collectives, the graph that a launch names if it holds
//!    collectives: its clone also copies their results; see `substitute`.)
//! 3. On the hot path no lock, no allocation, no system call, no logging, no thread-local with Drop. (CPU
//!    writes without a call must be searched for: once memory is pinned or managed, calls that submit work or
//!    wait are off that path.)
//! 4. Dormant until the first driver call: no file and no thread, so that children which never touch CUDA
//!    cost nothing. The driver is opened when the program, which may be linked with it, opens it or looks up
//!    one of its functions; so is the directory of the trace. The environment is copied before the program
//!    begins (`constructor`). (If traces go to a directory, a process writes there that it has begun and that
//!    it ends: `processes`.)
//! 5. A fault of the recorder switches recording off and is reported once; the program continues.
//! 6. Everything that is not recorded is counted.
//! 7. Unwinding and cancellation pass through: wrappers and real functions are `extern "C-unwind"`, and
//!    nothing here needs its destructor run.
//!
//! The path of a call: `wrappers` (one function per table line) -> `call` (entry record) -> the real driver
//! -> `call` (return record). `hook` decides at compile time which calls are followed beyond that, `effects`
//! acts on those. `pointers` follows pointers where the table says there is more than words. `lane` is the
//! buffer for a thread's records, `thread_start` begins the recording of a thread, `process_start` makes the
//! file and the recorder thread, `recorder` holds the state of one recording, `chunk` is the memory for
//! records (`shared`), `file` and `chunk_slots` are all that is on disk, `range` decides when to record.
//! `interpose` and `real_driver` lead the program to us and us to the driver. `times` takes device times from
//! CUPTI, if requested. The program itself calls `nvtx`, and `notes` writes its annotations into the lane;
//! NCCL calls `nccl` and `operations`.
//!
//! The folders are the layers, from the lowest: `os`, `driver`, `in_flight`, `trace_file`, `kernels`,
//! `readback`, `host_memory`, `recording`, `records`, `submission`, `capture`, `job`, `entry`. Each `mod.rs`
//! describes its contents; no file imports from a folder above its own (tests/command/layers.rs).

#![warn(unreachable_pub)]
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
