//! The drawing of a graph that the driver writes to a file. It shows the functions and data of host nodes,
//! which are the recorder's; they are replaced by the application's. The driver's wording is not specified,
//! so only the numbers are matched.

use crate::capture::callback;
use crate::in_flight::host_functions;
use crate::os::probe::text_at;
use crate::recording::recorder;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Nobody draws more; and a picture is read as a whole.
const LARGEST: u64 = 256 << 20;

/// After the driver has drawn into the file whose name stands at `path`.
pub(crate) fn give_back(path: u64) {
    let Some(name) = text_at(path) else { return };
    let path = Path::new(OsStr::from_bytes(&name));
    // Something else than a file cannot be read back.
    if !std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= LARGEST) {
        return;
    }
    let Ok(drawn) = std::fs::read(path) else { return };
    let handed = host_functions::of_nodes();
    let own = callback::own_function();
    let restored = match restored(&drawn, own, |data| handed.get(&data).copied()) {
        Some(restored) if restored != drawn => std::fs::write(path, restored).is_ok(),
        Some(_) => true,
        None => false,
    };
    if !restored {
        recorder::recorder()
            .around
            .lose("drawings of graphs that show the recorder's functions instead of the program's");
    }
}

/// The picture with the application's function and data in the place of ours; none if it is not clear which
/// belong together.
fn restored(drawn: &[u8], own: u64, handed: impl Fn(u64) -> Option<(u64, u64)>) -> Option<Vec<u8>> {
    let numbers = numbers(drawn);
    let functions: Vec<_> = numbers.iter().filter(|(_, value)| *value == own).map(|(at, _)| at).collect();
    let data: Vec<_> = numbers.iter().filter_map(|(at, value)| Some((at, handed(*value)?))).collect();
    // A node has one of each.
    if !functions.is_empty() && functions.len() != data.len() {
        return None;
    }
    let mut changes: Vec<(&Range<usize>, u64)> = data.iter().map(|(at, (_, data))| (*at, *data)).collect();
    changes.extend(functions.into_iter().zip(&data).map(|(at, (_, (function, _)))| (at, *function)));
    changes.sort_unstable_by_key(|(at, _)| at.start);
    let (mut made, mut from) = (Vec::with_capacity(drawn.len()), 0);
    for (at, value) in changes {
        made.extend_from_slice(&drawn[from..at.start]);
        let width = if drawn[at.start] == b'0' { at.len() } else { 0 };
        made.extend_from_slice(format!("{value:0width$x}").as_bytes());
        from = at.end;
    }
    made.extend_from_slice(&drawn[from..]);
    Some(made)
}

/// All hexadecimal numbers: where their digits stand.
fn numbers(text: &[u8]) -> Vec<(Range<usize>, u64)> {
    let starts = text.windows(2).enumerate().filter(|(_, two)| *two == b"0x").map(|(at, _)| at + 2);
    let number = |start: usize| {
        let len = text[start..].iter().take_while(|digit| digit.is_ascii_hexdigit()).count();
        let digits = str::from_utf8(&text[start..start + len]).ok()?;
        Some((start..start + len, u64::from_str_radix(digits, 16).ok()?))
    };
    starts.filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_applications_own_are_shown() {
        let handed = |data| (data & 0xf00 == 0xa00).then_some((data << 4, data << 8));
        let shown = |drawn: &str| restored(drawn.as_bytes(), 0x77, handed).map(|made| String::from_utf8(made).unwrap());
        assert_eq!(
            shown("HOST 0x77 | 0xa01 HOST 0x0077 | 0xa02"),
            Some("HOST 0xa010 | 0xa0100 HOST 0xa020 | 0xa0200".into())
        );
        assert_eq!(shown("0x000a01, 0x77 0x777"), Some("0x0a0100, 0xa010 0x777".into()));
        assert_eq!(shown("only data 0xa01"), Some("only data 0xa0100".into()));
        assert_eq!(shown("none 0x 0xfffffffffffffffff 0x"), Some("none 0x 0xfffffffffffffffff 0x".into()));
        assert_eq!(shown("only functions 0x77"), None);
    }
}
