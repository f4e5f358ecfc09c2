//! An export that exceeds the file size limit. Alone in its process, because it changes that limit.

use std::fs;
use std::sync::Arc;
use viewer::data::open::Opened;
use viewer::export;
use viewer::state::State;
use viewer::state::parts::keymap::Keymap;
use viewer::synthetic::{Shape, write};

/// Files of this process may not grow past so many bytes.
fn limit(bytes: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: it reads the struct. The signal, which would end the process, is replaced by an error of the
    // write.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
}

#[test]
fn of_an_export_that_fails_nothing_is_left() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("trace.bin");
    write(&path, Shape::default()).expect("written");
    let opened = Opened::open(&path, false, |_| Vec::new()).expect("a trace");
    let state = State::new(Arc::new(opened), Keymap::default(), (80, 24));
    let (from, to) = (state.window.from, state.window.to);
    let part = |name: &str| directory.path().join(name);
    // A heading and no rows, shorter than the limit, where no table is shown.
    let table = (state.table.csv().len() > 8).then(|| part("table.csv"));
    limit(8);
    let mut failed = vec![
        export::events(&state, &part("events.csv"), from, to),
        export::events(&state, &part("events.json"), from, to),
    ];
    failed.extend(table.map(|path| export::table(&state, &path)));
    limit(libc::RLIM_INFINITY);
    for result in failed {
        let error = result.expect_err("too large");
        assert_eq!(error.raw_os_error(), Some(libc::EFBIG), "{error}");
    }
    assert_eq!(fs::read_dir(directory.path()).expect("there").count(), 1, "the trace alone");
}
