//! NVTX ranges and marks as tracks: one below each thread for the ranges it pushed in a domain; ranges that
//! any thread may end get as many tracks of the process as are open at a time.

use crate::events::track::{PROCESS_TRACK, THREAD_TRACKS, Track};
use analysis::calls::annotations::Ahead;
use analysis::error::Result;
use analysis::filter::selection::Selection;
use std::borrow::Cow;
use std::collections::HashMap;
use trace::Trace;
use trace::file::record::annotated;
use trace::read::annotation::Annotation;

/// Beyond those of devices.
const TRACKS: u64 = 1 << 33;

/// A packet to write, at its time.
pub(crate) enum Step<'t> {
    Track(Track),
    Begin { track: u64, about: Annotation<'t> },
    End { track: u64, time: u64 },
    Mark { track: u64, about: Annotation<'t> },
}

/// Whose a track is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Owner {
    /// A thread and a domain.
    Pushed(u32, u32),
    /// A domain, and which of its tracks.
    Started(u32, usize),
}

pub(crate) struct Annotated<'t> {
    ahead: Ahead<'t>,
    /// By owner: the number, and how many slices are open.
    tracks: HashMap<Owner, (u64, u32)>,
    /// By the id of a range: its domain, and where it stands there.
    started: HashMap<u64, (u32, usize)>,
    /// By domain: how many tracks there are for ranges that were started, and which of them are free.
    lanes: HashMap<u32, (usize, Vec<usize>)>,
}

impl<'t> Annotated<'t> {
    pub(crate) fn new(trace: &'t Trace, selection: &Selection) -> Result<Annotated<'t>> {
        Ok(Annotated {
            ahead: Ahead::new(trace, selection)?,
            tracks: HashMap::new(),
            started: HashMap::new(),
            lanes: HashMap::new(),
        })
    }

    /// Those before `time`. `closes`: no more begin.
    pub(crate) fn steps_before(&mut self, time: u64, closes: bool) -> Vec<Step<'t>> {
        let mut steps = Vec::new();
        while let Some((about, is_wanted)) = self.ahead.next_before(time) {
            let (domain, at) = (about.about.domain, about.about.time);
            let pushed = Owner::Pushed(about.thread, domain);
            // What has begun ends, whether or not its end was asked for.
            let is_wanted = is_wanted && !closes;
            match about.about.what {
                annotated::PUSH if is_wanted => {
                    let track = self.open(pushed, &about, &mut steps);
                    steps.push(Step::Begin { track, about });
                }
                annotated::POP => steps.extend(self.close(pushed, at)),
                annotated::START if is_wanted => {
                    let (lanes, free) = self.lanes.entry(domain).or_default();
                    let lane = free.pop().unwrap_or_else(|| std::mem::replace(lanes, *lanes + 1));
                    self.started.insert(about.about.subject, (domain, lane));
                    let track = self.open(Owner::Started(domain, lane), &about, &mut steps);
                    steps.push(Step::Begin { track, about });
                }
                annotated::END => {
                    let Some((domain, lane)) = self.started.remove(&about.about.subject) else { continue };
                    steps.extend(self.close(Owner::Started(domain, lane), at));
                    self.lanes.entry(domain).or_default().1.push(lane);
                }
                annotated::MARK if is_wanted => {
                    let track = self.open(pushed, &about, &mut steps);
                    self.close(pushed, at);
                    steps.push(Step::Mark { track, about });
                }
                _ => {}
            }
        }
        steps
    }

    fn open(&mut self, owner: Owner, about: &Annotation, steps: &mut Vec<Step<'t>>) -> u64 {
        let next = TRACKS + self.tracks.len() as u64;
        let (number, open) = self.tracks.entry(owner).or_insert_with(|| {
            let domain = about.domain.as_ref().map_or(Cow::Borrowed(""), |domain| format!(" {domain}").into());
            let (parent, name) = match owner {
                Owner::Pushed(thread, _) => (THREAD_TRACKS + u64::from(thread), format!("NVTX{domain}")),
                Owner::Started(..) => (PROCESS_TRACK, format!("NVTX{domain}, started")),
            };
            steps.push(Step::Track(Track { number: next, parent: Some(parent), name }));
            (next, 0)
        });
        *open += 1;
        *number
    }

    /// None: nothing is open there that was asked for.
    fn close(&mut self, owner: Owner, time: u64) -> Option<Step<'t>> {
        let (number, open) = self.tracks.get_mut(&owner)?;
        *open = open.checked_sub(1)?;
        Some(Step::End { track: *number, time })
    }
}
