//! The files about a job's processes that the recorder and `cutrace record` write into the directory of its
//! traces. FORMAT.md describes them.

use std::fmt::Write;

/// The folder of the directory with a file for each process.
pub const PROCESSES: &str = "processes";
/// Ending of the names of these files.
pub const EXTENSION: &str = ".jsonl";
/// No line is longer.
pub const LINE: usize = 16 << 10;

/// A string of JSON's.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => _ = write!(out, "\\u{:04x}", c as u32),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// When a process was started, in ticks since the machine was, as its `/proc/PID/stat` says.
pub fn start_in(stat: &[u8]) -> Option<u64> {
    field(stat, 22)
}

/// A number of `/proc/PID/stat`, counted as proc(5) does. The name of the program, which may be anything, is
/// in parentheses before the third.
pub fn field(stat: &[u8], number: usize) -> Option<u64> {
    let behind_name = stat.iter().rposition(|byte| *byte == b')')? + 2;
    let mut rest = stat.get(behind_name..)?.split(|byte| *byte == b' ');
    std::str::from_utf8(rest.nth(number.checked_sub(3)?)?).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_json() {
        assert_eq!(quoted("a \"b\" \\ \n\u{e9}\u{9b}"), r#""a \"b\" \\ \u000aé\u009b""#);
    }

    #[test]
    fn a_process_with_any_name() {
        let stat = b"12 (a) b) R 1 12 12 0 -1 4194304 80 0 0 0 0 0 0 0 20 0 1 0 98765 3 4 5";
        assert_eq!((start_in(stat), field(stat, 4)), (Some(98765), Some(1)));
        assert_eq!((start_in(b""), start_in(b"12 (a)"), field(stat, 0), field(stat, 99)), (None, None, None, None));
    }
}
