//! The replaying process: its address space must leave room for the recorded memory, and its environment must
//! be the recorded one, both before the driver is loaded.

use anyhow::{Context, Result};
use replayer::Plan;
use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// How many layouts were tried already.
pub(crate) const TRIES: &str = "CUTRACE_REPLAY_LAYOUTS";
const MOST: u32 = 6;
/// What stood in the way in the last one.
pub(crate) const REFUSED: &str = "CUTRACE_REPLAY_REFUSED";

/// Starts anew with another layout if one of our own mappings lies where recorded memory has to go.
pub(crate) fn make_room(plan: &Plan) -> Result<()> {
    match plan.collides_with_own_mappings().context("/proc/self/maps")? {
        Some(mapping) if !is_last() => Err(start_anew(&mapping)),
        _ => Ok(()),
    }
}

/// Enough layouts were tried: the replay goes on, and translates what it cannot place.
pub(crate) fn is_last() -> bool {
    tries() >= MOST
}

/// Starts anew with another layout: by turns without address space randomisation and with new luck. What is
/// refused in one layout and in the next at the same address will be in all of them (the driver's cuInit
/// takes 0x200000000 to 0x300200000 always), so that the next is the last one. Comes back only with what
/// stands in the way of that.
pub(crate) fn start_anew(refused: &str) -> anyhow::Error {
    let is_again = env::var(REFUSED).is_ok_and(|last| last == refused);
    let tries = if is_again { MOST } else { tries() + 1 };
    toggle_randomization();
    let again = || {
        let program = env::current_exe().context("the path of cutrace")?;
        let mut arguments = env::args_os();
        let mut again = Command::new(program);
        if let Some(name) = arguments.next() {
            again.arg0(name);
        }
        again.args(arguments).env(TRIES, tries.to_string()).env(REFUSED, refused);
        Err::<(), _>(again.exec()).context("restarting")
    };
    again().expect_err("exec returns only with an error")
}

/// Nothing was said yet by a process that this one goes on for.
pub(crate) fn is_first() -> bool {
    tries() == 0
}

fn tries() -> u32 {
    env::var(TRIES).ok().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Turns address space randomisation on or off, from the next exec on. Where that is forbidden (seccomp
/// filters of containers), restarting is a new layout all the same, as long as it is on.
fn toggle_randomization() {
    const ASK: libc::c_ulong = 0xffff_ffff;
    // SAFETY: plain system calls that take no pointers.
    unsafe {
        let now = libc::personality(ASK);
        if now >= 0 {
            libc::personality((now ^ libc::ADDR_NO_RANDOMIZE) as libc::c_ulong);
        }
    }
}

/// Sets those of the recorded variables that a replay sets and the environment does not.
pub(crate) fn set_environment(plan: &Plan) {
    for (name, value) in plan.environment.set.iter().filter(|(name, _)| env::var_os(name).is_none()) {
        // SAFETY: until the driver is loaded the only other thread waits for a signal, and reads no
        // variables.
        unsafe { env::set_var(name, value) };
    }
}
