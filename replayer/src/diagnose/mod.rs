//! Finding what is wrong: launches one at a time, what each made of memory, and the one that failed.

pub mod bisection;
pub mod culprit;
pub mod digest;
pub mod instances;
pub mod launches;
pub mod trail;
pub mod unroll;
