//! Numbers for people.

/// `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index != 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 call`, `2,000 calls`; `1 copy`, `2 copies`.
pub fn counted(number: u64, what: &str) -> String {
    let number_text = grouped(number);
    match what.strip_suffix('y') {
        _ if number == 1 => format!("{number_text} {what}"),
        Some(stem) => format!("{number_text} {stem}ies"),
        None if what.ends_with("ch") => format!("{number_text} {what}es"),
        None => format!("{number_text} {what}s"),
    }
}

/// Bytes in decimal units, as files are measured: `3.4 MB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!(["0", "999", "1,000", "1,234,567"], [0, 999, 1000, 1_234_567].map(grouped)[..]);
        assert_eq!(["999 B", "1.0 kB", "3.4 MB", "1.0 MB"], [999, 1000, 3_400_000, 999_960].map(size)[..]);
        assert_eq!(size(u64::MAX), "18.4 EB");
        assert_eq!(["0.0", "1,234.6", "-0.5"], [0.04, 1234.56, -0.5].map(real)[..]);
        assert_eq!(
            [counted(1, "copy"), counted(0, "copy"), counted(2, "launch")],
            ["1 copy", "0 copies", "2 launches"]
        );
    }
}
