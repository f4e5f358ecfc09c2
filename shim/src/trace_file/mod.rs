//! The trace file: chunks in shared memory, blobs, the slots of chunks, and the processes of a job. Imports
//! from `in_flight` and below.

pub(crate) mod blobs;
pub(crate) mod chunk;
pub(crate) mod chunk_slots;
pub(crate) mod file;
pub(crate) mod last_words;
pub(crate) mod mapped_files;
pub(crate) mod pieces;
pub(crate) mod processes;
pub(crate) mod recorder_parts;
pub(crate) mod workers;
