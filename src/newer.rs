//! What is read if no file is named. A recording does not replace `trace.bin`, so that may not be the latest.

use crate::exit::{UNREADABLE, failure, say};
use anyhow::Result;
use std::path::Path;
use std::time::SystemTime;

const DEFAULT: &str = "trace.bin";

/// Says so if a numbered trace beside the default one is newer. Without a default one, there is nothing to read.
pub fn tell() -> Result<()> {
    let changed = |path: &Path| std::fs::metadata(path).and_then(|found| found.modified()).ok();
    if let Ok(false) = Path::new(DEFAULT).try_exists() {
        let why = "name a trace, or make one: cutrace record PROGRAM";
        return Err(failure(UNREADABLE, format_args!("no file is named, and there is no {DEFAULT} here; {why}")));
    }
    let Some(read) = changed(Path::new(DEFAULT)) else { return Ok(()) };
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
    Ok(())
}
