//! What work waits for by events. A forged trace has as many streams and events as it likes: what is kept of
//! them is bounded, and what is not kept is taken for unordered.

use foldhash::{HashMap, HashMapExt as _};

/// The work of a stream up to a call: the index of the stream, and the number of that call, whose own work is
/// behind.
pub type Until = (usize, u64);

/// Of the waits for one stream: work older than the oldest of these is taken for unordered.
const MOST_WAITS: usize = 16;

/// Of the waits for all streams.
pub const MOST_IN_ALL: usize = 1024;

/// Streams that stand before one event: programs that have more are busy on fewer.
pub const MOST_STREAMS: usize = 1024;

/// Of so few each is looked at.
const FEW: usize = 16;

/// What is waited for, and since which call: of each stream, later calls wait for more.
#[derive(Default)]
pub struct Waits {
    all: Vec<(u64, Until)>,
    /// The latest of each stream.
    latest: HashMap<usize, u64>,
    /// How many were left when the last were forgotten.
    kept: usize,
}

impl Waits {
    /// From this call on for these, too.
    pub fn add(&mut self, call: u64, awaited: &[Until], is_open: impl Fn(&Until) -> bool) {
        for &(at, until) in awaited.iter().filter(|until| is_open(until)) {
            let latest = self.latest.entry(at).or_insert(0);
            if *latest < until {
                *latest = until;
                self.all.push((call, (at, until)));
            }
        }
        // Not each time: it looks at all of them.
        if self.all.len() > 2 * self.kept.max(FEW) {
            self.forget(is_open);
        }
    }

    /// What has finished; and the oldest, of each stream and in all.
    fn forget(&mut self, is_open: impl Fn(&Until) -> bool) {
        let (mut of_stream, mut in_all) = (HashMap::<usize, usize>::new(), 0);
        self.all.reverse();
        self.all.retain(|(_, until)| {
            let is_kept = in_all < MOST_IN_ALL && is_open(until) && {
                let count = of_stream.entry(until.0).or_default();
                *count += 1;
                *count <= MOST_WAITS
            };
            in_all += usize::from(is_kept);
            is_kept
        });
        self.all.reverse();
        self.latest.retain(|at, _| of_stream.contains_key(at));
        self.kept = self.all.len();
    }

    /// Of what a call waits for that comes behind: all that was added before.
    pub fn before(&self, call: u64) -> impl Iterator<Item = Until> {
        self.all.iter().filter(move |(since, _)| *since < call).map(|(_, until)| *until)
    }
}

/// Of each stream the latest, in the order in which streams are first met.
pub fn joined(all: impl IntoIterator<Item = Until>) -> Vec<Until> {
    let (mut joined, mut places): (Vec<Until>, HashMap<usize, usize>) = (Vec::new(), HashMap::new());
    for (at, until) in all {
        let place = match joined.len() {
            ..=FEW => joined.iter().position(|(known, _)| *known == at),
            _ => places.get(&at).copied(),
        };
        match place {
            Some(place) => joined[place].1 = until.max(joined[place].1),
            None => {
                joined.push((at, until));
                if joined.len() == FEW + 1 {
                    places.extend(joined.iter().enumerate().map(|(place, (at, _))| (*at, place)));
                } else if joined.len() > FEW {
                    places.insert(at, joined.len() - 1);
                }
            }
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of each stream the latest count, of many streams the latest.
    #[test]
    fn what_is_waited_for_is_bounded() {
        let mut waits = Waits::default();
        for call in 0..100_000u64 {
            waits.add(call, &[(7, call + 1)], |_| true);
        }
        assert!((MOST_WAITS..=2 * FEW).contains(&waits.all.len()), "{}", waits.all.len());
        assert_eq!(joined(waits.before(99_999)), [(7, 99_999)]);
        for call in 0..100_000u64 {
            waits.add(call, &[(call as usize + 8, 1)], |_| true);
        }
        assert!((MOST_IN_ALL..=2 * MOST_IN_ALL).contains(&waits.all.len()), "{}", waits.all.len());
        assert!(waits.before(u64::MAX).any(|until| until == (100_007, 1)) && waits.latest.len() <= 2 * MOST_IN_ALL);
        // What has finished makes room first.
        for call in 0..3_000u64 {
            waits.add(call, &[(1, call + 1)], |(at, _)| *at == 1);
        }
        assert!(waits.before(u64::MAX).all(|(at, _)| at == 1));
    }

    #[test]
    fn of_each_stream_the_latest() {
        let all = (0..100).flat_map(|at| [(at, 1), (at / 2, at as u64)]);
        let joined = joined(all);
        assert!(joined.iter().map(|(at, _)| *at).eq(0..100));
        assert!(joined.iter().all(|(at, until)| *until == if *at < 50 { 2 * *at as u64 + 1 } else { 1 }));
    }
}
