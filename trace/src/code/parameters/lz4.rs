//! One LZ4 block, without a frame: <https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md>.

/// What the block means, if that is `len` bytes. More than 255 times the block no block can mean: a length
/// beyond that is a lie, and nothing is set aside for it.
pub(super) fn block(mut from: &[u8], len: u64) -> Option<Vec<u8>> {
    if len > from.len() as u64 * 255 {
        return None;
    }
    let len = len as usize;
    let mut out = Vec::new();
    out.try_reserve_exact(len).ok()?;
    loop {
        let token = take(&mut from, 1)?[0];
        let literals = length(token >> 4, &mut from)?;
        if literals > len - out.len() {
            return None;
        }
        out.extend_from_slice(take(&mut from, literals)?);
        // The last sequence has no match.
        if from.is_empty() {
            return (out.len() == len).then_some(out);
        }
        let back = take(&mut from, 2)?;
        let back = usize::from(u16::from_le_bytes([back[0], back[1]]));
        let count = length(token & 15, &mut from)?.checked_add(4)?;
        if back == 0 || back > out.len() || count > len - out.len() {
            return None;
        }
        // What is copied may overlap what it makes: then it repeats.
        let start = out.len() - back;
        if back >= count {
            out.extend_from_within(start..start + count);
        } else {
            (start..start + count).for_each(|at| out.push(out[at]));
        }
    }
}

/// A length of 15 goes on in the bytes that follow, until one is not 255.
fn length(nibble: u8, from: &mut &[u8]) -> Option<usize> {
    let mut length = usize::from(nibble);
    if nibble == 15 {
        loop {
            let more = take(from, 1)?[0];
            length = length.checked_add(more.into())?;
            if more != 255 {
                break;
            }
        }
    }
    Some(length)
}

fn take<'a>(from: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = from.split_at_checked(len)?;
    *from = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::block;
    use proptest::prelude::*;

    #[test]
    fn literals_and_repeats() {
        // "abc", then 9 bytes from 3 back; "!" to end with.
        assert_eq!(block(b"\x35abc\x03\x00\x10!", 13).as_deref(), Some(&b"abcabcabcabc!"[..]));
        // 20 literals: 15 and 5 more.
        let long: Vec<u8> = [b"\xf0\x05".as_slice(), &[b'x'; 20]].concat();
        assert_eq!(block(&long, 20), Some(vec![b'x'; 20]));
        // One byte 4 + 15 + 255 + 1 times over.
        assert_eq!(block(b"\x1fz\x01\x00\xff\x01\x10z", 277), Some(vec![b'z'; 277]));
        assert_eq!(block(b"\x00", 0), Some(vec![]));
    }

    #[test]
    fn what_makes_no_sense() {
        for (bytes, len) in [
            (&b""[..], 0),
            (b"\x35abc\x03\x00\x10!", 12),
            (b"\x35abc\x03\x00\x10!", 14),
            (b"\x35abc\x04\x00\x10!", 13),
            (b"\x35abc\x00\x00\x10!", 13),
            (b"\x35abc\x03\x00", 12),
            (b"\x35ab", 2),
            (b"\xf0\xff\xff", 1000),
            (b"\x00", u64::MAX),
        ] {
            assert_eq!(block(bytes, len), None, "{bytes:x?} as {len}");
        }
    }

    proptest! {
        #[test]
        fn anything(bytes: Vec<u8>, len in 0u64..100_000) {
            if let Some(out) = block(&bytes, len) {
                prop_assert_eq!(out.len() as u64, len);
            }
        }
    }
}
