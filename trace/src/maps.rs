//! What lies where in a process, as the lines of /proc/self/maps say.

use std::ops::Range;

pub struct Mapping<'l> {
    pub range: Range<u64>,
    /// As in `r-xp`; the last letter is s where others may have it, too.
    pub access: &'l str,
    pub path: Option<&'l str>,
}

impl Mapping<'_> {
    pub fn of(line: &str) -> Option<Mapping<'_>> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let address = |text| u64::from_str_radix(text, 16).ok();
        let (range, access) = (address(start)?..address(end)?, words.next()?);
        Some(Mapping { range, access, path: words.nth(3) })
    }
}
