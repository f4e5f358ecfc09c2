//! What one replay stands on.

pub mod device_memory;
