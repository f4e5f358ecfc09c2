//! PTX: the body of the entry and of the functions that it calls by name.

use super::Cause;
use crate::code::parameters::ptx::{Tokens, is_name};
use std::collections::{BTreeSet, HashMap, HashSet};

const CLOCKS: [&[u8]; 6] =
    [b"%clock", b"%clock_hi", b"%clock64", b"%globaltimer", b"%globaltimer_lo", b"%globaltimer_hi"];
const PLACES: [&[u8]; 3] = [b"%smid", b"%warpid", b"%gridid"];
/// Directives that begin a declaration, for the life of the module.
const VARIABLES: [&[u8]; 4] = [b".global", b".const", b".tex", b".managed"];
const FLOATS: [&[u8]; 6] = [b".f16", b".f16x2", b".bf16", b".bf16x2", b".f32", b".f64"];

#[derive(Default)]
struct Body<'t> {
    causes: BTreeSet<Cause>,
    calls: BTreeSet<&'t [u8]>,
    has_variables: bool,
}

/// The contents of a text, as far as these kernels may need it.
pub(super) struct Text<'t> {
    bodies: HashMap<&'t [u8], Body<'t>>,
    /// It declares variables that outlive a launch.
    pub(super) has_variables: bool,
    /// How much may still be done in following calls.
    budget: usize,
}

/// Bytes of names, and some for each call: a minute's work would be a thousand times that.
const BUDGET: usize = 32 << 20;
const CALL: usize = 16;

impl<'t> Text<'t> {
    pub(super) fn parse(text: &'t [u8], wanted: impl Fn(&str) -> bool) -> Text<'t> {
        let text = text.split(|byte| *byte == 0).next().unwrap_or(text);
        let (mut tokens, mut bodies, mut has_variables) = (Tokens { text }, HashMap::new(), false);
        while let Some(token) = tokens.next() {
            has_variables |= VARIABLES.contains(&token);
            if !matches!(token, b".entry" | b".func") {
                continue;
            }
            let Some(name) = name(&mut tokens) else { continue };
            let is_wanted = token == b".func" || std::str::from_utf8(name).is_ok_and(&wanted);
            if let Some(body) = begins(&mut tokens).then(|| body(&mut tokens, is_wanted)).flatten() {
                has_variables |= body.has_variables;
                bodies.insert(name, body);
            }
        }
        Text { bodies, has_variables, budget: BUDGET }
    }

    /// Of its entries and functions.
    pub(super) fn names(&self) -> Vec<&'t [u8]> {
        self.bodies.keys().copied().collect()
    }

    /// None if there is no such entry, or if too many calls lead on from it.
    pub(super) fn causes(&mut self, kernel: &str) -> Option<BTreeSet<Cause>> {
        self.bodies.get(kernel.as_bytes())?;
        let (mut all, mut seen) = (BTreeSet::new(), HashSet::new());
        let mut open = vec![kernel.as_bytes()];
        while let Some(name) = open.pop() {
            self.budget = self.budget.checked_sub(name.len() + CALL)?;
            if !seen.insert(name) {
                continue;
            }
            match self.bodies.get(name) {
                Some(body) => {
                    all.extend(&body.causes);
                    open.extend(&body.calls);
                }
                None if name == b"malloc" => _ = all.insert(Cause::Malloc),
                None => {}
            }
        }
        Some(all)
    }
}

/// Behind `.entry` or `.func`: what it returns, maybe, and its name.
fn name<'t>(tokens: &mut Tokens<'t>) -> Option<&'t [u8]> {
    let first = tokens.next()?;
    if first != b"(" {
        return is_name(first).then_some(first);
    }
    tokens.by_ref().find(|token| *token == b")")?;
    tokens.next().filter(|name| is_name(name))
}

/// Moves into the body; false if there is none.
fn begins(tokens: &mut Tokens) -> bool {
    tokens.by_ref().find(|token| matches!(*token, b"{" | b";")) == Some(b"{")
}

/// Up to the end of the body; None unless it is wanted.
fn body<'t>(tokens: &mut Tokens<'t>, is_wanted: bool) -> Option<Body<'t>> {
    let mut found = Body::default();
    // How often each register is named, and which of them atomics fill.
    let (mut named, mut filled) = (HashMap::<&[u8], u32>::new(), Vec::new());
    let (mut depth, mut statement) = (1, Vec::<&[u8]>::new());
    for token in tokens {
        match token {
            b"{" if statement.is_empty() => depth += 1,
            b"}" if statement.is_empty() => depth -= 1,
            b";" => {
                if is_wanted {
                    filled.extend(found.scan(&statement));
                }
                statement.clear();
            }
            b":" if statement.len() == 1 => statement.clear(),
            token => {
                statement.push(token);
                if token.first() == Some(&b'%') && is_wanted {
                    *named.entry(token).or_default() += 1;
                }
            }
        }
        if depth == 0 {
            break;
        }
    }
    let is_named = |registers: &[&[u8]]| registers.iter().any(|name| named.keys().any(|known| known == name));
    found.causes.extend(is_named(&CLOCKS).then_some(Cause::Clock));
    found.causes.extend(is_named(&PLACES).then_some(Cause::Place));
    let is_used = filled.iter().any(|register| named.get(register).is_some_and(|times| *times > 1));
    found.causes.extend(is_used.then_some(Cause::AtomicResult));
    is_wanted.then_some(found)
}

impl<'t> Body<'t> {
    /// The register that an atomic fills, if the statement is one.
    fn scan(&mut self, statement: &[&'t [u8]]) -> Option<&'t [u8]> {
        self.has_variables |= statement.first().is_some_and(|first| VARIABLES.contains(first));
        let guard = match statement {
            [b"@", b"!", ..] => 3,
            [b"@", ..] => 2,
            _ => 0,
        };
        let (name, rest) = statement.get(guard..)?.split_first()?;
        // `.global`, and `.shared::cta`.
        let is_suffix = |at: usize| {
            rest[at].starts_with(b".") || rest[at] == b":" || at > 0 && rest[at - 1] == b":" && rest[0] != b":"
        };
        let (suffixes, operands) = rest.split_at((0..rest.len()).take_while(|at| is_suffix(*at)).count());
        let has = |wanted: &[u8]| suffixes.contains(&wanted);
        let adds = match *name {
            b"atom" | b"red" => true,
            b"multimem" => has(b".red"),
            b"cp" => has(b".reduce"),
            b"call" => {
                self.calls.extend(callee(operands));
                return None;
            }
            _ => return None,
        };
        if adds && has(b".add") && FLOATS.iter().any(|float| has(float)) {
            self.causes.insert(Cause::FloatAtomic);
        }
        // A vector's registers stand in braces.
        let filled = operands.iter().find(|token| **token != b"{").copied();
        filled.filter(|_| *name == b"atom").filter(|register| register.starts_with(b"%"))
    }
}

/// Of `(returned), name, (given)` or `name`.
fn callee<'t>(operands: &[&'t [u8]]) -> Option<&'t [u8]> {
    let behind = match *operands.first()? {
        b"(" => operands.iter().position(|token| *token == b")")? + 2,
        _ => 0,
    };
    operands.get(behind).copied().filter(|name| is_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(body: &str) -> Vec<Cause> {
        let text = format!(
            ".version 8.0\n.target sm_75\n.address_size 64\n
            .extern .func (.param .b64 r) malloc (.param .b64 n);
            .func (.param .b64 r) now () {{ .reg .b64 %t; mov.u64 %t, %clock64; st.param.b64 [r], %t; ret; }}
            .func unused () {{ .reg .b32 %t; mov.u32 %t, %smid; ret; }}
            .entry other () {{ .reg .b64 %t; mov.u64 %t, %globaltimer; ret; }}
            .visible .entry k(.param .u64 o) {{ .reg .b64 %d<9>; .reg .pred %p<2>; ld.param.u64 %d1, [o]; {body} ret; }}"
        );
        causes(text.as_bytes(), "k").expect("an entry").into_iter().collect()
    }

    fn causes(text: &[u8], kernel: &str) -> Option<BTreeSet<Cause>> {
        Text::parse(text, |name| name == kernel).causes(kernel)
    }

    #[test]
    fn what_the_text_of_a_kernel_shows() {
        for (body, expected) in [
            ("st.global.u64 [%d1], %d1;", &[][..]),
            ("mov.u64 %d2, %clock64;", &[Cause::Clock]),
            ("L: { mov.u32 %r2, %globaltimer_lo; } bra L;", &[Cause::Clock]),
            ("mov.u32 %r1, %smid;", &[Cause::Place]),
            ("atom.global.add.u32 %r1, [%d1], 1; st.global.u32 [%d1], %r1;", &[Cause::AtomicResult]),
            ("@!%p1 atom.global.add.u32 %r1, [%d1], 1; st.global.u32 [%d1], %r1;", &[Cause::AtomicResult]),
            ("atom.global.add.u32 %r1, [%d1], 1;", &[]),
            ("atom.global.add.u32 _, [%d1], 1;", &[]),
            ("@%p1 red.global.add.f32 [%d1], %f1;", &[Cause::FloatAtomic]),
            ("red.global.max.u32 [%d1], %r1; ld.global.v2.u32 {%r2, %r3}, [%d1];", &[]),
            (
                "atom.global.add.noftz.f16x2 %r1, [%d1], %r2; mov.b32 %r3, %r1;",
                &[Cause::AtomicResult, Cause::FloatAtomic],
            ),
            ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%d1], [%d2], %r1;", &[Cause::FloatAtomic]),
            ("{ .param .b64 r; call.uni (r), now, (); ld.param.b64 %d2, [r]; }", &[Cause::Clock]),
            ("{ .param .b64 r; .param .b64 n; call (r), malloc, (n); }", &[Cause::Malloc]),
            ("// %clock\n /* %smid; */ ret;", &[]),
        ] {
            assert_eq!(of(body), expected, "{body}");
        }
        assert_eq!(causes(b".version 8.0 .entry k() { ret; }", "other"), None);
        // Cut anywhere, and nonsense: nothing is trusted.
        let text =
            b".version 8.0 .entry k(.param .u64 o) { @!%p atom.add.f32 %f1, [%d1], %f2; call (r), x, (y); ret; }";
        (0..text.len()).for_each(|len| _ = causes(&text[..len], "k"));
    }
}
