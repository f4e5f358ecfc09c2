//! Physical memory of `cuMemCreate`: it lives as long as a handle or a mapping of it does.

use crate::report::walk::Step;
use std::collections::{BTreeMap, HashMap};

#[derive(Default)]
pub struct Physical {
    /// What a handle stands for now: values are used again.
    handles: HashMap<u64, u64>,
    /// Mappings by address: length, and what is mapped.
    mapped: BTreeMap<u64, (u64, u64)>,
    /// Handles and mappings of each piece.
    references: HashMap<u64, u64>,
    made: u64,
}

pub enum Change {
    /// A new piece, and its bytes.
    Made(u64, u64),
    Gone(Vec<u64>),
}

impl Physical {
    /// Follows a call that succeeded.
    pub fn see(&mut self, step: &Step) -> Option<Change> {
        let call = &step.call;
        match step.line() {
            "cuMemCreate" => {
                self.made += 1;
                self.handles.insert(call.output("handle")?, self.made);
                self.references.insert(self.made, 1);
                Some(Change::Made(self.made, call.argument("size")?))
            }
            "cuMemRetainAllocationHandle" => {
                let piece = self.piece_at(call.argument("addr")?)?;
                self.handles.insert(call.output("handle")?, piece);
                *self.references.entry(piece).or_default() += 1;
                None
            }
            "cuMemMap" => {
                let piece = self.piece(call.argument("handle")?)?;
                self.mapped.insert(call.argument("ptr")?, (call.argument("size")?, piece));
                *self.references.entry(piece).or_default() += 1;
                None
            }
            "cuMemUnmap" => {
                let start = call.argument("ptr")?;
                let end = start.checked_add(call.argument("size")?)?;
                let starts: Vec<u64> = self.mapped.range(start..end).map(|(at, _)| *at).collect();
                let pieces: Vec<u64> = starts.iter().filter_map(|at| self.mapped.remove(at)).map(|(_, p)| p).collect();
                Some(Change::Gone(pieces.into_iter().filter(|piece| self.drop_one(*piece)).collect()))
            }
            "cuMemRelease" => {
                // A handle that was retained stands for its piece until all its references are released.
                let piece = self.piece(call.argument("handle")?)?;
                Some(Change::Gone(Some(piece).filter(|piece| self.drop_one(*piece)).into_iter().collect()))
            }
            _ => None,
        }
    }

    /// What a handle stands for.
    pub fn piece(&self, handle: u64) -> Option<u64> {
        self.handles.get(&handle).copied()
    }

    fn piece_at(&self, address: u64) -> Option<u64> {
        let (start, (len, piece)) = self.mapped.range(..=address).next_back()?;
        (address - start < *len).then_some(*piece)
    }

    /// Whether that was the last reference.
    fn drop_one(&mut self, piece: u64) -> bool {
        let Some(left) = self.references.get_mut(&piece) else { return false };
        *left = left.saturating_sub(1);
        let is_gone = *left == 0;
        if is_gone {
            self.references.remove(&piece);
        }
        is_gone
    }
}
