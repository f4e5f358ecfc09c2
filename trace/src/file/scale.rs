//! Conversion of clock ticks to nanoseconds, by the first and the last pair of both.

use crate::file::record::Clock;

/// Nanoseconds, more than a year: times of a damaged or forged trace are cut to it, so that what is computed
/// of them are numbers, and an end is no earlier than its beginning.
pub(crate) const FAR: i64 = 1 << 55;

/// Of usual numbers products fit.
const USUAL: u64 = 1 << 50;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Scale {
    /// Where counting begins.
    first: u64,
    /// As many ticks are so many nanoseconds.
    ticks: u64,
    ns: u64,
    /// Nanoseconds of a tick; 0 if the numbers are not usual.
    rate: f64,
}

impl Scale {
    /// `clocks`: in order. There is one.
    pub(crate) fn from_clocks(clocks: &[Clock]) -> Scale {
        let (first, last) = (clocks[0], clocks[clocks.len() - 1]);
        let (ticks, ns) = (last.tsc.wrapping_sub(first.tsc), last.ns.wrapping_sub(first.ns));
        let is_usual = ns < USUAL && (1..USUAL).contains(&ticks);
        Scale { first: first.tsc, ticks, ns, rate: if is_usual { ns as f64 / ticks as f64 } else { 0.0 } }
    }

    /// Where times count from.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// The same, but counting from these ticks on if they are earlier.
    pub(crate) fn counting_from(self, ticks: u64) -> Scale {
        Scale { first: self.first.min(ticks), ..self }
    }

    /// Since counting begins.
    #[inline]
    pub(crate) fn nanoseconds(&self, ticks: u64) -> i64 {
        match ticks.checked_sub(self.first).and_then(|since| self.usual(since)) {
            Some(passed) => passed as i64,
            None => self.unusual(ticks),
        }
    }

    /// `since * ns / ticks`, rounded towards zero, of usual numbers. Dividing 128 bits takes longer than
    /// reading a call, and every call asks twice: the quotient is guessed, which is at most a few off.
    #[inline]
    fn usual(&self, since: u64) -> Option<u64> {
        if since >= USUAL || self.rate == 0.0 {
            return None;
        }
        if self.ns == self.ticks {
            return Some(since);
        }
        // Of a signed number the conversion is one instruction.
        let mut quotient = (since as i64 as f64 * self.rate) as i64 as u64;
        if quotient >= USUAL {
            return None;
        }
        // It is small, so that its lower 64 bits are all of it.
        let mut rest = since.wrapping_mul(self.ns).wrapping_sub(quotient.wrapping_mul(self.ticks)) as i64;
        while rest < 0 {
            (quotient, rest) = (quotient - 1, rest + self.ticks as i64);
        }
        while rest >= self.ticks as i64 {
            (quotient, rest) = (quotient + 1, rest - self.ticks as i64);
        }
        Some(quotient)
    }

    #[cold]
    fn unusual(&self, ticks: u64) -> i64 {
        let since = i128::from(ticks) - i128::from(self.first);
        let passed = match self.ticks {
            0 => since,
            all => since.saturating_mul(self.ns.into()) / i128::from(all),
        };
        passed.clamp(-i128::from(FAR), i128::from(FAR)) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scale(ns: u64, ticks: u64) -> Scale {
        Scale::from_clocks(&[Clock { tsc: 5, ns: 7 }, Clock { tsc: ticks + 5, ns: ns + 7 }])
    }

    proptest! {
        #[test]
        fn times_are_exact(since in 0..1u64 << 52, ns in 0..1u64 << 52, ticks in 0..1u64 << 52, shift in 0..50u32) {
            for (since, ns, ticks) in [(since, ns, ticks), (since, ns >> shift, ticks >> shift), (since >> shift, ns, ticks)] {
                let scale = scale(ns, ticks);
                if let Some(scaled) = scale.usual(since) {
                    prop_assert_eq!(u128::from(scaled), u128::from(since) * u128::from(ns) / u128::from(ticks));
                    prop_assert_eq!(scale.unusual(since + 5), scaled as i64);
                }
            }
        }
    }

    #[test]
    fn what_is_not_usual_is_left_to_others() {
        assert_eq!([scale(3, 2).usual(7), scale(5, 9).usual(0), scale(4, 4).usual(9)], [Some(10), Some(0), Some(9)]);
        assert_eq!([scale(1, 2).usual(1 << 50), scale(1, 0).usual(7), scale(4, 1).usual(1 << 49)], [None; 3]);
        assert_eq!(scale(1, 0).nanoseconds(9), 4, "of clocks that stand still a tick counts as a nanosecond");
        assert_eq!(scale(4, 2).nanoseconds(3), -4);
        assert_eq!(Scale::default().nanoseconds(u64::MAX), FAR);
    }
}
