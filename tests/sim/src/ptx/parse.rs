//! The level of the module: variables, functions, directives.

use super::ast::{Declared, Formal, Function, Linkage, Relocation, Unit, Variable};
use super::body;
use super::lexer::{self, Token};
use super::types::{Space, Type};
use super::{Error, Result};
use crate::state::knobs;

/// Reads one PTX text.
pub fn parse(text: &str) -> Result<Unit> {
    let tokens = lexer::tokens(text)?;
    let mut parser = Parser { tokens: &tokens, at: 0, unit: Unit::default() };
    parser.header()?;
    while parser.peek().is_some() {
        parser.item()?;
    }
    Ok(parser.unit)
}

pub struct Parser<'a> {
    tokens: &'a [(Token<'a>, u32)],
    at: usize,
    pub unit: Unit,
}

impl<'a> Parser<'a> {
    pub fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).map(|t| t.0)
    }

    pub fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |t| t.1)
    }

    pub fn error<T>(&self, text: impl Into<String>) -> Result<T> {
        Err(Error::new(self.line(), text))
    }

    pub fn unexpected<T>(&self) -> Result<T> {
        match self.peek() {
            Some(token) => self.error(format!("Parsing error near '{}': syntax error", spelling(token))),
            None => self.error("Parsing error: unexpected end of input"),
        }
    }

    pub fn next(&mut self) -> Option<Token<'a>> {
        let token = self.peek();
        self.at += 1;
        token
    }

    pub fn accept(&mut self, mark: char) -> bool {
        let found = self.peek() == Some(Token::Mark(mark));
        self.at += usize::from(found);
        found
    }

    pub fn expect(&mut self, mark: char) -> Result<()> {
        if self.accept(mark) { Ok(()) } else { self.unexpected() }
    }

    pub fn accept_word(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(Token::Word(word));
        self.at += usize::from(found);
        found
    }

    pub fn word(&mut self) -> Result<&'a str> {
        match self.peek() {
            Some(Token::Word(word)) => {
                self.at += 1;
                Ok(word)
            }
            _ => self.unexpected(),
        }
    }

    pub fn integer(&mut self) -> Result<i64> {
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
                ".address_size" => return self.integer().map(drop),
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
    pub fn declared(&mut self) -> Result<(Declared, bool)> {
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

    /// Array bounds after a name: elements, and whether the first bound is left open.
    pub fn bounds(&mut self) -> Result<(usize, bool)> {
        let (mut elements, mut open) = (1usize, false);
        while self.accept('[') {
            if self.accept(']') {
                open = true;
                continue;
            }
            elements = elements.saturating_mul(self.integer()? as usize);
            self.expect(']')?;
        }
        Ok((elements, open))
    }

    pub fn variables(&mut self, space: Space, linkage: Linkage) -> Result<()> {
        let (declared, managed) = self.declared()?;
        loop {
            let name = self.word()?.to_owned();
            let (elements, open) = self.bounds()?;
            let unit_size = declared.ty.size() * declared.count;
            let mut variable = Variable {
                name,
                space,
                align: declared.align,
                size: if open { 0 } else { unit_size * elements },
                linkage,
                managed,
                bytes: Vec::new(),
                relocations: Vec::new(),
            };
            if self.accept('=') {
                self.initialiser(declared.ty, &mut variable)?;
                if open {
                    variable.size = variable.bytes.len();
                }
                if variable.bytes.len() > variable.size {
                    return self.error(format!("Too many initializers for '{}'", variable.name));
                }
            }
            variable.bytes.resize(variable.size, 0);
            if linkage != Linkage::Extern
                && self.unit.variables.iter().any(|v| v.name == variable.name && v.linkage != Linkage::Extern)
            {
                return self.error(format!("Duplicate definition of variable '{}'", variable.name));
            }
            self.unit.variables.push(variable);
            if !self.accept(',') {
                break;
            }
        }
        self.expect(';')
    }

    fn initialiser(&mut self, ty: Type, variable: &mut Variable) -> Result<()> {
        if self.accept('{') {
            while !self.accept('}') {
                self.initialiser(ty, variable)?;
                if !self.accept(',') && self.peek() != Some(Token::Mark('}')) {
                    return self.unexpected();
                }
            }
            return Ok(());
        }
        let at = variable.bytes.len();
        let bits = match self.peek() {
            Some(Token::Word("generic")) => {
                self.at += 1;
                self.expect('(')?;
                let relocation = self.relocation(at)?;
                self.expect(')')?;
                variable.relocations.push(relocation);
                0
            }
            Some(Token::Word(_)) => {
                let relocation = self.relocation(at)?;
                variable.relocations.push(relocation);
                0
            }
            Some(Token::Single(bits)) => {
                self.at += 1;
                u64::from(bits)
            }
            Some(Token::Double(bits)) => {
                self.at += 1;
                if ty == Type::F32 { u64::from((f64::from_bits(bits) as f32).to_bits()) } else { bits }
            }
            _ => self.integer()? as u64,
        };
        variable.bytes.extend_from_slice(&bits.to_le_bytes()[..ty.size().min(8)]);
        Ok(())
    }

    fn relocation(&mut self, at: usize) -> Result<Relocation> {
        let symbol = self.word()?.to_owned();
        let addend = if self.accept('+') { self.integer()? } else { 0 };
        Ok(Relocation { at, symbol, addend })
    }

    fn function(&mut self, kernel: bool, linkage: Linkage) -> Result<()> {
        let line = self.line();
        let mut frame = body::Frame::default();
        self.skip_attributes()?;
        let returns = if self.peek() == Some(Token::Mark('(')) { self.formals(&mut frame)? } else { Vec::new() };
        let name = self.word()?.to_owned();
        let formals = if self.peek() == Some(Token::Mark('(')) { self.formals(&mut frame)? } else { Vec::new() };
        let max_threads = self.performance_directives()?;
        let body = if self.accept(';') { None } else { Some(body::parse(self, frame, &name)?) };
        let known = self.unit.functions.iter().position(|f| f.name == name);
        let function = Function { name, line, kernel, linkage, returns, formals, max_threads, body };
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

    fn performance_directives(&mut self) -> Result<Option<u32>> {
        let mut threads = None;
        while let Some(Token::Word(word)) = self.peek() {
            self.at += 1;
            match word {
                ".maxntid" | ".reqntid" => {
                    let mut product = self.integer()?;
                    while self.accept(',') {
                        product *= self.integer()?;
                    }
                    threads = Some(product as u32);
                }
                ".minnctapersm" | ".maxnreg" | ".maxnctapersm" | ".maxclusterrank" | ".reqnctapercluster" => {
                    self.integer()?;
                    while self.accept(',') {
                        self.integer()?;
                    }
                }
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
        Ok(threads)
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
            let (elements, _) = self.bounds()?;
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
