//! Announcements by the processes of a recording, and the fate of processes without a trace.

use super::Asked;
use crate::terminal::exit::say;
use analysis::job::is_zombie;
use analysis::text::figures::{counted, grouped};
use std::collections::{BTreeMap, HashSet};
use std::env;
use std::io;
use std::path::{Path, PathBuf};
use trace::Trace;
use trace::base::announcements::{Announcement, Announcements, FileLocation};
use trace::file::shared_memory;

#[derive(Default)]
pub(super) struct Facts {
    /// Of traces, also of processes that have just begun with theirs.
    pub paths: Vec<PathBuf>,
    /// Of traces that are not there, or not as these processes saw it.
    pub elsewhere: Vec<PathBuf>,
    /// Why processes that called the driver have no trace, for each.
    pub refused: Vec<String>,
    /// Processes for which recording was disabled.
    disabled: u64,
    /// Processes that ended inside their first driver call.
    pub inside: u64,
    /// Processes that called the driver and found no room for more.
    pub unclear: u64,
    has_called: bool,
    /// Programs with the recorder that have not ended by `exit`, so that they may have executed others without it.
    open: u64,
    /// Why that may not be all.
    unknown: Option<String>,
}

impl Facts {
    /// `known`: processes that have announced in another way what became of their trace.
    pub(super) fn of(announcements: &io::Result<Announcements>, known: &HashSet<u32>) -> Facts {
        let mut facts = Facts::default();
        let all = match announcements {
            Ok(all) => all,
            Err(error) => return Facts { unknown: Some(format!("no shared memory: {error}")), ..facts },
        };
        let is_full = all.is_full();
        facts.open = all.open().into();
        facts.unknown = match (all.is_mapped(), is_full) {
            (false, _) => Some("the recorder was not loaded, or could not use shared memory".into()),
            (_, true) => Some("its processes sent too many messages".into()),
            _ => None,
        };
        // By process: a call whose outcome is not known yet, and the file that was made in it.
        let mut open: BTreeMap<u32, Option<FileLocation>> = BTreeMap::new();
        for (process, said) in all.list() {
            facts.has_called = true;
            match said {
                Announcement::Called => _ = open.insert(process, None),
                Announcement::Made(made) => _ = open.insert(process, Some(made)),
                Announcement::Recorded => open.remove(&process).flatten().into_iter().for_each(|made| facts.add(made)),
                Announcement::Disabled => {
                    open.remove(&process);
                    facts.disabled += 1;
                }
                Announcement::Refused(why) => {
                    // It may not reach the file itself, below another root directory.
                    open.remove(&process).flatten().iter().for_each(remove);
                    facts.refused.push(why);
                }
            }
        }
        for (process, made) in open {
            match made {
                Some(made) if made.is_at_its_path() && begins(&made) => facts.paths.push(made.path),
                _ if known.contains(&process) || runs(process) => {}
                None if is_full => facts.unclear += 1,
                made => {
                    facts.inside += 1;
                    made.iter().for_each(remove);
                }
            }
        }
        facts
    }

    fn add(&mut self, made: FileLocation) {
        let list = if made.is_at_its_path() { &mut self.paths } else { &mut self.elsewhere };
        list.push(made.path);
    }

    /// Where nothing was recorded. `running`: processes that have not ended.
    pub(super) fn say_nothing_recorded(&self, asked: &Asked, running: u64) {
        let program = Path::new(asked.program).display();
        let how =
            if asked.ended.is_success() { String::new() } else { format!("; the program ended: {}", asked.ended) };
        if env::var_os("CUTRACE_DISABLE").is_some_and(|value| value == "1") {
            say("CUTRACE_DISABLE is 1; nothing was recorded");
        } else if let Some(why) = self.refused.first() {
            say(format_args!("{program} called the CUDA driver, but nothing was recorded: {why}{how}"));
        } else if self.inside > 0 {
            say(format_args!("{program} ended inside its first CUDA driver call; nothing was recorded{how}"));
        } else if self.disabled > 0 {
            say(format_args!("CUTRACE_DISABLE was 1 when {program} called the CUDA driver; nothing was recorded{how}"));
        } else if let (1.., Some(why)) = (self.unclear, &self.unknown) {
            say(format_args!(
                "{program} called the CUDA driver, but nothing was recorded, for an unknown reason: {why}{how}"
            ));
        } else if self.has_called {
            // What is wrong with its trace was said.
        } else if let Some(why) = &self.unknown {
            say(format_args!(
                "nothing was recorded, and it is unknown whether {program} called the CUDA driver: {why}{how}"
            ));
        } else {
            let no_call = format!("{program} made no CUDA driver call");
            say(match (self.open, running) {
                (0, 0) => format!("{no_call}; nothing was recorded"),
                (n, 0) => {
                    let processes = counted(n, "process");
                    format!(
                        "{no_call} that the recorder saw; nothing was recorded. {processes} did not exit normally, \
                         and may have executed a program without the recorder"
                    )
                }
                (_, 1) => format!("{no_call} that the recorder saw so far; 1 of its processes still runs"),
                (_, n) => format!("{no_call} that the recorder saw so far; {} of its processes still run", grouped(n)),
            });
        }
    }
}

fn runs(process: u32) -> bool {
    std::fs::read(format!("/proc/{process}/stat")).is_ok_and(|stat| !is_zombie(&stat))
}

fn begins(made: &FileLocation) -> bool {
    Trace::preamble_of(&made.path).is_ok()
}

/// A file in which no trace has begun, with the memory that no file names. Another file may have its path.
fn remove(made: &FileLocation) {
    if made.is_at_its_path() && !begins(made) {
        shared_memory::remove_left((made.device, made.inode));
        let _gone_already = std::fs::remove_file(&made.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No process has this id.
    const ENDED: u32 = u32::MAX;

    #[test]
    fn an_outcome_that_found_no_room_is_unknown() {
        let Ok((all, _)) = Announcements::make(1) else { return eprintln!("skipped: no System V shared memory here") };
        assert!(all.say(ENDED, &Announcement::Called));
        assert!(!all.say(1, &Announcement::Refused("x".repeat(1 << 20))));
        let all = Ok(all);
        let facts = Facts::of(&all, &HashSet::new());
        assert_eq!((facts.inside, facts.unclear), (0, 1));
        let facts = Facts::of(&all, &HashSet::from([ENDED]));
        assert_eq!((facts.inside, facts.unclear), (0, 0));
    }

    #[test]
    fn another_file_at_the_path_is_left_alone() {
        use std::os::unix::fs::MetadataExt;
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let found = file.as_file().metadata().expect("it is open");
        for (inode, stays) in [(found.ino() + 1, true), (found.ino(), false)] {
            let Ok((all, _)) = Announcements::make(1) else { return };
            let made = FileLocation { device: found.dev(), inode, path: file.path().into() };
            assert!(all.say(ENDED, &Announcement::Called) && all.say(ENDED, &Announcement::Made(made)));
            assert_eq!(Facts::of(&Ok(all), &HashSet::new()).inside, 1);
            assert_eq!(file.path().exists(), stays);
        }
    }
}
