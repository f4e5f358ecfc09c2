//! What the processes of a recording have said of themselves, and what became of those that have no trace.

use super::Asked;
use crate::exit::say;
use crate::figures::grouped;
use crate::job::watch::is_zombie;
use std::collections::BTreeMap;
use std::env;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use trace::Trace;
use trace::base::announcements::{Announcements, Said};
use trace::file::shared_memory;

#[derive(Default)]
pub struct Facts {
    /// Of traces, also of processes that have just begun with theirs.
    pub paths: Vec<PathBuf>,
    /// Why processes that called the driver have no trace, for each.
    pub refused: Vec<String>,
    /// Processes for which recording was disabled.
    disabled: u64,
    /// Processes that ended inside their first driver call.
    pub inside: u64,
    has_called: bool,
    /// Why that may not be all.
    unknown: Option<String>,
}

impl Facts {
    pub fn of(announcements: &io::Result<Announcements>) -> Facts {
        let mut facts = Facts::default();
        let all = match announcements {
            Ok(all) => all,
            Err(error) => return Facts { unknown: Some(format!("no shared memory: {error}")), ..facts },
        };
        facts.unknown = match (all.is_mapped(), all.is_full()) {
            (false, _) => Some("the recorder was not loaded, or not in reach of shared memory".into()),
            (_, true) => Some("there was no room for all that its processes said".into()),
            _ => None,
        };
        // By process: a call whose outcome is not known yet, and the file that was made in it.
        let mut open: BTreeMap<u32, Option<PathBuf>> = BTreeMap::new();
        for (process, said) in all.said() {
            facts.has_called = true;
            match said {
                Said::Called => _ = open.insert(process, None),
                Said::Made(path) => _ = open.insert(process, Some(path)),
                Said::Recorded => facts.paths.extend(open.remove(&process).flatten()),
                Said::Disabled => {
                    open.remove(&process);
                    facts.disabled += 1;
                }
                Said::Refused(why) => {
                    open.remove(&process);
                    facts.refused.push(why);
                }
            }
        }
        for (process, made) in open {
            match made {
                Some(path) if Trace::preamble_of(&path).is_ok() => facts.paths.push(path),
                _ if runs(process) => {}
                made => {
                    facts.inside += 1;
                    made.iter().for_each(|path| remove(path));
                }
            }
        }
        facts
    }

    /// Where nothing was recorded. `running`: processes that have not ended.
    pub fn say_nothing_recorded(&self, asked: &Asked, running: u64) {
        let program = Path::new(asked.program).display();
        let how =
            if asked.ended.is_success() { String::new() } else { format!("; the program ended: {}", asked.ended) };
        if env::var_os("CUTRACE_DISABLE").is_some_and(|value| value == "1") {
            say("CUTRACE_DISABLE is 1; nothing was recorded");
        } else if let Some(why) = self.refused.first() {
            say(format_args!("{program} called the CUDA driver, and nothing was recorded: {why}{how}"));
        } else if self.inside > 0 {
            say(format_args!("{program} ended inside its first CUDA driver call; nothing was recorded{how}"));
        } else if self.disabled > 0 {
            say(format_args!("CUTRACE_DISABLE was 1 when {program} called the CUDA driver; nothing was recorded{how}"));
        } else if self.has_called {
            // What is wrong with its trace was said.
        } else if let Some(why) = &self.unknown {
            say(format_args!("nothing was recorded; whether {program} called the CUDA driver is unknown: {why}{how}"));
        } else {
            say(match running {
                0 => format!("{program} made no CUDA driver call; nothing was recorded"),
                1 => format!("{program} made no CUDA driver call so far; 1 of its processes still runs"),
                n => format!("{program} made no CUDA driver call so far; {} of its processes still run", grouped(n)),
            });
        }
    }
}

fn runs(process: u32) -> bool {
    std::fs::read(format!("/proc/{process}/stat")).is_ok_and(|stat| !is_zombie(&stat))
}

/// A file in which no trace had begun when its process ended, with the memory that no file names.
fn remove(path: &Path) {
    let Ok(about) = path.symlink_metadata() else { return };
    if about.is_file() {
        shared_memory::remove_left((about.dev(), about.ino()));
        let _gone_already = std::fs::remove_file(path);
    }
}
