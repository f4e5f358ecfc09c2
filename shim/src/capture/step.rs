//! The inputs of a call's steps. `entry::steps` lists the steps; each lies in the folder of its subject.

use crate::records::lane::Lane;
use crate::submission::shape::Site;

/// A call that begins.
#[derive(Clone, Copy)]
pub(crate) struct CallEntry<'c> {
    pub lane: &'c Lane,
    pub site: &'static Site,
    pub words: &'c [u64],
}

/// A call that has returned.
#[derive(Clone, Copy)]
pub(crate) struct CallReturn<'c> {
    pub lane: &'c Lane,
    pub site: &'static Site,
    pub words: &'c [u64],
    pub sequence: u32,
    /// The position of the next copy when the call began, if the call may wait for copies.
    pub position: u64,
    /// It has waited although its table line does not say so.
    pub has_waited: bool,
    pub result: u32,
}
