//! Numbers as the command prints them.

pub use super::numbers::{bytes as size, counted, grouped};
use std::fmt::{self, Write};
use trace::Trace;
use trace::base::digits::{right, signed, with_zeros};

/// Nanoseconds in a fitting unit: `13.9 us`.
pub fn duration(ns: i64) -> String {
    let mut out = String::new();
    put_duration(&mut out, ns).expect("into memory");
    out
}

pub(crate) fn put_duration(out: &mut String, ns: i64) -> fmt::Result {
    let (unit, name) = match ns {
        ..1_000 => {
            signed(out, ns)?;
            return out.write_str(" ns");
        }
        1_000..1_000_000 => (1_000, "us"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => return write!(out, "{:.2} s", ns as f64 / 1e9),
    };
    let (tenths, rest) = (ns / (unit / 10), ns % (unit / 10));
    // Half of a tenth goes where floating point takes it.
    if rest == unit / 20 {
        return write!(out, "{:.1} {name}", ns as f64 / unit as f64);
    }
    let tenths = tenths + i64::from(rest > unit / 20);
    signed(out, tenths / 10)?;
    out.push('.');
    signed(out, tenths % 10)?;
    out.push(' ');
    out.write_str(name)
}

/// `1234.56` as `1,234.6`.
pub fn real(number: f64) -> String {
    let tenths = (number * 10.0).round();
    let sign = if tenths < 0.0 { "-" } else { "" };
    let tenths = tenths.abs() as u64;
    format!("{sign}{}.{}", grouped(tenths / 10), tenths % 10)
}

/// Seconds since the start of the trace; an annotation may precede it.
pub fn seconds(trace: &Trace, stamp: u64) -> String {
    let mut out = String::new();
    put_seconds(&mut out, trace, stamp).expect("into memory");
    out
}

pub(crate) fn put_seconds(out: &mut String, trace: &Trace, stamp: u64) -> fmt::Result {
    put_seconds_of(out, trace.nanoseconds(stamp))
}

fn put_seconds_of(out: &mut String, ns: i64) -> fmt::Result {
    let (whole, rest) = (ns.unsigned_abs() / 1_000_000_000, ns.unsigned_abs() % 1_000_000_000);
    match ns {
        ..0 => write!(out, "{:>4}", format!("-{whole}"))?,
        _ => right(out, whole, 4)?,
    }
    out.push('.');
    with_zeros(out, rest, 9)
}

/// `0-2,5`.
pub fn ranges(all: &[u64]) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &number in all {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => runs.push((number, number)),
        }
    }
    in_words(runs)
}

/// `rank 2`, `ranks 0-2,5`.
pub fn ranks(all: &[u64]) -> String {
    format!("rank{} {}", if all.len() == 1 { "" } else { "s" }, ranges(all))
}

/// By the first and the last of each.
pub fn in_words(ranges: impl IntoIterator<Item = (u64, u64)>) -> String {
    let one = |(first, last): (u64, u64)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.into_iter().map(one).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_ranks() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        // What a trace claims is anybody's.
        assert_eq!(ranges(&[u64::MAX, u64::MAX]), format!("{0},{0}", u64::MAX));
    }

    #[test]
    fn durations_are_rounded_as_floating_point_is() {
        let shown = |ns: i64| match ns {
            1_000..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
            1_000_000.. => format!("{:.1} ms", ns as f64 / 1e6),
            _ => format!("{ns} ns"),
        };
        let all = (0..20_000).chain((0..1_000_000_000).step_by(24_997)).chain((0..1_000_000_000).step_by(50_000));
        all.for_each(|ns| assert_eq!(duration(ns), shown(ns)));
        assert_eq!([duration(-5), duration(1_234_000_000)], ["-5 ns", "1.23 s"]);
    }

    #[test]
    fn figures_read_well() {
        assert_eq!(["0", "999", "1,000", "1,234,567"], [0, 999, 1000, 1_234_567].map(grouped)[..]);
        assert_eq!(["999 B", "1.0 kB", "3.4 MB", "1.0 MB"], [999, 1000, 3_400_000, 999_960].map(size)[..]);
        assert_eq!(size(u64::MAX), "18.4 EB");
        let seconds_of = |ns| {
            let mut out = String::new();
            put_seconds_of(&mut out, ns).map(|()| out).expect("into memory")
        };
        assert_eq!(["   1.500000000", "  -0.000708406"], [1_500_000_000, -708_406].map(seconds_of)[..]);
        assert_eq!(["0.0", "1,234.6", "-0.5"], [0.04, 1234.56, -0.5].map(real)[..]);
        assert_eq!(
            [counted(1, "copy"), counted(0, "copy"), counted(2, "launch")],
            ["1 copy", "0 copies", "2 launches"]
        );
    }
}
