//! Arguments of a kernel, each with its type if the kernel's C++ name gives it.

use trace::model::objects::Objects;
use trace::model::value::Value;
use trace::show::text::Text;

/// Longer types say less than they take.
const LONGEST: usize = 24;

/// As they stand in a call: `float* 0x7f..(mem#1), int 1000`.
pub(super) fn list(arguments: &[Value], objects: &Objects) -> String {
    let shown = arguments.iter().map(|value| {
        let declared = match value {
            Value::Argument { of, .. } => of.declared(),
            _ => None,
        };
        // Types of PTX, with a dot, tell a reader little beside the value.
        let named = declared.filter(|declared| !declared.name.starts_with('.') && declared.name.len() <= LONGEST);
        let text = Text(value, objects);
        named.map_or_else(|| text.to_string(), |declared| format!("{} {text}", declared.name))
    });
    shown.collect::<Vec<_>>().join(", ")
}
