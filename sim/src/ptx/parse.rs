//! The parser of modules: variables, functions, directives.

use super::ast::{Declared, Formal, Function, Linkage, Unit};
use super::body;
use super::lexer::{self, Token};
use super::types::{Space, Type};
use super::{Error, Result};
use crate::base::state::knobs;

/// Reads one PTX text.
pub(super) fn parse(text: &str) -> Result<Unit> {
    let tokens = lexer::tokens(text)?;
    let mut parser = Parser { tokens: &tokens, at: 0, unit: Unit::default() };
    parser.header()?;
    while parser.peek().is_some() {
        parser.item()?;
    }
    Ok(parser.unit)
}

pub(super) struct Parser<'a> {
    tokens: &'a [(Token<'a>, u32)],
    at: usize,
    pub unit: Unit,
}

impl<'a> Parser<'a> {
    pub(super) fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).map(|t| t.0)
    }

    pub(super) fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |t| t.1)
    }

    pub(super) fn error<T>(&self, text: impl Into<String>) -> Result<T> {
        Err(Error::new(self.line(), text))
    }

    pub(super) fn unexpected<T>(&self) -> Result<T> {
        let text = match self.peek() {
            Some(token) => format!("Parsing error near '{}': syntax error", spelling(token)),
            None => "Parsing error: unexpected end of input".to_owned(),
        };
        Err(Error { syntax: true, ..Error::new(self.line(), text) })
    }

    pub(super) fn place(&self) -> usize {
        self.at
    }

    /// Goes behind the semicolon of the statement whose operands begin at `start`, if it has one.
    pub(super) fn skip_statement(&mut self, start: usize) -> bool {
        let mut depth = 0;
        for (at, (token, _)) in self.tokens.iter().enumerate().skip(start) {
            match token {
                Token::Mark('{') => depth += 1,
                Token::Mark('}') if depth == 0 => return false,
                Token::Mark('}') => depth -= 1,
                Token::Mark(';') => {
                    self.at = at + 1;
                    return true;
                }
                _ => {}
            }
        }
        false
    }

    pub(super) fn next(&mut self) -> Option<Token<'a>> {
        let token = self.peek();
        self.at += 1;
        token
    }

    pub(super) fn accept(&mut self, mark: char) -> bool {
        let found = self.peek() == Some(Token::Mark(mark));
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, mark: char) -> Result<()> {
        if self.accept(mark) { Ok(()) } else { self.unexpected() }
    }

    pub(super) fn accept_word(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(Token::Word(word));
        self.at += usize::from(found);
        found
    }

    pub(super) fn word(&mut self) -> Result<&'a str> {
        match self.peek() {
            Some(Token::Word(word)) => {
                self.at += 1;
                Ok(word)
            }
            _ => self.unexpected(),
        }
    }

    pub(super) fn integer(&mut self) -> Result<i64> {
        let negative = self.accept('-');
        match self.peek() {
            Some(Token::Integer(value)) => {
                self.at += 1;
                let value = value as i64;
                Ok(if negative { value.wrapping_neg() } else { value })
            }
            _ => self.unexpected(),
        }
    }

    fn header(&mut self) -> Result<()> {
        if !self.accept_word(".version") {
            return self.error("Missing .version directive at start of file");
        }
        self.next();
        Ok(())
    }

    fn item(&mut self) -> Result<()> {
        let mut linkage = Linkage::Private;
        loop {
            match self.word()? {
                ".target" => {
                    let architecture = self.word()?.trim_start_matches("sm_").trim_end_matches(['a', 'f']).parse();
                    if architecture.is_ok_and(|architecture: u32| architecture > knobs().compute) {
                        return self
                            .error(format!("SM version specified by .target is higher than {}", knobs().compute));
                    }
                    while self.accept(',') {
                        self.word()?;
                    }
                    return Ok(());
                }
                ".address_size" => {
                    return match self.integer()? {
                        64 => Ok(()),
                        bits => self.error(format!("not simulated: .address_size {bits}")),
                    };
                }
                ".file" => return self.skip_file(),
                ".section" => return self.skip_section(),
                ".pragma" => {
                    self.next();
                    return self.expect(';');
                }
                ".visible" => linkage = Linkage::Visible,
                ".weak" | ".common" => linkage = Linkage::Weak,
                ".extern" => linkage = Linkage::Extern,
                ".entry" => return self.function(true, linkage),
                ".func" => return self.function(false, linkage),
                word => {
                    let Some(space) = word.strip_prefix('.').and_then(Space::parse) else {
                        self.at -= 1;
                        return self.unexpected();
                    };
                    return self.variables(space, linkage);
                }
            }
        }
    }

    fn skip_file(&mut self) -> Result<()> {
        self.integer()?;
        self.next();
        while self.accept(',') {
            self.integer()?;
        }
        Ok(())
    }

    fn skip_section(&mut self) -> Result<()> {
        self.word()?;
        while !self.accept('}') {
            if self.next().is_none() {
                return self.unexpected();
            }
        }
        Ok(())
    }

    /// The attributes and type of a declaration, up to its first name.
    pub(super) fn declared(&mut self) -> Result<(Declared, bool)> {
        let (mut ty, mut align, mut count, mut managed) = (None, 0, 1, false);
        while let Some(Token::Word(word)) = self.peek() {
            if !word.starts_with('.') {
                break;
            }
            self.at += 1;
            match word {
                ".align" => align = self.integer()? as usize,
                ".attribute" => {
                    self.expect('(')?;
                    while !self.accept(')') {
                        managed |= self.next() == Some(Token::Word(".managed"));
                    }
                }
                ".v2" => count = 2,
                ".v4" => count = 4,
                ".ptr" | ".global" | ".const" | ".shared" | ".local" => {}
                ".texref" | ".samplerref" | ".surfref" => ty = Some(Type::B64),
                _ => match Type::parse(&word[1..]) {
                    Some(found) => ty = Some(found),
                    None => {
                        self.at -= 1;
                        return self.unexpected();
                    }
                },
            }
        }
        let Some(ty) = ty else { return self.unexpected() };
        let align = if align == 0 { ty.size() * count } else { align };
        Ok((Declared { ty, align, count }, managed))
    }

    fn function(&mut self, kernel: bool, linkage: Linkage) -> Result<()> {
        let line = self.line();
        let mut frame = body::Frame::default();
        self.skip_attributes()?;
        let returns = if self.peek() == Some(Token::Mark('(')) { self.formals(&mut frame)? } else { Vec::new() };
        let name = self.word()?.to_owned();
        let formals = if self.peek() == Some(Token::Mark('(')) { self.formals(&mut frame)? } else { Vec::new() };
        let (max_threads, clusters) = self.performance_directives()?;
        let body = if self.accept(';') { None } else { Some(body::parse(self, frame, &name)?) };
        let known = self.unit.functions.iter().position(|f| f.name == name);
        let function = Function { name, line, kernel, linkage, returns, formals, max_threads, clusters, body };
        match known {
            Some(at) if self.unit.functions[at].body.is_none() => self.unit.functions[at] = function,
            Some(_) if function.body.is_none() => {}
            Some(_) => return Err(Error::new(line, format!("Duplicate definition of function '{}'", function.name))),
            None => self.unit.functions.push(function),
        }
        Ok(())
    }

    fn skip_attributes(&mut self) -> Result<()> {
        while self.accept_word(".attribute") {
            self.expect('(')?;
            while !self.accept(')') {
                self.next();
            }
        }
        Ok(())
    }

    /// Threads a block and blocks a cluster.
    fn performance_directives(&mut self) -> Result<(Option<u32>, Option<u32>)> {
        let (mut threads, mut clusters) = (None, None);
        while let Some(Token::Word(word)) = self.peek() {
            self.at += 1;
            match word {
                ".maxntid" | ".reqntid" => {
                    threads = Some(self.extents()?);
                }
                ".reqnctapercluster" => clusters = Some(self.extents()?),
                ".minnctapersm" | ".maxnreg" | ".maxnctapersm" | ".maxclusterrank" => drop(self.extents()?),
                ".noreturn" | ".explicitcluster" => {}
                ".pragma" => {
                    self.next();
                    self.expect(';')?;
                }
                _ => {
                    self.at -= 1;
                    return self.unexpected();
                }
            }
        }
        Ok((threads, clusters))
    }

    /// The product of up to three numbers.
    fn extents(&mut self) -> Result<u32> {
        let mut product = self.integer()?;
        while self.accept(',') {
            product = product.wrapping_mul(self.integer()?);
        }
        Ok(product as u32)
    }

    fn formals(&mut self, frame: &mut body::Frame) -> Result<Vec<Formal>> {
        let mut out = Vec::new();
        self.expect('(')?;
        while !self.accept(')') {
            let in_register = match self.word()? {
                ".param" => false,
                ".reg" => true,
                _ => {
                    self.at -= 1;
                    return self.unexpected();
                }
            };
            let (declared, _) = self.declared()?;
            let name = self.word()?.to_owned();
            let elements = self.bounds()?.elements();
            out.push(frame.formal(name, declared, elements, in_register));
            if !self.accept(',') && self.peek() != Some(Token::Mark(')')) {
                return self.unexpected();
            }
        }
        Ok(out)
    }
}

fn spelling(token: Token<'_>) -> String {
    match token {
        Token::Word(word) | Token::Text(word) => word.to_owned(),
        Token::Integer(value) => value.to_string(),
        Token::Single(bits) => format!("0f{bits:08X}"),
        Token::Double(bits) => format!("0d{bits:016X}"),
        Token::Mark(mark) => mark.to_string(),
    }
}
