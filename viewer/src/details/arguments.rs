//! Arguments of a kernel, by the types that its C++ name tells; what they are is guessed by their value where it tells none.

use crate::kernel_name::parameters;
use trace::objects::Objects;
use trace::text::Text;
use trace::value::Value;

/// Longer types say less than they take.
const LONGEST: usize = 24;

/// As they stand in a call: `float* 0x7f..(mem#1), int 1000`.
pub fn list(kernel: &str, arguments: &[Value], objects: &Objects) -> String {
    let types = parameters(kernel).filter(|types| types.len() == arguments.len()).unwrap_or_default();
    let shown = arguments.iter().enumerate().map(|(index, value)| {
        let text = |value: &Value| Text(value, objects).to_string();
        let Some(ty) = types.get(index) else { return text(value) };
        let value = match value {
            Value::Argument(bytes) => typed(ty, bytes).map_or_else(|| text(value), |value| text(&value)),
            value => text(value),
        };
        if ty.len() <= LONGEST { format!("{ty} {value}") } else { value }
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// None: a type of the program's own, or bytes that are not as long as the type.
fn typed(ty: &str, bytes: &[u8]) -> Option<Value<'static>> {
    if ty.ends_with(['*', '&']) {
        let value = u64::from_le_bytes(bytes.try_into().ok()?);
        return Some(if value == 0 { Value::Null } else { Value::Address { value, born: false } });
    }
    let wide = || {
        let mut all = [0; 8];
        all.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some((u64::from_le_bytes(all), 64 - 8 * bytes.len() as u32))
    };
    let is = |size: usize| bytes.len() == size;
    match ty.strip_suffix(" const").unwrap_or(ty) {
        "float" if is(4) => Some(Value::Float(f32::from_le_bytes(bytes.try_into().ok()?).into())),
        "double" if is(8) => Some(Value::Float(f64::from_le_bytes(bytes.try_into().ok()?))),
        "bool" | "unsigned char" if is(1) => wide().map(|(value, _)| Value::Unsigned(value)),
        "unsigned short" if is(2) => wide().map(|(value, _)| Value::Unsigned(value)),
        "unsigned int" if is(4) => wide().map(|(value, _)| Value::Unsigned(value)),
        "unsigned long" | "unsigned long long" if is(8) => wide().map(|(value, _)| Value::Unsigned(value)),
        "char" | "signed char" if is(1) => signed(wide()?),
        "short" if is(2) => signed(wide()?),
        "int" if is(4) => signed(wide()?),
        "long" | "long long" if is(8) => signed(wide()?),
        _ => None,
    }
}

fn signed((value, unused): (u64, u32)) -> Option<Value<'static>> {
    Some(Value::Signed((value << unused) as i64 >> unused))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_come_from_the_name() {
        let word = |bytes: &[u8]| Value::Argument(bytes.to_vec().into());
        let all = [word(&0x1000u64.to_le_bytes()), word(&(-3i32).to_le_bytes()), word(&1f32.to_le_bytes())];
        let objects = Objects::default();
        assert_eq!(list("_Z3addPfif", &all, &objects), "float* 0x1000, int -3, float 1.0");
        // A small number that is a float, and one that looks like one.
        assert_eq!(list("_Z1fj", &[word(&0x3f80_0000u32.to_le_bytes())], &objects), "unsigned int 1065353216");
        // Another number of them, another length, no C++.
        assert_eq!(list("_Z1fjj", &[word(&[1, 0, 0, 0])], &objects), "1");
        assert_eq!(list("_Z1fd", &[word(&[1, 0, 0, 0])], &objects), "double 1");
        assert_eq!(list("scale", &[word(&[1, 0, 0, 0])], &objects), "1");
    }
}
