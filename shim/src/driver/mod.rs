//! Calls of the recorder's own to the real driver.

pub(crate) mod announcement;
pub(crate) mod calls;
pub(crate) mod devices;
pub(crate) mod directory;
pub(crate) mod logs;
pub(crate) mod queries;
pub(crate) mod queue;
pub(crate) mod real_driver;
