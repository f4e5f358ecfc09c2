//! Names of kernels for people: C++ and Rust names as their source has them, in full or the last part alone.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;

/// The form of kernel names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// As in the trace.
    Mangled,
    /// Demangled, with namespaces, template arguments and parameters.
    Full,
    /// Without namespaces, template arguments and parameters.
    Short,
}

/// Names that were looked up, each computed once.
pub struct Names {
    style: Style,
    known: RefCell<HashMap<String, String>>,
}

impl Names {
    /// An empty cache of names in this style.
    pub fn new(style: Style) -> Names {
        Names { style, known: RefCell::default() }
    }

    /// Where there is room for a word only.
    pub fn brief(&self, name: &str) -> String {
        match self.style {
            Style::Mangled => name.to_owned(),
            _ => styled(name, Style::Short).into_owned(),
        }
    }

    /// The name in this style; an unmangled name stays.
    pub fn display_name(&self, name: &str) -> String {
        if let Some(known) = self.known.borrow().get(name) {
            return known.clone();
        }
        let shown = styled(name, self.style).into_owned();
        self.known.borrow_mut().insert(name.to_owned(), shown.clone());
        shown
    }
}

/// A longer name is shown as it is: what it means is nobody's to read, and working it out may take long.
const LONGEST: usize = 16 << 10;

fn styled(name: &str, style: Style) -> Cow<'_, str> {
    if style == Style::Mangled || name.len() > LONGEST {
        return name.into();
    }
    let full = demangled(name);
    match style {
        Style::Short => last_part(&full).to_owned().into(),
        _ => full,
    }
}

fn demangled(name: &str) -> Cow<'_, str> {
    // Rust's older names are valid C++ names that end in a hash: first theirs.
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}").into();
    }
    trace::show::signature::demangled(name).map_or(name.into(), Cow::Owned)
}

/// `foo` of `void at::native::foo<float, (int)4>(float*)`.
pub fn last_part(full: &str) -> &str {
    // Of the parts outside of all brackets: the word before the parameters, or before the template arguments.
    let (mut depth, mut start, mut end) = (0usize, 0, None);
    // `[CUDA memcpy Host-to-Device]` is no name of a kernel.
    if full.starts_with('[') {
        return full;
    }
    let bytes = full.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        // `operator()`, `operator<`: brackets that are none.
        if depth == 0 && bytes[at..].starts_with(b"operator") && end.is_none() {
            let rest = &full[at + 8..];
            let symbols =
                if rest.starts_with("()") { 2 } else { rest.len() - rest.trim_start_matches(OPERATORS).len() };
            return &full[at..at + 8 + symbols];
        }
        match bytes[at] {
            // Not a parameter list but the name of a nameless namespace or lambda.
            b'(' if depth == 0 && bytes[at..].starts_with(b"(anonymous namespace)") => {
                at += "(anonymous namespace)".len() - 1
            }
            b'(' if depth == 0 => {
                end.get_or_insert(at);
                break;
            }
            b'<' | b'{' | b'(' | b'[' => {
                if depth == 0 {
                    end.get_or_insert(at);
                }
                depth += 1;
            }
            b'>' | b'}' | b')' | b']' => depth = depth.saturating_sub(1),
            b' ' | b':' if depth == 0 => (start, end) = (at + 1, None),
            _ => {}
        }
        at += 1;
    }
    let part = &full[start..end.unwrap_or(full.len())];
    if part.is_empty() { full } else { part }
}

const OPERATORS: [char; 12] = ['<', '>', '=', '!', '+', '-', '*', '/', '%', '&', '|', '^'];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read() {
        let all = |name| [Style::Mangled, Style::Full, Style::Short].map(|style| styled(name, style).into_owned());
        assert_eq!(all("vector_add"), ["vector_add"; 3]);
        assert_eq!(all("_Z3addPfS_i"), ["_Z3addPfS_i", "add(float*, float*, int)", "add"]);
        let template = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEEEEviT0_";
        assert_eq!(
            all(template)[1..],
            [
                "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >(int, at::native::FillFunctor<float>)",
                "vectorized_elementwise_kernel"
            ]
        );
        // Rust, as its compilers name functions now and before.
        assert_eq!(all("_RNvCs15kBYyAo9fc_7mycrate3foo")[1..], ["mycrate::foo", "foo"]);
        assert_eq!(all("_ZN7mycrate3foo17h0123456789abcdefE")[1..], ["mycrate::foo", "foo"]);
        // What only looks mangled stays as it is.
        assert_eq!(all("_Zjunk"), ["_Zjunk"; 3]);
        assert_eq!(all(""), [""; 3]);
    }

    #[test]
    fn the_last_part_of_anything() {
        assert_eq!(last_part("void (anonymous namespace)::softmax<float>(float*)"), "softmax");
        assert_eq!(last_part("foo::bar::operator()(int) const"), "operator()");
        assert_eq!(last_part("a::operator<(b)"), "operator<");
        assert_eq!(last_part("void f<g(int)::{lambda()#1}>(int)"), "f");
        assert_eq!(last_part("kernel"), "kernel");
        assert_eq!(last_part("::"), "::");
        // Characters of several bytes, inside brackets and outside of them.
        assert_eq!(last_part("\u{e4}add"), "\u{e4}add");
        assert_eq!(last_part("void n\u{e4}m::\u{6838}<\u{1f600}>(\u{202e}int)"), "\u{6838}");
        assert_eq!(last_part("operator\u{e4}"), "operator");
        assert_eq!(last_part("\u{fffd}(anonymous namespace\u{9b}"), "\u{fffd}");
    }
}
