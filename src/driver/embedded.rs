//! Our own libraries within the command's file, and their extraction: the loader takes only files.
//!
//! They are extracted to a directory that only the user can write to, with the contents' hash in its name.
//! Existing files are compared byte for byte each time. build.rs decides where the bytes come from.

use super::Tried;
use crate::driver::libraries::{NOT_PRELOADED, can_be_preloaded};
use std::env;
use std::ffi::CString;
use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use trace::base::hash::checksum;

const NAMES: [&str; 2] = ["libcutrace.so", "libcuda_sim.so"];

/// A library as this file holds it, compressed.
#[cfg(within)]
fn held(name: &str) -> Option<Vec<u8>> {
    let compressed: &[u8] = match name {
        "libcutrace.so" => include_bytes!(concat!(env!("OUT_DIR"), "/libcutrace.so.gz")),
        "libcuda_sim.so" => include_bytes!(concat!(env!("OUT_DIR"), "/libcuda_sim.so.gz")),
        _ => return None,
    };
    Some(compressed.to_vec())
}

#[cfg(within)]
fn bytes(name: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let compressed = held(name)?;
    flate2::read::GzDecoder::new(&*compressed).read_to_end(&mut bytes).expect("what build.rs compressed");
    Some(bytes)
}

/// A build for debugging reads them where they were built, as if it held them.
#[cfg(not(within))]
fn held(name: &str) -> Option<Vec<u8>> {
    let built = Path::new(option_env!("CUTRACE_LIBRARIES")?).join(name);
    std::fs::read(built).ok()
}

#[cfg(not(within))]
fn bytes(name: &str) -> Option<Vec<u8>> {
    held(name)
}

/// Where a library was put, now or before; or why there is no place for it.
pub(super) fn put(name: &str) -> Result<PathBuf, Tried> {
    let mut tried = Tried::default();
    let Some(bytes) = bytes(name) else {
        tried.0.push("this build of cutrace does not include it".into());
        return Err(tried);
    };
    for (base, leaf) in places(&hash()) {
        match put_below(&base, &leaf, name, &bytes) {
            Ok(path) => return Ok(path),
            Err(why) => tried.0.push(format!("{}: {why}", base.join(leaf).display())),
        }
    }
    tried.0.push("set XDG_CACHE_HOME to your own directory on a file system without noexec".into());
    Err(tried)
}

/// Of all libraries: they lie in one directory, so that who knows where one is finds the other.
fn hash() -> String {
    format!("{:016x}", checksum(&NAMES.iter().flat_map(|name| held(name).unwrap_or_default()).collect::<Vec<u8>>()))
}

/// Directories, and the names of those to be made in them: in the user's cache, else where everybody has
/// temporary files.
fn places(hash: &str) -> Vec<(PathBuf, PathBuf)> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    let mut places: Vec<_> = cache.into_iter().map(|cache| (cache, Path::new("cutrace").join(hash))).collect();
    let temporary = [absolute("TMPDIR"), Some("/tmp".into())];
    places.extend(temporary.into_iter().flatten().map(|base| (base, format!("cutrace-{}-{hash}", user()).into())));
    places.dedup();
    places
}

fn put_below(base: &Path, leaf: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf, String> {
    let directory = base.join(leaf);
    if !can_be_preloaded(&directory) {
        return Err(NOT_PRELOADED.into());
    }
    let in_words = |error: io::Error| error.to_string();
    // Before anything is made there, and again when it is: another file system may be mounted in between.
    let is_noexec = || directory.ancestors().find(|path| path.exists()).is_some_and(is_noexec);
    const NOEXEC: &str = "mounted noexec: libraries cannot be loaded from it";
    if is_noexec() {
        return Err(NOEXEC.into());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(in_words)?;
    // Who owns a directory above could put another one in its place; of a sticky one only root could.
    let above = directory.ancestors().skip(1).take(leaf.components().count());
    for above in above {
        let found = std::fs::metadata(above).map_err(in_words)?;
        let is_sticky = found.mode() & libc::S_ISVTX != 0;
        if found.uid() != user() && !(found.uid() == 0 && is_sticky) {
            return Err(format!("{} belongs to another user", above.display()));
        }
    }
    let found = std::fs::symlink_metadata(&directory).map_err(in_words)?;
    if !found.is_dir() || found.uid() != user() || found.mode() & 0o077 != 0 {
        return Err("not a private directory of yours (expected mode 0700)".into());
    }
    if is_noexec() {
        return Err(NOEXEC.into());
    }
    let path = directory.join(name);
    if !holds(&path, bytes) {
        write(&directory, &path, bytes).map_err(in_words)?;
    }
    Ok(path)
}

fn holds(path: &Path, bytes: &[u8]) -> bool {
    let is_plain = std::fs::symlink_metadata(path).is_ok_and(|found| {
        found.is_file() && found.uid() == user() && found.mode() & 0o022 == 0 && found.len() == bytes.len() as u64
    });
    let mut found = Vec::with_capacity(bytes.len());
    is_plain && File::open(path).and_then(|mut file| file.read_to_end(&mut found)).is_ok() && found == bytes
}

/// Whole or not at all: another process may be loading it, or writing it as well.
fn write(directory: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut new = tempfile::NamedTempFile::new_in(directory)?;
    new.write_all(bytes)?;
    new.as_file().set_permissions(Permissions::from_mode(0o500))?;
    new.persist(path)?;
    Ok(())
}

fn user() -> u32 {
    // SAFETY: a plain system call.
    unsafe { libc::geteuid() }
}

fn is_noexec(directory: &Path) -> bool {
    let name = CString::new(directory.as_os_str().as_bytes()).unwrap_or_default();
    // SAFETY: the name ends with NUL; an all-zero statvfs is valid, and the call fills it.
    unsafe {
        let mut info: libc::statvfs = std::mem::zeroed();
        libc::statvfs(name.as_ptr(), &mut info) == 0 && info.f_flag & libc::ST_NOEXEC != 0
    }
}
