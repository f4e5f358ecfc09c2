//! The types of a kernel's parameters, from its C++ name, from the PTX that it was loaded from, or both.
//!
//! The name is more precise about numbers (compilers write `.u32` for `int`), the PTX about the program's own
//! types (an enumeration is a number, a class is bytes). A name is trusted if it gives as many parameters as
//! the trace, all of the same sizes.

use crate::base::hash::Hash;
pub use crate::code::parameter_types::{Declared, Form, Signature};
use crate::code::parameters::{Code, Number, Parameter, from};
use crate::file::record::Kernel;
use crate::model::origins::image;
use crate::model::value::Slot;
use crate::read::call::{Call, When};
use crate::read::reader::Trace;
use std::sync::OnceLock;

impl<'a> Slot<'a> {
    /// The parameter's type, if the kernel's name or code declares it.
    pub fn declared(&self) -> Option<&'a Declared> {
        self.trace.signature(self.kernel, self.call).get(self.index)?.as_ref()
    }
}

impl Trace {
    /// The types of the parameters of a kernel, by its id, that call `at` launches or adds to a graph; empty
    /// where nothing tells.
    pub fn signature(&self, kernel: u32, at: u64) -> &[Option<Declared>] {
        let empty = || self.kernels.keys().map(|id| (*id, OnceLock::new())).collect();
        let Some(found) = self.signatures.by_kernel.get_or_init(empty).get(&kernel) else { return &[] };
        found.get_or_init(|| {
            let Some(kernel) = self.kernels.get(&kernel) else { return Signature::new() };
            let sizes: Vec<u32> = kernel.params.iter().flatten().map(|(_, size)| *size).collect();
            signature(&kernel.name, &sizes, || self.declared(kernel, at))
        })
    }

    /// What the PTX declares.
    fn declared(&self, kernel: &Kernel, at: u64) -> Option<Vec<Parameter>> {
        if let Some(load) = self.load_of(kernel, at) {
            let (image, own) = self.declared_in(load, &kernel.name)?;
            let linked = || self.linked_of(&load, image).into_iter();
            return own.or_else(|| linked().find_map(|input| self.declared_in(input, &kernel.name)?.1));
        }
        // Which image of an adopted module has it, nobody tells: those that have it must agree.
        let adopted = self.adopted.iter().find(|adopted| adopted.module == kernel.module)?;
        let mut all = adopted.images.iter().filter_map(|image| {
            let bytes = self.blob(Hash::from_bytes(*image))?;
            let read = from(bytes);
            Code::of_text(0, bytes.len(), &read).kernel(&kernel.name, &read).map(<[Parameter]>::to_vec)
        });
        let first = all.next()?;
        all.all(|other| other == first).then_some(first)
    }

    /// The address of the image that a call gave the driver, and what its text declares.
    fn declared_in(&self, load: Call, name: &str) -> Option<(u64, Option<Vec<Parameter>>)> {
        let (address, len) = image(&load)?;
        let read = |at: u64, len: usize| load.memory(When::Entry, at, len as u64).map(|bytes| bytes.into_owned());
        let mut texts = self.signatures.texts.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let code = texts.entry(load.number).or_insert_with(|| Code::of_text(address, len, &read));
        Some((address, code.kernel(name, &read).map(<[Parameter]>::to_vec)))
    }
}

fn signature(name: &str, sizes: &[u32], code: impl FnOnce() -> Option<Vec<Parameter>>) -> Signature {
    let is_of_size = |(declared, size): (&Declared, &u32)| declared.form.size().is_none_or(|own| own == *size);
    let named = of_name(name).filter(|all| all.len() == sizes.len() && all.iter().zip(sizes).all(is_of_size));
    if let Some(named) = &named
        && named.iter().all(|declared| declared.form != Form::Bytes)
    {
        return named.iter().cloned().map(Some).collect();
    }
    let code = code().filter(|all| all.iter().map(|parameter| parameter.size).eq(sizes.iter().copied()));
    let mut written = code.into_iter().flatten().map(|parameter| of_text(&parameter));
    let Some(named) = named else { return written.collect() };
    let both = |declared: Declared| match (declared.form, written.next().flatten().map(|written| written.form)) {
        (Form::Bytes, Some(form @ (Form::Numbers(_, _, 1) | Form::Pointer))) => Declared { form, ..declared },
        _ => declared,
    };
    named.into_iter().map(both).map(Some).collect()
}

/// None for bits of no type: what they mean, PTX does not say.
fn of_text(parameter: &Parameter) -> Option<Declared> {
    let element = parameter.element?;
    let (bits, count) = (element.size * 8, parameter.size / element.size);
    let kind = match element.number {
        Some(Number::Unsigned) => "u",
        Some(Number::Signed) => "s",
        Some(Number::Float) => "f",
        Some(Number::Brain) => "bf",
        None => "b",
    };
    let (mut name, is_array) = (format!(".{kind}{bits}"), count != 1);
    if is_array {
        name += &format!("[{count}]");
    }
    let form = match element.number {
        _ if parameter.is_pointer == Some(true) && parameter.size == 8 => {
            name += " .ptr";
            Form::Pointer
        }
        Some(Number::Unsigned) if bits == 64 && !is_array && parameter.is_pointer.is_none() => Form::Word,
        Some(number) => Form::Numbers(number, element.size, count),
        None if is_array => Form::Bytes,
        None => return None,
    };
    Some(Declared { name, form })
}

fn of_name(name: &str) -> Option<Vec<Declared>> {
    let form = |name: String| Declared { form: of_type(&name), name };
    Some(types(&demangled(name)?)?.into_iter().map(form).collect())
}

/// Longer names are not worked out, nor those that stand for more: names in a trace are anybody's, and a
/// short one can stand for more text than there is memory.
const LONGEST: usize = 16 << 10;
#[cfg(feature = "demangle")]
const MOST: usize = 64 << 10;

/// A C++ name as its source has it; None if it is none.
#[cfg(feature = "demangle")]
pub fn demangled(name: &str) -> Option<String> {
    struct Bounded(String);
    impl cpp_demangle::DemangleWrite for Bounded {
        fn write_string(&mut self, text: &str) -> std::fmt::Result {
            if self.0.len() + text.len() > MOST {
                return Err(std::fmt::Error);
            }
            self.0.push_str(text);
            Ok(())
        }
    }
    let symbol = (name.starts_with("_Z") && name.len() <= LONGEST).then(|| cpp_demangle::Symbol::new(name).ok())??;
    let mut out = Bounded(String::new());
    symbol.structured_demangle(&mut out, &Default::default()).ok()?;
    Some(out.0)
}

/// The recorder has no use for names.
#[cfg(not(feature = "demangle"))]
pub fn demangled(name: &str) -> Option<String> {
    let _ = (name, LONGEST);
    None
}

/// The types of a function's parameters: `float const*` and `int` of `add(float const*, int)`.
fn types(function: &str) -> Option<Vec<String>> {
    let inner = function.strip_suffix(')')?;
    // The bracket that opens the list, from behind: names hold brackets, too.
    let (mut depth, mut commas, mut open) = (0usize, Vec::new(), None);
    for (at, byte) in inner.bytes().enumerate().rev() {
        match byte {
            b')' | b'>' | b']' | b'}' => depth += 1,
            b'(' if depth == 0 => {
                open = Some(at);
                break;
            }
            b'(' | b'<' | b'[' | b'{' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => commas.push(at),
            _ => {}
        }
    }
    let mut start = open? + 1;
    commas.reverse();
    commas.push(inner.len());
    let parts = commas.into_iter().map(|end| inner[std::mem::replace(&mut start, end + 1)..end].trim().to_owned());
    let types: Vec<String> = parts.collect();
    Some(if types == [""] || types == ["void"] { Vec::new() } else { types })
}

/// Types of C++ on Linux, and those of CUDA's headers that are numbers.
fn of_type(name: &str) -> Form {
    use Number::{Brain, Float, Signed, Unsigned};
    let bare = [" const", " volatile", " restrict", " __restrict"]
        .iter()
        .fold(name, |name, suffix| name.strip_suffix(suffix).unwrap_or(name));
    // Not a pointer to a member, which is an offset.
    let is_pointer = bare.ends_with(['*', '&']) && !bare.ends_with("::*");
    if is_pointer || bare.contains("(*)") || bare.contains("(&)") {
        return Form::Pointer;
    }
    let (number, size, count) = match bare {
        "bool" => return Form::Bool,
        "float" => (Float, 4, 1),
        "double" => (Float, 8, 1),
        "char" | "signed char" => (Signed, 1, 1),
        "short" => (Signed, 2, 1),
        "int" | "wchar_t" => (Signed, 4, 1),
        "long" | "long long" => (Signed, 8, 1),
        "unsigned char" | "char8_t" => (Unsigned, 1, 1),
        "unsigned short" | "char16_t" => (Unsigned, 2, 1),
        "unsigned int" | "char32_t" => (Unsigned, 4, 1),
        "unsigned long" | "unsigned long long" => (Unsigned, 8, 1),
        "__half" | "_Float16" | "c10::Half" => (Float, 2, 1),
        "__half2" => (Float, 2, 2),
        "__nv_bfloat16" | "c10::BFloat16" => (Brain, 2, 1),
        "__nv_bfloat162" => (Brain, 2, 2),
        "dim3" => (Unsigned, 4, 3),
        bare => return of_vector(bare).map_or(Form::Bytes, |(number, size, count)| Form::Numbers(number, size, count)),
    };
    Form::Numbers(number, size, count)
}

/// `float4`, `uint2`; and complex numbers, of whichever library.
fn of_vector(name: &str) -> Option<(Number, u32, u32)> {
    use Number::{Float, Signed, Unsigned};
    match name.split_once("::complex<").map(|(_, of)| of.trim_end_matches(['>', ' '])) {
        Some("float") => return Some((Float, 4, 2)),
        Some("double") => return Some((Float, 8, 2)),
        _ => {}
    }
    let count = name.chars().last()?.to_digit(10).filter(|count| (1..=4).contains(count))?;
    let (number, size) = match &name[..name.len() - 1] {
        "float" => (Float, 4),
        "double" => (Float, 8),
        "char" => (Signed, 1),
        "short" => (Signed, 2),
        "int" => (Signed, 4),
        "long" | "longlong" => (Signed, 8),
        "uchar" => (Unsigned, 1),
        "ushort" => (Unsigned, 2),
        "uint" => (Unsigned, 4),
        "ulong" | "ulonglong" => (Unsigned, 8),
        _ => return None,
    };
    Some((number, size, count))
}

#[cfg(all(test, feature = "demangle"))]
mod tests {
    use super::*;
    use Number::{Brain, Float, Signed, Unsigned};

    fn parameters(text: &str) -> Vec<Parameter> {
        let text = format!(".version 8.0\n.entry k({text}) {{ }}");
        let read = from(text.as_bytes());
        Code::of_text(0, text.len(), &read).kernel("k", &read).expect("a kernel").to_vec()
    }

    /// `type form` of every parameter.
    #[track_caller]
    fn is(name: &str, sizes: &[u32], text: &str, wanted: &[(&str, Form)]) {
        let code = || (!text.is_empty()).then(|| parameters(text));
        let found = signature(name, sizes, code);
        let found: Vec<_> = found.iter().flatten().map(|declared| (declared.name.as_str(), declared.form)).collect();
        assert_eq!(found, wanted, "{name}");
    }

    const INT: Form = Form::Numbers(Signed, 4, 1);

    #[test]
    fn names_tell_types() {
        let list = types(&demangled("_Z3addPKfS0_Pfi").expect("a name")).map(|types| types.join("|"));
        assert_eq!(list.as_deref(), Some("float const*|float const*|float*|int"));
        is(
            "_Z3addPfif",
            &[8, 4, 4],
            "",
            &[("float*", Form::Pointer), ("int", INT), ("float", Form::Numbers(Float, 4, 1))],
        );
        is("_Z1fv", &[], "", &[]);
        // Templates name their parameters' types by those of their arguments.
        is(
            "_Z5scaleIfiEvPT_S0_T0_",
            &[8, 4, 4],
            "",
            &[("float*", Form::Pointer), ("float", Form::Numbers(Float, 4, 1)), ("int", INT)],
        );
        is(
            "_Z1h6__half13__nv_bfloat166float4RKiPFvvE",
            &[2, 2, 16, 8, 8],
            "",
            &[
                ("__half", Form::Numbers(Float, 2, 1)),
                ("__nv_bfloat16", Form::Numbers(Brain, 2, 1)),
                ("float4", Form::Numbers(Float, 4, 4)),
                ("int const&", Form::Pointer),
                ("void (*)()", Form::Pointer),
            ],
        );
        is(
            "_Z1fbmN3c107complexIdEE",
            &[1, 8, 16],
            "",
            &[
                ("bool", Form::Bool),
                ("unsigned long", Form::Numbers(Unsigned, 8, 1)),
                ("c10::complex<double>", Form::Numbers(Float, 8, 2)),
            ],
        );
        is("_Z1fPfS_", &[8, 8], "", &[("float*", Form::Pointer), ("float*", Form::Pointer)]);
    }

    #[test]
    fn names_that_cannot_be_right_are_not_believed() {
        // Another number of parameters, another size, no name of C++.
        is("_Z1fjj", &[4], "", &[]);
        is("_Z1fd", &[4], "", &[]);
        is("_Z1fd", &[4], ".param .f32 x", &[(".f32", Form::Numbers(Float, 4, 1))]);
        is("scale", &[4], "", &[]);
        is("_Zjunk", &[4], "", &[]);
    }

    /// Types of types, each twice as long as the one before.
    #[test]
    fn names_that_stand_for_too_much_are_left_alone() {
        let number = |n: u32| std::char::from_digit(n, 36).map(|digit| digit.to_ascii_uppercase()).expect("a digit");
        let doubled = |times| {
            let all: String = (0..times).map(|n| format!("S_IS{0}_S{0}_E", number(n))).collect();
            demangled(&format!("_Z1f4pairIiiE{all}"))
        };
        assert!(doubled(8).is_some_and(|name| name.len() > 2 << 8));
        assert_eq!(doubled(30), None);
    }

    #[test]
    fn text_tells_types() {
        let text = ".param .u64 .ptr .global .align 4 p, .param .u64 n, .param .f32 a, .param .s32 i, .param .b32 bits,
            .param .align 8 .b8 s[24], .param .f16x2 h, .param .bf16 b, .param .f64 v[2]";
        let numbers = |number, size, count| Form::Numbers(number, size, count);
        is(
            "k",
            &[8, 8, 4, 4, 4, 24, 4, 2, 16],
            text,
            &[
                (".u64 .ptr", Form::Pointer),
                (".u64", numbers(Unsigned, 8, 1)),
                (".f32", numbers(Float, 4, 1)),
                (".s32", INT),
                (".b8[24]", Form::Bytes),
                (".f16[2]", numbers(Float, 2, 2)),
                (".bf16", numbers(Brain, 2, 1)),
                (".f64[2]", numbers(Float, 8, 2)),
            ],
        );
        // Where no pointer is declared, an integer may be one.
        is("k", &[8, 4], ".param .u64 p, .param .u32 n", &[(".u64", Form::Word), (".u32", numbers(Unsigned, 4, 1))]);
        // Not the kernel that was launched.
        is("k", &[8], ".param .f32 x", &[]);
    }

    #[test]
    fn both_together() {
        // The name tells signs, the text an enumeration from a class.
        let text = ".param .u32 i, .param .u32 color, .param .align 4 .b8 point[4]";
        is(
            "_Z1fi5Color5Point",
            &[4, 4, 4],
            text,
            &[("int", INT), ("Color", Form::Numbers(Unsigned, 4, 1)), ("Point", Form::Bytes)],
        );
        is("_Z1fi5Color5Point", &[4, 4, 4], "", &[("int", INT), ("Color", Form::Bytes), ("Point", Form::Bytes)]);
    }
}
