//! What a program makes in a context: modules and libraries, launches of their functions, arrays, textures; and how all of
//! it ends with the context. Imports `graphs` and below.

pub mod array;
pub mod launch;
pub mod library;
pub mod module;
pub mod teardown;
pub mod texture;
