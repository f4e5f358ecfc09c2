//! Tables as Apache Parquet files, one each, in directories that name the host, the process's number in its
//! job, the process, and which of its programs. Engines that know such directories read the files of many
//! processes as one table.

mod file;
mod thrift;

use super::nsys::rows::{Batch, Store};
use super::nsys::schema::Table;
use analysis::error::Result;
use analysis::job::time_axis::by_time;
use file::File;
use std::fs::File as Disk;
use std::path::PathBuf;
use trace::Trace;
use trace::base::hash::Hash;
use trace::file::preamble::Preamble;

/// The files of one process; each is made by its name.
pub struct Parquet<F> {
    create: F,
    files: [Option<File>; Table::COUNT],
}

impl<F: FnMut(&str) -> Result<Disk>> Parquet<F> {
    /// `create` opens the file of that name, when the table gets its first rows.
    pub fn new(create: F) -> Parquet<F> {
        Parquet { create, files: [const { None }; Table::COUNT] }
    }

    /// Bytes that were written.
    pub fn finish(self) -> Result<u64> {
        self.files.into_iter().flatten().map(File::finish).sum()
    }
}

impl<F: FnMut(&str) -> Result<Disk>> Store for Parquet<F> {
    const ADDED: bool = true;

    fn write_batch(&mut self, batch: &Batch) -> Result<()> {
        let file = &mut self.files[batch.table as usize];
        let file = match file {
            Some(file) => file,
            None => {
                let disk = (self.create)(&format!("{}.parquet", batch.table.name()))?;
                file.insert(File::new(disk, batch.table.columns())?)
            }
        };
        file.write_group(batch)
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

/// Bytes of a value in a directory's name, of which file systems take 255 with the key.
const LONGEST: usize = 200;

/// As such directories are written: what is no letter, digit or one of `._-` by its bytes. Of a longer value its
/// beginning and its hash.
fn escaped(value: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let mut out = String::new();
    for byte in value.bytes() {
        match is_plain(byte) {
            true => out.push(byte.into()),
            false => out += &format!("%{byte:02X}"),
        }
        if out.len() > LONGEST {
            out.truncate(LONGEST - 40);
            // No half of an escape.
            let cut = out.rfind('%').filter(|at| at + 3 > out.len()).unwrap_or(out.len());
            out.truncate(cut);
            return out + "-" + &Hash::compute(value.as_bytes()).to_string();
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_hosts_name_no_other_directory() {
        assert_eq!(["node-7.x", "a/b", "..%"].map(escaped), ["node-7.x", "a%2Fb", "..%25"]);
        let long = ["h".repeat(5000), "\u{e4}".repeat(5000), "h".repeat(4999) + "i"].map(|name| escaped(&name));
        assert!(long.iter().all(|name| name.len() <= LONGEST), "{long:?}");
        assert!(long[0] != long[2] && long[1].contains("%C3-"), "{long:?}");
        assert_eq!(escaped(&"h".repeat(LONGEST)), "h".repeat(LONGEST));
    }
}
