//! Times at which a device or one of its streams was idle, and the share of them that the host caused.

use crate::read::device_times::Work;

/// Busy and idle times, from works in the order in which they began. Nanoseconds of the replay's clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct Idle {
    first: Option<i64>,
    end: i64,
    /// Time with work; overlapping work counts once.
    pub busy: i64,
}

impl Idle {
    /// The gap that this work ends, if there is one.
    pub fn gap(&mut self, work: &Work) -> Option<(i64, i64)> {
        let about = &work.about;
        let gap = self.first.is_some().then_some((self.end, about.start)).filter(|(from, to)| from < to);
        self.first.get_or_insert(about.start);
        self.busy += (about.end - about.start.max(self.end)).max(0);
        self.end = self.end.max(about.end);
        gap
    }

    /// From the beginning of the first to the end of the last.
    pub fn span(&self) -> i64 {
        self.end - self.first.unwrap_or(self.end)
    }

    /// Whether a device that waited so long for the host waited for long.
    pub fn is_much(&self, waited: i64) -> bool {
        waited > self.span() / 5
    }
}

/// A gap up to some work by its causes: until the work's call was made, the host is why; while it was made,
/// the way to the device; the rest is behind the call.
pub fn parts((from, to): (i64, i64), work: &Work) -> [i64; 3] {
    let asked = work.about.submitted.clamp(from, to);
    let made = work.about.returned.clamp(asked, to);
    [asked - from, made - asked, to - made]
}
