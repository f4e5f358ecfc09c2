//! Physical memory, which lives as long as a handle or a mapping of it.

use super::change::Change;
use crate::api::effect::Memory;
use foldhash::HashMap;
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct Physical {
    /// What a handle stands for now, and how often it is to be released: values are used again.
    handles: HashMap<u64, (u64, u32)>,
    /// Mappings by address: length, and what is mapped.
    mapped: BTreeMap<u64, (u64, u64)>,
    /// Handles and mappings of each piece.
    references: HashMap<u64, u64>,
    made: u64,
}

pub(crate) enum Pieces {
    Made(u64),
    Gone(Vec<u64>),
}

impl Physical {
    /// Follows what a call changed. None if that is not about physical memory.
    pub(crate) fn follow(&mut self, change: &Change) -> Option<Pieces> {
        match *change {
            Change::Allocated { kind: Memory::Physical, at: handle, .. } => {
                self.made += 1;
                self.handles.insert(handle, (self.made, 1));
                self.references.insert(self.made, 1);
                Some(Pieces::Made(self.made))
            }
            Change::PhysicalRetained { handle, at } => {
                let piece = self.piece_at(at)?;
                let count =
                    self.handles.get(&handle).map_or(0, |(known, count)| if *known == piece { *count } else { 0 });
                self.handles.insert(handle, (piece, count + 1));
                *self.references.entry(piece).or_default() += 1;
                None
            }
            Change::Mapped { at, bytes, handle } => {
                let piece = self.piece(handle)?;
                self.mapped.insert(at, (bytes, piece));
                *self.references.entry(piece).or_default() += 1;
                None
            }
            Change::Unmapped { at, bytes } => {
                let starts: Vec<u64> = self.mapped.range(at..at.checked_add(bytes)?).map(|(at, _)| *at).collect();
                let pieces: Vec<u64> = starts.iter().filter_map(|at| self.mapped.remove(at)).map(|(_, p)| p).collect();
                Some(Pieces::Gone(pieces.into_iter().filter(|piece| self.drop_one(*piece)).collect()))
            }
            // A handle that was retained stands for its piece until all its references are released.
            Change::Freed { kind: Memory::Physical, at: handle, .. } => {
                let piece = self.piece(handle)?;
                match self.handles.get_mut(&handle) {
                    Some((_, count @ 2..)) => *count -= 1,
                    _ => _ = self.handles.remove(&handle),
                }
                Some(Pieces::Gone(Some(piece).filter(|piece| self.drop_one(*piece)).into_iter().collect()))
            }
            _ => None,
        }
    }

    /// What a handle stands for.
    pub(crate) fn piece(&self, handle: u64) -> Option<u64> {
        self.handles.get(&handle).map(|(piece, _)| *piece)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_dead_when_it_was_released_as_often_as_it_was_handed_out() {
        let (handle, at, bytes) = (0x90, 0x7000, 0x1000);
        let kind = Memory::Physical;
        let mut physical = Physical::default();
        let (device, pool, on) = (None, None, None);
        physical.follow(&Change::Allocated { kind, at: handle, bytes: Some(bytes), device, pool, on });
        physical.follow(&Change::Mapped { at, bytes, handle });
        physical.follow(&Change::PhysicalRetained { handle, at });
        physical.follow(&Change::Freed { kind, at: handle, on: None });
        assert_eq!(physical.piece(handle), Some(1));
        physical.follow(&Change::Freed { kind, at: handle, on: None });
        assert_eq!(physical.piece(handle), None);
        let gone = physical.follow(&Change::Unmapped { at, bytes });
        assert!(matches!(gone, Some(Pieces::Gone(pieces)) if pieces == [1]));
    }
}
