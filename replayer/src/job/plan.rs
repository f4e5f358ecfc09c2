//! The part of a plan that concerns other processes of the job, if the replay must make up for them.

use crate::job::single_rank::SingleRank;
use std::collections::HashMap;

#[derive(Default)]
pub struct JobPlan {
    /// Calls that imported by a descriptor what the process had exported itself, and the calls that had.
    pub(crate) own_exports: HashMap<u64, u64>,
    /// If the other processes of the job are not here.
    pub single_rank: Option<SingleRank>,
    /// Calls that need processes which are not here, and why they are refused.
    pub(crate) refusals: HashMap<u64, &'static str>,
}
