//! The base of the driver: whether it can be used, its settings, handles, devices, the functions of each
//! version, the guard of the host's memory. Imports `abi`.

pub mod age;
pub mod device;
pub mod guard;
pub mod registry;
pub mod since;
pub mod state;
