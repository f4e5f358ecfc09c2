//! Calls of the recorder's own to the real driver.

pub mod calls;
