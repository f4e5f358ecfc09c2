//! A recording does not replace `trace.bin`, so the one that is read by default may not be the latest.

use crate::exit::say;
use std::path::Path;
use std::time::SystemTime;

const DEFAULT: &str = "trace.bin";

/// Says so if a numbered trace beside the default one is newer.
pub fn tell() {
    let changed = |path: &Path| std::fs::metadata(path).and_then(|found| found.modified()).ok();
    let Some(read) = changed(Path::new(DEFAULT)) else { return };
    let numbered = |name: &str| {
        let number = name.strip_prefix("trace.").and_then(|rest| rest.strip_suffix(".bin"));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let entries = std::fs::read_dir(".").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| numbered(name));
    let times = names.filter_map(|name| Some((changed(Path::new(&name))?, name)));
    let newest: Option<(SystemTime, String)> = times.filter(|(time, _)| *time > read).max();
    if let Some((_, name)) = newest {
        say(format_args!("reading {DEFAULT}, as no file is named; {name} is newer"));
    }
}
