//! The command: what it takes, what it says, how it ends.

mod dependencies;
mod exporting;
mod exports;
mod golden;
mod reading;
mod recording;
mod replaying;
mod reporting;
mod timing;
mod viewing;
