//! Plans, re-executes and checks a trace.
//!
//! [`plan()`] walks the trace once, without a driver, and decides what can be replayed (`plan/`).
//! [`replay()`] makes the calls on any `libcuda.so.1` (`driver/`): one worker per recorded thread under the
//! recording's partial order (`run/`), memory at its recorded addresses or translated (`memory/`), each call
//! rebuilt from its attachments by the roles of the table (`call/`) and compared with the recording
//! (`check/`).
//!
//! Folders are layers. From the lowest: `base/`, `driver/`, `job/`, `plan/`, `memory/`, `session/` and
//! `tally.rs`, `call/`, `check/`, `profile/`, `diagnose/`, `options.rs`, `run/`, `report/`, `replay.rs`. No
//! file imports from a layer above its own. The parts of `job/` that belong to the plan, to placement and to
//! the run count with those.

#![warn(missing_docs, unreachable_pub)]

mod base;
mod call;
mod check;
mod diagnose;
mod driver;
mod job;
mod memory;
mod options;
mod plan;
pub mod profile;
mod replay;
mod report;
mod run;
mod session;
mod tally;

pub use base::error::Error;
pub use base::extent::{Elements, Extent, Fill, Float, Tolerance};
pub use diagnose::bisection::{self, Bisection, FirstDifference};
pub use diagnose::culprit::{Argument, Culprit, FailedWork, RecordedFault};
pub use diagnose::serial_launches::{HashedLaunches, SerialReport};
pub use driver::stream::is_left_behind;
pub use job::peer_waits::{PeerMemory, PeerWait};
pub use job::peers::{HostPart, Imports, Live, Peers, Source};
pub use job::ranks::{MissingPeers, Ranks};
pub use job::shared_handles::{SharedHandles, SharedHost, matched, shared_host};
pub use memory::words::Words;
pub use options::{Dump, Options, Progress, Repeat, Tools};
pub use plan::breakpoints::{DumpMemory, find_call, find_launches, find_memory};
pub use plan::graphs::callbacks::reached;
pub use plan::order::unordered::{Submission, UnorderedPair, unordered};
pub use plan::verdict::{Judgement, Reason, Verdict};
pub use plan::{Missing, Plan, judge, judge_with_peers, plan, plan_single_rank, plan_with_peers};
pub use replay::replay;
pub use report::relocation_coverage::UNTRANSLATED;
pub use report::{Outcome, PlacementCounts, Report};
pub use run::repeat::timing::RepeatTimes;
pub use tally::{CheckCounts, Divergence, LaunchBefore, LeftOut};
