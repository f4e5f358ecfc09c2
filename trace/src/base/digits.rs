//! Whole numbers as text. A line of `dump` has about twenty, and with the standard library's formatting each
//! would take longer than reading the whole call.

use std::fmt::{Result, Write};

const DIGITS: &[u8; 16] = b"0123456789abcdef";
/// Those of `u64::MAX` in decimal.
const LONGEST: usize = 20;

/// Writes an unsigned number in decimal, without grouping.
pub fn decimal(out: &mut impl Write, number: u64) -> Result {
    write::<10>(out, number, 1, "")
}

/// Writes a signed number in decimal, without grouping.
pub fn signed(out: &mut impl Write, number: i64) -> Result {
    if number < 0 {
        out.write_char('-')?;
    }
    decimal(out, number.unsigned_abs())
}

/// With zeros before it up to so many digits, 20 at the most.
pub fn with_zeros(out: &mut impl Write, number: u64, digits: usize) -> Result {
    write::<10>(out, number, digits, "")
}

/// `0x7f`
pub fn hexadecimal(out: &mut impl Write, number: u64) -> Result {
    write::<16>(out, number, 1, "0x")
}

/// With blanks before it up to so many characters.
pub fn right(out: &mut impl Write, number: u64, width: usize) -> Result {
    let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
    (digits..width).try_for_each(|_| out.write_char(' '))?;
    decimal(out, number)
}

fn write<const BASE: u64>(out: &mut impl Write, mut number: u64, least: usize, before: &str) -> Result {
    let mut buffer = [b'0'; LONGEST];
    let mut at = LONGEST;
    while number > 0 {
        at -= 1;
        buffer[at] = DIGITS[(number % BASE) as usize];
        number /= BASE;
    }
    out.write_str(before)?;
    out.write_str(std::str::from_utf8(&buffer[at.min(LONGEST - least)..]).expect("digits are ASCII"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(write: impl Fn(&mut String) -> Result) -> String {
        let mut out = String::new();
        write(&mut out).expect("into memory");
        out
    }

    proptest! {
        #[test]
        fn they_are_those_of_the_standard_library(number: u64, shift in 0..64u32, width in 0..30usize) {
            let number = number >> shift;
            prop_assert_eq!(of(|out| decimal(out, number)), number.to_string());
            prop_assert_eq!(of(|out| hexadecimal(out, number)), format!("{number:#x}"));
            prop_assert_eq!(of(|out| right(out, number, width)), format!("{number:>width$}"));
            prop_assert_eq!(of(|out| signed(out, number as i64)), (number as i64).to_string());
            prop_assert_eq!(of(|out| with_zeros(out, number, 9)), format!("{number:09}"));
        }
    }

    #[test]
    fn the_least_and_the_most() {
        assert_eq!(of(|out| decimal(out, 0)), "0");
        assert_eq!(of(|out| hexadecimal(out, 0)), "0x0");
        assert_eq!(of(|out| decimal(out, u64::MAX)), u64::MAX.to_string());
        assert_eq!(of(|out| signed(out, i64::MIN)), i64::MIN.to_string());
        assert_eq!(of(|out| right(out, 0, 3)), "  0");
    }
}
