//! The lines in the files about a job's processes (FORMAT.md). They are untrusted.

use serde::Deserialize;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use trace::base::job::{EXTENSION, LINE, quoted};
use trace::file::record::Ended;

/// One process of one host's run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// As the name of its file begins.
    pub host: String,
    pub pid: u32,
    /// When it was started, in ticks of that host.
    pub start: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Line {
    #[serde(flatten)]
    pub what: What,
    /// Nanoseconds since 1970.
    pub time: u64,
    pid: u32,
    start: u64,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "what", rename_all = "lowercase")]
pub(crate) enum What {
    Began(Began),
    Recorded {
        trace: String,
    },
    #[serde(rename = "not recorded")]
    NotRecorded {
        why: String,
    },
    Ended(#[serde(deserialize_with = "ended")] Ended),
}

#[derive(Debug, Deserialize)]
pub(crate) struct Began {
    #[serde(default)]
    pub host: String,
    #[serde(default)]
    pub boot: String,
    #[serde(default)]
    pub parent: u32,
    #[serde(default)]
    pub forked: bool,
    pub rank: Option<u64>,
    pub ranks: Option<u64>,
    pub local_rank: Option<u64>,
    #[serde(default)]
    pub session: String,
    #[serde(default)]
    pub program: String,
    #[serde(default)]
    pub command: Vec<String>,
}

fn ended<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Ended, D::Error> {
    #[derive(Deserialize)]
    struct Fields {
        #[serde(default)]
        status: i32,
        #[serde(default)]
        signal: i32,
    }
    Fields::deserialize(from).map(|Fields { status, signal }| Ended { status, signal })
}

/// A file of a process is not longer: one that forks for ever has many files.
const MOST: u64 = 1 << 20;

/// The contents of the files in a folder.
#[derive(Default)]
pub(crate) struct ProcessLines {
    pub(crate) by_process: HashMap<Key, Vec<Line>>,
    /// Lines, and files of them, that cannot be read.
    pub unread: u64,
    /// Files that are none of a process's.
    pub strange: u64,
}

/// A directory without such a folder says nothing.
pub(crate) fn read(folder: &Path) -> io::Result<ProcessLines> {
    let mut told = ProcessLines::default();
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(told),
        entries => entries?,
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(stem) = name.strip_suffix(EXTENSION) else {
            // What file systems and desktops leave has a dot before its name.
            told.strange += u64::from(!name.starts_with('.'));
            continue;
        };
        // Of anything else (a pipe) the reading may not end.
        if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            told.unread += 1;
            continue;
        }
        let host = stem.rsplit_once('-').map_or(stem, |(host, _)| host).to_owned();
        let mut text = Vec::new();
        if File::open(entry.path()).and_then(|file| file.take(MOST).read_to_end(&mut text)).is_err() {
            told.unread += 1;
        }
        // A last line without an end was being written; the first is written at once.
        told.unread += u64::from(!text.is_empty() && !text.contains(&b'\n'));
        for line in text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
            match serde_json::from_slice::<Line>(line) {
                Ok(line) => {
                    let key = Key { host: host.clone(), pid: line.pid, start: line.start };
                    told.by_process.entry(key).or_default().push(line);
                }
                Err(_) => told.unread += 1,
            }
        }
    }
    Ok(told)
}

/// The process that a file is about, as its last beginning says, and whose `record` that is.
pub fn last_began(file: &Path) -> Option<(u32, u64, String)> {
    let mut text = Vec::new();
    File::open(file).and_then(|file| file.take(MOST).read_to_end(&mut text)).ok()?;
    let lines = text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Line>(line).ok());
    let mut began = lines.filter_map(|line| match line.what {
        What::Began(began) => Some((line.pid, line.start, began.session)),
        _ => None,
    });
    began.next_back()
}

/// Says how a process ended, behind what it has said itself.
pub fn add_ended(file: &Path, pid: u32, start: u64, ended: Ended) -> io::Result<()> {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let Ended { status, signal } = ended;
    let line = format!(
        "{{\"what\":{},\"time\":{time},\"pid\":{pid},\"start\":{start},\"status\":{status},\"signal\":{signal}}}\n",
        quoted("ended")
    );
    debug_assert!(line.len() < LINE);
    File::options().append(true).open(file)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let folder = tempfile::tempdir().expect("a directory");
        let text = concat!(
            r#"{"what":"began","time":5,"pid":7,"start":9,"parent":1,"forked":false,"host":"a-b","rank":3,"new":0}"#,
            "\n",
            r#"{"what":"recorded","time":6,"pid":7,"start":9,"trace":"x.bin"}"#,
            "\nnot a line\n",
            r#"{"what":"ended","time":8,"pid":7,"start":9,"status":2}"#,
            "\n",
            r#"{"what":"ended","time":9,"pid""#,
        );
        std::fs::write(folder.path().join("a-b-7.jsonl"), text).expect("our own directory");
        std::fs::write(folder.path().join("a-b-8.jsonl"), "no line").expect("our own directory");
        std::fs::write(folder.path().join("notes.txt"), "").expect("our own directory");
        std::fs::write(folder.path().join(".hidden"), "").expect("our own directory");
        let ProcessLines { by_process, unread, strange } = read(folder.path()).expect("readable");
        let lines = &by_process[&Key { host: "a-b".into(), pid: 7, start: 9 }];
        assert_eq!((lines.len(), unread, strange), (3, 2, 1));
        assert!(matches!(&lines[0].what, What::Began(Began { rank: Some(3), ranks: None, .. })));
        assert!(matches!(lines[2].what, What::Ended(Ended { status: 2, signal: 0 })));
    }
}
