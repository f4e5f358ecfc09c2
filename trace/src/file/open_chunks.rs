//! Copies of open chunks. A recorder reuses a chunk once its records are at the end of the file, so an open
//! chunk may already hold another thread's records when it is read.

use crate::base::damage::Damage;
use crate::base::hash::checksum;
use crate::file::mapping::Mapping;
use crate::file::segment::{HEADER, Header, Kind, LENGTH_AT};
use crate::file::shared_memory::{Attached, PRIVATE, Place};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{Ordering::Acquire, fence};

/// A chunk does not fill in the time that it takes to copy it: one that changes this often is not a
/// recorder's.
const TRIES: usize = 100;

/// Committed bytes with their offsets in the file, in file order.
#[derive(Default)]
pub(crate) struct Copies {
    chunks: Vec<(u64, Vec<u8>)>,
    /// One place in each shared memory of the process that was found.
    memory: Vec<Place>,
    /// Places in the file of which it is known what was in memory, by their offsets.
    known: HashSet<u64>,
}

impl Copies {
    /// Of all open chunks among the segments, each at its place in the file. One that was used again since it
    /// was found is what it is now.
    pub(crate) fn copy_all(map: &Mapping, segments: &mut Vec<(u64, Header)>, damage: &mut Vec<Damage>) -> Copies {
        let mut copies = Copies::default();
        let mut memory = HashMap::new();
        segments.retain_mut(|(offset, header)| {
            let settled = match Place::from_header(header) {
                Some(place) => {
                    let found = in_memory(map, &mut memory, place, *offset, header, damage);
                    copies.known.extend(found.as_ref().map(|_| *offset));
                    Some(found.unwrap_or_default())
                }
                None => settled(
                    |at, bytes| map.read(*offset + at, bytes),
                    (map.len() as u64).saturating_sub(*offset),
                    header,
                ),
            };
            let is_settled = settled.is_some();
            copies
                .chunks
                .extend(settled.filter(|bytes| !bytes.is_empty()).map(|bytes| (*offset + HEADER as u64, bytes)));
            is_settled
        });
        copies.chunks.sort_unstable_by_key(|(start, _)| *start);
        copies.memory = memory.into_values().flatten().map(|found: Attached| found.place).collect();
        copies
    }

    /// Gives back the memory of the trace with this device and inode.
    pub(crate) fn release(&self, trace: (u64, u64)) {
        self.memory.iter().filter_map(|place| Attached::attach(*place)).for_each(|memory| memory.remove(trace));
    }

    pub(crate) fn has_memory(&self) -> bool {
        !self.memory.is_empty()
    }

    pub(crate) fn is_known(&self, place: u64) -> bool {
        self.known.contains(&place)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// What was copied from this offset of the file on, up to `end` or as far as it goes; none in other
    /// places.
    #[inline]
    pub(crate) fn bytes_from(&self, at: u64, end: u64) -> Option<&[u8]> {
        if self.chunks.is_empty() {
            return None;
        }
        let before = self.chunks.partition_point(|(start, _)| *start <= at);
        let (start, bytes) = self.chunks.get(before.checked_sub(1)?)?;
        let (from, to) = ((at - start) as usize, (end.saturating_sub(*start) as usize).min(bytes.len()));
        bytes.get(from..to).filter(|_| from < bytes.len())
    }
}

/// The committed bytes of a chunk that is in memory, and its header. None: what was there is not known, and
/// may have held records.
fn in_memory(
    map: &Mapping,
    all: &mut HashMap<i32, Option<Attached>>,
    place: Place,
    offset: u64,
    header: &mut Header,
    damage: &mut Vec<Damage>,
) -> Option<Vec<u8>> {
    let is_new = !all.contains_key(&place.memory);
    let memory = all.entry(place.memory).or_insert_with(|| Attached::attach(place)).as_ref();
    let reading =
        memory.map(|memory| move |at: u64, bytes: &mut [u8]| memory.read(place.offset().checked_add(at)?, bytes));
    let found = memory.zip(reading).and_then(|(memory, read)| {
        let header_now = || {
            let mut bytes = [0; HEADER];
            read(0, &mut bytes).and_then(|()| Header::decode(&bytes))
        };
        let mut found = (0..TRIES).find_map(|_| header_now())?;
        let content = settled(read, memory.len().saturating_sub(place.offset()), &mut found)?;
        (found.size == header.size).then_some((found, content))
    });
    match (found.or_else(|| copy_at_home(map, offset, header)), reading) {
        (Some((found, content)), _) if found.kind == Kind::Chunk => {
            *header = found;
            Some(content)
        }
        (Some(_), _) => Some(Vec::new()),
        (None, Some(read)) if is_between_uses(read) => Some(Vec::new()),
        (None, Some(_)) => {
            let what =
                format!("expected a chunk of {} bytes in shared memory {}, found none", header.size, place.memory);
            damage.push(Damage::new(offset, what));
            None
        }
        (None, None) => {
            let whose = match place.memory {
                PRIVATE => "private memory of the process".into(),
                id => format!(
                    "shared memory {id}, which cannot be accessed (other machine, IPC namespace or user, rebooted, or removed)"
                ),
            };
            let what = format!("the last records are lost: they were in {whose}");
            damage.extend(is_new.then_some(Damage::new(offset, what)));
            None
        }
    }
}

/// Whether a chunk whose header is not whole was between two uses when its process was killed: there are no
/// records in it then. Its length is 0 before the header of one that is freed changes, and until that of the
/// next use is whole.
fn is_between_uses(read: impl Fn(u64, &mut [u8]) -> Option<()>) -> bool {
    let mut length = [0; 8];
    read(LENGTH_AT as u64, &mut length).is_some() && length == [0; 8]
}

/// What its process has put at the chunk's place when it ended.
fn copy_at_home(map: &Mapping, offset: u64, header: &Header) -> Option<(Header, Vec<u8>)> {
    let mut bytes = [0; HEADER];
    let at_end = offset.checked_add(header.size)?.checked_sub(HEADER as u64)?;
    map.read(at_end, &mut bytes)?;
    let found = Header::decode(&bytes).filter(|found| found.size == header.size)?;
    let start = offset + HEADER as u64;
    if found.length > at_end - start {
        return None;
    }
    let mut content = zeros(found.length)?;
    map.read(start, &mut content)?;
    (checksum(&content) == found.seal).then_some((Header { seal: 0, ..found }, content))
}

/// So many bytes, if there is memory for them.
fn zeros(bytes: u64) -> Option<Vec<u8>> {
    let (bytes, mut zeros) = (usize::try_from(bytes).ok()?, Vec::new());
    zeros.try_reserve_exact(bytes).ok()?;
    zeros.resize(bytes, 0);
    Some(zeros)
}

/// The committed bytes of an open chunk, which are still its own once they have been copied; nothing of other
/// segments. None: it is another one each time.
///
/// `read` fills bytes with what is behind the start of the segment, of which `there` bytes are there.
fn settled(read: impl Fn(u64, &mut [u8]) -> Option<()>, there: u64, header: &mut Header) -> Option<Vec<u8>> {
    for _ in 0..TRIES {
        if header.kind != Kind::Chunk || header.seal != 0 || header.length == 0 {
            return Some(Vec::new());
        }
        let mut bytes = zeros(header.length.min(header.room()).min(there.saturating_sub(HEADER as u64)))?;
        read(HEADER as u64, &mut bytes)?;
        fence(Acquire);
        let mut now = [0; HEADER];
        // One that is just being written has no whole header.
        let Some(now) = read(0, &mut now).and_then(|()| Header::decode(&now)) else { continue };
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
    use std::io::Seek;
    use std::os::unix::fs::FileExt;

    /// On any file system: one on tmpfs that has holes is not mapped.
    #[test]
    fn a_chunk_that_was_used_again_is_what_it_is_now() {
        for directory in [std::env::temp_dir(), "/dev/shm".into()] {
            used_again(tempfile::tempfile_in(directory).unwrap());
        }
    }

    fn used_again(file: std::fs::File) {
        let chunk = |thread, content: &[u8]| {
            let header = Header { thread, length: content.len() as u64, ..Header::new(Kind::Chunk, 4096) };
            (header, [header.encode().as_slice(), content].concat())
        };
        file.set_len(8192).unwrap();
        let (first, bytes) = chunk(1, &[1; 64]);
        file.write_all_at(&bytes, 4096).unwrap();
        let map = Mapping::open(file.try_clone().unwrap()).unwrap();

        let mut segments = vec![(4096, first)];
        let copies = Copies::copy_all(&map, &mut segments, &mut Vec::new());
        assert_eq!((copies.bytes_from(4160, 8192), segments[0].1), (Some([1; 64].as_slice()), first));
        assert_eq!(copies.bytes_from(4216, 4220), Some([1; 4].as_slice()));
        assert_eq!((copies.bytes_from(4159, 8192), copies.bytes_from(4224, 8192)), (None, None));

        let (second, bytes) = chunk(2, &[2; 16]);
        file.write_all_at(&bytes, 4096).unwrap();
        assert_eq!(copies.bytes_from(4160, 8192), Some([1; 64].as_slice()));
        let copies = Copies::copy_all(&map, &mut segments, &mut Vec::new());
        assert_eq!((copies.bytes_from(4160, 8192), segments[0].1), (Some([2; 16].as_slice()), second));

        file.write_all_at(&Header::new(Kind::Free, 4096).encode(), 4096).unwrap();
        let copies = Copies::copy_all(&map, &mut segments, &mut Vec::new());
        assert_eq!((copies.bytes_from(4160, 8192), segments[0].1.kind), (None, Kind::Free));
    }

    #[test]
    fn a_header_that_was_being_written_has_no_records() {
        let chunk = Header { thread: 3, length: 64, ..Header::new(Kind::Chunk, 4096) }.encode();
        let free = Header::new(Kind::Free, 4096).encode();
        let half = |length: u64| {
            let mut bytes = [&free[..HEADER / 2], &chunk[HEADER / 2..]].concat();
            bytes[LENGTH_AT..LENGTH_AT + 8].copy_from_slice(&length.to_le_bytes());
            assert!(Header::decode(&bytes).is_none());
            is_between_uses(|at, to| {
                to.copy_from_slice(bytes.get(at as usize..)?.get(..to.len())?);
                Some(())
            })
        };
        assert!(half(0));
        assert!(!half(64));
    }

    #[test]
    fn a_copy_stands_in_for_memory_that_is_gone() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let place = Place { memory: PRIVATE, page: 0, token: 7 };
        let free = Header { id: place.id(), ..Header::new(Kind::Free, 4096) };
        let content = [3; 64];
        let own = Header { thread: 5, length: 64, seal: checksum(&content), ..Header::new(Kind::Chunk, 4096) };
        file.write_all_at(&free.encode(), 4096).unwrap();
        file.write_all_at(&content, 4096 + HEADER as u64).unwrap();
        let copied = || {
            (&file).rewind().unwrap();
            let map = Mapping::open(file.try_clone().unwrap()).unwrap();
            let (mut segments, mut damage) = (vec![(4096, free)], Vec::new());
            let copies = Copies::copy_all(&map, &mut segments, &mut damage);
            (copies.bytes_from(4160, 8192).map(<[u8]>::to_vec), segments[0].1.thread, damage.len())
        };
        assert_eq!(copied(), (None, 0, 1));
        file.write_all_at(&own.encode(), 8192 - HEADER as u64).unwrap();
        assert_eq!(copied(), (Some(content.to_vec()), 5, 0));
        // One that was not written to its end.
        file.write_all_at(&[4], 4160).unwrap();
        assert_eq!(copied(), (None, 0, 1));
        // That there was none counts as well.
        file.write_all_at(&Header { seal: checksum(&[]), ..Header::new(Kind::Free, 4096) }.encode(), 8128).unwrap();
        assert_eq!(copied(), (None, 0, 0));
        // One that says to be longer than there is room.
        file.write_all_at(&Header { length: 4096, ..own }.encode(), 8128).unwrap();
        assert_eq!(copied(), (None, 0, 1));
    }
}
