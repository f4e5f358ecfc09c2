//! Parts of the recorder that stand for themselves: the recorder's own crate is one that no test can be linked with, as it has the
//! driver's names.

#![allow(dead_code)]

#[path = "../../shim/src/maps.rs"]
mod maps;
#[path = "../../shim/src/shadow.rs"]
mod shadow;
