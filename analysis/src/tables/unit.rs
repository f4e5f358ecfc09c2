//! `--timeunit`: times in another unit than nanoseconds, in the columns whose names state their unit.

use super::table::{Cell, Column};
use std::borrow::Cow;
use std::str::FromStr;

/// A unit of times in tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// `ns`, as whole numbers.
    Nanoseconds,
    /// `us`.
    Microseconds,
    /// `ms`.
    Milliseconds,
    /// `s`.
    Seconds,
}

impl FromStr for Unit {
    type Err = String;

    /// A unit, or what no other begins with, as Nsight Systems takes it.
    fn from_str(text: &str) -> Result<Unit, String> {
        let long = |prefix: &str| !text.is_empty() && prefix.starts_with(text);
        match text {
            "ns" | "nsec" => Ok(Unit::Nanoseconds),
            "us" | "usec" => Ok(Unit::Microseconds),
            "ms" | "msec" => Ok(Unit::Milliseconds),
            "s" | "sec" => Ok(Unit::Seconds),
            _ if long("nanoseconds") => Ok(Unit::Nanoseconds),
            _ if long("microseconds") && text.len() > 2 => Ok(Unit::Microseconds),
            _ if long("milliseconds") && text.len() > 2 => Ok(Unit::Milliseconds),
            _ if long("seconds") => Ok(Unit::Seconds),
            _ => Err("expected nanoseconds, microseconds, milliseconds or seconds (ns, us, ms, s)".into()),
        }
    }
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "ns",
            Unit::Microseconds => "us",
            Unit::Milliseconds => "ms",
            Unit::Seconds => "s",
        }
    }

    /// A nanosecond has as many digits after the point.
    fn digits(self) -> usize {
        match self {
            Unit::Nanoseconds => 0,
            Unit::Microseconds => 3,
            Unit::Milliseconds => 6,
            Unit::Seconds => 9,
        }
    }

    fn concerns(column: &Column) -> bool {
        column.key.ends_with("(ns)") || column.key.ends_with("_ns")
    }

    /// A name of this column in this unit, of its heading or its key.
    pub fn column_name(self, column: &Column, name: &'static str) -> Cow<'static, str> {
        match (name.strip_suffix("(ns)"), name.strip_suffix("_ns")) {
            (Some(rest), _) => format!("{rest}({})", self.name()).into(),
            (_, Some(rest)) => format!("{rest}_{}", self.name()).into(),
            // A short heading leaves the unit to the values.
            _ if Unit::concerns(column) => format!("{name} ({})", self.name()).into(),
            _ => name.into(),
        }
    }

    /// Converts the cell if it is a time; other cells are copied.
    pub fn cell(self, column: &Column, cell: &Cell) -> Cell {
        let nanoseconds = match *cell {
            Cell::Time(ns) | Cell::Nanoseconds(ns) if self == Unit::Nanoseconds => return Cell::Nanoseconds(ns),
            Cell::Time(ns) | Cell::Nanoseconds(ns) => ns as f64,
            Cell::Real(ns) | Cell::Fine(ns) => ns,
            _ => return cell.clone(),
        };
        match Unit::concerns(column) && self != Unit::Nanoseconds {
            true => Cell::Decimal(nanoseconds / 10f64.powi(self.digits() as i32), self.digits()),
            false => cell.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::table::{column, same};

    #[test]
    fn units_are_known_by_their_beginnings() {
        let units = ["ns", "nano", "u", "micro", "mi", "milli", "s", "sec", "seconds"].map(str::parse::<Unit>);
        use Unit::*;
        let wrong = || Err(wrong_unit());
        let of = [
            Ok(Nanoseconds),
            Ok(Nanoseconds),
            wrong(),
            Ok(Microseconds),
            wrong(),
            Ok(Milliseconds),
            Ok(Seconds),
            Ok(Seconds),
            Ok(Seconds),
        ];
        assert_eq!(units, of);
    }

    fn wrong_unit() -> String {
        "x".parse::<Unit>().expect_err("no unit")
    }

    #[test]
    fn names_and_values_are_in_the_unit() {
        let (theirs, ours, other) = (same("Avg (ns)"), column("longest", "longest_ns"), same("Instances"));
        let unit = Unit::Milliseconds;
        assert_eq!(unit.column_name(&theirs, theirs.key), "Avg (ms)");
        assert_eq!(
            (unit.column_name(&ours, ours.heading), unit.column_name(&ours, ours.key)),
            ("longest (ms)".into(), "longest_ms".into())
        );
        assert_eq!(unit.cell(&theirs, &Cell::Real(1_500_000.5)), Cell::Decimal(1.5000005, 6));
        assert_eq!(unit.cell(&ours, &Cell::Time(250)), Cell::Decimal(0.00025, 6));
        assert_eq!(unit.cell(&other, &Cell::Count(7)), Cell::Count(7));
    }
}
