//! What a trace holds, piece by piece: a call, an annotation, what NCCL said, what a device did, what is lost or
//! unfinished. Imports `filter` and what that does.

pub mod annotations;
pub mod collectives;
pub mod device_work;
pub mod host_writes;
pub mod line;
pub mod losses;
pub mod nccl;
pub mod streams;
pub mod unfinished;
