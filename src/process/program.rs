//! The program to be recorded: its path, and whether a library can be preloaded into it.

use crate::terminal::exit::{CANNOT_EXECUTE, Failure, NOT_FOUND};
use object::elf::{DT_NEEDED, EM_AARCH64, EM_X86_64, FileHeader32, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, ReadCache};
use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const MACHINE: u16 = if cfg!(target_arch = "x86_64") { EM_X86_64 } else { EM_AARCH64 };
const LOADERS: &[&str] = &["ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"];
const EXECUTABLE: u32 = 0o111;
const SET_ID: u32 = 0o6000;

/// The file a shell would run.
pub(crate) fn resolve(name: &OsStr) -> Result<PathBuf, Failure> {
    let shown = Path::new(name).display();
    if name.as_bytes().contains(&b'/') {
        return executable(Path::new(name));
    }
    let path = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let mut refused = None;
    for directory in env::split_paths(&path) {
        match executable(&directory.join(name)) {
            Ok(found) => return Ok(found),
            Err(failure) if failure.status == CANNOT_EXECUTE => refused = Some(failure),
            Err(_) => {}
        }
    }
    Err(refused.unwrap_or(Failure { status: NOT_FOUND, message: format!("{shown}: no such program in PATH") }))
}

fn executable(path: &Path) -> Result<PathBuf, Failure> {
    let refuse = |status, why: &str| Err(Failure { status, message: format!("{}: {why}", path.display()) });
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return refuse(CANNOT_EXECUTE, "permission denied");
        }
        Err(_) => return refuse(NOT_FOUND, "no such program"),
    };
    if found.is_dir() {
        return refuse(CANNOT_EXECUTE, "is a directory, not a program");
    }
    let name = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
    // SAFETY: a plain system call on a NUL-terminated string.
    if found.mode() & EXECUTABLE == 0 || unsafe { libc::access(name.as_ptr(), libc::X_OK) } != 0 {
        return refuse(CANNOT_EXECUTE, "not executable");
    }
    Ok(path.to_path_buf())
}

/// Why a preloaded library would not get into the program; empty if nothing stands in the way.
pub(crate) fn obstacles(path: &Path) -> Vec<String> {
    let mut found = Vec::new();
    inspect(path, 0, &mut found);
    found
}

/// Scripts that run scripts: as many levels as the kernel allows.
const NESTING: u32 = 5;

fn inspect(path: &Path, depth: u32, found: &mut Vec<String>) {
    let mut say = |why: String| found.push(format!("{}: {why}", path.display()));
    if std::fs::metadata(path).is_ok_and(|file| file.mode() & SET_ID != 0) {
        say("setuid or setgid: the loader ignores LD_PRELOAD for it".into());
    }
    if has_capabilities(path) {
        say("has file capabilities: the loader ignores LD_PRELOAD for it".into());
    }
    // What may be run but not read cannot be looked into.
    let Ok(mut file) = File::open(path) else { return };
    let mut start = Vec::new();
    if file.by_ref().take(512).read_to_end(&mut start).is_err() {
        return;
    }
    match start.as_slice() {
        [b'#', b'!', line @ ..] if depth < NESTING => {
            for interpreter in interpreters(line) {
                match resolve(&interpreter) {
                    Ok(program) => inspect(&program, depth + 1, found),
                    Err(failure) => found.push(format!("{}: its interpreter {failure}", path.display())),
                }
            }
        }
        [b'#', b'!', ..] => say("too many nested script interpreters".into()),
        [0x7f, b'E', b'L', b'F', 1, ..] => say(match FileHeader32::<Endianness>::parse(&ReadCache::new(file)) {
            Ok(_) => "a 32-bit program: the recorder is a 64-bit library".into(),
            Err(error) => format!("a broken ELF file: {error}"),
        }),
        [0x7f, b'E', b'L', b'F', ..] => {
            if let Err(why) = elf(&ReadCache::new(file)) {
                say(why);
            }
        }
        _ => say("neither an ELF program nor a script that begins with #!".into()),
    }
}

fn elf(file: &ReadCache<File>) -> Result<(), String> {
    let broken = |error: object::Error| format!("a broken ELF file: {error}");
    let header = FileHeader64::<Endianness>::parse(file).map_err(broken)?;
    let endian = header.endian().map_err(broken)?;
    let machine = header.e_machine(endian);
    if machine != MACHINE {
        return Err(format!("a program for another architecture (ELF machine {machine}; this one is {MACHINE})"));
    }
    let segments = header.program_headers(endian, file).map_err(broken)?;
    let named = segments.iter().find_map(|segment| segment.interpreter(endian, file).transpose());
    let Some(loader) = named.transpose().map_err(broken)? else {
        return Err("statically linked: it has no loader to preload the recorder \
                    (a static cudart inside a dynamic program is fine)"
            .into());
    };
    let loader = Path::new(OsStr::from_bytes(loader));
    let name = loader.file_name().unwrap_or_default().to_string_lossy();
    if name.contains("musl") {
        return Err(format!("linked with musl ({}); the recorder needs glibc", loader.display()));
    }
    if !LOADERS.contains(&name.as_ref()) {
        return Err(format!("its loader {} is not glibc's", loader.display()));
    }
    if !loader.exists() {
        return Err(format!("its loader {} does not exist", loader.display()));
    }
    Ok(())
}

/// Whether it needs the shared runtime of AddressSanitizer, which does not begin behind a preloaded library unless
/// [`ASAN_ORDER`] says that it may.
pub(crate) fn is_built_with_asan(path: &Path) -> bool {
    let needs = |file: &ReadCache<File>| -> object::Result<bool> {
        let header = FileHeader64::<Endianness>::parse(file)?;
        let endian = header.endian()?;
        let sections = header.sections(endian, file)?;
        let Some((entries, strings)) = sections.dynamic(endian, file)? else { return Ok(false) };
        let strings = sections.strings(endian, file, strings)?;
        let is_runtime = |name: &[u8]| name.starts_with(b"libasan.so") || name.starts_with(b"libclang_rt.asan");
        let mut needed = entries.iter().filter(|entry| entry.tag32(endian) == Some(DT_NEEDED));
        Ok(needed.any(|entry| entry.val32(endian).is_some_and(|at| strings.get(at).is_ok_and(is_runtime))))
    };
    File::open(path).is_ok_and(|file| needs(&ReadCache::new(file)).unwrap_or(false))
}

pub(crate) const ASAN_OPTIONS: &str = "ASAN_OPTIONS";
pub(crate) const ASAN_ORDER: &str = "verify_asan_link_order=0";

/// The options of AddressSanitizer with which a program runs behind the recorder: the user's, and one more, unless
/// the user has set that.
pub(crate) fn asan_options(existing: Option<OsString>) -> OsString {
    let mut options = existing.unwrap_or_default().into_vec();
    let name = ASAN_ORDER.split('=').next().unwrap_or_default().as_bytes();
    if !options.windows(name.len()).any(|part| part == name) {
        options.extend_from_slice(if options.is_empty() { b"" } else { b":" });
        options.extend_from_slice(ASAN_ORDER.as_bytes());
    }
    OsString::from_vec(options)
}

/// What a `#!` line runs: the interpreter, and what `env` goes on to run.
fn interpreters(line: &[u8]) -> Vec<OsString> {
    let line = line.split(|b| *b == b'\n').next().unwrap_or_default();
    let mut words = line.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty());
    let Some(first) = words.next() else { return Vec::new() };
    let mut all = vec![OsString::from_vec(first.to_vec())];
    if Path::new(&all[0]).file_name() == Some(OsStr::new("env")) {
        let runs = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
        all.extend(runs.map(|word| OsString::from_vec(word.to_vec())));
    }
    all
}

fn has_capabilities(path: &Path) -> bool {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
    // SAFETY: asks for the size of the attribute only; both strings end with NUL.
    unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shebang_line_names_what_runs() {
        let of = |line: &str| interpreters(line.as_bytes()).join(OsStr::new(" ")).into_string().expect("text");
        assert_eq!(of("/bin/sh\nrest"), "/bin/sh");
        assert_eq!(of(" /usr/bin/python3 -u\n"), "/usr/bin/python3");
        assert_eq!(of("/usr/bin/env python3\n"), "/usr/bin/env python3");
        assert_eq!(of("/usr/bin/env -S A=b python3 -u\n"), "/usr/bin/env python3");
        assert_eq!(of(""), "");
    }

    #[test]
    fn options_of_the_user_stay() {
        let of = |existing: Option<&str>| asan_options(existing.map(OsString::from)).into_string().expect("text");
        assert_eq!(of(None), ASAN_ORDER);
        assert_eq!(of(Some("detect_leaks=0")), "detect_leaks=0:verify_asan_link_order=0");
        assert_eq!(of(Some("verify_asan_link_order=1:a=b")), "verify_asan_link_order=1:a=b");
    }

    #[test]
    fn this_program_can_be_preloaded_and_text_cannot() {
        assert_eq!(obstacles(&env::current_exe().expect("running")), Vec::<String>::new());
        let text = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(text.path(), "no program\n").expect("written");
        assert_eq!(obstacles(text.path()).len(), 1);
    }
}
