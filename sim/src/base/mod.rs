//! The base of the driver: whether it can be used, its settings, handles, devices, the functions of each
//! version, the guard of the host's memory. Imports `abi`.

pub(crate) mod age;
pub(crate) mod device;
pub(crate) mod guard;
pub(crate) mod registry;
pub(crate) mod since;
pub(crate) mod state;
