//! Device printf.

use std::collections::VecDeque;
use std::io::Write;

use super::Result;
use super::space::Env;
use super::thread::Thread;
use crate::ptx::inst::Argument;
use crate::ptx::types::Space;

/// The output of a grid that the host has not written yet: calls of printf, which use space in a FIFO. If it
/// is full, the oldest calls are lost without a report.
pub(crate) struct Fifo {
    /// Each text, and the bytes that it takes.
    calls: VecDeque<(Vec<u8>, u64)>,
    /// Of the call that is under way.
    text: Vec<u8>,
    taken: u64,
    room: u64,
}

/// What a call takes is a multiple of this: of 524,288 bytes 2,048 lines with two numbers each were left on an H200.
const STEP: u64 = 256;
/// The format and a header; the values follow.
const HEAD: u64 = 16;

impl Fifo {
    pub(crate) fn new(room: u64) -> Self {
        Self { calls: VecDeque::new(), text: Vec::new(), taken: 0, room }
    }

    /// Ends a call whose arguments take these bytes.
    fn push(&mut self, bytes: u64) {
        let bytes = (HEAD + bytes).next_multiple_of(STEP);
        self.calls.push_back((std::mem::take(&mut self.text), bytes));
        self.taken += bytes;
        while self.taken > self.room
            && let Some((_, bytes)) = self.calls.pop_front()
        {
            self.taken -= bytes;
        }
    }

    /// Writes it. Whether there was anything. A closed standard output is not the kernel's trouble.
    pub(crate) fn flush(&self) -> bool {
        if self.calls.is_empty() {
            return false;
        }
        let mut out = std::io::stdout().lock();
        if self.calls.iter().try_for_each(|(text, _)| out.write_all(text)).is_ok() {
            out.flush().ok();
        }
        true
    }
}

/// Formats into the grid's output; the result is the number of arguments.
pub(super) fn vprintf(
    thread: &mut Thread,
    env: &mut Env<'_>,
    arguments: &[Argument],
    results: &[Argument],
) -> Result<()> {
    let mut words = [0u64; 2];
    for (word, argument) in words.iter_mut().zip(arguments) {
        *word = match *argument {
            Argument::Frame(at) => {
                let place = thread.place(env, Space::Local, (thread.frame.stack + at as usize) as u64, 8, false)?;
                thread.load(env, place, 8)
            }
            Argument::Value(value) => thread.value(env, value),
        };
    }
    let [format, list] = words;
    let format = text(thread, env, format)?;
    let mut reader = List { at: list, count: 0 };
    let mut rest = format.as_str();
    while let Some(start) = rest.find('%') {
        env.printed.text.extend_from_slice(&rest.as_bytes()[..start]);
        rest = &rest[start + 1..];
        let Some(length) = rest.find(|c: char| c.is_ascii_alphabetic() && !"hlzjtL".contains(c) || c == '%') else {
            break;
        };
        let (flags, kind) = (&rest[..length], rest.as_bytes()[length]);
        rest = &rest[length + 1..];
        conversion(thread, env, &mut reader, flags, kind)?;
    }
    env.printed.text.extend_from_slice(rest.as_bytes());
    env.printed.push(reader.at - list);
    if let Some(Argument::Frame(at)) = results.first() {
        let place = thread.place(env, Space::Local, (thread.frame.stack + *at as usize) as u64, 4, true)?;
        thread.store(env, place, 4, reader.count);
    }
    Ok(())
}

struct List {
    at: u64,
    count: u64,
}

impl List {
    fn next(&mut self, thread: &Thread, env: &mut Env<'_>, size: usize) -> Result<u64> {
        self.at = self.at.next_multiple_of(size as u64);
        let place = thread.place(env, Space::Generic, self.at, size, false)?;
        self.at += size as u64;
        self.count += 1;
        Ok(thread.load(env, place, size))
    }
}

fn conversion(thread: &Thread, env: &mut Env<'_>, list: &mut List, flags: &str, kind: u8) -> Result<()> {
    let wide = flags.contains('l') || flags.contains('z') || flags.contains('j');
    let size = if wide { 8 } else { 4 };
    let body = match kind {
        b'%' => "%".to_owned(),
        b'd' | b'i' if wide => (list.next(thread, env, size)? as i64).to_string(),
        b'd' | b'i' => (list.next(thread, env, size)? as i32).to_string(),
        b'u' => list.next(thread, env, size)?.to_string(),
        b'x' => format!("{:x}", list.next(thread, env, size)?),
        b'X' => format!("{:X}", list.next(thread, env, size)?),
        b'o' => format!("{:o}", list.next(thread, env, size)?),
        b'c' => char::from(list.next(thread, env, 4)? as u8).to_string(),
        b'p' => format!("{:#x}", list.next(thread, env, 8)?),
        b's' => {
            let address = list.next(thread, env, 8)?;
            text(thread, env, address)?
        }
        _ => {
            let value = f64::from_bits(list.next(thread, env, 8)?);
            let precision = flags.split('.').nth(1).and_then(|p| p.trim_end_matches('l').parse().ok()).unwrap_or(6);
            if kind | 32 == b'e' {
                format!("{value:.precision$e}")
            } else if kind | 32 == b'g' {
                value.to_string()
            } else {
                format!("{value:.precision$}")
            }
        }
    };
    let width = flags.trim_start_matches(['-', '+', ' ', '#', '0']);
    let width: usize = width.split(['.', 'l', 'h', 'z', 'j']).next().and_then(|w| w.parse().ok()).unwrap_or(0);
    let padded = match () {
        () if flags.starts_with('-') => format!("{body:<width$}"),
        () if flags.starts_with('0') && !body.starts_with('-') => format!("{body:0>width$}"),
        () => format!("{body:>width$}"),
    };
    env.printed.text.extend_from_slice(padded.as_bytes());
    Ok(())
}

fn text(thread: &Thread, env: &mut Env<'_>, mut address: u64) -> Result<String> {
    let mut bytes = Vec::new();
    loop {
        let place = thread.place(env, Space::Generic, address, 1, false)?;
        let byte = thread.load(env, place, 1) as u8;
        if byte == 0 || bytes.len() >= 4096 {
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
        bytes.push(byte);
        address += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_calls_are_lost() {
        let mut fifo = Fifo::new(3 * STEP);
        let mut print = |text: &str, bytes| {
            fifo.text.extend_from_slice(text.as_bytes());
            fifo.push(bytes);
            fifo.calls.iter().map(|(text, _)| str::from_utf8(text).expect("text")).collect::<String>()
        };
        assert_eq!([print("a", 8), print("b", 1), print("c", 4)].concat(), "aababc");
        // The second takes a step more, for which two go.
        assert_eq!([print("d", 8), print("e", STEP), print("f", 0)].concat(), "bcddeef");
        assert_eq!(print("g", 1000), "");
    }
}
