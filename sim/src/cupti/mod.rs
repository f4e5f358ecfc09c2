//! The part of CUPTI that a profiler needs, whose functions are in `entry`: callbacks round the calls that submit
//! work, and activity records of what streams did. In the driver itself, where NVIDIA has a library of its own. Imports
//! `ptx` and below.

pub mod activities;
pub mod callbacks;
