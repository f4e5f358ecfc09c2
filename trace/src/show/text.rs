//! Values as symbolic text, with objects by their names.

use crate::api::types::{Enum, Kind};
use crate::base::digits::{decimal, hexadecimal, signed};
use crate::model::objects::{Objects, Range};
use crate::model::value::Value;
use crate::read::call::Content;
use crate::read::references::Lacking;
use crate::show::argument::Argument;
use std::borrow::Cow;
use std::fmt::{self, Display, Formatter, Write};

/// A value in the form in which `dump` prints it.
pub struct Text<'x, 'a>(pub &'x Value<'a>, pub &'x Objects);

/// Elements of a list that are shown.
const SHOWN: usize = 32;
/// Bytes without structure that are shown.
const BYTES: usize = 16;

impl Display for Text<'_, '_> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write_value(f, self.0, self.1)
    }
}

/// Writes a value as [`Text`] shows it. Into a string it takes a third of the time.
pub fn write_value<W: Write>(out: &mut W, value: &Value, objects: &Objects) -> fmt::Result {
    match value {
        Value::Null => out.write_str("NULL"),
        Value::Unsigned(n) => decimal(out, *n),
        Value::Signed(n) => signed(out, *n),
        Value::Float(x) => write!(out, "{x:?}"),
        Value::Symbol(names, value) => put_symbol(out, names, *value),
        Value::Bits(names, value) => out.write_str(&bits(names, *value)),
        &Value::Handle { kind, value, .. } => put_handle(out, kind, value, objects),
        &Value::Address { value, .. } => address(out, value, objects),
        Value::Pointer(at) => hexadecimal(out, *at),
        Value::Result(_) => out.write_char('&'),
        Value::Text(text) => write!(out, "\"{}\"", escaped(text)),
        Value::Bytes(all) => bytes(out, all),
        &Value::Payload { len, pieces, content, missing, .. } => payload(out, len, pieces, content, missing),
        Value::List(all) => {
            out.write_char('[')?;
            separated(out, all.iter().take(SHOWN), |out, value| write_value(out, value, objects))?;
            if all.len() > SHOWN {
                write!(out, ", ... {} more", all.len() - SHOWN)?;
            }
            out.write_char(']')
        }
        Value::Struct(fields) => {
            out.write_char('{')?;
            separated(out, fields, |out, (name, value)| write_named(out, name, value, objects))?;
            out.write_char('}')
        }
        Value::Launch { kernel, arguments, given } => {
            out.write_str(&plain(kernel))?;
            out.write_char('(')?;
            separated(out, arguments, |out, value| write_value(out, value, objects))?;
            match given.note() {
                None => out.write_char(')'),
                Some(note) if arguments.is_empty() => write!(out, "<{note}>)"),
                Some(note) => write!(out, "; {note})"),
            }
        }
        Value::NotGiven => out.write_str("<not given>"),
        Value::Argument { bytes, of } => Argument::decode(bytes, of.declared(), objects).write(out, objects),
        Value::Options(pairs) => {
            out.write_char('[')?;
            separated(out, pairs, |out, (code, value)| {
                write_value(out, code, objects)?;
                out.write_char('=')?;
                write_value(out, value, objects)
            })?;
            out.write_char(']')
        }
        Value::Unrecorded(at) => write!(out, "{at:#x}<not recorded>"),
    }
}

/// `name=value`
pub fn write_named<W: Write>(out: &mut W, name: &str, value: &Value, objects: &Objects) -> fmt::Result {
    out.write_str(name)?;
    out.write_char('=')?;
    write_value(out, value, objects)
}

/// With commas between them.
pub(crate) fn separated<W: Write, T>(
    out: &mut W,
    all: impl IntoIterator<Item = T>,
    write: impl Fn(&mut W, T) -> fmt::Result,
) -> fmt::Result {
    for (index, one) in all.into_iter().enumerate() {
        if index > 0 {
            out.write_str(", ")?;
        }
        write(out, one)?;
    }
    Ok(())
}

/// The name of an enumeration's value; the number if it has none.
pub fn symbol(names: &Enum, value: i64) -> String {
    let mut out = String::new();
    put_symbol(&mut out, names, value).expect("into memory");
    out
}

/// Writes the header's name of a value, or the number if it has none.
pub fn put_symbol(out: &mut impl Write, names: &Enum, value: i64) -> fmt::Result {
    // The table holds values beyond i32 as the header writes them: positive.
    match names.name_of(value).or_else(|| names.name_of(value & 0xffff_ffff)) {
        Some(name) => out.write_str(name),
        None => signed(out, value),
    }
}

/// The names of the bits set, joined by `|`; bits without a name in hexadecimal.
pub fn bits(names: &Enum, value: u64) -> String {
    if let Some(name) = names.name_of(value as i64) {
        return name.to_string();
    }
    let (mut rest, mut all) = (value, Vec::new());
    for (name, bit) in names.values {
        let bit = *bit as u64;
        if bit.is_power_of_two() && rest & bit != 0 {
            rest &= !bit;
            all.push(name.to_string());
        }
    }
    if rest != 0 || all.is_empty() {
        all.push(if rest == 0 { "0".into() } else { format!("{rest:#x}") });
    }
    all.join("|")
}

/// `stream#3`, or what the value means where no object stands for it.
pub fn handle(kind: Kind, value: u64, objects: &Objects) -> String {
    let mut out = String::new();
    put_handle(&mut out, kind, value, objects).expect("into memory");
    out
}

fn put_handle(out: &mut impl Write, kind: Kind, value: u64, objects: &Objects) -> fmt::Result {
    match (kind, value) {
        (Kind::Device, ordinal) => return write!(out, "{}#{}", kind.label(), ordinal as i32),
        (_, 0) => return out.write_str("NULL"),
        (Kind::Stream, 1) => return out.write_str("CU_STREAM_LEGACY"),
        (Kind::Stream, 2) => return out.write_str("CU_STREAM_PER_THREAD"),
        _ => {}
    }
    out.write_str(kind.label())?;
    let Some((number, name)) = objects.object(kind, value) else {
        out.write_char('@')?;
        hexadecimal(out, value)?;
        return match ended_handle(kind, value, objects) {
            Some(was) => write!(out, "({was})"),
            None => Ok(()),
        };
    };
    out.write_char('#')?;
    decimal(out, number)?;
    let Some(name) = name else { return Ok(()) };
    out.write_char(':')?;
    out.write_str(&plain(name))
}

/// What a value names that a call has ended: `was stream#1, destroyed by call 9`.
pub fn ended(value: &Value, objects: &Objects) -> Option<String> {
    match value {
        &Value::Handle { kind, value, .. } => ended_handle(kind, value, objects),
        &Value::Address { value, .. } => ended_memory(value, objects),
        Value::Argument { bytes, of } => match Argument::decode(bytes, of.declared(), objects) {
            Argument::Address(value) => ended_memory(value, objects),
            _ => None,
        },
        _ => None,
    }
}

fn ended_handle(kind: Kind, value: u64, objects: &Objects) -> Option<String> {
    let ended = objects.ended(kind, value)?;
    Some(format!("was {}#{}, destroyed by call {}", kind.label(), ended.what, ended.by))
}

fn ended_memory(value: u64, objects: &Objects) -> Option<String> {
    let ended = objects.ended_range(value)?;
    // Memory that was only registered is there all the same.
    let how = if ended.what.label == "host" { "released" } else { "freed" };
    Some(format!("was {}, {how} by call {}", RangeOffset(ended.what, value), ended.by))
}

/// `mem#2+0x40`
#[derive(Clone, Copy)]
struct RangeOffset(Range, u64);

impl RangeOffset {
    fn write(self, out: &mut impl Write) -> fmt::Result {
        let RangeOffset(Range { label, number, base, .. }, value) = self;
        out.write_str(label)?;
        out.write_char('#')?;
        decimal(out, number)?;
        if value == base {
            return Ok(());
        }
        out.write_char('+')?;
        hexadecimal(out, value - base)
    }
}

impl Display for RangeOffset {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        self.write(f)
    }
}

pub(crate) fn address(out: &mut impl Write, value: u64, objects: &Objects) -> fmt::Result {
    if value == 0 {
        return out.write_str("NULL");
    }
    hexadecimal(out, value)?;
    match objects.range(value) {
        Some(range) => {
            out.write_char('(')?;
            RangeOffset(range, value).write(out)?;
            out.write_char(')')
        }
        None => match ended_memory(value, objects) {
            Some(was) => write!(out, "({was})"),
            None => Ok(()),
        },
    }
}

fn bytes(f: &mut impl Write, bytes: &[u8]) -> fmt::Result {
    let text = bytes.split(|b| *b == 0).next().unwrap_or(&[]);
    let printable = text.iter().all(|b| (0x20..0x7f).contains(b)) && bytes[text.len()..].iter().all(|b| *b == 0);
    if printable && text.len() > 1 {
        return write!(f, "\"{}\"", escaped(&String::from_utf8_lossy(text)));
    }
    unstructured(f, bytes, BYTES)
}

/// In hexadecimal, no more than `shown` of them.
pub(crate) fn unstructured(f: &mut impl Write, bytes: &[u8], shown: usize) -> fmt::Result {
    write!(f, "<{} bytes", bytes.len())?;
    for (index, byte) in bytes.iter().take(shown).enumerate() {
        let space = if index % 4 == 0 { " " } else { "" };
        write!(f, "{space}{byte:02x}")?;
    }
    f.write_str(if bytes.len() > shown { "..>" } else { ">" })
}

fn payload(f: &mut impl Write, len: u64, pieces: u64, content: Content, missing: Option<Lacking>) -> fmt::Result {
    let more = if pieces > 1 { format!(" and {} more,", pieces - 1) } else { String::new() };
    match content {
        Content::Blob(hash) if missing == Some(Lacking::LeftOut) => {
            write!(f, "<blob {:.8}..{more} {len} bytes, left out>", hash.to_string())
        }
        Content::Blob(hash) if missing.is_some() => {
            write!(f, "<missing blob {:.8}..{more} {len} bytes>", hash.to_string())
        }
        Content::Bytes(bytes) => unstructured(f, bytes, BYTES),
        Content::Blob(hash) => write!(f, "<blob {:.8}..{more} {len} bytes>", hash.to_string()),
        Content::Hash { hash, late } => {
            write!(f, "<hash {:.8}..{more} {len} bytes{}>", hash.to_string(), if late { ", late" } else { "" })
        }
        Content::Arguments { count, .. } => write!(f, "<{count} arguments>"),
        Content::Lost if missing == Some(Lacking::LeftOut) => write!(f, "<{len} bytes, left out>"),
        Content::Lost => write!(f, "<{len} bytes, not recorded>"),
        Content::Pending => write!(f, "<{len} bytes, not known to have completed>"),
    }
}

/// Text as a value of a line of comma-separated ones, by RFC 4180.
pub fn csv(text: &str) -> Cow<'_, str> {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")).into(),
        false => text.into(),
    }
}

/// Text in one line that no terminal obeys: control characters as escapes. Names in a trace are anybody's.
pub fn plain(text: &str) -> Cow<'_, str> {
    let is_plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    if is_plain || !text.contains(char::is_control) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out.into()
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}
