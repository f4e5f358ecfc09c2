//! The contents of a call's records beyond its argument words: memory, payloads, images, completed results.
//! Imports from `submission` and below.

pub(crate) mod callback;
pub(crate) mod code;
pub(crate) mod completed;
pub(crate) mod device_descriptions;
pub(crate) mod implicit_modules;
pub(crate) mod in_flight_work;
pub(crate) mod launch_records;
pub(crate) mod needs_scan;
pub(crate) mod payload;
pub(crate) mod pointers;
pub(crate) mod scan_before_call;
pub(crate) mod step;
