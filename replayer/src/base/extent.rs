//! The extent of a difference: how many bytes differ from the recording, where, and by how much as numbers.

use serde::{Deserialize, Deserializer, Serialize};

/// The widths and formats of floating-point numbers in a copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Float {
    /// IEEE 754 half precision, 2 bytes.
    F16,
    /// The upper half of an `F32`, 2 bytes.
    Bf16,
    /// IEEE 754 single precision, 4 bytes.
    #[default]
    F32,
    /// IEEE 754 double precision, 8 bytes.
    F64,
}

impl Float {
    /// All formats by their names in arguments and in JSON.
    pub const NAMES: [(&str, Float); 4] =
        [("f16", Float::F16), ("bf16", Float::Bf16), ("f32", Float::F32), ("f64", Float::F64)];

    /// The format's name in arguments and in JSON.
    pub fn name(self) -> &'static str {
        Float::NAMES.iter().find(|(_, float)| *float == self).map_or("", |(name, _)| name)
    }

    /// Bytes of an element.
    pub fn size(self) -> usize {
        match self {
            Float::F16 | Float::Bf16 => 2,
            Float::F32 => 4,
            Float::F64 => 8,
        }
    }

    fn read(self, bytes: &[u8]) -> f64 {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let bits = u64::from_le_bytes(word);
        match self {
            Float::F16 => half(bits as u16),
            Float::Bf16 => f32::from_bits((bits as u32) << 16).into(),
            Float::F32 => f32::from_bits(bits as u32).into(),
            Float::F64 => f64::from_bits(bits),
        }
    }
}

fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff) / 1024.0);
    let size = match exponent {
        0 => fraction * 2f64.powi(-14),
        0x1f if fraction == 0.0 => f64::INFINITY,
        0x1f => f64::NAN,
        _ => (1.0 + fraction) * 2f64.powi(exponent - 15),
    };
    if bits >> 15 == 0 { size } else { -size }
}

/// The allowed distance of an element from the recorded one: `absolute` + `relative` * |recorded|.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// Allowed difference, as a fraction of the recorded value.
    pub relative: f64,
    /// Allowed difference that does not depend on the value.
    pub absolute: f64,
    /// Format of the elements.
    pub float: Float,
}

impl Tolerance {
    fn allows(&self, was: f64, is: f64) -> bool {
        was == is
            || was.is_nan() && is.is_nan()
            || was.is_finite() && is.is_finite() && (was - is).abs() <= self.absolute + self.relative * was.abs()
    }
}

/// The differences between two pieces of memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Extent {
    /// Bytes that differ; none where only a hash was recorded.
    pub bytes: Option<u64>,
    /// Bytes that were compared.
    pub of: u64,
    /// The same as numbers, where their number is whole.
    pub elements: Option<Elements>,
    /// The fill of fresh memory among the replay's bytes, if the replay fills.
    pub fill: Option<Fill>,
}

/// A difference of bytes, read as floating-point numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Elements {
    /// Format of the elements.
    #[serde(rename = "type")]
    pub float: Float,
    /// Those that differ: by more than is allowed, if something is.
    pub differing: u64,
    /// Elements that were compared.
    pub of: u64,
    /// Index of the first of them.
    pub first: u64,
    /// Over all elements that are numbers on both sides.
    pub largest_absolute: f64,
    /// The largest difference, as a fraction of the recorded value, zeros left out.
    #[serde(deserialize_with = "infinite_if_null")]
    pub largest_relative: f64,
}

/// JSON has no infinity: the quotient of a large and a tiny number stands there as null.
fn infinite_if_null<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::INFINITY))
}

/// The bytes that still hold the fill of fresh memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fill {
    /// The byte with which the replay fills fresh memory.
    pub byte: u8,
    /// Of the bytes that differ (of all, where only a hash was recorded), those that hold it still.
    pub bytes: u64,
    /// All that differ do (all, where only a hash was recorded): nobody ever wrote them.
    pub never_written: bool,
}

/// Compares by number; whether all is within the tolerance, and what is not. Elements that are no whole ones,
/// at the end, must be the same.
pub(crate) fn compare_numbers(tolerance: &Tolerance, was: &[u8], is: &[u8]) -> (bool, Elements) {
    let (float, size) = (tolerance.float, tolerance.float.size());
    let of = (was.len() / size) as u64;
    let mut found = Elements { float, differing: 0, of, first: 0, largest_absolute: 0.0, largest_relative: 0.0 };
    for (n, (was, is)) in was.chunks_exact(size).zip(is.chunks_exact(size)).enumerate() {
        if was == is {
            continue;
        }
        let (was, is) = (float.read(was), float.read(is));
        let absolute = (was - is).abs();
        if absolute.is_finite() {
            found.largest_absolute = found.largest_absolute.max(absolute);
            if was != 0.0 {
                found.largest_relative = found.largest_relative.max(absolute / was.abs());
            }
        }
        if !tolerance.allows(was, is) {
            found.first = if found.differing == 0 { n as u64 } else { found.first };
            found.differing += 1;
        }
    }
    let whole = of as usize * size;
    (found.differing == 0 && was[whole..] == is[whole..], found)
}

/// The extent of a difference. `was`: none where only a hash was recorded.
pub(crate) fn extent(was: Option<&[u8]>, is: &[u8], tolerance: Option<&Tolerance>, fill: Option<u8>) -> Extent {
    let exact = Tolerance { relative: 0.0, absolute: 0.0, float: Float::F32 };
    let differs = |n: usize| was.is_none_or(|was| was[n] != is[n]);
    let bytes = was.map(|_| (0..is.len()).filter(|n| differs(*n)).count() as u64);
    let by = tolerance.unwrap_or(&exact);
    let is_whole = is.len() >= by.float.size() && is.len().is_multiple_of(by.float.size());
    let elements = was.filter(|_| is_whole).map(|was| match tolerance {
        Some(tolerance) => compare_numbers(tolerance, was, is).1,
        None => {
            let (size, mut found) = (by.float.size(), compare_numbers(by, was, is).1);
            // Not the numbers are compared, but their bytes: two zeros may differ.
            let differ = || was.chunks_exact(size).zip(is.chunks_exact(size)).map(|(was, is)| was != is);
            found.differing = differ().filter(|differs| *differs).count() as u64;
            found.first = differ().position(|differs| differs).unwrap_or(0) as u64;
            found
        }
    });
    let fill = fill.map(|byte| {
        let held = (0..is.len()).filter(|n| differs(*n) && is[*n] == byte).count() as u64;
        Fill {
            byte,
            bytes: held,
            never_written: bytes.map_or(held == is.len() as u64, |bytes| bytes == held && held > 0),
        }
    });
    Extent { bytes, of: is.len() as u64, elements, fill }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(numbers: &[f32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    #[test]
    fn formats() {
        assert_eq!([half(0x3c00), half(0xc000), half(0x7bff), half(1)], [1.0, -2.0, 65504.0, 2f64.powi(-24)]);
        assert_eq!((half(0xfc00), half(0x7e00).is_nan()), (f64::NEG_INFINITY, true));
        assert_eq!(Float::Bf16.read(&0x3fc0u16.to_le_bytes()), 1.5);
        assert_eq!(Float::F64.read(&0.1f64.to_le_bytes()), 0.1);
    }

    #[test]
    fn tolerances() {
        let by = |relative, absolute| Tolerance { relative, absolute, float: Float::F32 };
        let (was, is) = (bytes(&[1.0, 100.0, 0.0, f32::NAN]), bytes(&[1.0, 101.0, 0.5, f32::NAN]));
        assert!(compare_numbers(&by(0.01, 0.5), &was, &is).0);
        let (agrees, found) = compare_numbers(&by(0.0, 0.9), &was, &is);
        assert_eq!((agrees, found.differing, found.first, found.of), (false, 1, 1, 4));
        assert_eq!((found.largest_absolute, found.largest_relative), (1.0, 0.01));
        // What is no number is near nothing else.
        assert!(!compare_numbers(&by(1e9, 1e9), &bytes(&[1.0]), &bytes(&[f32::NAN])).0);
        assert!(!compare_numbers(&by(1e9, 1e9), &bytes(&[f32::INFINITY]), &bytes(&[1.0])).0);
        // The odd byte at the end is compared as it is.
        assert!(!compare_numbers(&by(1e9, 1e9), &[0, 0, 0, 0, 1], &[0, 0, 0, 0, 2]).0);
    }

    #[test]
    fn a_fill_that_is_left() {
        let found = extent(Some(&[0, 0, 0, 0, 7]), &[9, 9, 0, 0, 7], None, Some(9));
        assert_eq!((found.bytes, found.of, found.elements), (Some(2), 5, None));
        assert_eq!(found.fill, Some(Fill { byte: 9, bytes: 2, never_written: true }));
        let found = extent(Some(&[0, 0, 0, 0]), &[9, 8, 0, 0], None, Some(9)).fill;
        assert_eq!(found, Some(Fill { byte: 9, bytes: 1, never_written: false }));
        let found = extent(None, &[9, 8], None, Some(9));
        assert_eq!((found.bytes, found.fill), (None, Some(Fill { byte: 9, bytes: 1, never_written: false })));
        let found = extent(None, &[9, 9], None, Some(9));
        assert_eq!(found.fill, Some(Fill { byte: 9, bytes: 2, never_written: true }));
    }
}
