//! The reports, one file each, over one walk (`walk`); `list` has their names, `request` makes them, and
//! `findings` collects the findings. Imports all other folders.

pub mod api_sum;
pub mod api_trace;
pub mod collectives;
pub mod device;
pub mod errors;
pub mod findings;
pub mod host;
pub mod launches;
pub mod leaks;
pub mod list;
pub mod lost_calls;
pub mod memory;
pub mod merged;
pub mod modules;
pub mod pending;
pub mod ranks;
pub mod reasons;
pub mod refused_launches;
pub mod repeated_launches;
pub mod request;
pub mod selection;
pub mod summary;
pub mod sync;
pub mod transfers;
pub mod walk;
