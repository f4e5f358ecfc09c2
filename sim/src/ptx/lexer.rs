//! The lexer, which splits PTX text into tokens.

use super::{Error, Result};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    /// An identifier, directive, register or opcode with all its suffixes.
    Word(&'a str),
    Integer(u64),
    /// The bits of a 0f literal.
    Single(u32),
    /// The bits of a 0d or decimal literal.
    Double(u64),
    Text(&'a str),
    Mark(char),
}

/// All tokens of `text` with their line numbers, comments removed.
pub(super) fn tokens(text: &str) -> Result<Vec<(Token<'_>, u32)>> {
    let mut lexer = Lexer { text, at: 0, line: 1 };
    let mut out = Vec::new();
    while let Some(token) = lexer.next()? {
        out.push((token, lexer.line));
    }
    Ok(out)
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
}

fn in_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, b'_' | b'$' | b'.' | b'%')
}

impl<'a> Lexer<'a> {
    fn peek(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn error<T>(&self, text: impl Into<String>) -> Result<T> {
        Err(Error::new(self.line, text))
    }

    fn next(&mut self) -> Result<Option<Token<'a>>> {
        self.skip_blanks()?;
        let start = self.at;
        let c = self.peek(0);
        if start >= self.text.len() || c == 0 {
            return Ok(None);
        }
        if c.is_ascii_digit() {
            return self.number().map(Some);
        }
        if in_word(c) {
            return Ok(Some(self.word()));
        }
        if c == b'"' {
            let Some(length) = self.text[start + 1..].find('"') else {
                return self.error("unterminated string");
            };
            self.at = start + length + 2;
            return Ok(Some(Token::Text(&self.text[start + 1..start + 1 + length])));
        }
        if b"{}()[],;:@!|+-*=<>~&^/?".contains(&c) {
            self.at += 1;
            return Ok(Some(Token::Mark(c as char)));
        }
        let found = self.text[start..].chars().next().unwrap_or('?');
        self.error(format!("Unexpected character '{}'", found.escape_default()))
    }

    fn skip_blanks(&mut self) -> Result<()> {
        loop {
            match self.peek(0) {
                b'\n' => {
                    self.line += 1;
                    self.at += 1;
                }
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'/' if self.peek(1) == b'/' => {
                    self.at += self.text[self.at..].find('\n').unwrap_or(self.text.len() - self.at);
                }
                b'/' if self.peek(1) == b'*' => {
                    let Some(length) = self.text[self.at..].find("*/") else {
                        return self.error("unterminated comment");
                    };
                    let comment = &self.text[self.at..self.at + length];
                    self.line += comment.bytes().filter(|&c| c == b'\n').count() as u32;
                    self.at += length + 2;
                }
                _ => return Ok(()),
            }
        }
    }

    fn word(&mut self) -> Token<'a> {
        let start = self.at;
        self.at += 1;
        loop {
            if in_word(self.peek(0)) {
                self.at += 1;
            } else if self.peek(0) == b':' && self.peek(1) == b':' {
                self.at += 2;
            } else {
                return Token::Word(&self.text[start..self.at]);
            }
        }
    }

    fn number(&mut self) -> Result<Token<'a>> {
        let start = self.at;
        while in_word(self.peek(0)) || (matches!(self.peek(0), b'+' | b'-') && self.in_exponent(start)) {
            self.at += 1;
        }
        let word = &self.text[start..self.at];
        let digits = word.get(2..).unwrap_or("");
        let parsed = match word.get(..2) {
            Some("0f" | "0F") if digits.len() == 8 => u32::from_str_radix(digits, 16).ok().map(Token::Single),
            Some("0d" | "0D") if digits.len() == 16 => u64::from_str_radix(digits, 16).ok().map(Token::Double),
            Some("0x" | "0X") => integer(digits, 16),
            Some("0b" | "0B") => integer(digits, 2),
            _ if word.contains('.') || word.contains(['e', 'E']) => {
                word.parse::<f64>().ok().map(|v| Token::Double(v.to_bits()))
            }
            _ if word.len() > 1 && word.starts_with('0') => integer(&word[1..], 8),
            _ => integer(word, 10),
        };
        parsed.map_or_else(|| self.error(format!("Malformed number '{word}'")), Ok)
    }

    fn in_exponent(&self, start: usize) -> bool {
        let word = &self.text[start..self.at];
        !word.starts_with("0x") && word.contains('.') && word.ends_with(['e', 'E'])
    }
}

fn integer<'a>(digits: &str, radix: u32) -> Option<Token<'a>> {
    let digits = digits.strip_suffix('U').unwrap_or(digits);
    if digits.is_empty() {
        return Some(Token::Integer(0));
    }
    u64::from_str_radix(digits, radix).ok().map(Token::Integer)
}
