//! `cutrace doctor`: what on this machine helps or hinders recording and replay.

use crate::driver::{self, Choice, Found};
use crate::exit::{DONE, FAILED, NO_DRIVER};
use crate::figures::{counted, size};
use crate::program;
use anyhow::Result;
use libloading::Library;
use std::ffi::{CStr, OsString, c_char};
use std::io::{self, Write};
use std::path::Path;
use trace::api::enums::CUresult;
use trace::text::symbol;

/// Check this machine, and a program to be recorded
///
/// Looks for the driver and asks it for its devices, looks for the recorder, and tries what recording needs of the
/// working directory and the kernel.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cutrace doctor                 this machine
  cutrace doctor ./app           and whether ./app can be recorded
  cutrace doctor --driver sim    with the simulated driver

Exit status: 0 all is well, 1 something stands in the way, 5 no usable driver.")]
pub struct Arguments {
    /// The driver to look at: a path, or "sim"
    #[arg(long, value_name = "PATH|sim")]
    driver: Option<Choice>,
    /// A program to be recorded
    #[arg(value_name = "PROGRAM")]
    program: Option<OsString>,
}

pub fn run(arguments: Arguments) -> Result<u8> {
    let mut out = io::stdout().lock();
    let driver = driver(&mut out, arguments.driver.as_ref().unwrap_or(&Choice::System))?;
    let mut well = recorder(&mut out)?;
    well &= directory(&mut out)?;
    kernel(&mut out)?;
    if let Some(name) = &arguments.program {
        well &= preload(&mut out, name)?;
    }
    out.flush()?;
    Ok(match (driver, well) {
        (false, _) => NO_DRIVER,
        (true, false) => FAILED,
        (true, true) => DONE,
    })
}

fn driver(out: &mut impl Write, choice: &Choice) -> Result<bool> {
    let found = match driver::find(choice) {
        Ok(found) => found,
        Err(tried) => {
            writeln!(out, "driver       not found; tried")?;
            for place in &tried.0 {
                writeln!(out, "               {place}")?;
            }
            return Ok(false);
        }
    };
    writeln!(out, "driver       {} ({})", found.path.display(), found.how)?;
    match ask(&found) {
        Ok(lines) => {
            for line in lines {
                writeln!(out, "             {line}")?;
            }
            Ok(true)
        }
        Err(why) => {
            writeln!(out, "             not usable: {why}")?;
            Ok(false)
        }
    }
}

/// Version and devices, from the driver itself.
fn ask(found: &Found) -> Result<Vec<String>, String> {
    const MAJOR: i32 = 75;
    const MINOR: i32 = 76;
    // SAFETY: the functions are called by their prototypes in cuda.h, with pointers to locals of the sizes asked for.
    unsafe {
        let library = Library::new(&found.path).map_err(|error| error.to_string())?;
        macro_rules! call {
            ($name:literal($($arg:expr),*) $type:ty) => {{
                let function = library.get::<$type>($name).map_err(|error| error.to_string())?;
                match function($($arg),*) {
                    0 => {}
                    code => return Err(format!("{} returned {}", $name.escape_ascii(), result(code))),
                }
            }};
        }
        call!(b"cuInit"(0) unsafe extern "C" fn(u32) -> u32);
        let (mut version, mut count) = (0, 0);
        call!(b"cuDriverGetVersion"(&mut version) unsafe extern "C" fn(&mut i32) -> u32);
        call!(b"cuDeviceGetCount"(&mut count) unsafe extern "C" fn(&mut i32) -> u32);
        let devices = counted(count as u64, "device");
        let mut lines = vec![format!("CUDA {}.{}, {devices}", version / 1000, version % 1000 / 10)];
        for ordinal in 0..count {
            let (mut device, mut major, mut minor, mut memory) = (0, 0, 0, 0usize);
            let mut name = [0 as c_char; 256];
            call!(b"cuDeviceGet"(&mut device, ordinal) unsafe extern "C" fn(&mut i32, i32) -> u32);
            let text = name.as_mut_ptr();
            call!(b"cuDeviceGetName"(text, 255, device) unsafe extern "C" fn(*mut c_char, i32, i32) -> u32);
            call!(b"cuDeviceTotalMem_v2"(&mut memory, device) unsafe extern "C" fn(&mut usize, i32) -> u32);
            call!(b"cuDeviceGetAttribute"(&mut major, MAJOR, device) unsafe extern "C" fn(&mut i32, i32, i32) -> u32);
            call!(b"cuDeviceGetAttribute"(&mut minor, MINOR, device) unsafe extern "C" fn(&mut i32, i32, i32) -> u32);
            let name = CStr::from_ptr(name.as_ptr()).to_string_lossy();
            let memory = size(memory as u64);
            lines.push(format!("device {ordinal}: {name} ({memory}, compute capability {major}.{minor})"));
        }
        if count == 0 {
            return Err("it has no devices".into());
        }
        // A driver that was initialised has threads that run its code.
        std::mem::forget(library);
        Ok(lines)
    }
}

fn result(code: u32) -> String {
    format!("{} ({code})", symbol(CUresult::ENUM, code.into()))
}

fn recorder(out: &mut impl Write) -> Result<bool> {
    match driver::recorder() {
        Ok(found) => writeln!(out, "recorder     {} ({})", found.path.display(), found.how)?,
        Err(tried) => {
            writeln!(out, "recorder     libcutrace.so not found; tried {}", tried.0.join("; "))?;
            return Ok(false);
        }
    }
    Ok(true)
}

fn directory(out: &mut impl Write) -> Result<bool> {
    let here = std::env::current_dir().map_or_else(|error| error.to_string(), |d| d.display().to_string());
    if let Err(error) = tempfile::tempfile_in(".") {
        writeln!(out, "directory    {here}: cannot be written: {error}; use record -o elsewhere")?;
        return Ok(false);
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
    writeln!(out, "directory    {here}: writable, {} of {} free", size(free), size(whole))?;
    Ok(true)
}

fn kernel(out: &mut impl Write) -> Result<()> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    writeln!(out, "kernel       Linux {}", release.trim())?;
    match userfaultfd() {
        Ok(true) => writeln!(out, "userfaultfd  available, with asynchronous write protection")?,
        Ok(false) => writeln!(out, "userfaultfd  without asynchronous write protection (Linux 6.7 has it)")?,
        Err(error) => writeln!(out, "userfaultfd  denied: {error}; host memory is compared by its content instead")?,
    }
    let source = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    match source.as_deref().map(str::trim) {
        Ok(trusted @ ("tsc" | "kvm-clock")) => writeln!(out, "clock        {trusted}")?,
        Ok(other) => writeln!(out, "clock        {other}: the TSC is not trusted, time stamps cost more")?,
        Err(error) => writeln!(out, "clock        unknown: {error}")?,
    }
    Ok(())
}

/// Whether writes to memory can be found without a fault each (WP_ASYNC).
fn userfaultfd() -> io::Result<bool> {
    const USER_MODE_ONLY: libc::c_int = 1;
    const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
    const UFFD_API: u64 = 0xaa;
    const WP_ASYNC: u64 = 1 << 15;
    // SAFETY: plain system calls; the descriptor is our own, the ioctl's struct three words (linux/userfaultfd.h).
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

fn preload(out: &mut impl Write, name: &OsString) -> Result<bool> {
    let path = match program::resolve(name) {
        Ok(path) => path,
        Err(failure) => {
            writeln!(out, "program      {failure}")?;
            return Ok(false);
        }
    };
    let obstacles = program::obstacles(&path);
    for why in &obstacles {
        writeln!(out, "program      {why}")?;
    }
    if obstacles.is_empty() {
        writeln!(out, "program      {}: can be recorded", Path::new(&path).display())?;
    }
    Ok(obstacles.is_empty())
}
