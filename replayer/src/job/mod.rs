//! The other processes of a job: whose memory and events this one shares, which of them are replayed beside it, and
//! what takes the place of those that are not.
//!
//! The files here know nothing of a plan and import `base/` and `driver/`; [`peer_waits`] asks the plan. `survey/` is the
//! job's part of the plan's walk, [`imported_memory`] of placement, `run/` of the workers: each imports what its
//! counterpart may.

pub mod graph_deliveries;
pub(crate) mod imported_memory;
pub mod peer_waits;
pub(crate) mod peers;
pub mod plan;
pub mod ranks;
pub mod run;
pub mod shared_handles;
pub mod shared_host;
pub mod single_rank;
pub mod survey;
