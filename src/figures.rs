//! Numbers for people.

use trace::Trace;
pub use viewer::text::{bytes as size, counted, grouped};

/// Nanoseconds in a fitting unit: `13.9 us`.
pub fn duration(ns: i64) -> String {
    match ns {
        ..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
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
    seconds_of(trace.nanoseconds(stamp))
}

fn seconds_of(ns: i64) -> String {
    let (sign, ns) = (if ns < 0 { "-" } else { "" }, ns.unsigned_abs());
    format!("{:>4}.{:09}", format!("{sign}{}", ns / 1_000_000_000), ns % 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!(["0", "999", "1,000", "1,234,567"], [0, 999, 1000, 1_234_567].map(grouped)[..]);
        assert_eq!(["999 B", "1.0 kB", "3.4 MB", "1.0 MB"], [999, 1000, 3_400_000, 999_960].map(size)[..]);
        assert_eq!(size(u64::MAX), "18.4 EB");
        assert_eq!(["   1.500000000", "  -0.000708406"], [1_500_000_000, -708_406].map(seconds_of)[..]);
        assert_eq!(["0.0", "1,234.6", "-0.5"], [0.04, 1234.56, -0.5].map(real)[..]);
        assert_eq!(
            [counted(1, "copy"), counted(0, "copy"), counted(2, "launch")],
            ["1 copy", "0 copies", "2 launches"]
        );
    }
}
