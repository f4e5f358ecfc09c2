//! File sizes in the form that people write, as numbers of bytes.

/// The bytes of `500M` or `2G`: powers of 1000, as sizes are shown; `Ki`, `Mi`, `Gi` and `Ti` are of 1024.
pub fn bytes(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let (base, name) = match unit.strip_suffix('i') {
        Some(name) => (1024u64, name),
        None => (1000, unit),
    };
    let power = match name {
        "" if base == 1000 => 0,
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(base.pow(power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, wanted) in [("0", 0), ("7", 7), ("500M", 500_000_000), ("2G", 2_000_000_000), ("3Ki", 3072)] {
            assert_eq!(bytes(text), Some(wanted), "{text}");
        }
        for wrong in ["", "M", "-1", "+1", "1.5G", "1 G", "2g", "2GB", "1i", "20000000T", "18446744073709551616", "1é"]
        {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }
}
