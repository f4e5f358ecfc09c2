//! Protocol buffers, as far as writing a trace needs them.

/// A message being written. Fields are added by their numbers, in any order.
#[derive(Default)]
pub(crate) struct Message(Vec<u8>);

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;

impl Message {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn number(&mut self, field: u64, value: u64) {
        self.tag(field, VARINT);
        self.varint(value);
    }

    pub(crate) fn fixed(&mut self, field: u64, value: u64) {
        self.tag(field, FIXED64);
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn double(&mut self, field: u64, value: f64) {
        self.fixed(field, value.to_bits());
    }

    pub(crate) fn text(&mut self, field: u64, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    /// Bytes, or a message that was encoded before.
    pub(crate) fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.tag(field, BYTES);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    /// A message within this one.
    pub(crate) fn message(&mut self, field: u64, fill: impl FnOnce(&mut Message)) {
        self.tag(field, BYTES);
        // Most are shorter than 128 bytes, and then the length is one byte.
        let at = self.0.len();
        self.0.push(0);
        fill(self);
        let len = self.0.len() - at - 1;
        if len < 0x80 {
            self.0[at] = len as u8;
            return;
        }
        let mut prefix = Message::default();
        prefix.varint(len as u64);
        let more = prefix.0.len() - 1;
        self.0.resize(self.0.len() + more, 0);
        self.0.copy_within(at + 1..at + 1 + len, at + 1 + more);
        self.0[at..at + 1 + more].copy_from_slice(&prefix.0);
    }

    fn tag(&mut self, field: u64, kind: u64) {
        self.varint(field << 3 | kind);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_encoded() {
        let mut message = Message::default();
        message.number(1, 150);
        message.text(2, "testing");
        // The examples of the protocol's own documentation.
        assert_eq!(message.as_bytes(), b"\x08\x96\x01\x12\x07testing");
        message.clear();
        message.message(3, |inner| inner.number(1, 150));
        assert_eq!(message.as_bytes(), b"\x1a\x03\x08\x96\x01");
        message.clear();
        message.message(1, |inner| inner.message(2, |inner| inner.text(3, &"x".repeat(200))));
        let bytes = message.as_bytes();
        assert_eq!(&bytes[..9], b"\x0a\xce\x01\x12\xcb\x01\x1a\xc8\x01");
        assert_eq!(bytes.len(), 209);
        assert!(bytes[9..].iter().all(|byte| *byte == b'x'));
        message.clear();
        message.number(47, u64::MAX);
        message.double(5, 1.0);
        assert_eq!(message.as_bytes(), b"\xf8\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x29\0\0\0\0\0\0\xf0\x3f");
    }
}
