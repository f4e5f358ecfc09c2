//! `cutrace doctor`: checks whether this machine can record and replay.

use crate::driver::calls::Driver;
use crate::driver::left_memory;
use crate::driver::{self, Choice, Found};
use crate::process::program;
use crate::terminal::exit::{DONE, FAILED, NO_DRIVER};
use crate::terminal::standard_output::Results;
use analysis::text::figures::{counted, size};
use anyhow::Result;
use serde::Serialize;
use serde_json::json;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

/// Check this machine, and a program to be recorded
///
/// Finds the driver and its devices, finds the recorder, and checks what recording needs from the working
/// directory and the kernel.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cutrace doctor                 check this machine
  cutrace doctor ./app           check whether ./app can be recorded
  cutrace doctor --driver sim    check the simulated driver
  cutrace doctor --free          free shared memory of recordings whose trace no longer exists

Exit status: 0 no problem found, 1 a problem, 5 no usable driver.")]
pub(crate) struct Arguments {
    /// The driver to check: a path, or "sim"
    #[arg(long, value_name = "PATH|sim")]
    driver: Option<Choice>,
    /// A program to be recorded
    #[arg(value_name = "PROGRAM")]
    program: Option<OsString>,
    /// Free shared memory left by killed recordings whose trace no longer exists; searches the trace's file
    /// system first
    #[arg(long)]
    free: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What was looked at, and what was found.
#[derive(Serialize)]
struct Check {
    about: &'static str,
    ok: bool,
    found: Vec<String>,
}

fn check(about: &'static str, ok: bool, found: impl IntoIterator<Item = String>) -> Check {
    Check { about, ok, found: found.into_iter().collect() }
}

pub(crate) fn run(arguments: Arguments) -> Result<u8> {
    let driver = driver(arguments.driver.as_ref().unwrap_or(&Choice::System));
    let usable = driver.ok;
    let mut checks =
        vec![driver, recorder(), directory()?, kernel(), userfaultfd(), clock(), shared_memory(arguments.free)];
    checks.extend(arguments.program.as_ref().map(program));
    let mut out = Results::begin();
    if arguments.json {
        analysis::text::json::write(&mut out, &json!({ "schema": 1, "checks": checks }))?;
        writeln!(out)?;
    } else {
        for Check { about, found, .. } in &checks {
            for (index, line) in found.iter().enumerate() {
                writeln!(out, "{:<15}{line}", if index == 0 { about } else { "" })?;
            }
        }
        match checks.iter().filter(|check| !check.ok).map(|check| check.about).collect::<Vec<_>>()[..] {
            [] => writeln!(out, "no problem found")?,
            ref problems => writeln!(out, "problems: {}", problems.join(", "))?,
        }
    }
    out.flush()?;
    Ok(match checks.iter().all(|check| check.ok) {
        _ if !usable => NO_DRIVER,
        true => DONE,
        false => FAILED,
    })
}

fn driver(choice: &Choice) -> Check {
    let found = match driver::find(choice) {
        Ok(found) => found,
        Err(tried) => {
            let places = tried.0.iter().map(|place| format!("  {place}"));
            let hint = format!("not found; without a GPU, {}; tried", driver::SIM_HINT);
            return check("driver", false, [hint].into_iter().chain(places));
        }
    };
    let from = format!("{} ({})", found.path.display(), found.how);
    match ask(&found) {
        Ok(lines) => check("driver", true, [from].into_iter().chain(lines)),
        Err(why) => check("driver", false, [from, format!("not usable: {why}")]),
    }
}

/// Version and devices, from the driver itself.
fn ask(found: &Found) -> Result<Vec<String>, String> {
    let driver = Driver::open(&found.path)?;
    let (version, count) = (driver.version()?, driver.devices()?);
    let devices = counted(count as u64, "device");
    let mut lines = vec![format!("CUDA {}.{}, {devices}", version / 1000, version % 1000 / 10)];
    for ordinal in 0..count {
        let device = driver.device(ordinal)?;
        let (name, memory, (major, minor)) = (device.name()?, size(device.memory()? as u64), device.compute()?);
        lines.push(format!("device {ordinal}: {name} ({memory}, compute capability {major}.{minor})"));
    }
    if count == 0 { Err("no devices".into()) } else { Ok(lines) }
}

fn recorder() -> Check {
    match driver::recorder() {
        Ok(found) => check("recorder", true, [format!("{} ({})", found.path.display(), found.how)]),
        Err(tried) => check("recorder", false, [format!("libcutrace.so not found; tried {}", tried.0.join("; "))]),
    }
}

fn directory() -> Result<Check> {
    let here = std::env::current_dir().map_or_else(|error| error.to_string(), |d| d.display().to_string());
    if let Err(error) = tempfile::tempfile_in(".") {
        let why = format!("{here}: cannot be written: {error}; use record -o elsewhere");
        return Ok(check("directory", false, [why]));
    }
    // SAFETY: an all-zero statvfs is valid, and the call fills it.
    let info = unsafe {
        let mut info: libc::statvfs = std::mem::zeroed();
        if libc::statvfs(c".".as_ptr(), &mut info) != 0 {
            return Err(io::Error::last_os_error().into());
        }
        info
    };
    let (free, whole) = (info.f_bavail * info.f_frsize, info.f_blocks * info.f_frsize);
    Ok(check("directory", true, [format!("{here}: writable, {} of {} free", size(free), size(whole))]))
}

/// What is left over stands in nobody's way, until there is too much of it.
fn shared_memory(free: bool) -> Check {
    check("shared memory", true, left_memory::found(free))
}

fn kernel() -> Check {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    check("kernel", true, [format!("Linux {}", release.trim())])
}

/// Without it recording costs more; it stands in nobody's way.
fn userfaultfd() -> Check {
    let found = match has_write_protection() {
        Ok(true) => "available, with asynchronous write protection".into(),
        Ok(false) => "without asynchronous write protection (needs Linux 6.7)".into(),
        Err(error) => format!("denied: {error}; CPU writes are found by comparing contents instead"),
    };
    check("userfaultfd", true, [found])
}

fn clock() -> Check {
    let source = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let found = match source.as_deref().map(str::trim) {
        Ok(trusted @ ("tsc" | "kvm-clock")) => trusted.into(),
        Ok(other) => format!("{other}: the kernel does not trust the TSC; time stamps cost more"),
        Err(error) => format!("unknown: {error}"),
    };
    check("clock", true, [found])
}

/// Whether writes to memory can be found without a fault each (WP_ASYNC).
fn has_write_protection() -> io::Result<bool> {
    const USER_MODE_ONLY: libc::c_int = 1;
    const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
    const UFFD_API: u64 = 0xaa;
    const WP_ASYNC: u64 = 1 << 15;
    // SAFETY: plain system calls; the descriptor is our own, the ioctl's struct three words
    // (linux/userfaultfd.h).
    unsafe {
        let fd = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | USER_MODE_ONLY) as libc::c_int;
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut api = [UFFD_API, WP_ASYNC, 0];
        let has = libc::ioctl(fd, UFFDIO_API, &mut api) == 0;
        libc::close(fd);
        Ok(has)
    }
}

fn program(name: &OsString) -> Check {
    let path = match program::resolve(name) {
        Ok(path) => path,
        Err(failure) => return check("program", false, [failure.to_string()]),
    };
    match program::obstacles(&path) {
        none if none.is_empty() => {
            let (options, order) = (program::ASAN_OPTIONS, program::ASAN_ORDER);
            let with_asan = program::is_built_with_asan(&path).then(|| {
                format!(
                    "built with AddressSanitizer: record sets {options}={order}; set it yourself for a bare LD_PRELOAD"
                )
            });
            let found = format!("{}: can be recorded", Path::new(&path).display());
            check("program", true, [found].into_iter().chain(with_asan))
        }
        obstacles => check("program", false, obstacles.iter().map(ToString::to_string)),
    }
}
