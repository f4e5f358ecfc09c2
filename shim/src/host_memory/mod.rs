//! Host memory that the CPU writes without a call: watched, scanned, compared. Imports from `readback` and
//! below.

pub(crate) mod destinations;
pub(crate) mod host_writes;
pub(crate) mod read_pages;
pub(crate) mod shadow;
pub(crate) mod variables;
pub(crate) mod watch;
