//! The command: what it takes, what it says, how it ends.

mod arguments;
mod dependencies;
mod documents;
mod exporting;
mod exports;
mod findings;
mod fuzz;
mod golden;
mod gpu_times;
mod hot_path;
mod installing;
mod layers;
mod leaking;
mod naming;
mod packages;
mod packing;
mod polling;
mod reading;
mod recording;
mod redacting;
mod repairing;
mod replaying;
mod reporting;
mod screens;
mod timing;
mod viewing;
