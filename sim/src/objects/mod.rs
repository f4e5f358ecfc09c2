//! The objects of a context: modules and libraries, launches of their functions, arrays, textures; and their
//! end with the context. Imports `graphs` and below.

pub mod array;
pub mod launch;
pub mod library;
pub mod module;
pub mod teardown;
pub mod texture;
