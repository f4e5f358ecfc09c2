//! Decoded values as JSON. Addresses and handles are strings, because many readers lose digits of numbers
//! beyond 2^53. NULL is null, whatever its type.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::json;
use serde_json::ser::Formatter;
use std::io::{self, Write};
use trace::api::types::Kind;
use trace::file::record::Ended;
use trace::model::objects::Objects;
use trace::model::value::{ArgumentPassing, Value};
use trace::read::call::Content;
use trace::show::argument::Argument;
use trace::show::text::{Text, bits, symbol};
use trace::{Lacking, Trace};

/// Writes a value in one line.
pub fn write(out: impl Write, value: &(impl Serialize + ?Sized)) -> serde_json::Result<()> {
    value.serialize(&mut serde_json::Serializer::with_formatter(out, Compact))
}

/// The same in several, for people.
pub fn write_pretty(out: impl Write, value: &impl Serialize) -> serde_json::Result<()> {
    serde_json::to_writer_pretty(Escaped(out), value)
}

/// Searches the strings alone: of a call's line most writes are of a byte or two between them.
struct Compact;

impl Formatter for Compact {
    fn write_string_fragment<W: Write + ?Sized>(&mut self, out: &mut W, text: &str) -> io::Result<()> {
        if text.bytes().any(|byte| matches!(byte, 0x7f | 0xc2)) {
            return Escaped(out).write_all(text.as_bytes());
        }
        out.write_all(text.as_bytes())
    }
}

/// In one line, as a text.
pub fn text(value: &(impl Serialize + ?Sized)) -> serde_json::Result<String> {
    let mut out = Vec::new();
    write(&mut out, value)?;
    Ok(String::from_utf8(out).expect("JSON is UTF-8"))
}

/// The control characters that JSON may have as they are, and some terminals obey (U+007F to U+009F), as
/// escapes. They stand in strings alone, and the serializer never writes a part of a character.
struct Escaped<W>(W);

impl<W: Write> Write for Escaped<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while let Some(at) = memchr::memchr2(0x7f, 0xc2, rest) {
            let (before, from) = rest.split_at(at);
            self.0.write_all(before)?;
            let (code, len) = match from {
                [0xc2, code @ 0x80..=0x9f, ..] => (Some(*code), 2),
                [0xc2, ..] => (None, 1),
                _ => (Some(0x7f), 1),
            };
            match code {
                Some(code) => write!(self.0, "\\u{code:04x}")?,
                None => self.0.write_all(&from[..len])?,
            }
            rest = &from[len..];
        }
        self.0.write_all(rest)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// What of the file cannot be read.
pub fn damage(trace: &Trace) -> serde_json::Value {
    trace.damage.iter().map(|damage| json!({ "offset": damage.offset, "what": damage.what })).collect()
}

/// A decoded argument, serialised with the names of its objects.
pub struct Json<'x, 'a>(pub &'x Value<'a>, pub &'x Objects);

impl Serialize for Json<'_, '_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Json(value, objects) = *self;
        match value {
            Value::Null | Value::NotGiven => to.serialize_none(),
            Value::Unsigned(n) => to.serialize_u64(*n),
            Value::Signed(n) => to.serialize_i64(*n),
            Value::Float(x) => to.serialize_f64(*x),
            Value::Symbol(names, value) => match symbol(names, *value) {
                name if name == value.to_string() => to.serialize_i64(*value),
                name => to.serialize_str(&name),
            },
            Value::Bits(names, value) => match bits(names, *value) {
                none if none == "0" => to.serialize_u64(0),
                names => to.serialize_str(&names),
            },
            Value::Pointer(0) => to.serialize_none(),
            Value::Pointer(at) | Value::Result(at) | Value::Unrecorded(at) => to.serialize_str(&format!("{at:#x}")),
            Value::Text(text) => to.serialize_str(text),
            Value::List(all) => Elements(all, objects).serialize(to),
            Value::Struct(fields) => Fields(fields, objects).serialize(to),
            Value::Options(pairs) => {
                to.collect_map(pairs.iter().map(|(code, v)| (Text(code, objects).to_string(), Json(v, objects))))
            }
            Value::Launch { kernel, arguments, given } => {
                let mut map = to.serialize_map(None)?;
                map.serialize_entry("kernel", kernel)?;
                map.serialize_entry("arguments", &Elements(arguments, objects))?;
                map.serialize_entry("parameters", &arguments.iter().map(Parameter::from_value).collect::<Vec<_>>())?;
                match *given {
                    ArgumentPassing::Each => {}
                    ArgumentPassing::Packed { bytes, declared } => {
                        map.serialize_entry("given_bytes", &bytes)?;
                        map.serialize_entry("declared_bytes", &declared)?;
                    }
                    ArgumentPassing::Unread { parameters, why } => {
                        map.serialize_entry("parameter_count", &parameters)?;
                        map.serialize_entry("not_recorded", why)?;
                    }
                }
                map.end()
            }
            Value::Bytes(bytes) => {
                let mut map = to.serialize_map(Some(2))?;
                map.serialize_entry("bytes", &bytes.len())?;
                map.serialize_entry("hex", &hex(bytes))?;
                map.end()
            }
            Value::Payload { len, pieces, content, missing, .. } => payload(to, *len, *pieces, content, *missing),
            Value::Argument { bytes, of } => {
                ArgumentJson(&Argument::decode(bytes, of.declared(), objects), objects).serialize(to)
            }
            Value::Address { value: 0, .. } => to.serialize_none(),
            Value::Handle { kind, value: 0, .. } if *kind != Kind::Device => to.serialize_none(),
            Value::Handle { .. } | Value::Address { .. } => to.collect_str(&Text(value, objects)),
        }
    }
}

/// What an argument is by its kernel's declaration. What is no number of JSON's is text, as `dump` writes it.
struct ArgumentJson<'x>(&'x Argument<'x>, &'x Objects);

impl Serialize for ArgumentJson<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let ArgumentJson(argument, objects) = *self;
        if let Some(text) = argument.no_number() {
            return to.serialize_str(&text);
        }
        match argument {
            Argument::Null => to.serialize_none(),
            Argument::Bool(value) => to.serialize_bool(*value),
            Argument::Integer(value) => match u64::try_from(*value) {
                Ok(value) => to.serialize_u64(value),
                Err(_) => to.serialize_i64(*value as i64),
            },
            Argument::Half(value) | Argument::Brain(value) | Argument::Single(value) => to.serialize_f32(*value),
            Argument::Double(value) => to.serialize_f64(*value),
            Argument::List(all) => to.collect_seq(all.iter().map(|each| ArgumentJson(each, objects))),
            Argument::Bytes(bytes) => Json(&Value::Bytes((*bytes).into()), objects).serialize(to),
            Argument::Address(_) | Argument::Bits(_) => to.collect_str(&argument.text(objects)),
        }
    }
}

/// Beside an argument's value, its type and what was recorded.
#[derive(serde::Serialize)]
struct Parameter<'x> {
    /// As C++ or PTX spells it; null where neither tells.
    #[serde(rename = "type")]
    name: Option<&'x str>,
    size: Option<usize>,
    hex: Option<String>,
}

impl<'x> Parameter<'x> {
    fn from_value(argument: &'x Value) -> Parameter<'x> {
        match argument {
            Value::Argument { bytes, of } => {
                let name = of.declared().map(|declared| declared.name.as_str());
                Parameter { name, size: Some(bytes.len()), hex: Some(hex(bytes)) }
            }
            _ => Parameter { name: None, size: None, hex: None },
        }
    }
}

/// Parameters or fields by name.
pub struct Fields<'x, 'a>(pub &'x [(&'static str, Value<'a>)], pub &'x Objects);

impl Serialize for Fields<'_, '_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(name, value)| (name, Json(value, self.1))))
    }
}

struct Elements<'x, 'a>(&'x [Value<'a>], &'x Objects);

impl Serialize for Elements<'_, '_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.iter().map(|value| Json(value, self.1)))
    }
}

fn payload<S: Serializer>(
    to: S,
    len: u64,
    pieces: u64,
    content: &Content,
    missing: Option<Lacking>,
) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(None)?;
    map.serialize_entry("bytes", &len)?;
    if pieces > 1 {
        map.serialize_entry("pieces", &pieces)?;
    }
    match content {
        Content::Bytes(bytes) => map.serialize_entry("hex", &hex(bytes))?,
        Content::Blob(hash) => {
            map.serialize_entry("blob", &hash.to_string())?;
            if missing.is_some() {
                map.serialize_entry("missing", &true)?;
            }
        }
        Content::Hash { hash, late } => {
            map.serialize_entry("hash", &hash.to_string())?;
            map.serialize_entry("late", late)?;
        }
        Content::Arguments { count, .. } => map.serialize_entry("arguments", count)?,
        Content::Lost if missing == Some(Lacking::LeftOut) => {}
        Content::Lost => map.serialize_entry("lost", &true)?,
        Content::Pending => map.serialize_entry("pending", &true)?,
    }
    if missing == Some(Lacking::LeftOut) {
        map.serialize_entry("left_out", &true)?;
    }
    map.end()
}

/// Two lower-case digits for each byte, without a prefix.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut out, byte| {
        write!(out, "{byte:02x}").expect("writing to a string");
        out
    })
}

/// How a program ended; null where that is not known.
pub fn ended(trace: &Trace) -> serde_json::Value {
    trace.ended.map_or(serde_json::Value::Null, how_ended)
}

/// Exit status or signal, whichever ended the program, and both in words.
pub fn how_ended(ended: Ended) -> serde_json::Value {
    let is_signal = ended.signal != 0;
    json!({
        "status": (!is_signal).then_some(ended.status),
        "signal": is_signal.then_some(ended.signal),
        "text": ended.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let names = ["\u{9b}31m\u{7f}\u{1b}", "\u{e4}\u{a0}\u{80}\u{6838}\u{9f}", "\u{c2}\u{82}\u{2}"];
        let written = text(&names).expect("valid");
        assert!(!written.contains(char::is_control), "{written:?}");
        assert_eq!(serde_json::from_str::<[String; 3]>(&written).expect("JSON"), names);
        assert!(written.starts_with("[\"\\u009b31m\\u007f\\u001b\""), "{written}");
        let mut pretty = Vec::new();
        write_pretty(&mut pretty, &names).expect("valid");
        assert!(!String::from_utf8(pretty).expect("text").contains('\u{9b}'));
    }
}
