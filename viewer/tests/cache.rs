//! The place of an index and marks that cannot lie beside their trace. Alone in its process, because it
//! changes the environment.

use std::fs;
use std::sync::Arc;
use viewer::data::open::Opened;
use viewer::export::{load_marks, save_marks};
use viewer::state::Mark;
use viewer::state::State;
use viewer::state::parts::keymap::Keymap;
use viewer::synthetic::{Shape, write};

#[test]
fn a_read_only_directory_has_its_index_in_the_cache() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("trace.bin");
    write(&path, Shape::default()).expect("written");
    // Root may write into any directory, but not where another one stands.
    for kind in ["bin.idx", "bin.marks"] {
        fs::create_dir(path.with_extension(kind)).expect("made");
        fs::write(path.with_extension(kind).join("in the way"), "").expect("written");
    }
    let cache = directory.path().join("cache");
    // SAFETY: this is the only test of this process, and has started no thread yet.
    unsafe { std::env::set_var("XDG_CACHE_HOME", &cache) };
    let first = Opened::open(&path, true, |_| Vec::new()).expect("a trace");
    let index = first.save().expect("saved").expect("kept");
    assert!(index.starts_with(&cache), "{}", index.display());
    assert_eq!(Opened::open(&path, true, |_| Vec::new()).expect("opened").index, Some(index));
    let mut state = State::new(Arc::new(first), Keymap::default(), (80, 24));
    for marks in [vec![Mark { time: 7, note: "here".into() }], vec![]] {
        state.marks = marks.clone();
        save_marks(&state).expect("kept");
        assert_eq!(load_marks(&path), marks);
    }
}
