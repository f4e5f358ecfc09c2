//! Numbers and names for people.

use trace::show::text::plain;
use unicode_width::UnicodeWidthChar;

/// `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index != 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 call`, `2,000 calls`.
pub fn counted(number: u64, what: &str) -> String {
    match (number, what.strip_suffix('y')) {
        (1, _) => format!("1 {what}"),
        (_, Some(stem)) => format!("{} {stem}ies", grouped(number)),
        (_, None) if what.ends_with("ch") || what.ends_with('s') => format!("{} {what}es", grouped(number)),
        _ => format!("{} {what}s", grouped(number)),
    }
}

/// Nanoseconds in at most 8 characters: `830 ns`, `12.3 us`, `1.25 s`.
pub fn duration(ns: u64) -> String {
    let scaled = |value: f64, unit: &str| match value {
        ..10.0 => format!("{value:.2} {unit}"),
        ..100.0 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    };
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..999_500 => scaled(ns as f64 / 1e3, "us"),
        999_500..999_500_000 => scaled(ns as f64 / 1e6, "ms"),
        _ => scaled(ns as f64 / 1e9, "s"),
    }
}

/// A moment, with as many digits as a step of `step` ns needs: `1.234567 s`.
pub fn moment(ns: u64, step: u64) -> String {
    let digits = match step {
        0..10 => 9,
        10..100 => 8,
        100..1_000 => 7,
        1_000..10_000 => 6,
        10_000..1_000_000 => 5,
        1_000_000..10_000_000 => 3,
        10_000_000..1_000_000_000 => 2,
        _ => 1,
    };
    let (seconds, rest) = (ns / 1_000_000_000, format!("{:09}", ns % 1_000_000_000));
    format!("{seconds}.{} s", &rest[..digits])
}

/// Bytes in decimal units: `3.4 MB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let (mut value, mut unit) = (bytes as f64 / 1000.0, 0);
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".into() } else { format!("{:.1}%", part as f64 / whole as f64 * 100.0) }
}

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
    fn durations_and_moments_are_short() {
        let all = [0, 999, 1_000, 12_345, 999_499, 999_500, 1_250_000_000, 1_000_000_000_000].map(duration);
        assert_eq!(all, ["0 ns", "999 ns", "1.00 us", "12.3 us", "999 us", "1.00 ms", "1.25 s", "1000 s"]);
        assert_eq!(
            [1, 10_000, 2_000_000_000].map(|step| moment(1_234_567_891, step)),
            ["1.234567891 s", "1.23456 s", "1.2 s"]
        );
    }

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
