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

/// `1 call`, `2,000 calls`.
pub fn counted(number: u64, what: &str) -> String {
    match (number, what.strip_suffix('y')) {
        (1, _) => format!("1 {what}"),
        (_, Some(stem)) => format!("{} {stem}ies", grouped(number)),
        (_, None) if what.ends_with("ch") || what.ends_with('s') => format!("{} {what}es", grouped(number)),
        _ => format!("{} {what}s", grouped(number)),
    }
}

/// Nanoseconds in at most 8 characters: `830 ns`, `12.3 us`, `1.25 s`.
pub fn duration(ns: u64) -> String {
    let scaled = |value: f64, unit: &str| match value {
        ..10.0 => format!("{value:.2} {unit}"),
        ..100.0 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    };
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..999_500 => scaled(ns as f64 / 1e3, "us"),
        999_500..999_500_000 => scaled(ns as f64 / 1e6, "ms"),
        _ => scaled(ns as f64 / 1e9, "s"),
    }
}

/// A moment, with as many digits as a step of `step` ns needs: `1.234567 s`.
pub fn moment(ns: u64, step: u64) -> String {
    let digits = match step {
        0..10 => 9,
        10..100 => 8,
        100..1_000 => 7,
        1_000..10_000 => 6,
        10_000..1_000_000 => 5,
        1_000_000..10_000_000 => 3,
        10_000_000..1_000_000_000 => 2,
        _ => 1,
    };
    let (seconds, rest) = (ns / 1_000_000_000, format!("{:09}", ns % 1_000_000_000));
    format!("{seconds}.{} s", &rest[..digits])
}

/// Bytes in decimal units: `3.4 MB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let (mut value, mut unit) = (bytes as f64 / 1000.0, 0);
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// The percentage with one digit, or `-` if `whole` is 0.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".into() } else { format!("{:.1}%", part as f64 / whole as f64 * 100.0) }
}

/// `20ms`, `1.5s`, `300` (ns) in nanoseconds.
pub fn time(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a time; expected a time such as 300ns, 20us, 1.5ms or 2s");
    let split = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    let (number, unit) = (text[..split].trim().replace('_', ""), text[split..].trim());
    let scale = match unit {
        "" | "ns" => 1.0,
        "us" | "\u{b5}s" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return Err(wrong()),
    };
    let value: f64 = number.parse().map_err(|_| wrong())?;
    if !value.is_finite() || value < 0.0 { Err(wrong()) } else { Ok((value * scale) as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_moments_are_short() {
        let all = [0, 999, 1_000, 12_345, 999_499, 999_500, 1_250_000_000, 1_000_000_000_000].map(duration);
        assert_eq!(all, ["0 ns", "999 ns", "1.00 us", "12.3 us", "999 us", "1.00 ms", "1.25 s", "1000 s"]);
        assert_eq!(
            [1, 10_000, 2_000_000_000].map(|step| moment(1_234_567_891, step)),
            ["1.234567891 s", "1.23456 s", "1.2 s"]
        );
    }

    #[test]
    fn times_have_units() {
        assert_eq!(["300", "20us", "1.5ms", "2 s"].map(time), [Ok(300), Ok(20_000), Ok(1_500_000), Ok(2_000_000_000)]);
        assert!(["", "x", "-1s", "1m", "infs"].iter().all(|text| time(text).is_err()));
    }
}
