//! What is installed runs with glibc 2.28 and newer: nothing is called that came later.

use object::Endianness;
use object::elf::{FileHeader64, SHT_DYNSYM};
use object::read::elf::{FileHeader, Sym};
use std::collections::BTreeSet;

/// glibc has given these another version since, by which they go when built here: moved out of libpthread and libdl
/// (2.32, 2.34), out of what is linked statically (2.33), or faster (2.29). scripts/package links against the old one.
const MOVED: &str = "\
    __libc_start_main dladdr dladdr1 dlclose dlerror dlopen dlsym dlvsym \
    pthread_attr_getguardsize pthread_attr_getstack pthread_attr_setguardsize pthread_attr_setstacksize pthread_create \
    pthread_detach pthread_getattr_np pthread_getspecific pthread_join pthread_key_create pthread_key_delete \
    pthread_kill pthread_setname_np pthread_setspecific pthread_sigmask \
    fstat64 fstatat64 lstat64 stat64 exp exp2 log log2 pow";

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

/// Functions of glibc with their versions; without those that may be missing, as the standard library asks for some.
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
