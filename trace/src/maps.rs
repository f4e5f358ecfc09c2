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

/// The first mapping of this process that is where it should not be, as the kernel shows it.
pub fn find(is_in_the_way: impl Fn(Range<u64>) -> bool) -> std::io::Result<Option<String>> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let is_it = |line: &&str| Mapping::of(line).is_some_and(|mapping| is_in_the_way(mapping.range));
    Ok(maps.lines().find(is_it).map(str::to_owned))
}
