//! Reading a trace: its index, its calls, its annotations. Imports from `file` and below.

pub(crate) mod ahead;
pub mod annotation;
pub mod asked;
pub mod call;
pub(crate) mod calls;
pub mod collective;
pub(crate) mod counted;
pub mod crossing;
pub(crate) mod crowded;
pub(crate) mod described;
pub(crate) mod index;
pub mod known;
pub(crate) mod lane;
pub mod reader;
pub mod recorded;
pub(crate) mod references;
pub(crate) mod results;
pub(crate) mod segments;
pub(crate) mod stretches;
pub mod timed;
pub mod written;
