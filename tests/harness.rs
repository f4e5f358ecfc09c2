//! The harness that tests share: client programs, built once; runs, bare and recorded, each with a time
//! limit; checks of traces. Everything runs on the simulated driver.
//!
//! Each test has a [`Place`] of its own, a temporary directory, so that tests run side by side.

#[path = "harness/artifacts.rs"]
mod artifacts;
#[path = "harness/clients.rs"]
mod clients;
#[path = "harness/forge.rs"]
pub mod forge;
#[path = "harness/mutate.rs"]
pub mod mutate;
#[path = "harness/mutate_index.rs"]
pub mod mutate_index;
#[path = "harness/mutate_names.rs"]
pub mod mutate_names;
#[path = "harness/mutate_packed.rs"]
pub mod mutate_packed;
#[path = "harness/mutate_segments.rs"]
pub mod mutate_segments;
#[path = "harness/place.rs"]
mod place;
#[path = "harness/process.rs"]
mod process;
#[path = "harness/ranks.rs"]
mod ranks;
#[path = "harness/recording.rs"]
mod recording;
#[path = "harness/run.rs"]
mod run;
#[path = "harness/screen.rs"]
mod screen;

pub use artifacts::{artifact, driver_directory, kernels, nvtx_include, source};
pub use clients::{client, client_with};
pub use place::Place;
pub use process::{children, computed, heeds, is_asleep, is_pending, until};
pub use ranks::hanging_ranks;
pub use recording::{calls_named, names, objects, sound, thread_names};
pub use run::{Outcome, Running, begin, is_verified, run, run_within};
pub use screen::Screen;
