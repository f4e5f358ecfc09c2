//! The other processes of a job: the memory and events that this one shares, the processes that are replayed
//! beside it, and substitutes for the missing ones.
//!
//! The files here know no plan and import `base/` and `driver/`; [`peer_waits`] queries the plan. `survey/`
//! is the job's part of the plan's walk, [`imported_memory`] that of placement, `run/` that of the workers:
//! each may import the same layers as its counterpart.

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
