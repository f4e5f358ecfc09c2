//! What all of the driver stands on: whether it can be used, the knobs, handles, devices, which version has which
//! functions, the guard of the host's memory. Imports `abi`.

pub mod age;
pub mod device;
pub mod guard;
pub mod registry;
pub mod since;
pub mod state;
