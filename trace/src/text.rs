//! Values as text: symbolic, with objects by their names.

use crate::api::types::{Enum, Kind};
use crate::argument::Argument;
use crate::call::Content;
use crate::objects::{Objects, Range};
use crate::value::Value;
use std::borrow::Cow;
use std::fmt::{self, Display, Formatter, Write};

/// A value as `dump` writes it.
pub struct Text<'x, 'a>(pub &'x Value<'a>, pub &'x Objects);

/// Elements of a list that are shown.
const SHOWN: usize = 32;
/// Bytes without structure that are shown.
const BYTES: usize = 16;

impl Display for Text<'_, '_> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let Text(value, objects) = *self;
        match value {
            Value::Null => f.write_str("NULL"),
            Value::Unsigned(n) => write!(f, "{n}"),
            Value::Signed(n) => write!(f, "{n}"),
            Value::Float(x) => write!(f, "{x:?}"),
            Value::Symbol(names, value) => f.write_str(&symbol(names, *value)),
            Value::Bits(names, value) => f.write_str(&bits(names, *value)),
            &Value::Handle { kind, value, .. } => f.write_str(&handle(kind, value, objects)),
            &Value::Address { value, .. } => address(f, value, objects),
            Value::Pointer(at) => write!(f, "{at:#x}"),
            Value::Result(_) => f.write_char('&'),
            Value::Text(text) => write!(f, "\"{}\"", escaped(text)),
            Value::Bytes(all) => bytes(f, all),
            &Value::Payload { len, pieces, content, missing, .. } => payload(f, len, pieces, content, missing),
            Value::List(all) => {
                f.write_char('[')?;
                separated(f, all.iter().take(SHOWN).map(|v| Text(v, objects)))?;
                if all.len() > SHOWN {
                    write!(f, ", ... {} more", all.len() - SHOWN)?;
                }
                f.write_char(']')
            }
            Value::Struct(fields) => {
                f.write_char('{')?;
                for (index, (name, value)) in fields.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{name}={}", Text(value, objects))?;
                }
                f.write_char('}')
            }
            Value::Launch { kernel, arguments, given } => {
                write!(f, "{}(", plain(kernel))?;
                separated(f, arguments.iter().map(|v| Text(v, objects)))?;
                match given.note() {
                    None => f.write_char(')'),
                    Some(note) if arguments.is_empty() => write!(f, "<{note}>)"),
                    Some(note) => write!(f, "; {note})"),
                }
            }
            Value::NotGiven => f.write_str("<not given>"),
            Value::Argument { bytes, of } => {
                write!(f, "{}", Argument::of(bytes, of.declared(), objects).text(objects))
            }
            Value::Options(pairs) => {
                f.write_char('[')?;
                for (index, (code, value)) in pairs.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{}={}", Text(code, objects), Text(value, objects))?;
                }
                f.write_char(']')
            }
            Value::Unrecorded(at) => write!(f, "{at:#x}<not recorded>"),
        }
    }
}

pub(crate) fn separated(f: &mut Formatter, all: impl Iterator<Item = impl Display>) -> fmt::Result {
    for (index, one) in all.enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        write!(f, "{comma}{one}")?;
    }
    Ok(())
}

/// The name of an enumeration's value; the number if it has none.
pub fn symbol(names: &Enum, value: i64) -> String {
    // The table holds values beyond i32 as the header writes them: positive.
    let name = names.name_of(value).or_else(|| names.name_of(value & 0xffff_ffff));
    name.map_or_else(|| format!("{value}"), str::to_string)
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
    match (kind, value) {
        (Kind::Device, ordinal) => return format!("{}#{}", kind.label(), ordinal as i32),
        (_, 0) => return "NULL".into(),
        (Kind::Stream, 1) => return "CU_STREAM_LEGACY".into(),
        (Kind::Stream, 2) => return "CU_STREAM_PER_THREAD".into(),
        _ => {}
    }
    match objects.object(kind, value) {
        Some((number, None)) => format!("{}#{number}", kind.label()),
        Some((number, Some(name))) => format!("{}#{number}:{}", kind.label(), plain(name)),
        None => match ended_handle(kind, value, objects) {
            Some(was) => format!("{}@{value:#x}({was})", kind.label()),
            None => format!("{}@{value:#x}", kind.label()),
        },
    }
}

/// What a value names that a call has ended: `was stream#1, destroyed by call 9`.
pub fn ended(value: &Value, objects: &Objects) -> Option<String> {
    match value {
        &Value::Handle { kind, value, .. } => ended_handle(kind, value, objects),
        &Value::Address { value, .. } => ended_memory(value, objects),
        Value::Argument { bytes, of } => match Argument::of(bytes, of.declared(), objects) {
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
    let how = if ended.what.label == "host" { "given up" } else { "freed" };
    Some(format!("was {}, {how} by call {}", Within(ended.what, value), ended.by))
}

/// `mem#2+0x40`
struct Within(Range, u64);

impl Display for Within {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let Within(Range { label, number, base, .. }, value) = *self;
        match value - base {
            0 => write!(f, "{label}#{number}"),
            offset => write!(f, "{label}#{number}+{offset:#x}"),
        }
    }
}

pub(crate) fn address(f: &mut Formatter, value: u64, objects: &Objects) -> fmt::Result {
    if value == 0 {
        return f.write_str("NULL");
    }
    write!(f, "{value:#x}")?;
    match (objects.range(value), ended_memory(value, objects)) {
        (Some(range), _) => write!(f, "({})", Within(range, value)),
        (None, Some(was)) => write!(f, "({was})"),
        (None, None) => Ok(()),
    }
}

fn bytes(f: &mut Formatter, bytes: &[u8]) -> fmt::Result {
    let text = bytes.split(|b| *b == 0).next().unwrap_or(&[]);
    let printable = text.iter().all(|b| (0x20..0x7f).contains(b)) && bytes[text.len()..].iter().all(|b| *b == 0);
    if printable && text.len() > 1 {
        return write!(f, "\"{}\"", escaped(&String::from_utf8_lossy(text)));
    }
    unstructured(f, bytes, BYTES)
}

/// In hexadecimal, no more than `shown` of them.
pub(crate) fn unstructured(f: &mut Formatter, bytes: &[u8], shown: usize) -> fmt::Result {
    write!(f, "<{} bytes", bytes.len())?;
    for (index, byte) in bytes.iter().take(shown).enumerate() {
        let space = if index % 4 == 0 { " " } else { "" };
        write!(f, "{space}{byte:02x}")?;
    }
    f.write_str(if bytes.len() > shown { "..>" } else { ">" })
}

fn payload(f: &mut Formatter, len: u64, pieces: u64, content: Content, missing: bool) -> fmt::Result {
    let more = if pieces > 1 { format!(" and {} more,", pieces - 1) } else { String::new() };
    match content {
        Content::Blob(hash) if missing => write!(f, "<missing blob {:.8}..{more} {len} bytes>", hash.to_string()),
        Content::Bytes(bytes) => unstructured(f, bytes, BYTES),
        Content::Blob(hash) => write!(f, "<blob {:.8}..{more} {len} bytes>", hash.to_string()),
        Content::Hash { hash, late } => {
            write!(f, "<hash {:.8}..{more} {len} bytes{}>", hash.to_string(), if late { ", late" } else { "" })
        }
        Content::Arguments { count, .. } => write!(f, "<{count} arguments>"),
        Content::Lost => write!(f, "<{len} bytes, not recorded>"),
        Content::Pending => write!(f, "<{len} bytes, not seen to arrive>"),
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
    if !text.contains(char::is_control) {
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
