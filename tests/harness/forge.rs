//! Changes to a trace with valid checksums, as a bug or a forger would make them, not a bad disk.

use std::path::Path;
use trace::base::hash::{Hash, checksum};
use trace::file::preamble::{Preamble, decode, encode};
use trace::file::segment::{HEADER, Header, Kind, PACKED_VERSION, PAGE, SEAL_AT};

/// The bytes of a trace, to be changed.
#[derive(Clone)]
pub struct Forge {
    bytes: Vec<u8>,
}

impl Forge {
    pub fn open(path: impl AsRef<Path>) -> Forge {
        Forge { bytes: std::fs::read(&path).expect("a trace") }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Puts other bytes at this offset of the file.
    pub fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Cuts the end off.
    pub fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }

    /// Segments of a kind: offset and header.
    pub fn segments(&self, kind: Kind) -> Vec<(usize, Header)> {
        let mut found = Vec::new();
        let mut offset = 0;
        while let Some(rest) = self.bytes.get(offset..).filter(|rest| !rest.is_empty()) {
            // Between segments there may be pages that were never used.
            let Some(header) = Header::decode(rest) else {
                offset += PAGE as usize;
                continue;
            };
            if header.kind == kind {
                found.push((offset, header));
            }
            offset += header.size as usize;
        }
        found
    }

    /// Where in the file `needle` stands within the content of segments of a kind; it must be there once.
    #[track_caller]
    pub fn find(&self, kind: Kind, needle: &[u8]) -> usize {
        let mut found = Vec::new();
        for (offset, header) in self.segments(kind) {
            let start = offset + HEADER;
            let content = &self.bytes[start..start + header.length as usize];
            found.extend(
                content.windows(needle.len()).enumerate().filter(|(_, w)| *w == needle).map(|(i, _)| start + i),
            );
        }
        assert_eq!(found.len(), 1, "the bytes {needle:?} stand in the trace at {found:?}");
        found[0]
    }

    /// Puts other bytes of the same number in the place of these, wherever they stand within the content of
    /// segments of a kind.
    #[track_caller]
    pub fn replace(&mut self, kind: Kind, old: &[u8], new: &[u8]) {
        assert_eq!(old.len(), new.len());
        for (offset, header) in self.segments(kind) {
            let start = offset + HEADER;
            for at in start..start + (header.length as usize + 1).saturating_sub(old.len()) {
                if &self.bytes[at..at + old.len()] == old {
                    self.bytes[at..at + new.len()].copy_from_slice(new);
                }
            }
        }
    }

    /// Changes the lowest bit of the byte at this offset of the file.
    pub fn flip(&mut self, at: usize) {
        self.flip_bit(at, 0);
    }

    pub fn flip_bit(&mut self, at: usize, bit: u32) {
        self.bytes[at] ^= 1 << bit;
    }

    /// Puts right every checksum that no longer holds. A changed blob gets its new name, also where records
    /// refer to it.
    pub fn reseal(&mut self) {
        for (offset, header) in self.segments(Kind::Blob) {
            let content = self.content(offset, &header);
            let (old, new) = (Hash(header.id), Hash::compute(content));
            if old == new {
                continue;
            }
            let renamed = Header { id: new.0, seal: checksum(content), ..header }.encode();
            self.bytes[offset..offset + HEADER].copy_from_slice(&renamed);
            self.rename(old, new);
        }
        for (offset, header) in self.segments(Kind::Chunk) {
            if header.seal != 0 {
                let seal = checksum(self.content(offset, &header)).to_le_bytes();
                self.bytes[offset + SEAL_AT..offset + SEAL_AT + 8].copy_from_slice(&seal);
            }
        }
    }

    /// Has every segment say that it is of the next format version.
    pub fn make_newer(&mut self) {
        let all = [Kind::Preamble, Kind::Chunk, Kind::Blob, Kind::Footer, Kind::Free].map(|kind| self.segments(kind));
        for (offset, header) in all.concat() {
            let newer = Header { version: PACKED_VERSION + 1, ..header }.encode();
            self.bytes[offset..offset + HEADER].copy_from_slice(&newer);
        }
    }

    /// Takes all blobs out, but for one: their segments become free space. Returns how many there were.
    pub fn lose_blobs_but(&mut self, kept: Option<Hash>) -> usize {
        let mut blobs = self.segments(Kind::Blob);
        blobs.retain(|(_, header)| Some(Hash(header.id)) != kept);
        for (offset, header) in &blobs {
            let free = Header::new(Kind::Free, header.size).encode();
            self.bytes[*offset..*offset + HEADER].copy_from_slice(&free);
        }
        self.lose_footer();
        blobs.len()
    }

    pub fn lose_blobs(&mut self) -> usize {
        self.lose_blobs_but(None)
    }

    /// Cuts the footer off: it lists segments that are no more.
    fn lose_footer(&mut self) {
        if let Some((offset, _)) = self.segments(Kind::Footer).pop() {
            self.bytes.truncate(offset);
        }
    }

    /// Changes what the trace says about itself, in both copies.
    pub fn introduce(&mut self, change: impl Fn(&mut Preamble)) {
        for (offset, header) in self.segments(Kind::Preamble) {
            let mut preamble: Preamble = decode(self.content(offset, &header)).expect("a preamble");
            change(&mut preamble);
            let content = encode(&preamble);
            let room = header.size as usize - HEADER;
            assert!(content.len() <= room, "the preamble has grown out of its segment");
            let header = Header { length: content.len() as u64, seal: checksum(&content), ..header };
            self.bytes[offset..offset + HEADER].copy_from_slice(&header.encode());
            let segment = &mut self.bytes[offset + HEADER..offset + HEADER + room];
            segment.fill(0);
            segment[..content.len()].copy_from_slice(&content);
        }
    }

    fn content(&self, offset: usize, header: &Header) -> &[u8] {
        &self.bytes[offset + HEADER..offset + HEADER + header.length as usize]
    }

    fn rename(&mut self, old: Hash, new: Hash) {
        for (offset, header) in self.segments(Kind::Chunk) {
            let start = offset + HEADER;
            for at in (start..start + header.length as usize - 15).step_by(8) {
                if self.bytes[at..at + 16] == old.to_bytes() {
                    self.bytes[at..at + 16].copy_from_slice(&new.to_bytes());
                }
            }
        }
    }

    pub fn write(&self, path: impl AsRef<Path>) {
        std::fs::write(path, &self.bytes).expect("written");
    }
}
