//! `--verify`, and the text of a difference in copied bytes.

use replayer::{Elements, Extent, Float, Tolerance};
use std::io::{Result, Write};
use std::str::FromStr;

/// `--verify`
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verify {
    Exact,
    Within(Tolerance),
}

impl FromStr for Verify {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Verify, String> {
        const FORMS: &str = "expected exact, or RTOL,ATOL[,TYPE] with a type of f16, bf16, f32, f64";
        if text == "exact" {
            return Ok(Verify::Exact);
        }
        let mut parts = text.split(',').map(str::trim);
        let mut number = || match parts.next().and_then(|part| part.parse::<f64>().ok()) {
            Some(number) if number >= 0.0 && number.is_finite() => Ok(number),
            _ => Err(FORMS.to_owned()),
        };
        let (relative, absolute) = (number()?, number()?);
        let float = match parts.next() {
            None => Float::default(),
            Some(name) => Float::NAMES.iter().find(|(known, _)| *known == name).ok_or(FORMS)?.1,
        };
        match parts.next() {
            None => Ok(Verify::Within(Tolerance { relative, absolute, float })),
            Some(_) => Err(FORMS.into()),
        }
    }
}

pub(super) fn text(out: &mut impl Write, extent: &Extent) -> Result<()> {
    if let Some(bytes) = extent.bytes {
        writeln!(out, "  {bytes} of {} bytes differ", extent.of)?;
    }
    if let Some(Elements { float, differing, of, first, largest_absolute, largest_relative }) = &extent.elements {
        let float = float.name();
        writeln!(out, "  as {float}: {differing} of {of} elements differ, the first is element {first}")?;
        writeln!(out, "  as {float}: the largest difference is {largest_absolute:e}, relative {largest_relative:e}")?;
    }
    let Some(fill) = &extent.fill else { return Ok(()) };
    let byte = format!("{:#04x}", fill.byte);
    match (fill.never_written, extent.bytes) {
        (true, Some(_)) => writeln!(
            out,
            "  all bytes that differ hold the fill {byte}: never written, the program read uninitialised memory"
        ),
        (false, Some(bytes)) => {
            writeln!(out, "  {} of the {bytes} bytes that differ hold the fill {byte}", fill.bytes)
        }
        (true, None) => writeln!(
            out,
            "  all {} bytes hold the fill {byte}: never written, the program read uninitialised memory",
            extent.of
        ),
        (false, None) => writeln!(
            out,
            "  {} of {} bytes hold the fill {byte}; record --data=all to see which bytes differ",
            fill.bytes, extent.of
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerances() {
        assert_eq!("exact".parse(), Ok(Verify::Exact));
        let within = |relative, absolute, float| Ok(Verify::Within(Tolerance { relative, absolute, float }));
        assert_eq!("1e-3,0".parse(), within(1e-3, 0.0, Float::F32));
        assert_eq!("0, 1.5, bf16".parse(), within(0.0, 1.5, Float::Bf16));
        for wrong in ["", "1", "-1,0", "1,nan", "inf,0", "1,1,int", "1,1,f32,2"] {
            assert!(wrong.parse::<Verify>().is_err(), "{wrong}");
        }
    }
}
