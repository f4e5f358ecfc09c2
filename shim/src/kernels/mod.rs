//! Code that the program loads, and the parameters of its kernels. Imports from `trace_file` and below.

pub(crate) mod driver_addresses;
pub(crate) mod images;
pub(crate) mod modules;
pub(crate) mod parameters;
