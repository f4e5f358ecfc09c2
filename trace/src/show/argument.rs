//! Kernel arguments as text, for all outputs: by the type that the kernel declares, or as bare bits.

use crate::base::bytes::u64_at;
use crate::base::digits::{decimal, hexadecimal, signed};
use crate::code::parameters::Number;
use crate::model::objects::Objects;
use crate::show::signature::{Declared, Form};
use crate::show::text;
use std::fmt::{self, Display, Formatter, Write};

/// A decoded kernel argument.
#[derive(Debug, Clone, PartialEq)]
pub enum Argument<'x> {
    /// A null pointer.
    Null,
    /// A pointer, or an integer that is an address of known memory.
    Address(u64),
    /// A truth value.
    Bool(bool),
    /// An integer of up to 8 bytes.
    Integer(i128),
    /// Of 2 bytes; the number, which a float of 4 bytes holds.
    Half(f32),
    /// A bfloat16 of 2 bytes, as for `Half`.
    Brain(f32),
    /// A float of 4 bytes.
    Single(f32),
    /// A float of 8 bytes.
    Double(f64),
    /// Elements of an array or vector.
    List(Vec<Argument<'x>>),
    /// Up to 8 bytes, of which nothing says what they mean.
    Bits(&'x [u8]),
    /// A structure, or longer bits.
    Bytes(&'x [u8]),
}

impl<'x> Argument<'x> {
    /// Decodes by the declared type, if there is one, else by the size of the bytes.
    pub fn decode(bytes: &'x [u8], declared: Option<&Declared>, objects: &Objects) -> Argument<'x> {
        let word = if bytes.len() == 8 { u64_at(bytes, 0) } else { 0 };
        // Now, or until it was freed.
        let is_somewhere = || objects.range(word).is_some() || objects.ended_range(word).is_some();
        match declared.map(|declared| declared.form) {
            Some(Form::Pointer) if bytes.len() == 8 && word == 0 => Argument::Null,
            Some(Form::Pointer) if bytes.len() == 8 => Argument::Address(word),
            Some(Form::Word) if is_somewhere() || word > u32::MAX.into() => Argument::Address(word),
            Some(Form::Word) => Argument::Integer(word.into()),
            // Some programs hand over addresses as integers.
            Some(Form::Numbers(Number::Unsigned, 8, 1)) if is_somewhere() => Argument::Address(word),
            Some(Form::Bool) if matches!(bytes, [0 | 1]) => Argument::Bool(bytes == [1]),
            Some(Form::Bool) => number(Number::Unsigned, bytes),
            Some(Form::Numbers(kind, _, 1)) => number(kind, bytes),
            Some(Form::Numbers(kind, size, _)) => {
                Argument::List(bytes.chunks(size as usize).map(|each| number(kind, each)).collect())
            }
            None if is_somewhere() => Argument::Address(word),
            None if matches!(bytes.len(), 1 | 2 | 4 | 8) => Argument::Bits(bytes),
            Some(Form::Pointer | Form::Bytes) | None => Argument::Bytes(bytes),
        }
    }

    /// With allocations by their names.
    pub fn text<'y>(&'y self, objects: &'y Objects) -> impl Display + 'y {
        ArgumentText { argument: self, objects }
    }

    /// Writes it as [`Argument::text`] shows it.
    pub(crate) fn write<W: Write>(&self, out: &mut W, objects: &Objects) -> fmt::Result {
        if let Some(text) = self.no_number() {
            return out.write_str(&text);
        }
        match self {
            Argument::Null => out.write_str("NULL"),
            Argument::Address(value) => text::address(out, *value, objects),
            Argument::Bool(value) => write!(out, "{value}"),
            Argument::Integer(value) => match i64::try_from(*value) {
                Ok(value) => signed(out, value),
                Err(_) => write!(out, "{value}"),
            },
            // As C++ writes constants of these types.
            Argument::Half(value) => write!(out, "{value:?}f16"),
            Argument::Brain(value) => write!(out, "{value:?}bf16"),
            Argument::Single(value) => write!(out, "{value:?}f"),
            Argument::Double(value) => write!(out, "{value:?}"),
            Argument::List(all) => {
                out.write_char('{')?;
                text::separated(out, all, |out, each| each.write(out, objects))?;
                out.write_char('}')
            }
            Argument::Bits(bytes) => {
                hexadecimal(out, bytes.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte)))?;
                out.write_str(" (")?;
                decimal(out, bytes.len() as u64)?;
                out.write_str(" B)")
            }
            Argument::Bytes(bytes) => text::unstructured(out, bytes, SHOWN),
        }
    }
}

fn number(kind: Number, bytes: &[u8]) -> Argument<'_> {
    match (kind, bytes) {
        (Number::Float, &[a, b]) => Argument::Half(half(u16::from_le_bytes([a, b]))),
        (Number::Brain, &[a, b]) => Argument::Brain(f32::from_le_bytes([0, 0, a, b])),
        (Number::Float, &[a, b, c, d]) => Argument::Single(f32::from_le_bytes([a, b, c, d])),
        (Number::Float, &[a, b, c, d, e, f, g, h]) => Argument::Double(f64::from_le_bytes([a, b, c, d, e, f, g, h])),
        (Number::Unsigned | Number::Signed, _) if (1..=8).contains(&bytes.len()) => {
            let mut wide = [0; 8];
            wide[..bytes.len()].copy_from_slice(bytes);
            let (value, unused) = (u64::from_le_bytes(wide), 64 - 8 * bytes.len() as u32);
            Argument::Integer(match kind {
                Number::Signed => ((value << unused) as i64 >> unused).into(),
                _ => value.into(),
            })
        }
        _ => Argument::Bytes(bytes),
    }
}

/// A float of 2 bytes (IEEE 754 binary16) as one of 4: exact, the bits of a NaN included.
fn half(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let (exponent, fraction) = (u32::from(bits >> 10 & 31), u32::from(bits & 0x3ff));
    match exponent {
        // Denormal: so many times 2 to the power of -24.
        0 => f32::from_bits(sign | (fraction as f32 / (1 << 24) as f32).to_bits()),
        31 => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

/// What is no number keeps its sign, and its bits where they are not the usual ones.
pub fn not_finite(value: f64, bits: u64, usual: u64, sign: u64) -> String {
    let minus = if value.is_sign_negative() { "-" } else { "" };
    match value.is_nan() {
        true if bits & !sign == usual => format!("{minus}NaN"),
        true => format!("NaN({bits:#x})"),
        false => format!("{minus}inf"),
    }
}

impl Argument<'_> {
    /// Of a floating-point number that is none.
    pub fn no_number(&self) -> Option<String> {
        let of = |value: f32, shift: u32| {
            let (bits, usual, sign) = (value.to_bits() >> shift, 0x7fc0_0000u32 >> shift, 1u32 << (31 - shift));
            (!value.is_finite()).then(|| not_finite(value.into(), bits.into(), usual.into(), sign.into()))
        };
        match *self {
            // Its fraction is that of a longer one without 13 bits, its exponent has 3 bits fewer.
            Argument::Half(value) if !value.is_finite() => {
                let bits = value.to_bits();
                let own = (bits >> 16 & 0x8000) | 0x7c00 | (bits >> 13 & 0x3ff);
                Some(not_finite(value.into(), own.into(), 0x7e00, 0x8000))
            }
            Argument::Brain(value) => of(value, 16),
            Argument::Single(value) => of(value, 0),
            Argument::Double(value) if !value.is_finite() => {
                Some(not_finite(value, value.to_bits(), 0x7ff8 << 48, 1 << 63))
            }
            _ => None,
        }
    }
}

struct ArgumentText<'y> {
    argument: &'y Argument<'y>,
    objects: &'y Objects,
}

impl Display for ArgumentText<'_> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        self.argument.write(f, self.objects)
    }
}

/// Bytes of a structure that are shown.
const SHOWN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::objects::Range;

    #[track_caller]
    fn is(form: impl Into<Option<Form>>, bytes: &[u8], wanted: &str) {
        let declared = form.into().map(|form| Declared { name: String::new(), form });
        let mut objects = Objects::default();
        objects.know_range(Range { label: "mem", number: 3, base: 0x7f00_0000_0000, len: 0x100 });
        let shown = Argument::decode(bytes, declared.as_ref(), &objects).text(&objects).to_string();
        assert_eq!(shown, wanted, "{form:x?} {bytes:x?}", form = declared.map(|declared| declared.form));
    }

    #[test]
    fn floats_are_what_they_are() {
        let single = |bits: u32| bits.to_le_bytes();
        let float = Form::Numbers(Number::Float, 4, 1);
        for (bits, wanted) in [
            (0x7fc0_0000, "NaN"),
            (0xffc0_0000, "-NaN"),
            (0x7fff_ffff, "NaN(0x7fffffff)"),
            (0x7f80_0000, "inf"),
            (0xff80_0000, "-inf"),
            (0x8000_0000, "-0.0f"),
            (714, "1e-42f"),
            (0x3f80_0000, "1.0f"),
            (0x7f7f_ffff, "3.4028235e38f"),
        ] {
            is(float, &single(bits), wanted);
        }
        let double = Form::Numbers(Number::Float, 8, 1);
        is(double, &f64::NAN.to_le_bytes(), "NaN");
        is(double, &f64::NEG_INFINITY.to_le_bytes(), "-inf");
        is(double, &(-0.0f64).to_le_bytes(), "-0.0");
        is(double, &5e-324f64.to_le_bytes(), "5e-324");
    }

    #[test]
    fn short_floats() {
        let (half, brain) = (Form::Numbers(Number::Float, 2, 1), Form::Numbers(Number::Brain, 2, 1));
        for (bits, wanted) in [
            (0x3c00u16, "1.0f16"),
            (0xc000, "-2.0f16"),
            (0x7bff, "65504.0f16"),
            (0x0001, "5.9604645e-8f16"),
            (0x83ff, "-6.097555e-5f16"),
            (0x0400, "6.1035156e-5f16"),
            (0x8000, "-0.0f16"),
            (0x7c00, "inf"),
            (0xfc00, "-inf"),
            (0x7e00, "NaN"),
            (0xfe00, "-NaN"),
            (0x7c01, "NaN(0x7c01)"),
            (0x7fff, "NaN(0x7fff)"),
        ] {
            is(half, &bits.to_le_bytes(), wanted);
        }
        for (bits, wanted) in [
            (0x3f80u16, "1.0bf16"),
            (0x0001, "9.1835e-41bf16"),
            (0xff80, "-inf"),
            (0x7fc0, "NaN"),
            (0x7fff, "NaN(0x7fff)"),
        ] {
            is(brain, &bits.to_le_bytes(), wanted);
        }
    }

    #[test]
    fn integers_have_signs_or_none() {
        let of = |number, size| Form::Numbers(number, size, 1);
        is(of(Number::Unsigned, 4), &(1u32 << 30).to_le_bytes(), "1073741824");
        is(of(Number::Unsigned, 4), &3_000_000_000u32.to_le_bytes(), "3000000000");
        is(of(Number::Signed, 4), &(-1i32).to_le_bytes(), "-1");
        is(of(Number::Signed, 1), &[0xff], "-1");
        is(of(Number::Unsigned, 1), &[0xff], "255");
        is(of(Number::Signed, 8), &i64::MIN.to_le_bytes(), "-9223372036854775808");
        is(of(Number::Unsigned, 8), &u64::MAX.to_le_bytes(), "18446744073709551615");
        is(of(Number::Unsigned, 8), &0x7f00_0000_0010u64.to_le_bytes(), "0x7f0000000010(mem#3+0x10)");
        is(Form::Bool, &[1], "true");
        is(Form::Bool, &[2], "2");
    }

    #[test]
    fn addresses_and_structures() {
        is(Form::Pointer, &[0; 8], "NULL");
        is(Form::Pointer, &0x7f00_0000_0000u64.to_le_bytes(), "0x7f0000000000(mem#3)");
        is(Form::Word, &7u64.to_le_bytes(), "7");
        is(Form::Word, &0x12_3456_7000u64.to_le_bytes(), "0x1234567000");
        let pair: Vec<u8> = [1f32, f32::NAN].iter().flat_map(|value| value.to_le_bytes()).collect();
        is(Form::Numbers(Number::Float, 4, 2), &pair, "{1.0f, NaN}");
        is(Form::Bytes, b"text", "<4 bytes 74657874>");
        is(Form::Bytes, &[1; 24], "<24 bytes 01010101 01010101 01010101 01010101 01010101 01010101>");
    }

    #[test]
    fn bits_of_no_type_say_how_many() {
        is(None, &0x3f80_0000u32.to_le_bytes(), "0x3f800000 (4 B)");
        is(None, &[7], "0x7 (1 B)");
        is(None, &0x7f00_0000_0010u64.to_le_bytes(), "0x7f0000000010(mem#3+0x10)");
        is(None, &[1, 2, 3], "<3 bytes 010203>");
    }
}
