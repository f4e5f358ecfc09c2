//! The build outputs that the tests need.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

/// The directory of this profile's binaries: the test executable lies in its `deps`. LD_PRELOAD takes no path
/// with a space or a colon, and lines for a shell no other sign of its own: such a directory goes by a link.
pub fn target() -> PathBuf {
    static TARGET: OnceLock<PathBuf> = OnceLock::new();
    let found = TARGET.get_or_init(|| {
        let own = env::current_exe().expect("a running test has a path");
        let own = own.ancestors().nth(2).expect("cargo puts tests into target/<profile>/deps");
        if is_plain(own) { own.to_path_buf() } else { link_to(own) }
    });
    found.clone()
}

fn is_plain(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().iter().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+@,".contains(byte))
}

/// Of the same name in each run: what is compiled against the recorder names it.
fn link_to(directory: &Path) -> PathBuf {
    let found = std::fs::metadata(directory).expect("the test runs there");
    let name = format!("cutrace-tests-{}-{:x}-{:x}", found.uid(), found.dev(), found.ino());
    let places = [env::temp_dir(), "/tmp".into(), "/dev/shm".into()];
    let above = places.into_iter().find(|place| is_plain(place)).expect("/tmp is plain");
    let link = above.join(name);
    place(&link, directory, |new| symlink(directory, new));
    link
}

/// A binary or library of the workspace. `cargo test` alone does not build them, so that an old one would be
/// tested.
pub fn artifact(name: &str) -> PathBuf {
    let path = target().join(name);
    let built = modified(&path).unwrap_or_else(|| panic!("{} is missing: {BUILD_FIRST}", path.display()));
    // Cargo names beside it what it was made of.
    let sources = std::fs::read_to_string(path.with_extension("d")).unwrap_or_default();
    let newer = sources_named(&sources).find(|source| modified(Path::new(source)) > Some(built));
    assert!(newer.is_none(), "{} is older than {}: {BUILD_FIRST}", path.display(), newer.unwrap_or_default());
    path
}

/// As make has it: a space within a name stands behind a backslash.
fn sources_named(rule: &str) -> impl Iterator<Item = String> {
    let rule = rule.replace("\\ ", "\0");
    let names: Vec<String> = rule.split_ascii_whitespace().skip(1).map(|name| name.replace('\0', " ")).collect();
    names.into_iter()
}

const BUILD_FIRST: &str = "run `cargo build --workspace` first";

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|found| found.modified()).ok()
}

pub fn source(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

/// The PTX that the client programs load.
pub fn kernels() -> PathBuf {
    source("apps/kernels")
}

/// NVIDIA's own header, which the clients are compiled against.
pub fn cuda_include() -> PathBuf {
    let path = source("../target/cuda/include");
    assert!(path.join("cuda.h").exists(), "{} has no cuda.h: run scripts/cuda-headers first", path.display());
    path
}

/// NVTX's own headers.
pub fn nvtx_include() -> PathBuf {
    let path = source("../target/cuda/include-nvtx");
    let header = path.join("nvtx3/nvToolsExt.h");
    assert!(header.exists(), "{} is missing: run scripts/cuda-headers first", header.display());
    path
}

/// What stands for the user's home directory.
pub fn home() -> PathBuf {
    let directory = target().join("clients/home");
    std::fs::create_dir_all(&directory).expect("a directory in target");
    directory
}

/// A directory in which the simulated driver has the names that programs know the driver by.
pub fn driver_directory() -> PathBuf {
    let directory = target().join("clients/driver");
    let sim = std::fs::canonicalize(artifact("libcuda_sim.so")).expect("it exists");
    // Not a link by name: the process's map of memory shows the name that a driver has.
    place(&directory.join("libcuda.so.1"), &sim, |new| std::fs::hard_link(&sim, new));
    place(&directory.join("libcuda.so"), &sim, |new| symlink("libcuda.so.1", new));
    directory
}

/// A directory to link clients against: the recorder exports every name of the driver.
pub fn link_directory() -> PathBuf {
    let directory = target().join("clients/link");
    let shim = artifact("libcutrace.so");
    place(&directory.join("libcuda.so"), &shim, |new| symlink(&shim, new));
    directory
}

/// Has `path` lead to the file `to`. Other tests may be doing the same.
fn place(path: &Path, to: &Path, link: impl Fn(&Path) -> io::Result<()>) {
    let file = |path: &Path| std::fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    if file(path) == file(to) {
        return;
    }
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory in target");
    let new = temporary(path);
    link(&new).unwrap_or_else(|error| panic!("{}: {error}", new.display()));
    // Renaming one name of a file to another of the same file does nothing, and leaves it.
    std::fs::rename(&new, path).expect("renamed in place");
    let _gone_already = std::fs::remove_file(&new);
}

/// A name beside `path` that no other thread or process uses.
pub fn temporary(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{}.{:?}", std::process::id(), std::thread::current().id()));
    name.into()
}
