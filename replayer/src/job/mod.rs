//! The other processes of a job: the memory and events that this one shares, the processes that are replayed
//! beside it, and substitutes for the missing ones.
//!
//! The files here know no plan and import `base/` and `driver/`; [`peer_waits`] queries the plan. `survey/`
//! is the job's part of the plan's walk, [`imported_memory`] that of placement, `run/` that of the workers:
//! each may import the same layers as its counterpart.

pub(crate) mod graph_deliveries;
pub(crate) mod imported_memory;
pub(crate) mod peer_waits;
pub(crate) mod peers;
pub(crate) mod plan;
pub(crate) mod ranks;
pub(crate) mod run;
pub(crate) mod shared_handles;
pub(crate) mod shared_host;
pub(crate) mod single_rank;
pub(crate) mod survey;
