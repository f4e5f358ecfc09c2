//! Tables as files of Apache Parquet's, one each, in directories that say whose they are: of the host, the
//! process's number in its job, the process, and which of its programs. Engines that know such directories
//! read those of many processes as one table.

mod file;
mod thrift;

use super::nsys::rows::{Batch, Store};
use super::nsys::schema::Table;
use super::process::by_time;
use anyhow::Result;
use file::File;
use std::path::{Path, PathBuf};
use trace::Trace;
use trace::preamble::Preamble;

/// A directory with what one process did.
pub struct Parquet {
    into: PathBuf,
    files: [Option<File>; Table::COUNT],
}

impl Parquet {
    /// `into`: an empty directory.
    pub fn new(into: &Path) -> Parquet {
        Parquet { into: into.to_path_buf(), files: [const { None }; Table::COUNT] }
    }

    /// Bytes that were written.
    pub fn finish(self) -> Result<u64> {
        self.files.into_iter().flatten().map(File::finish).sum()
    }
}

impl Store for Parquet {
    const ADDED: bool = true;

    fn put(&mut self, batch: &Batch) -> Result<()> {
        let file = &mut self.files[batch.table as usize];
        let file = match file {
            Some(file) => file,
            None => {
                let path = self.into.join(format!("{}.parquet", batch.table.name()));
                file.insert(File::create(&path, batch.table.columns())?)
            }
        };
        file.put(batch)
    }
}

/// How engines write a value that is not there.
const NONE: &str = "__HIVE_DEFAULT_PARTITION__";

/// Where the files of each trace belong: `host=node7/rank=3/pid=4711/image=1`. A process that became another
/// program by exec has a trace of each: images by time. All have that level, as engines want the same of all.
pub fn partitions(traces: &[Trace]) -> Vec<PathBuf> {
    let numbers = by_time(traces, process);
    traces.iter().zip(numbers).map(|(trace, image)| process(&trace.preamble).join(format!("image={image}"))).collect()
}

fn process(about: &Preamble) -> PathBuf {
    let rank = about.more.iter().find(|(name, _)| name == "rank").map(|(_, rank)| rank.as_str());
    let pid = about.pid.to_string();
    let part =
        |name: &str, value: &str| format!("{name}={}", if value.is_empty() { NONE.into() } else { escaped(value) });
    [part("host", &about.host), part("rank", rank.unwrap_or("")), part("pid", &pid)].iter().collect()
}

/// As such directories are written: what is no letter, digit or one of `._-` by its bytes.
fn escaped(value: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    value.bytes().fold(String::new(), |mut out, byte| {
        match is_plain(byte) {
            true => out.push(byte.into()),
            false => out += &format!("%{byte:02X}"),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_hosts_name_no_other_directory() {
        assert_eq!(["node-7.x", "a/b", "..%"].map(escaped), ["node-7.x", "a%2Fb", "..%25"]);
    }
}
