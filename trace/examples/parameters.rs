//! Prints the kernels of an image file with the offset and size of each parameter, one kernel per line,
//! sorted by name:
//!
//!     parameters [--sm 90] [--pointers] FILE
//!
//! `--sm` names the device for which the entry of a fatbin is chosen and the parameters are laid out.
//! `--pointers` marks each parameter as the image declares it: `*` a pointer, `=` none, `?` undeclared.
//! `tests/gpu/facts/parameters.c` prints the same from the driver's queries.

use std::io::Write;
use trace::code::parameters::{Code, Parameter, from};

fn main() -> std::process::ExitCode {
    let (mut sm, mut pointers, mut path) = (None, false, None);
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--sm") => sm = arguments.next().and_then(|sm| sm.to_str()?.parse().ok()),
            Some("--pointers") => pointers = true,
            _ => path = Some(argument),
        }
    }
    let Some(path) = path else {
        eprintln!("usage: parameters [--sm 90] [--pointers] FILE");
        return 2.into();
    };
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) => {
            eprintln!("parameters: {}: {error}", path.display());
            return 1.into();
        }
    };
    let read = from(&bytes);
    let mut code = Code::new(0, bytes.len(), sm, &read);
    let mut text = String::new();
    for (name, parameters) in code.all(&read) {
        text += name;
        parameters.iter().for_each(|parameter| text += &place(parameter, pointers));
        text += "\n";
    }
    let nothing = text.is_empty();
    let written = std::io::stdout().write_all(text.as_bytes());
    let unread: Vec<_> = code.unread().map(|unread| unread.why()).collect();
    if !unread.is_empty() {
        eprintln!("parameters: {}: not read: {}", path.display(), unread.join(", "));
    }
    u8::from(nothing || written.is_err()).into()
}

fn place(parameter: &Parameter, pointers: bool) -> String {
    let mark = match parameter.is_pointer {
        _ if !pointers => "",
        Some(true) => "*",
        Some(false) => "=",
        None => "?",
    };
    format!(" {}+{}{mark}", parameter.offset, parameter.size)
}
