//! What a call's records hold beyond its argument words: memory, payloads, images, completed results. Imports from `submission` and below.

pub(crate) mod arrived;
pub(crate) mod callback;
pub(crate) mod code;
pub(crate) mod concern;
pub(crate) mod host;
pub(crate) mod implicit_modules;
pub(crate) mod launched;
pub(crate) mod payload;
pub(crate) mod pointers;
