//! Variables of a module: their bounds and initial values.

use super::Result;
use super::ast::{Linkage, Relocation, Variable};
use super::lexer::Token;
use super::parse::Parser;
use super::types::{Space, Type};

/// The bounds of an array.
#[derive(Default)]
pub(super) struct Bounds {
    /// Whether the first bound is left out, which is then not among the others.
    open: bool,
    inner: Vec<usize>,
}

impl Bounds {
    pub(super) fn elements(&self) -> usize {
        self.inner.iter().fold(1, |all, &bound| all.saturating_mul(bound))
    }
}

impl Parser<'_> {
    /// Array bounds after a name.
    pub(super) fn bounds(&mut self) -> Result<Bounds> {
        let mut bounds = Bounds::default();
        while self.accept('[') {
            if self.accept(']') {
                bounds.open = true;
                continue;
            }
            bounds.inner.push(self.integer()? as usize);
            self.expect(']')?;
        }
        Ok(bounds)
    }

    pub(super) fn variables(&mut self, space: Space, linkage: Linkage) -> Result<()> {
        let (declared, managed) = self.declared()?;
        loop {
            let name = self.word()?.to_owned();
            let bounds = self.bounds()?;
            let (elements, open) = (bounds.elements(), bounds.open);
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
                let mut sizes = vec![unit_size];
                sizes.extend(bounds.inner.iter().rev().scan(unit_size, |size, &bound| {
                    *size = size.saturating_mul(bound);
                    Some(*size)
                }));
                if declared.count > 1 {
                    sizes.insert(0, declared.ty.size());
                }
                // An array's own braces; those of an open bound end where its list does.
                if !open {
                    sizes.pop();
                }
                self.initialiser(declared.ty, &sizes, &mut variable)?;
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

    /// `sizes`: bytes of what an inner list stands for, from the innermost to the next. A shorter list is
    /// filled with zeros.
    fn initialiser(&mut self, ty: Type, sizes: &[usize], variable: &mut Variable) -> Result<()> {
        if self.accept('{') {
            while !self.accept('}') {
                let (size, inner) = sizes.split_last().map_or((0, sizes), |(size, inner)| (*size, inner));
                let (nested, end) = (self.peek() == Some(Token::Mark('{')), variable.bytes.len() + size);
                self.initialiser(ty, inner, variable)?;
                if nested && variable.bytes.len() < end {
                    variable.bytes.resize(end, 0);
                }
                if !self.accept(',') && self.peek() != Some(Token::Mark('}')) {
                    return self.unexpected();
                }
            }
            return Ok(());
        }
        let at = variable.bytes.len();
        let bits = match self.peek() {
            Some(Token::Word("generic")) => {
                self.next();
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
                self.next();
                u64::from(bits)
            }
            Some(Token::Double(bits)) => {
                self.next();
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
}
