//! The objects of a context: modules and libraries, launches of their functions, arrays, textures; and their
//! end with the context. Imports `graphs` and below.

pub(crate) mod array;
pub(crate) mod launch;
pub(crate) mod library;
pub(crate) mod module;
pub(crate) mod teardown;
pub(crate) mod texture;
