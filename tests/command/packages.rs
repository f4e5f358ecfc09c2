//! The installed files run with glibc 2.28 and newer: they call no newer function.

use object::Endianness;
use object::elf::{DT_NEEDED, FileHeader64, SHT_DYNSYM};
use object::read::elf::{Dyn, FileHeader, Sym};
use std::collections::BTreeSet;

/// glibc has given these another version since, by which they go when built here: moved out of libpthread and
/// libdl (2.32, 2.34), out of what is linked statically (2.33), or faster (2.29). scripts/package links
/// against the old one.
const MOVED: &str = "\
    __libc_start_main dladdr dladdr1 dlclose dlerror dlopen dlsym dlvsym \
    pthread_attr_getguardsize pthread_attr_getstack pthread_attr_setguardsize pthread_attr_setstacksize pthread_create \
    pthread_detach pthread_getattr_np pthread_getspecific pthread_join pthread_key_create pthread_key_delete \
    pthread_kill pthread_mutex_trylock pthread_mutexattr_destroy pthread_mutexattr_init pthread_mutexattr_settype \
    pthread_setname_np pthread_setspecific pthread_sigmask \
    fstat fstat64 fstatat64 lstat64 stat64 exp exp2 log log2 pow";

const OLDEST: [u32; 2] = [2, 28];

#[test]
fn nothing_is_called_that_older_c_libraries_lack() {
    let moved: BTreeSet<&str> = MOVED.split_whitespace().collect();
    let mut later = Vec::new();
    for name in ["cutrace", "libcutrace.so", "libcuda_sim.so"] {
        let bytes = std::fs::read(tests::artifact(name)).expect("read");
        let called = called(&bytes)
            .into_iter()
            .filter(|(function, version)| version[..] > OLDEST[..] && !moved.contains(&**function));
        later.extend(called.map(|(function, version)| format!("{name}: {function} of {version:?}")));
    }
    assert_eq!(later, [""; 0]);
}

/// Into a program of C it would bring an unwinder, and the rest a conda environment may have otherwise.
#[test]
fn the_recorder_brings_no_library_but_glibcs() {
    let bytes = std::fs::read(tests::artifact("libcutrace.so")).expect("read");
    let header = FileHeader64::<Endianness>::parse(&*bytes).expect("an ELF file");
    let endian = header.endian().expect("its order");
    let sections = header.sections(endian, &*bytes).expect("sections");
    let (dynamic, strings) = sections.dynamic(endian, &*bytes).expect("whole").expect("a dynamic section");
    let strings = sections.strings(endian, &*bytes, strings).expect("strings");
    let named = dynamic.iter().filter(|entry| entry.tag32(endian) == Some(DT_NEEDED));
    let needed: Vec<&str> =
        named.map(|entry| str::from_utf8(entry.string(endian, strings).expect("a string")).expect("text")).collect();
    let glibcs = ["ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1"];
    assert!(needed.contains(&"libc.so.6") && needed.iter().all(|name| glibcs.contains(name)), "{needed:?}");
}

/// Functions of glibc with their versions; without those that may be missing, as the standard library asks
/// for some.
fn called(bytes: &[u8]) -> Vec<(String, Vec<u32>)> {
    let header = FileHeader64::<Endianness>::parse(bytes).expect("an ELF file");
    let endian = header.endian().expect("its order");
    let sections = header.sections(endian, bytes).expect("sections");
    let versions = sections.versions(endian, bytes).expect("versions").expect("versions");
    let symbols = sections.symbols(endian, bytes, SHT_DYNSYM).expect("symbols");
    let undefined = symbols.enumerate().filter(|(_, symbol)| symbol.is_undefined(endian) && !symbol.is_weak());
    let mut called = Vec::new();
    for (index, symbol) in undefined {
        let version = versions.version(versions.version_index(endian, index)).expect("a version");
        let version = version.map_or("", |version| str::from_utf8(version.name()).expect("text"));
        if let Some(numbers) = version.strip_prefix("GLIBC_") {
            let name = symbols.symbol_name(endian, symbol).expect("a name");
            let numbers = numbers.split('.').map_while(|number| number.parse().ok()).collect();
            called.push((String::from_utf8_lossy(name).into_owned(), numbers));
        }
    }
    assert!(called.len() > 50, "{called:?}");
    called
}
