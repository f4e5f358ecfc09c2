//! The command: what it takes, what it says, how it ends.

mod dependencies;
mod exports;
mod golden;
mod reading;
mod recording;
mod replaying;
mod viewing;
