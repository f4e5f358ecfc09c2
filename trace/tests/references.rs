//! Data that a trace names in other files: a forged trace reads no other file, and only bytes with the
//! recorded hash are accepted.

mod writer;

use std::path::{Path, PathBuf};
use trace::Trace;
use trace::base::hash::Hash;
use trace::file::record::{REFERENCED, Referenced, Referred, with_body};
use writer::Writer;

/// A trace that names pieces of a file: content, offset, length.
fn named(path: &Path, size: u64, pieces: &[(&[u8], u64, u64)]) -> Trace {
    let referred = |(content, offset, len): &(&[u8], u64, u64)| Referred {
        hash: Hash::compute(content).to_bytes(),
        offset: *offset,
        len: *len,
    };
    let path = path.to_str().expect("UTF-8").to_owned();
    let pieces = pieces.iter().map(referred).collect();
    let mut writer = Writer::new();
    writer.record(0, &with_body(REFERENCED, &Referenced { path, size, modified: 0, pieces }));
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), &writer.bytes).expect("our own file");
    Trace::open(file.path()).expect("a trace")
}

#[test]
fn only_what_is_named_and_unchanged_is_read() {
    let place = tempfile::tempdir().expect("a directory");
    let (models, secret) = (place.path().join("models"), place.path().join("secret"));
    let weights = models.join("weights");
    std::fs::create_dir(&models).expect("our own directory");
    std::fs::write(&weights, b"0123456789").expect("our own file");
    std::fs::write(&secret, b"0123456789").expect("our own file");
    let follow = |trace: &mut Trace, among: &PathBuf| trace.follow_references(std::slice::from_ref(among));
    let middle = Hash::compute(b"345");

    let mut good = named(&weights, 10, &[(b"345", 3, 3)]);
    assert!(good.blob(middle).is_none() && !good.lacks(middle) && good.lacks(Hash::compute(b"01")));
    assert_eq!(good.sources().len(), 1);
    assert_eq!(follow(&mut good, &models), [""; 0]);
    assert_eq!(good.blob(middle), Some(&b"345"[..]));
    assert_eq!(good.follow_references(&[]).len(), 1);
    assert_eq!(good.blob(middle), None);

    for (path, why) in [
        (secret.clone(), "the file is not among the given files"),
        (models.join("../secret"), "the file is not among the given files"),
        (models.join(".."), "the file is not among the given files"),
        (models.join("nothing"), "there is no such file"),
    ] {
        let mut bad = named(&path, 99, &[(b"345", 3, 3)]);
        let wrong = follow(&mut bad, &models);
        assert!(matches!(&wrong[..], [line] if line.contains(why)), "{wrong:?}");
        assert_eq!(bad.blob(middle), None);
    }
    for (piece, why) in [
        ((&b"346"[..], 3, 3), "has the XXH3-128 hash"),
        ((&b"345"[..], 8, 3), "lies beyond its end"),
        ((&b"345"[..], u64::MAX, 3), "lies beyond its end"),
        ((&b"345"[..], 3, u64::MAX), "lies beyond its end"),
    ] {
        let mut bad = named(&weights, 10, &[piece, (b"01", 0, 2)]);
        let wrong = follow(&mut bad, &weights);
        let told = format!("1 of the 2 pieces in the trace have changed: the first, {} bytes", piece.2);
        assert!(matches!(&wrong[..], [line] if line.contains(why) && line.contains(&told)), "{wrong:?}");
        assert_eq!(bad.blob(Hash::compute(b"01")), None, "nothing of a file that has changed");
    }
}
