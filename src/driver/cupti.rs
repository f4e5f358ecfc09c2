//! The location of libcupti, NVIDIA's profiling library, which comes with toolkits and Python wheels, not
//! with drivers.

use crate::driver::Choice;
use std::collections::HashSet;
use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

pub(crate) const VARIABLE: &str = "CUTRACE_CUPTI";

/// Those that are found, the newest first: an older driver takes an older one. Or where it was looked for.
/// `program`: whose own packages are looked through, too.
pub(crate) fn find(driver: &Choice, driver_path: &Path, program: Option<&Path>) -> Result<Vec<PathBuf>, String> {
    if let Some(path) = env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        let named: Vec<PathBuf> = env::split_paths(&path).collect();
        return match named.iter().find(|path| !path.is_file()) {
            Some(path) => Err(format!("{VARIABLE}: {} is not a file", path.display())),
            None => Ok(named),
        };
    }
    if matches!(driver, Choice::Sim) {
        // It has its own: NVIDIA's would look for a real device.
        return Ok(vec![driver_path.to_path_buf()]);
    }
    let listed = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty()).collect();
    places.extend(toolkits());
    places.extend(wheels(program));
    let mut found: Vec<(Vec<u32>, PathBuf)> = places.iter().flat_map(|place| in_directory(place)).collect();
    found.sort_by(|(one, _), (other, _)| other.cmp(one));
    let mut paths: Vec<PathBuf> = found.into_iter().map(|(_, path)| path).collect();
    // A directory may be named twice, and a file by several names.
    let mut files = HashSet::new();
    paths.retain(|path| files.insert(path.canonicalize().unwrap_or_else(|_| path.clone())));
    match paths.is_empty() {
        false => Ok(paths),
        true => Err(format!(
            "no libcupti.so.12 or .13 in LD_LIBRARY_PATH, /usr/local/cuda* or Python's packages (set {VARIABLE}; the \
             nvidia-cuda-cupti wheel has it)"
        )),
    }
}

fn entries(directory: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let read = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let named = read.filter(|entry| entry.file_name().to_str().is_some_and(&wanted));
    let mut paths: Vec<PathBuf> = named.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn toolkits() -> impl Iterator<Item = PathBuf> {
    let roots = entries(Path::new("/usr/local"), |name| name.starts_with("cuda"));
    roots.into_iter().flat_map(|root| {
        ["extras/CUPTI/lib64", "targets/x86_64-linux/lib", "lib64"].map(|directory| root.join(directory))
    })
}

/// `nvidia/cu13/lib` and `nvidia/cuda_cupti/lib` in the directories that Python looks for packages in.
fn wheels(program: Option<&Path>) -> impl Iterator<Item = PathBuf> {
    let mut prefixes: Vec<PathBuf> = ["/usr", "/usr/local"].map(PathBuf::from).into();
    let of = |name: &str| env::var_os(name).map(PathBuf::from);
    prefixes.extend(["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(of));
    prefixes.extend(of("HOME").map(|home| home.join(".local")));
    let around = |path: PathBuf| Some(path.parent()?.parent()?.to_path_buf());
    prefixes.extend(interpreter().into_iter().chain(program.map(Path::to_path_buf)).filter_map(around));
    let mut packages: Vec<PathBuf> = env::split_paths(&env::var_os("PYTHONPATH").unwrap_or_default()).collect();
    for prefix in prefixes {
        for python in entries(&prefix.join("lib"), |name| name.starts_with("python3")) {
            packages.extend([python.join("site-packages"), python.join("dist-packages")]);
        }
    }
    packages.into_iter().flat_map(|packages| {
        let parts = entries(&packages.join("nvidia"), |name| name.starts_with("cu"));
        parts.into_iter().map(|part| part.join("lib"))
    })
}

/// The Python that a shell would start: a virtual environment's is not told by a variable.
fn interpreter() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join("python3")).find(|python| python.is_file())
}

/// Its version, as its name tells it, and the library. Files that are not there under such a name have none.
fn in_directory(directory: &Path) -> Vec<(Vec<u32>, PathBuf)> {
    let library = |path: PathBuf| {
        let version = path.file_name().and_then(OsStr::to_str)?.strip_prefix("libcupti.so.")?;
        let version: Option<Vec<u32>> = version.split('.').map(|part| part.parse().ok()).collect();
        // CUDA 12's file is named by the year: libcupti.so.2025.2.1.
        version.filter(|version| version[0] == 12 || version[0] == 13).map(|version| (version, path))
    };
    entries(directory, |name| name.starts_with("libcupti.so.")).into_iter().filter_map(library).collect()
}
