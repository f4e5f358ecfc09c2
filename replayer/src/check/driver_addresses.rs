//! Addresses inside the driver that no call returns, and that differ in a replay: they are learned from
//! results that hold them.
//!
//! A word counts as such an address only if it also is one here, at the same offset in its block as the
//! recorded word. So a program that copies back another function's address is distinguished from one whose
//! functions lie elsewhere. The word from which a block is learned has been compared with nothing.

use crate::session::Session;
use std::cell::OnceCell;
use std::ops::Range;
use trace::model::driver_addresses::{BLOCK, block_of, closed, may_be};

/// The moved blocks found in one result.
#[derive(Default)]
pub(crate) struct Moves {
    closed: OnceCell<Vec<Range<u64>>>,
    /// Blocks that were not known before.
    pub count: u64,
    /// Words that lie in those.
    pub words: u64,
    blocks: Vec<u64>,
}

impl Moves {
    pub(crate) fn learn(&mut self, session: &Session, recorded: u64, live: u64) {
        let is_possible = recorded != live && may_be(recorded) && may_be(live) && recorded % BLOCK == live % BLOCK;
        if !is_possible || is_known(session, recorded, live) {
            return;
        }
        let block = block_of(recorded);
        if self.is_drivers(live) && session.translation.learn(recorded, live) {
            self.count += 1;
            self.blocks.push(block);
        }
        self.words += u64::from(self.blocks.contains(&block));
    }

    fn is_drivers(&self, live: u64) -> bool {
        self.closed.get_or_init(closed).iter().any(|range| range.contains(&live))
    }
}

/// Whether calls tell where one of them is.
fn is_known(session: &Session, recorded: u64, live: u64) -> bool {
    let (placement, translation) = (&session.placement, &session.translation);
    let was = placement.is_in_place(recorded) || translation.live(recorded).is_some();
    was || placement.is_in_place(live) || translation.recorded_by_calls(live).is_some()
}
