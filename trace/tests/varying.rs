//! Nondeterministic instructions in a kernel's code: the PTX and the machine code that ptxas makes of it
//! (`images/compile`) give the same answer.

mod computed;

use computed::computed;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::Path;
use trace::code::parameters::{Code, Unread, from};
use trace::code::varying::{Cause, Causes, SelfContained, causes};

fn of(file: &str, kernel: &str, sm: Option<u32>) -> Causes {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images").join(file);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let read = from(&bytes);
    causes(&Code::new(0, bytes.len(), sm, &read), BTreeSet::from([kernel]), &read)[kernel].clone()
}

const EXPECTED: [(&str, &[Cause]); 21] = [
    ("quiet", &[]),
    ("clock64", &[Cause::Clock]),
    ("clock32", &[Cause::Clock]),
    ("clock_hi", &[Cause::Clock]),
    ("timer", &[Cause::Clock]),
    ("timer_lo", &[Cause::Clock]),
    ("indices", &[]),
    ("counts", &[]),
    ("counts_by_atomic", &[]),
    ("greatest", &[]),
    ("takes_a_number", &[Cause::AtomicResult]),
    ("takes_a_number_generic", &[Cause::AtomicResult]),
    ("takes_a_number_shared", &[Cause::AtomicResult]),
    ("exchanges", &[Cause::AtomicResult]),
    ("compares", &[Cause::AtomicResult]),
    ("adds_singles", &[Cause::FloatAtomic]),
    ("adds_singles_generic", &[Cause::FloatAtomic]),
    ("adds_doubles", &[Cause::FloatAtomic]),
    ("adds_halves", &[Cause::FloatAtomic]),
    ("adds_and_looks", &[Cause::AtomicResult, Cause::FloatAtomic]),
    ("adds_doubles_and_looks", &[Cause::AtomicResult, Cause::FloatAtomic]),
];

#[test]
fn text_and_machine_code_say_the_same() {
    for (kernel, expected) in EXPECTED {
        let expected: BTreeSet<Cause> = expected.iter().copied().collect();
        assert_eq!(of("varying.ptx", kernel, None), Ok(expected.clone()), "{kernel}");
        for sm in [75, 90, 100] {
            let mut found = of(&format!("varying.sm_{sm}.cubin"), kernel, Some(sm));
            // Memory of any kind may be shared memory, where ptxas makes a loop of the addition, which looks
            // at what is there.
            if let (Ok(found), "adds_singles_generic") = (&mut found, kernel) {
                found.remove(&Cause::AtomicResult);
            }
            assert_eq!(found, Ok(expected.clone()), "{kernel} for {sm}");
        }
    }
}

#[test]
fn what_is_not_found_or_not_readable_is_said() {
    assert_eq!(of("varying.ptx", "nothing", None), Err(None));
    let zstd = if cfg!(feature = "zstd") { Ok(BTreeSet::new()) } else { Err(Some(Unread::Zstd)) };
    assert_eq!(of("zstd.fatbin", "nothing", Some(90)), zstd);
    assert_eq!(of("lz4.fatbin", "longs", Some(90)), Ok(BTreeSet::new()));
}

/// A cubin for 9.0 of many sections, all of which have one long name that begins like this, and an empty
/// table of symbols.
fn cubin_of_one_name(prefix: &str) -> Vec<u8> {
    const SECTIONS: u32 = 100_000;
    const LONG: usize = 1 << 20;
    let names = [prefix.as_bytes(), &vec![b'a'; LONG], &[0]].concat();
    let section = |kind: u32, name: u32, at: usize, len: usize| {
        let mut header = [0; 64];
        header[..4].copy_from_slice(&name.to_le_bytes());
        header[4..8].copy_from_slice(&kind.to_le_bytes());
        header[24..32].copy_from_slice(&(at as u64).to_le_bytes());
        header[32..40].copy_from_slice(&(len as u64).to_le_bytes());
        header
    };
    let mut file = vec![0; 64];
    file[..8].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0x33]);
    file[8] = 7;
    file[18..20].copy_from_slice(&190u16.to_le_bytes());
    file[40..48].copy_from_slice(&64u64.to_le_bytes());
    file[48..52].copy_from_slice(&90u32.to_le_bytes());
    file[58..60].copy_from_slice(&64u16.to_le_bytes());
    file[62..64].copy_from_slice(&1u16.to_le_bytes());
    let mut first = section(0, 0, 0, 0);
    first[32..40].copy_from_slice(&u64::from(SECTIONS).to_le_bytes());
    file.extend(first);
    let end = names.len() as u32 - 1;
    file.extend(section(3, end, 64 + SECTIONS as usize * 64, names.len()));
    file.extend(section(2, end, 64, 0));
    (3..SECTIONS).for_each(|_| file.extend(section(1, 0, 64, 16)));
    [file, names].concat()
}

/// To look for the end of each name would take 10^11 steps.
#[test]
fn sections_that_share_a_long_name_are_given_up() {
    let before = computed();
    let file = cubin_of_one_name(".text.");
    let read = from(&file);
    let code = Code::new(0, file.len(), Some(90), &read);
    assert_eq!(causes(&code, BTreeSet::from(["aaaa"]), &read)["aaaa"], Err(None));
    let file = cubin_of_one_name(".nv.info.");
    let read = from(&file);
    let mut code = Code::new(0, file.len(), Some(90), &read);
    assert!(code.all(&read).is_empty());
    assert_eq!(code.unread().collect::<Vec<_>>(), [Unread::Broken]);
    let took = computed() - before;
    assert!(took.as_secs() < 20, "{took:?}");
}

/// Every kernel calls every function: 4 * 10^8 steps.
#[test]
fn many_kernels_that_lead_to_many_functions_are_given_up() {
    const COUNT: usize = 20_000;
    let functions = (0..COUNT).map(|n| format!(".func f{n}() {{ call f{}, (); ret; }}\n", n + 1));
    let kernels = (0..COUNT).map(|n| format!(".entry k{n}() {{ call f0, (); ret; }}\n"));
    let text: String = [".version 8.0\n".to_owned()].into_iter().chain(functions).chain(kernels).collect();
    let names: Vec<String> = (0..COUNT).map(|n| format!("k{n}")).collect();
    let before = computed();
    let read = from(text.as_bytes());
    let code = Code::new(0, text.len(), None, &read);
    let found = causes(&code, names.iter().map(String::as_str).collect(), &read);
    assert_eq!(found["k0"], Ok(BTreeSet::new()));
    assert!(found.values().filter(|causes| **causes == Err(None)).count() > COUNT / 2);
    let took = computed() - before;
    assert!(took.as_secs() < 20, "{took:?}");
}

/// 2,000 kernels: the text is read once for the start of the image, and once for all of them.
#[test]
fn code_is_read_once_for_all_of_its_kernels() {
    let kernels = (0..2_000).map(|n| format!(".entry k{n}() {{ {} ret; }}\n", ["", "call malloc, ();"][n % 2]));
    let text: String = [".version 8.0\n".to_owned()].into_iter().chain(kernels).collect();
    let (bytes, reads) = (from(text.as_bytes()), Cell::new(0));
    let read = |at, len| {
        reads.set(reads.get() + 1);
        bytes(at, len)
    };
    let mut code = SelfContained::new(Code::new(0, text.len(), None, &read));
    for n in 0..2_000 {
        assert_eq!(code.holds(&format!("k{n}"), |name| name != "k4", &read), n % 2 == 0 && n != 4, "k{n}");
    }
    assert_eq!(reads.get(), 2);
}
