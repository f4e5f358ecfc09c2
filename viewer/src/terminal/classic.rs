//! Colours for terminals without 256 colours: crossterm uses the longer sequences even for the first sixteen.

use std::io::{self, Write};

/// A writer that replaces `38;5;2` by `32`, `38;5;10` by `92`, and likewise for backgrounds, if enabled.
pub(crate) struct Classic<W> {
    out: W,
    wanted: bool,
    /// A sequence that is not whole yet.
    begun: Vec<u8>,
}

impl<W: Write> Classic<W> {
    pub(crate) fn new(out: W, wanted: bool) -> Classic<W> {
        Classic { out, wanted, begun: Vec::new() }
    }
}

/// What stands between `ESC [` and `m`.
fn shorter(parameters: &str) -> String {
    let mut all: Vec<String> = Vec::new();
    let mut rest = parameters.split(';');
    while let Some(one) = rest.next() {
        let longer = (one == "38" || one == "48").then(|| rest.clone().take(2).collect::<Vec<_>>());
        let number = match longer.as_deref() {
            Some(["5", number]) => number.parse::<u8>().ok().filter(|number| *number < 16),
            _ => None,
        };
        let Some(number) = number else {
            all.push(one.into());
            continue;
        };
        rest.nth(1);
        let base = if one == "38" { 30 } else { 40 };
        all.push((base + number % 8 + if number < 8 { 0 } else { 60 }).to_string());
    }
    all.join(";")
}

impl<W: Write> Write for Classic<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.wanted {
            return self.out.write(bytes);
        }
        let text = [std::mem::take(&mut self.begun).as_slice(), bytes].concat();
        let mut changed = Vec::with_capacity(text.len());
        let mut rest = text.as_slice();
        while let Some(at) = rest.iter().position(|byte| *byte == 0x1b) {
            changed.extend_from_slice(&rest[..at]);
            rest = &rest[at..];
            // ESC, [, numbers, and what ends it.
            let body = rest.get(2..).unwrap_or(&[]);
            let Some(end) = body.iter().position(|byte| !byte.is_ascii_digit() && *byte != b';') else {
                self.begun = rest.to_vec();
                rest = &[];
                break;
            };
            match (rest[1], body[end], std::str::from_utf8(&body[..end])) {
                (b'[', b'm', Ok(parameters)) => write!(changed, "\x1b[{}m", shorter(parameters))?,
                _ => changed.extend_from_slice(&rest[..end + 3]),
            }
            rest = &rest[end + 3..];
        }
        changed.extend_from_slice(rest);
        self.out.write_all(&changed)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sixteen_have_short_names() {
        let long =
            "a\x1b[38;5;2;48;5;15mb\x1b[38;5;71m\x1b[1;38;5;10mc\x1b[38;2;5;3;4m\x1b[39m\x1b[2J\x1b]52;c;eA==\x07d";
        let short = "a\x1b[32;107mb\x1b[38;5;71m\x1b[1;92mc\x1b[38;2;5;3;4m\x1b[39m\x1b[2J\x1b]52;c;eA==\x07d";
        for size in 1..long.len() {
            let mut out = Classic::new(Vec::new(), true);
            long.as_bytes().chunks(size).for_each(|piece| out.write_all(piece).expect("memory"));
            assert_eq!(String::from_utf8_lossy(&out.out), short, "in pieces of {size}");
        }
        let mut out = Classic::new(Vec::new(), false);
        out.write_all(long.as_bytes()).expect("memory");
        assert_eq!(out.out, long.as_bytes());
    }
}
