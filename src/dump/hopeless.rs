//! Calls whose lines `--grep` cannot match, told without writing the lines.
//!
//! What a pattern's matches must hold is looked for as *words*: runs of letters, `_` and `!`. Nothing in a
//! line joins two pieces of text to one such run, so that it is enough to know the pieces: what stands in
//! every line, the names of the function, its parameters and the values that those have by their types, and
//! what kernels are called. Numbers are no words: what they are written with (`0xaf`, `1e-7`) is never
//! looked for. A line that may hold other text (a string, a structure, an error) is written and matched.

use crate::line::NOT_READY;
use regex::Regex;
use regex_syntax::hir::{Hir, HirKind};
use trace::api::Function;
use trace::api::roles::{Extent, Field, Role};
use trace::api::types::{Form, Kind, Type};
use trace::model::objects::Objects;
use trace::read::call::Content;
use trace::show::text::plain;
use trace::{Call, Trace};

/// Words that any line may hold, beside those of its function.
const ANYWHERE: &[&str] = &[
    "NULL",
    "CU_STREAM_LEGACY",
    "CU_STREAM_PER_THREAD",
    "CUDA_SUCCESS",
    "CUDA_ERROR_NOT_READY",
    "NaN",
    "inf",
    "bf",
    "true",
    "false",
    "ns",
    "us",
    "ms",
    "mem",
    "host",
    "global",
    "was",
    "destroyed",
    "freed",
    "given",
    "up",
    "by",
    "call",
    "more",
    "and",
    "missing",
    "left",
    "out",
    "blob",
    "hash",
    "late",
    "bytes",
    "arguments",
    "not",
    "recorded",
    "seen",
    "to",
    "arrive",
    "B",
];

/// For one pattern.
#[derive(Clone)]
pub struct Hopeless {
    /// Each line that matches holds one of them.
    words: Vec<String>,
    /// By the function's id.
    lines: Vec<Line>,
    /// Some kernel's name holds a word.
    is_named: bool,
}

/// What lines of calls of a function may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// One of the words, or anything.
    Word,
    /// Names of kernels, and none of the words.
    Names,
    Nothing,
}

impl Hopeless {
    /// None if the pattern does not tell words that its matches hold.
    pub fn of(pattern: &Regex, trace: &Trace) -> Option<Hopeless> {
        let words = required(&regex_syntax::parse(pattern.as_str()).ok()?)?;
        let functions = 0..trace.preamble.functions.len() as u16;
        let mut hopeless = Hopeless { words, lines: Vec::new(), is_named: false };
        hopeless.lines = functions.map(|id| hopeless.line(trace.function_name(id), trace.function(id))).collect();
        hopeless.is_named = trace.kernels.values().any(|kernel| hopeless.is_in(&plain(&kernel.name)));
        Some(hopeless)
    }

    /// Looks at the names that the call has brought to which `objects` was moved last.
    pub fn learn(&mut self, objects: &Objects) {
        self.is_named |= objects.made().any(|(.., name)| name.is_some_and(|name| self.is_in(&plain(name))));
    }

    /// Whether the line of a call does not match. Its names have been learnt.
    pub fn is_call(&self, call: &Call) -> bool {
        match self.lines.get(usize::from(call.function_id())) {
            None | Some(Line::Word) => false,
            Some(Line::Names) if self.is_named => false,
            _ => is_usual(call),
        }
    }

    fn is_in(&self, text: &str) -> bool {
        self.words.iter().any(|word| text.contains(word.as_str()))
    }

    fn line(&self, name: &str, function: Option<&Function>) -> Line {
        if ANYWHERE.iter().any(|text| self.is_in(text)) || self.is_in(&plain(name)) {
            return Line::Word;
        }
        let params = function.filter(|function| !function.opaque).map_or(&[][..], |function| function.params);
        let all = params.iter().map(|field| if self.is_in(field.name) { Line::Word } else { self.parameter(field) });
        all.fold(Line::Nothing, Line::and)
    }

    fn parameter(&self, field: &Field) -> Line {
        match (field.role, field.ty.form) {
            (Role::Bits(names), _) => self.names(names.values),
            (Role::Union(..), _) => Line::Word,
            (Role::Out(Extent::One) | Role::Create(Extent::One) | Role::Volatile(Extent::One), Form::Pointer(to)) => {
                self.value(to)
            }
            (Role::Source(_) | Role::Sink(_), Form::Pointer(_)) => Line::Nothing,
            (Role::Arguments(_) | Role::Extra, Form::Pointer(_)) => Line::Names,
            (
                Role::Address | Role::HostAddress | Role::Destroy | Role::Opaque | Role::UserData | Role::EntryPoint,
                Form::Pointer(_),
            ) => Line::Nothing,
            (_, Form::Pointer(_)) => Line::Word,
            _ => self.value(field.ty),
        }
    }

    fn value(&self, ty: &Type) -> Line {
        match ty.form {
            Form::Unsigned | Form::Signed | Form::Float | Form::Char | Form::Address | Form::Callback => Line::Nothing,
            Form::Enum(names) => self.names(names.values),
            Form::Handle(kind) if self.is_in(kind.label()) => Line::Word,
            Form::Handle(Kind::Function | Kind::Kernel) => Line::Names,
            Form::Handle(_) => Line::Nothing,
            Form::Void | Form::Pointer(_) | Form::Array(..) | Form::Struct(_) => Line::Word,
        }
    }

    fn names(&self, values: &[(&str, i64)]) -> Line {
        if values.iter().any(|(name, _)| self.is_in(name)) { Line::Word } else { Line::Nothing }
    }
}

impl Line {
    fn and(self, other: Line) -> Line {
        match (self, other) {
            (Line::Word, _) | (_, Line::Word) => Line::Word,
            (Line::Names, _) | (_, Line::Names) => Line::Names,
            _ => Line::Nothing,
        }
    }
}

/// Whether it did what most do: then its line tells of nothing but its arguments.
fn is_usual(call: &Call) -> bool {
    if !matches!(call.result, Some(0 | NOT_READY)) || call.repeats.is_some() || call.has_written() {
        return false;
    }
    let mut has_arguments = false;
    for image in call.images() {
        if image.option != 0 {
            return false;
        }
        // Of a kernel that the trace has lost nothing tells what they are.
        has_arguments |= matches!(image.content, Content::Arguments { kernel, .. } if call.kernel(kernel).is_some());
    }
    let function = call.function().filter(|function| !function.opaque);
    function.is_none_or(|function| {
        function.params.iter().enumerate().all(|(at, field)| match field.role {
            // Why there are none is told in words.
            Role::Arguments(_) => has_arguments || call.argument_of(at) == Some(0),
            Role::Extra => call.argument_of(at) == Some(0),
            _ => true,
        })
    })
}

/// Words of which each match holds one, if there are such.
fn required(pattern: &Hir) -> Option<Vec<String>> {
    match pattern.kind() {
        HirKind::Literal(literal) => word(std::str::from_utf8(&literal.0).ok()?).map(|word| vec![word.to_owned()]),
        HirKind::Capture(capture) => required(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => required(&repetition.sub),
        // Those of the part whose shortest is the longest.
        HirKind::Concat(parts) => {
            parts.iter().filter_map(required).max_by_key(|words| words.iter().map(String::len).min())
        }
        HirKind::Alternation(all) => Some(all.iter().map(required).collect::<Option<Vec<_>>>()?.concat()),
        _ => None,
    }
}

/// The longest one in a text that no number is written with.
fn word(text: &str) -> Option<&str> {
    let runs = text.split(|c: char| !(c.is_ascii_alphabetic() || matches!(c, '_' | '!')));
    runs.filter(|run| run.contains(|c| !matches!(c, 'a'..='f' | 'x'))).max_by_key(|run| run.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::{Arguments, blocks};
    use clap::Parser;
    use std::collections::BTreeSet;
    use std::fmt::Debug;
    use viewer::synthetic::{Shape, write};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        dump: Arguments,
    }

    fn dump(trace: &Trace, grep: &str) -> String {
        let line = Line::parse_from(["dump", "--grep", grep]);
        let mut out = Vec::new();
        blocks::each(trace, &line.dump, |block| {
            out.extend(block.bytes);
            Ok(true)
        })
        .expect("nothing to refuse");
        String::from_utf8(out).expect("text")
    }

    /// Of every word that stands in a dump: it tells the same lines as a pattern of which no word is
    /// required.
    #[track_caller]
    fn nothing_is_left_out(trace: &Trace, told: impl Debug) {
        let whole = dump(trace, "");
        let words: BTreeSet<&str> = whole.split(|c: char| !c.is_ascii_alphabetic() && c != '_').collect();
        assert!(words.len() > 50, "{words:?}");
        for word in words.into_iter().chain(["!!", "nothing"]) {
            let all = format!("{word}|[.,]{{9}}");
            assert!(Hopeless::of(&Regex::new(&all).expect("a pattern"), trace).is_none());
            assert_eq!(dump(trace, word), dump(trace, &all), "{word:?} in {told:?}");
        }
    }

    #[test]
    fn what_is_passed_over_does_not_match() {
        let golden = std::fs::read_dir("tests/golden").expect("a directory").map(|entry| entry.expect("a file").path());
        golden
            .filter(|path| path.extension().is_some_and(|end| end == "bin"))
            .for_each(|path| nothing_is_left_out(&Trace::open(&path).expect("a trace"), path));
        let made = tempfile::NamedTempFile::new().expect("a file");
        write(made.path(), Shape { calls: 300, ..Shape::default() }).expect("a trace");
        let mut trace = Trace::open(made.path()).expect("a trace");
        nothing_is_left_out(&trace, "one that was made");
        trace.kernels.clear();
        nothing_is_left_out(&trace, "one whose kernels are lost");
    }

    #[test]
    fn words_that_matches_hold() {
        let of = |pattern: &str| required(&regex_syntax::parse(pattern).expect("a pattern"));
        let words = |all: &[&str]| Some(all.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(of("^cuLaunchKernel\\(f=.*gemm_f16"), words(&["cuLaunchKernel"]));
        assert_eq!(of("cuMemcpy|cuMemset"), words(&["cuMemcpy", "cuMemset"]));
        assert_eq!(of("(alpha|beta)+ [a-z]?"), words(&["alpha", "beta"]));
        assert_eq!(of("!! .*INVALID"), words(&["INVALID"]));
        for nothing in ["(?i)gemm", "mem#2|0x7f", "0xdead", "x*", "", "\\d+ us|[a-z]"] {
            assert_eq!(of(nothing), None, "{nothing}");
        }
    }
}
