//! The reports, one file each, over one walk (`walk`); `list` has their names, `request` makes them, and
//! `findings` collects the findings. Imports all other folders.

mod api_sum;
mod api_trace;
mod collectives;
mod device;
mod errors;
pub mod findings;
mod host;
mod launches;
mod leaks;
pub mod list;
mod lost_calls;
mod memory;
pub mod merged;
mod modules;
mod pending;
mod ranks;
mod reasons;
mod refused_launches;
mod repeated_launches;
pub mod request;
pub mod selection;
mod summary;
mod sync;
mod transfers;
mod walk;
