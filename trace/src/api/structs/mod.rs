//! Structs that driver functions read or write, each with the roles of its fields.

mod array;
mod context;
mod copy;
mod endpoint;
mod external;
mod flags;
mod graph;
mod launch;
mod memory;

pub use array::*;
pub use context::*;
pub use copy::*;
pub use endpoint::*;
pub use external::*;
pub use flags::*;
pub use graph::*;
pub use launch::*;
pub use memory::*;
