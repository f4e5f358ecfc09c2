//! The contents of a trace, piece by piece: a call, an annotation, a report by NCCL, work of a device, lost
//! or unfinished calls. Imports `filter` and its imports.

pub mod annotations;
pub mod collectives;
pub mod device_work;
pub mod host_writes;
pub mod line;
pub mod losses;
pub mod nccl;
pub mod streams;
pub mod unfinished;
