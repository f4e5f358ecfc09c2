//! A simulated CUDA driver: a stand-in for `libcuda.so.1` that needs no GPU.
//!
//! It keeps contexts, memory, streams and modules as the driver does, and runs kernels by interpreting their
//! PTX. It is written from NVIDIA's header and from measurements, not from cutrace's own table of the API, so
//! that a mistake there is not repeated here. Every exported function works; a driver function that it does
//! not implement is not exported at all, and `cuGetProcAddress` returns "not found" for it.
//!
//! Rules of this crate:
//! * No lock is held while a call waits for a stream, runs a user's callback, or interprets more than a slice of a
//!   kernel.
//! * A device address is the host address of a real mapping, so unified addressing holds by itself. The interpreter
//!   looks every access up in the table of live ranges; a kernel's wrong address is an error 700, never a fault of
//!   ours.
//! * Every handle is looked up before it is used; a wrong one is an error 400.
//! * Nothing works in a child after fork: every call says "not initialised" before it takes any lock.
//!
//! It differs from a device in this: memory starts as zeros, the nodes of a graph run one after another, and
//! a failed kernel leaves what it had written.
//!
//! Environment variables: `CUTRACE_SIM_SEED` (where memory lies; else random), `CUTRACE_SIM_MEMORY` (bytes of
//! device memory, default 1 GiB), `CUTRACE_SIM_DEVICES` (default 1), `CUTRACE_SIM_SLOW_US` (minimum duration
//! of a synchronising call), `CUTRACE_SIM_DRIVER_VERSION` (an older driver: see `base::age`),
//! `CUTRACE_SIM_COMPUTE` (ten times the compute capability, default 90), `CUTRACE_SIM_TAKES` (addresses that
//! the driver takes for itself: see `memory::reserve`), `CUTRACE_SIM_MIGRATES` (1: managed memory leaves the
//! CPU's page table whenever a kernel has run), `CUTRACE_SIM_GUARD` (copies and launches use only host memory
//! that the program has registered: see `base::guard`).

#![warn(unreachable_pub)]

mod abi;
mod base;
mod cupti;
mod entry;
mod graphs;
mod memory;
mod objects;
mod ptx;
mod streams;
