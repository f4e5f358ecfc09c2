//! Copies of open chunks. A recorder uses a chunk again as soon as its records stand at the end of the file: what is found in an
//! open one may be another thread's when it is looked at.

use crate::mapping::Mapping;
use crate::segment::{HEADER, Header, Kind};
use std::sync::atomic::{Ordering::Acquire, fence};

/// A chunk does not fill in the time that it takes to copy it: one that changes this often is not a recorder's.
const TRIES: usize = 100;

/// Committed bytes and where in the file they begin, in file order.
#[derive(Default)]
pub(crate) struct Copies(Vec<(u64, Vec<u8>)>);

impl Copies {
    /// Of all open chunks among the segments. One that was used again since it was found is what it is now.
    pub(crate) fn of(map: &Mapping, segments: &mut Vec<(u64, Header)>) -> Copies {
        let mut copies = Vec::new();
        segments.retain_mut(|(offset, header)| {
            let settled = settled(map, *offset, header);
            let is_settled = settled.is_some();
            copies.extend(settled.filter(|bytes| !bytes.is_empty()).map(|bytes| (*offset + HEADER as u64, bytes)));
            is_settled
        });
        copies.sort_unstable_by_key(|(start, _)| *start);
        Copies(copies)
    }

    /// What was copied from this offset of the file on, up to `end` or as far as it goes; none in other places.
    pub(crate) fn held(&self, at: u64, end: u64) -> Option<&[u8]> {
        let before = self.0.partition_point(|(start, _)| *start <= at);
        let (start, bytes) = self.0.get(before.checked_sub(1)?)?;
        let (from, to) = ((at - start) as usize, (end.saturating_sub(*start) as usize).min(bytes.len()));
        bytes.get(from..to).filter(|_| from < bytes.len())
    }
}

/// The committed bytes of an open chunk, which are still its own once they have been copied; nothing of other segments. None: it
/// is another one each time.
fn settled(map: &Mapping, offset: u64, header: &mut Header) -> Option<Vec<u8>> {
    let start = offset + HEADER as u64;
    for _ in 0..TRIES {
        if header.kind != Kind::Chunk || header.seal != 0 || header.length == 0 {
            return Some(Vec::new());
        }
        let there = (map.len() as u64).saturating_sub(start);
        let mut bytes = vec![0; header.length.min(header.room()).min(there) as usize];
        map.read(start, &mut bytes)?;
        fence(Acquire);
        let now = map.peek::<HEADER>(offset).and_then(|bytes| Header::decode(&bytes));
        // One that is just being written has no whole header.
        let Some(now) = now else { continue };
        let is_same = |h: &Header| (h.kind, h.thread, h.id) == (header.kind, header.thread, header.id);
        if is_same(&now) && now.length >= header.length {
            return Some(bytes);
        }
        if now.size != header.size {
            return None;
        }
        *header = now;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_chunk_that_was_used_again_is_what_it_is_now() {
        let file = tempfile::tempfile().unwrap();
        let chunk = |thread, content: &[u8]| {
            let header = Header { thread, length: content.len() as u64, ..Header::new(Kind::Chunk, 4096) };
            (header, [header.encode().as_slice(), content].concat())
        };
        file.set_len(8192).unwrap();
        let (first, bytes) = chunk(1, &[1; 64]);
        file.write_all_at(&bytes, 4096).unwrap();
        let map = Mapping::of(file.try_clone().unwrap()).unwrap();

        let mut segments = vec![(4096, first)];
        let copies = Copies::of(&map, &mut segments);
        assert_eq!((copies.held(4160, 8192), segments[0].1), (Some([1; 64].as_slice()), first));
        assert_eq!(copies.held(4216, 4220), Some([1; 4].as_slice()));
        assert_eq!((copies.held(4159, 8192), copies.held(4224, 8192)), (None, None));

        let (second, bytes) = chunk(2, &[2; 16]);
        file.write_all_at(&bytes, 4096).unwrap();
        assert_eq!(copies.held(4160, 8192), Some([1; 64].as_slice()));
        let copies = Copies::of(&map, &mut segments);
        assert_eq!((copies.held(4160, 8192), segments[0].1), (Some([2; 16].as_slice()), second));

        file.write_all_at(&Header::new(Kind::Free, 4096).encode(), 4096).unwrap();
        let copies = Copies::of(&map, &mut segments);
        assert_eq!((copies.held(4160, 8192), segments[0].1.kind), (None, Kind::Free));
    }
}
