//! Sets the revision, and embeds the recorder and the simulated driver in the command (`within` in
//! src/driver). They come from the folder that `CUTRACE_LIBRARIES` names; without it, a release build makes
//! them itself. They are compressed to a third. A debug build reads them at run time.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const LIBRARIES: [&str; 2] = ["libcutrace.so", "libcuda_sim.so"];
/// What they are made of.
const SOURCES: [&str; 4] = ["Cargo.lock", "trace", "shim", "sim"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CUTRACE_LIBRARIES");
    println!("cargo::rustc-check-cfg=cfg(within)");
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    // A build for debugging is not made anew for each commit.
    let revision = if is_release { revision().unwrap_or("unknown revision".into()) } else { "debug build".into() };
    println!("cargo::rustc-env=CUTRACE_REVISION={revision}");
    if env::var_os("CARGO_FEATURE_EMBED").is_none() {
        return;
    }
    let named = env::var_os("CUTRACE_LIBRARIES").filter(|path| !path.is_empty());
    let folder = match named {
        Some(folder) => std::path::absolute(folder).expect("a working directory"),
        None if is_release => built(),
        None => profile_directory(),
    };
    if is_release || env::var_os("CUTRACE_LIBRARIES").is_some() {
        println!("cargo::rustc-cfg=within");
        for library in LIBRARIES.map(|name| folder.join(name)) {
            assert!(library.is_file(), "{} is missing: CUTRACE_LIBRARIES names its folder", library.display());
            println!("cargo::rerun-if-changed={}", library.display());
            compress(&library);
        }
    }
    println!("cargo::rustc-env=CUTRACE_LIBRARIES={}", folder.display());
}

/// The commit, with a mark if what is built is not all of it or more.
fn revision() -> Option<String> {
    let git = |arguments: &[&str]| {
        let ran = Command::new("git").args(arguments).output().ok().filter(|ran| ran.status.success())?;
        Some(String::from_utf8(ran.stdout).ok()?.trim().to_owned())
    };
    // An archive of ours that was unpacked in somebody else's repository is no commit of that one.
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]).unwrap_or_default();
    let heads = ["HEAD", &branch].into_iter().filter_map(|name| git(&["rev-parse", "--git-path", name]));
    let sources = ["Cargo.toml", "src", "trace", "replayer", "analysis", "viewer/src", "export"].map(str::to_owned);
    for path in heads.chain(sources).filter(|path| Path::new(path).exists()) {
        println!("cargo::rerun-if-changed={path}");
    }
    git(&["describe", "--always", "--dirty", "--exclude=*"])
}

/// Into a file that `within` includes.
fn compress(library: &Path) {
    let mut name = library.file_name().expect("a file").to_owned();
    name.push(".gz");
    let mut compressed = GzEncoder::new(fs::File::create(out().join(name)).expect("created"), Compression::best());
    compressed.write_all(&fs::read(library).expect("read")).expect("compressed");
    compressed.finish().expect("written");
}

fn out() -> PathBuf {
    env::var_os("OUT_DIR").expect("cargo sets it").into()
}

/// Made by another cargo in a directory of its own, whose lock is not ours.
fn built() -> PathBuf {
    SOURCES.iter().for_each(|source| println!("cargo::rerun-if-changed={source}"));
    let set = |name: &str| env::var(name).expect("cargo sets it");
    let (target, directory) = (set("TARGET"), out().join("libraries"));
    let mut cargo = Command::new(set("CARGO"));
    cargo
        .args(["build", "--profile", "packaged", "--package", "shim", "--package", "sim", "--target", &target])
        .arg("--target-dir");
    cargo.arg(&directory).current_dir(set("CARGO_MANIFEST_DIR"));
    cargo.env("CARGO_PROFILE_PACKAGED_STRIP", "symbols").env("CARGO_PROFILE_PACKAGED_DEBUG", "none");
    // What checks the workspace instead of compiling it is not asked to check them again.
    cargo.env_remove("RUSTC_WORKSPACE_WRAPPER").env_remove("CARGO_TARGET_DIR").env_remove("CARGO_BUILD_TARGET");
    let status = cargo.status().expect("cargo is where it says");
    assert!(status.success(), "the recorder and the simulated driver could not be built: {status}");
    directory.join(target).join("packaged")
}

/// `target/debug`: a build script writes into `target/debug/build/<package>/out`.
fn profile_directory() -> PathBuf {
    out().ancestors().nth(3).expect("cargo's layout").to_path_buf()
}
