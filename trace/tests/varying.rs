//! What in a kernel's code may come out otherwise in every run: the text, and the machine code that ptxas makes of it
//! (`images/compile`), say the same.

use std::collections::BTreeSet;
use std::path::Path;
use trace::parameters::{Code, Unread, from};
use trace::varying::{Cause, Causes, causes};

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
            // Memory of any kind may be shared memory, where ptxas makes a loop of the addition, which looks at what is there.
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
    assert_eq!(of("zstd.fatbin", "nothing", Some(90)), Err(Some(Unread::Zstd)));
    assert_eq!(of("lz4.fatbin", "longs", Some(90)), Ok(BTreeSet::new()));
}
