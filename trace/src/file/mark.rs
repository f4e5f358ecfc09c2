//! The section that identifies the recorder's file, and its version, without loading it.

use crate::file::segment::FORMAT_VERSION;

/// The section of libcutrace.so that holds [`MARK`] and nothing else.
pub const SECTION: &str = ".cutrace";

/// cutrace's own version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The version of what it writes, a byte, then its own.
pub const MARK: [u8; 1 + VERSION.len()] = {
    let mut mark = [FORMAT_VERSION; 1 + VERSION.len()];
    let (_, version) = mark.split_at_mut(1);
    version.copy_from_slice(VERSION.as_bytes());
    mark
};

/// What a mark says to people: `0.1.0 (trace format 1)`.
pub fn describe(mark: &[u8]) -> String {
    match mark {
        [format, version @ ..] => format!("{} (trace format {format})", String::from_utf8_lossy(version)),
        [] => "unknown".into(),
    }
}
