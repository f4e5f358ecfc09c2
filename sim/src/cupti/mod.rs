//! The part of CUPTI that a profiler needs: callbacks around the calls that submit work, and activity records
//! of streams' work. Its functions are in `entry`. It is in the driver itself; NVIDIA's is a library of its
//! own. Imports `ptx` and below.

pub(crate) mod activities;
pub(crate) mod callbacks;
