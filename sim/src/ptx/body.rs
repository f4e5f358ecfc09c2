//! The body of a function: declarations, labels, instructions.

use std::collections::HashMap;

use super::ast::{Body, Declared, Formal, Linkage, Operand, Statement};
use super::lexer::Token;
use super::parse::Parser;
use super::special::Special;
use super::types::Space;
use super::{Error, Result};

#[derive(Clone, Copy)]
enum Local {
    Register(u32),
    Frame(usize),
}

/// Names and storage of a function: registers are numbered, parameters and local variables lie in the frame.
#[derive(Default)]
pub(super) struct Frame {
    registers: u32,
    size: usize,
    local: usize,
    align: usize,
    scopes: Vec<HashMap<String, Local>>,
}

impl Frame {
    fn define(&mut self, name: String, local: Local) {
        if self.scopes.is_empty() {
            self.scopes.push(HashMap::new());
        }
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, local);
        }
    }

    fn register(&mut self, name: String) -> u32 {
        let index = self.registers;
        self.registers += 1;
        self.define(name, Local::Register(index));
        index
    }

    fn place(&mut self, size: usize, align: usize) -> usize {
        let at = self.size.next_multiple_of(align.max(1));
        self.align = self.align.max(align);
        self.size = at + size;
        at
    }

    pub(super) fn formal(&mut self, name: String, declared: Declared, elements: usize, in_register: bool) -> Formal {
        let size = declared.ty.size() * declared.count * elements;
        let offset = self.place(size, declared.align);
        let register = if in_register {
            Some(self.register(name))
        } else {
            self.define(name, Local::Frame(offset));
            None
        };
        Formal { size, offset, register }
    }

    fn find(&self, name: &str) -> Option<Local> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name).copied())
    }
}

pub(super) fn parse(parser: &mut Parser<'_>, frame: Frame, function: &str) -> Result<Body> {
    let mut reader = Reader { parser, frame, body: Body::default() };
    reader.block()?;
    let Reader { frame, mut body, .. } = reader;
    body.registers = frame.registers;
    body.frame = frame.size.next_multiple_of(16);
    body.local = frame.local;
    body.align = frame.align;
    for statement in &body.statements {
        let jump = statement.opcode == "bra" || statement.opcode.starts_with("bra.");
        if let (true, [Operand::Symbol(label, _)]) = (jump, statement.operands.as_slice())
            && !body.labels.contains_key(label)
        {
            return Err(Error::new(statement.line, format!("Label '{label}' not defined in function '{function}'")));
        }
    }
    Ok(body)
}

struct Reader<'p, 'a> {
    parser: &'p mut Parser<'a>,
    frame: Frame,
    body: Body,
}

impl Reader<'_, '_> {
    fn block(&mut self) -> Result<()> {
        self.parser.expect('{')?;
        self.frame.scopes.push(HashMap::new());
        while !self.parser.accept('}') {
            match self.parser.peek() {
                Some(Token::Mark('{')) => self.block()?,
                Some(Token::Mark('@')) => self.statement()?,
                Some(Token::Mark(';')) => drop(self.parser.next()),
                Some(Token::Word(word)) if word.starts_with('.') => self.directive()?,
                Some(Token::Word(_)) => self.statement()?,
                _ => return self.parser.unexpected(),
            }
        }
        self.frame.scopes.pop();
        Ok(())
    }

    fn directive(&mut self) -> Result<()> {
        match self.parser.word()? {
            ".reg" => self.registers(),
            ".param" => self.storage(false),
            ".local" => self.storage(true),
            ".shared" => self.parser.variables(Space::Shared, Linkage::Private),
            ".global" => self.parser.variables(Space::Global, Linkage::Private),
            ".const" => self.parser.variables(Space::Const, Linkage::Private),
            ".loc" => self.skip_location(),
            ".pragma" => {
                self.parser.next();
                self.parser.expect(';')
            }
            other => self.parser.error(format!("Unknown directive '{other}'")),
        }
    }

    /// `.loc file line column`, perhaps with inlining information that ends with the line of text.
    fn skip_location(&mut self) -> Result<()> {
        let line = self.parser.line();
        while self.parser.peek().is_some() && self.parser.line() == line {
            self.parser.next();
        }
        Ok(())
    }

    fn registers(&mut self) -> Result<()> {
        let wide = self.parser.declared()?.0.ty.bits == 128;
        loop {
            let name = self.parser.word()?.to_owned();
            if self.parser.accept('<') {
                let count = self.parser.integer()?;
                self.parser.expect('>')?;
                if !(0..1 << 20).contains(&count) {
                    return self.parser.error("Register count out of range");
                }
                for index in 0..count {
                    self.frame.register(format!("{name}{index}"));
                    self.frame.registers += u32::from(wide);
                }
            } else {
                self.frame.register(name);
                // The upper half of a .b128 register is the next one.
                self.frame.registers += u32::from(wide);
            }
            if !self.parser.accept(',') {
                break;
            }
        }
        self.parser.expect(';')
    }

    fn storage(&mut self, local: bool) -> Result<()> {
        let (declared, _) = self.parser.declared()?;
        loop {
            let name = self.parser.word()?.to_owned();
            let elements = self.parser.bounds()?.elements();
            let size = declared.ty.size() * declared.count * elements;
            let at = self.frame.place(size, declared.align);
            if local {
                self.frame.local += size;
            }
            self.frame.define(name, Local::Frame(at));
            if !self.parser.accept(',') {
                break;
            }
        }
        self.parser.expect(';')
    }

    fn statement(&mut self) -> Result<()> {
        let line = self.parser.line();
        let guard = if self.parser.accept('@') {
            let negated = self.parser.accept('!');
            let name = self.parser.word()?;
            match self.frame.find(name) {
                Some(Local::Register(register)) => Some((register, negated)),
                _ => return self.parser.error(format!("Unknown symbol '{name}'")),
            }
        } else {
            None
        };
        let opcode = self.parser.word()?.to_owned();
        if guard.is_none() && self.parser.accept(':') {
            return self.label(opcode);
        }
        let start = self.parser.place();
        let (operands, refused) = match self.operands() {
            Ok(operands) => (operands, false),
            Err(error) if !error.syntax => return Err(error),
            // What is written in a way that is not known here fails when it is reached.
            Err(error) => match self.parser.skip_statement(start) {
                true => (Vec::new(), true),
                false => return Err(error),
            },
        };
        self.body.statements.push(Statement { line, guard, opcode, operands, refused });
        Ok(())
    }

    fn operands(&mut self) -> Result<Vec<Operand>> {
        let mut operands = Vec::new();
        while !self.parser.accept(';') {
            operands.push(self.operand()?);
            if !self.parser.accept(',') && self.parser.peek() != Some(Token::Mark(';')) {
                return self.parser.unexpected();
            }
        }
        Ok(operands)
    }

    fn label(&mut self, name: String) -> Result<()> {
        if self.parser.accept_word(".branchtargets") {
            let mut targets = vec![self.parser.word()?.to_owned()];
            while self.parser.accept(',') {
                targets.push(self.parser.word()?.to_owned());
            }
            self.body.tables.insert(name, targets);
            return self.parser.expect(';');
        }
        if self.parser.accept_word(".callprototype") || self.parser.accept_word(".calltargets") {
            while !self.parser.accept(';') {
                if self.parser.next().is_none() {
                    return self.parser.unexpected();
                }
            }
            return Ok(());
        }
        if self.body.labels.insert(name.clone(), self.body.statements.len()).is_some() {
            return self.parser.error(format!("Duplicate definition of label '{name}'"));
        }
        Ok(())
    }

    fn operand(&mut self) -> Result<Operand> {
        let first = self.simple()?;
        if self.parser.accept('|') {
            let second = self.simple()?;
            return Ok(Operand::Pair(Box::new(first), Box::new(second)));
        }
        Ok(first)
    }

    fn simple(&mut self) -> Result<Operand> {
        match self.parser.peek() {
            Some(Token::Mark('[')) => self.address(),
            Some(Token::Mark('{')) => Ok(Operand::Vector(self.group('{', '}')?)),
            Some(Token::Mark('(')) => Ok(Operand::List(self.group('(', ')')?)),
            Some(Token::Mark('!')) => {
                self.parser.next();
                match self.simple()? {
                    Operand::Register(register) => Ok(Operand::Negated(register)),
                    _ => self.parser.unexpected(),
                }
            }
            Some(Token::Single(bits)) => {
                self.parser.next();
                Ok(Operand::Single(bits))
            }
            Some(Token::Double(bits)) => {
                self.parser.next();
                Ok(Operand::Double(bits))
            }
            Some(Token::Integer(_) | Token::Mark('-')) => Ok(Operand::Integer(self.parser.integer()? as u64)),
            Some(Token::Word("_")) => {
                self.parser.next();
                Ok(Operand::Sink)
            }
            Some(Token::Word(_)) => self.named_operand(),
            _ => self.parser.unexpected(),
        }
    }

    fn named_operand(&mut self) -> Result<Operand> {
        let name = self.parser.word()?;
        let known = self.frame.find(name);
        if known.is_none() && name.starts_with('%') && Special::parse(name).is_none() {
            return self.parser.error(format!("Unknown symbol '{name}'"));
        }
        if let Some(Local::Register(register)) = known {
            return Ok(Operand::Register(register));
        }
        let addend = if self.parser.accept('+') { self.parser.integer()? } else { 0 };
        Ok(match known {
            Some(Local::Frame(at)) => Operand::Frame(at.wrapping_add_signed(addend as isize)),
            _ => Operand::Symbol(name.to_owned(), addend),
        })
    }

    fn group(&mut self, open: char, close: char) -> Result<Vec<Operand>> {
        self.parser.expect(open)?;
        let mut out = Vec::new();
        while !self.parser.accept(close) {
            out.push(self.operand()?);
            if !self.parser.accept(',') && self.parser.peek() != Some(Token::Mark(close)) {
                return self.parser.unexpected();
            }
        }
        Ok(out)
    }

    fn address(&mut self) -> Result<Operand> {
        self.parser.expect('[')?;
        let base = self.simple()?;
        if self.parser.accept(',') {
            let coordinates = match self.simple()? {
                Operand::Vector(all) => all,
                one => vec![one],
            };
            self.parser.expect(']')?;
            return Ok(Operand::Texture(Box::new(base), coordinates));
        }
        let offset = if self.parser.accept('+') || self.parser.peek() == Some(Token::Mark('-')) {
            self.parser.integer()?
        } else {
            0
        };
        self.parser.expect(']')?;
        Ok(Operand::Address(Box::new(base), offset))
    }
}
