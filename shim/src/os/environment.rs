//! Environment variables: their present values or, if the program has removed them since, those at its start.
//! A program may clear its environment before its first driver call, such as a daemon or a sandbox.

use std::ffi::{CStr, OsStr, OsString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

/// One after the other, each with its NUL.
static FIRST: OnceLock<Vec<u8>> = OnceLock::new();

/// Copies all variables: in the constructor, before the program can change them.
pub(crate) fn keep() {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    FIRST.get_or_init(|| {
        let mut all = Vec::new();
        // SAFETY: null, or an array of C strings that ends with null; nobody changes it before the program runs.
        unsafe {
            let mut next = environ;
            while !next.is_null() && !(*next).is_null() {
                all.extend_from_slice(CStr::from_ptr(*next).to_bytes_with_nul());
                next = next.add(1);
            }
        }
        all
    });
}

fn first() -> impl Iterator<Item = (&'static OsStr, &'static OsStr)> {
    let all = FIRST.get().map_or(&[][..], Vec::as_slice).split(|byte| *byte == 0);
    all.filter_map(|one| {
        let at = one.iter().position(|byte| *byte == b'=')?;
        Some((OsStr::from_bytes(&one[..at]), OsStr::from_bytes(&one[at + 1..])))
    })
}

pub(crate) fn variable(name: impl AsRef<OsStr>) -> Option<OsString> {
    let name = name.as_ref();
    let at_first = || first().find(|(known, _)| *known == name).map(|(_, value)| value.to_owned());
    std::env::var_os(name).or_else(at_first)
}

/// The same, of one that is text.
pub(crate) fn text(name: &str) -> Option<String> {
    variable(name)?.into_string().ok()
}

/// Those that begin like this, and have been removed since.
pub(crate) fn removed(start: &str) -> impl Iterator<Item = (OsString, OsString)> {
    let is_removed = move |(name, _): &(&OsStr, &OsStr)| {
        name.as_bytes().starts_with(start.as_bytes()) && std::env::var_os(name).is_none()
    };
    first().filter(is_removed).map(|(name, value)| (name.to_owned(), value.to_owned()))
}
