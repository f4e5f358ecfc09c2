//! Writing of records: a thread's lane, its start and end, annotations, device times. Imports from
//! `recording` and below.

pub(crate) mod annotation;
pub(crate) mod draft;
pub(crate) mod lane;
pub(crate) mod notes;
pub(crate) mod pre_init_nvtx;
pub(crate) mod process_end;
pub(crate) mod process_start;
pub(crate) mod thread_start;
pub(crate) mod times;
