//! Plans, re-executes and checks a trace.
//!
//! [`plan()`] walks the trace once, without a driver, and says what can be replayed (`plan/`). [`replay`] does it on any
//! `libcuda.so.1`: one worker a recorded thread under the partial order of the recording (`run/`), memory at its recorded
//! addresses or translated (`memory/`), each call rebuilt from its attachments by the roles of the driver table (`call/`) and
//! compared with what was recorded (`check/`).

mod addresses;
mod call;
mod check;
mod driver;
mod error;
mod memory;
mod options;
mod plan;
pub mod profile;
mod ranges;
mod run;
#[cfg(test)]
mod sample;

pub use check::bisection::{self, Bisection, Parting};
pub use check::extent::{Elements, Extent, Fill, Float, Tolerance};
pub use check::report::{Checked, Divergence, LeftOut, Outcome, Placed, Report};
pub use check::trust::BLIND;
pub use driver::result::is_sticky;
pub use driver::stream::is_left_behind;
pub use error::Error;
pub use memory::words::Words;
pub use options::{Followed, Options, Progress, Tools};
pub use plan::called_back::reached;
pub use plan::contexts::Contexts;
pub use plan::copied::{Copied, End, copied};
pub use plan::nested::structs;
pub use plan::outstanding::{Outstanding, Wait, Work, outstanding};
pub use plan::stops::{Memory, find_call, find_launches, find_memory};
pub use plan::unordered::{Submission, Unordered, unordered};
pub use plan::verdict::{Reason, Verdict};
pub use plan::{Plan, plan};
pub use run::culprit::{Argument, Culprit, Recorded, What};
pub use run::launches::Watched;
pub use run::peek::Dump;
pub use run::repeat::{Repeat, Repeated};
pub use run::replay;
