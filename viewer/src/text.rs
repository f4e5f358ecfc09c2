//! Numbers and names for people.

pub use analysis::text::numbers::{bytes, counted, duration, grouped, moment, percent};
use trace::show::text::plain;
use unicode_width::UnicodeWidthChar;

/// Text that no terminal obeys and that takes the cells it seems to: no controls, nothing invisible, nothing
/// that turns the direction of what follows.
pub fn tame(text: &str) -> String {
    let plain = plain(text);
    if plain.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return plain.into_owned();
    }
    plain.chars().map(|c| if c.width().unwrap_or(0) == 0 { '\u{fffd}' } else { c }).collect()
}

/// At most that many cells of text that is tame.
pub fn cut(text: &str, cells: usize) -> &str {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > cells {
            return &text[..at];
        }
    }
    text
}

/// In as many lines of so many cells as it takes, but at most `most`, of which the last has the rest; broken
/// at blanks where there are some.
pub fn lines(text: &str, cells: usize, most: usize) -> Vec<&str> {
    let (mut all, mut rest) = (Vec::new(), text);
    loop {
        let piece = cut(rest, cells.max(1));
        let is_last = piece.len() == rest.len() || piece.is_empty() || all.len() + 1 >= most;
        let is_whole = || rest[piece.len()..].starts_with(' ');
        let at = match piece.rfind(' ') {
            _ if is_last => rest.len(),
            Some(at @ 1..) if !is_whole() => at,
            _ => piece.len(),
        };
        all.push(&rest[..at]);
        rest = rest[at..].trim_start();
        if rest.is_empty() {
            return all;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_at_blanks() {
        assert_eq!(lines("", 3, 9), [""]);
        assert_eq!(lines("one two three", 7, 9), ["one two", "three"]);
        assert_eq!(lines("one two three", 6, 9), ["one", "two", "three"]);
        assert_eq!(lines("onetwothree", 4, 2), ["onet", "wothree"]);
        assert_eq!(lines("\u{4e2d}\u{6587}", 1, 9), ["\u{4e2d}\u{6587}"]);
    }

    #[test]
    fn names_are_tame() {
        assert_eq!(tame("a\x1b[31m\n\u{202e}b\u{200b}"), "a\\u{1b}[31m\\n\u{fffd}b\u{fffd}");
        assert_eq!([cut("abc", 2), cut("\u{4e2d}\u{6587}", 3), cut("abc", 9)], ["ab", "\u{4e2d}", "abc"]);
    }
}
