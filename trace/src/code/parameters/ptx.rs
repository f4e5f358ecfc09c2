//! PTX: the `.param` lists of `.entry` directives, as the PTX ISA describes them ("Kernel Function Parameter
//! Attributes").
//!
//! The text gives sizes and alignments. Offsets follow from these and from the place of the first parameter
//! in the device's constant bank: an alignment counts from the start of the bank.

use super::parameter::{Element, Kernels, MOST_BYTES, Number, Parameter, Unread};

/// Names longer than any compiler makes.
const NAME: usize = 1 << 16;

/// Where the first parameter lies in the constant bank, in bytes, if alignments count from its start. Seen in
/// what ptxas of 11.8 makes for 3.5 to 9.0, of 12.2 for 5.2 to 9.0, of 13.0 for 7.5 to 12.0.
fn bank(sm: u32) -> u32 {
    match sm {
        100.. => 0x380,
        90.. => 0x210,
        70.. => 0x160,
        _ => 0,
    }
}

/// All kernels, and whether each of them made sense.
pub(super) fn kernels(text: &[u8], sm: u32) -> Result<(Kernels, bool), Unread> {
    let text = text.split(|byte| *byte == 0).next().unwrap_or(text);
    let (mut kernels, mut whole, mut begun) = (Kernels::new(), true, false);
    let mut tokens = Tokens { text };
    while let Some(token) = tokens.next() {
        match token {
            b".version" => begun = true,
            b".entry" => match entry(&mut tokens, bank(sm)) {
                Some((name, parameters)) => {
                    // A name may stand twice: first declared, then defined, alike.
                    kernels.insert(String::from_utf8_lossy(name).into_owned(), parameters);
                }
                None => whole = false,
            },
            _ => {}
        }
    }
    if begun { Ok((kernels, whole)) } else { Err(Unread::Broken) }
}

/// A name, then maybe `( .param ..., .param ... )`.
fn entry<'a>(tokens: &mut Tokens<'a>, bank: u32) -> Option<(&'a [u8], Vec<Parameter>)> {
    let name = tokens.next().filter(|name| is_name(name))?;
    let mut all = Vec::new();
    let mut next = tokens.clone();
    if next.next()? != b"(" {
        return Some((name, all));
    }
    *tokens = next;
    let (mut end, mut declared) = (0u32, false);
    loop {
        match tokens.next()? {
            b")" if all.is_empty() => break,
            b".param" => {}
            _ => return None,
        }
        let Declared { size, alignment, pointer, number, element, last } = parameter(tokens)?;
        let offset = (bank + end).checked_next_multiple_of(alignment)? - bank;
        end = offset.checked_add(size).filter(|end| *end <= MOST_BYTES)?;
        declared |= pointer;
        let is_pointer = match () {
            () if pointer => Some(true),
            () if size < 8 => Some(false),
            () => number,
        };
        all.push(Parameter { offset, size, is_pointer, element: Some(element) });
        if last {
            break;
        }
    }
    // Compilers declare the pointers of a kernel or they do not: where none is, an integer may be one.
    if !declared {
        all.iter_mut().filter(|p| p.size == 8 && p.is_pointer == Some(false)).for_each(|p| p.is_pointer = None);
    }
    Some((name, all))
}

struct Declared {
    size: u32,
    alignment: u32,
    pointer: bool,
    /// Some(false): a plain number. None: bytes that may hold anything.
    number: Option<bool>,
    element: Element,
    /// The list ends behind it.
    last: bool,
}

/// What follows `.param`, up to the comma or parenthesis behind it.
fn parameter(tokens: &mut Tokens) -> Option<Declared> {
    let (mut element, mut vector, mut count, mut aligned) = (None, 1u32, 1u32, None);
    let (mut pointer, mut number, mut named) = (false, None, false);
    loop {
        match tokens.next()? {
            b".ptr" => pointer = true,
            // Behind `.ptr` it is the pointee's.
            b".align" => {
                let alignment = integer(tokens.next()?)?;
                if !pointer && alignment.is_power_of_two() && alignment <= MOST_BYTES {
                    aligned = Some(alignment);
                } else if !pointer {
                    return None;
                }
            }
            b".const" | b".global" | b".local" | b".shared" => {}
            b".v2" => vector = 2,
            b".v4" => vector = 4,
            b".v8" => vector = 8,
            token @ [b'.', ..] => {
                element = Some((width(&token[1..])?, fundamental(&token[1..])?));
                number = (!matches!(token, b".b8" | b".b64" | b".b128")).then_some(false);
            }
            b"[" => {
                count = integer(tokens.next()?).and_then(|n| count.checked_mul(n)).filter(|n| *n <= MOST_BYTES)?;
                if tokens.next()? != b"]" {
                    return None;
                }
                number = None;
            }
            end @ (b"," | b")") => {
                let (width, element) = element.filter(|_| named)?;
                let size = width.checked_mul(vector)?.checked_mul(count)?;
                let alignment = aligned.unwrap_or(0).max(width * vector);
                return Some(Declared { size, alignment, pointer, number, element, last: end == b")" });
            }
            name if !named && is_name(name) => named = true,
            _ => return None,
        }
    }
}

/// Bytes of a fundamental type.
fn width(name: &[u8]) -> Option<u32> {
    // References to textures, surfaces and samplers are handles.
    if matches!(name, b"texref" | b"surfref" | b"samplerref") {
        return Some(8);
    }
    let (kind, bits) = name.split_at_checked(name.iter().position(u8::is_ascii_digit)?)?;
    if !matches!(kind, b"b" | b"u" | b"s" | b"f" | b"bf" | b"e" | b"ue" | b"tf") {
        return None;
    }
    Some(match bits {
        b"8" | b"4m3" | b"5m2" | b"8m0" => 1,
        b"16" => 2,
        b"32" | b"16x2" => 4,
        b"64" => 8,
        b"128" => 16,
        _ => return None,
    })
}

/// The numbers of a type; of packed ones (`.f16x2`) each.
fn fundamental(name: &[u8]) -> Option<Element> {
    let (each, size) = match name.strip_suffix(b"x2") {
        Some(each) => (each, width(name)? / 2),
        None => (name, width(name)?),
    };
    let number = match each.iter().position(u8::is_ascii_digit).map(|digit| &each[..digit]) {
        Some(b"u") => Some(Number::Unsigned),
        Some(b"s") => Some(Number::Signed),
        Some(b"f") => Some(Number::Float),
        Some(b"bf") => Some(Number::Brain),
        _ => None,
    };
    Some(Element { number, size })
}

fn integer(token: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(token).ok()?;
    let text = text.strip_suffix('U').unwrap_or(text);
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16).ok(),
        None => text.parse().ok(),
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%') || !byte.is_ascii()
}

pub(crate) fn is_name(token: &[u8]) -> bool {
    token.len() <= NAME && token.first().is_some_and(|first| is_word(*first) && !first.is_ascii_digit())
}

/// The tokens of a text: words (a directive with its dot), and single other bytes; no comments, no strings.
#[derive(Clone)]
pub(crate) struct Tokens<'a> {
    pub(crate) text: &'a [u8],
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            let start = self.text.iter().position(|byte| !byte.is_ascii_whitespace())?;
            self.text = &self.text[start..];
            match self.text {
                [b'/', b'/', ..] => self.skip_past(b"\n"),
                [b'/', b'*', ..] => {
                    self.text = &self.text[2..];
                    self.skip_past(b"*/");
                }
                [b'"', rest @ ..] => {
                    self.text = rest;
                    self.skip_past(b"\"");
                }
                _ => break,
            }
        }
        let first = *self.text.first()?;
        let body = &self.text[1..];
        let len = 1 + match first == b'.' || is_word(first) {
            true => body.iter().position(|byte| !is_word(*byte)).unwrap_or(body.len()),
            false => 0,
        };
        let (token, rest) = self.text.split_at(len);
        self.text = rest;
        Some(token)
    }
}

impl Tokens<'_> {
    fn skip_past(&mut self, end: &[u8]) {
        let at = self.text.windows(end.len()).position(|window| window == end);
        self.text = at.map_or(&[], |at| &self.text[at + end.len()..]);
    }
}
