//! Thrift's compact protocol, as far as Parquet's metadata needs it.

/// A struct being written; its fields are added by rising numbers.
#[derive(Default)]
pub(super) struct Compact {
    bytes: Vec<u8>,
    /// The number of the last field.
    last: i16,
}

const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

impl Compact {
    pub(super) fn int(&mut self, field: i16, value: i32) -> &mut Compact {
        self.field(field, I32);
        self.signed(value.into());
        self
    }

    pub(super) fn long(&mut self, field: i16, value: i64) -> &mut Compact {
        self.field(field, I64);
        self.signed(value);
        self
    }

    pub(super) fn binary(&mut self, field: i16, bytes: &[u8]) -> &mut Compact {
        self.field(field, BINARY);
        self.counted(bytes);
        self
    }

    /// A struct within this one.
    pub(super) fn inner(&mut self, field: i16, fill: impl FnOnce(&mut Compact)) -> &mut Compact {
        self.field(field, STRUCT);
        self.bytes.extend(structure(fill));
        self
    }

    pub(super) fn structs<T>(&mut self, field: i16, all: &[T], mut fill: impl FnMut(&mut Compact, &T)) -> &mut Compact {
        self.list(field, STRUCT, all.len());
        all.iter().for_each(|one| self.bytes.extend(structure(|to| fill(to, one))));
        self
    }

    pub(super) fn ints(&mut self, field: i16, all: &[i32]) -> &mut Compact {
        self.list(field, I32, all.len());
        all.iter().for_each(|value| self.signed((*value).into()));
        self
    }

    pub(super) fn texts(&mut self, field: i16, all: &[&str]) -> &mut Compact {
        self.list(field, BINARY, all.len());
        all.iter().for_each(|text| self.counted(text.as_bytes()));
        self
    }

    fn field(&mut self, field: i16, kind: u8) {
        match field - self.last {
            step @ 1..=15 => self.bytes.push((step as u8) << 4 | kind),
            _ => {
                self.bytes.push(kind);
                self.signed(field.into());
            }
        }
        self.last = field;
    }

    fn list(&mut self, field: i16, kind: u8, len: usize) {
        self.field(field, LIST);
        match len {
            0..=14 => self.bytes.push((len as u8) << 4 | kind),
            _ => {
                self.bytes.push(0xf0 | kind);
                varint(&mut self.bytes, len as u64);
            }
        }
    }

    fn counted(&mut self, bytes: &[u8]) {
        varint(&mut self.bytes, bytes.len() as u64);
        self.bytes.extend(bytes);
    }

    /// Small numbers of either sign are short.
    fn signed(&mut self, value: i64) {
        varint(&mut self.bytes, (value << 1 ^ value >> 63) as u64);
    }
}

/// A whole struct.
pub(super) fn structure(fill: impl FnOnce(&mut Compact)) -> Vec<u8> {
    let mut to = Compact::default();
    fill(&mut to);
    to.bytes.push(0);
    to.bytes
}

pub(super) fn varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_are_encoded() {
        let bytes = structure(|to| {
            to.int(1, 1).long(2, -2).binary(20, b"x");
            to.structs(21, &[5, 6], |to, n| _ = to.int(1, *n));
        });
        assert_eq!(bytes, [0x15, 2, 0x16, 3, 8, 40, 1, b'x', 0x19, 0x2c, 0x15, 10, 0, 0x15, 12, 0, 0]);
        let many = structure(|to| _ = to.ints(1, &[0; 20]));
        assert_eq!(many[..3], [0x19, 0xf5, 20]);
    }
}
