//! The mappings of a process, parsed from the lines of /proc/self/maps.

use std::ops::Range;

/// One line of /proc/self/maps.
pub struct Mapping<'l> {
    /// Addresses of the mapping.
    pub range: Range<u64>,
    /// As in `r-xp`; the last letter is s where others may have it, too.
    pub access: &'l str,
    /// Where in the file the first byte lies.
    pub offset: u64,
    /// Of the file: `st_dev` and `st_ino`.
    pub device: u64,
    /// Inode of the file (`st_ino`); 0 for anonymous memory.
    pub inode: u64,
    /// A newline in it stands as `\\012`.
    pub path: Option<&'l str>,
    /// Whether the file has lost that name.
    pub is_removed: bool,
}

impl Mapping<'_> {
    /// None if the line has another form.
    pub fn parse(line: &str) -> Option<Mapping<'_>> {
        // The path is what stands behind five words and many spaces, with such as it has itself.
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (range, access) = (number(start)?..number(end)?, words.next()?);
        let offset = number(words.next()?)?;
        let (major, minor) = words.next()?.split_once(':')?;
        let device = libc::makedev(number(major)? as libc::c_uint, number(minor)? as libc::c_uint);
        let inode = words.next()?.parse().ok()?;
        let path = words.next().map(|path| path.trim_start_matches(' ')).filter(|path| !path.is_empty());
        let removed = path.and_then(|path| path.strip_suffix(" (deleted)"));
        Some(Mapping { range, access, offset, device, inode, path: removed.or(path), is_removed: removed.is_some() })
    }
}

/// The first mapping of this process that is where it should not be, as the kernel shows it.
pub fn find(is_in_the_way: impl Fn(Range<u64>) -> bool) -> std::io::Result<Option<String>> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let is_it = |line: &&str| Mapping::parse(line).is_some_and(|mapping| is_in_the_way(mapping.range));
    Ok(maps.lines().find(is_it).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_have_spaces() {
        let of =
            |line| Mapping::parse(line).map(|found| (found.range, found.access.to_owned(), found.offset, found.path));
        let line = "7f0000000000-7f0000002000 r--p 00001000 fe:01 1234                       /data/my model.bin";
        let range = 0x7f00_0000_0000..0x7f00_0000_2000;
        assert_eq!(of(line), Some((range.clone(), "r--p".into(), 0x1000, Some("/data/my model.bin"))));
        let file = Mapping::parse(line).map(|found| (found.device, found.inode));
        assert_eq!(file, Some((libc::makedev(0xfe, 1), 1234)));
        assert_eq!(of("7f0000000000-7f0000002000 rw-p 00000000 00:00 0 "), Some((range, "rw-p".into(), 0, None)));
        assert!(of("7f0000000000 rw-p").is_none());
        let removed = Mapping::parse("7f0000000000-7f0000002000 rw-s 00000000 00:01 9      /dev/zero (deleted)");
        assert!(removed.is_some_and(|found| found.is_removed && found.path == Some("/dev/zero")));
    }
}
