//! The cost of a call on the hot path, counted while the calling thread is single-stepped (ptrace): the
//! recorder's instructions, allocations, locked instructions and system calls. It is not timed, so that the
//! result is the same on any machine.
//!
//! The libraries of a test are built without optimisation: their counts are bounded with some 15 % of slack,
//! since they depend on the compiler. Counts that must be 0 have no slack. `scripts/hot-path` prints the
//! counts of a release build.

use std::collections::HashMap;
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tests::*;
use trace::base::maps::Mapping;

/// A kind of call, what the recorder is asked, and the most that it may cost the calling thread.
struct Case {
    kind: &'static str,
    asked: &'static [(&'static str, &'static str)],
    /// Of a build without optimisation, with slack.
    instructions: u64,
}

const PAUSED: &[(&str, &str)] = &[("CUTRACE_PAUSED", "1")];
const DISABLED: &[(&str, &str)] = &[("CUTRACE_DISABLE", "1")];
const CASES: &[Case] = &[
    Case { kind: "same query", asked: &[], instructions: 4_450 },
    Case { kind: "queries in turn", asked: &[], instructions: 4_700 },
    Case { kind: "poll, not done", asked: &[], instructions: 4_450 },
    Case { kind: "poll, done", asked: &[], instructions: 4_700 },
    Case { kind: "event", asked: &[], instructions: 11_250 },
    Case { kind: "launch", asked: &[], instructions: 21_900 },
    Case { kind: "launch while capturing", asked: &[], instructions: 22_500 },
    Case { kind: "launch by a description", asked: &[], instructions: 22_500 },
    Case { kind: "queries between launches", asked: &[], instructions: 9_200 },
    Case { kind: "launch beside pinned memory", asked: &[], instructions: 32_500 },
    Case { kind: "launch by static memory beside pinned memory", asked: &[], instructions: 32_500 },
    Case { kind: "same query", asked: PAUSED, instructions: 1_250 },
    Case { kind: "queries in turn", asked: PAUSED, instructions: 1_250 },
    Case { kind: "launch", asked: PAUSED, instructions: 5_000 },
    Case { kind: "launch", asked: DISABLED, instructions: 4_700 },
];

/// Few: each instruction is a stop of the program.
const CALLS: u64 = 4;

/// Calls that need the system: how often, all of them.
const WITH_SYSTEM_CALLS: &[(&str, u64)] = &[
    // Of each, the structure, the pointers, and the values.
    ("node parameters", 3 * CALLS),
    // Its source would be read two times more, in case that a callback writes there.
    ("pageable copy behind a host node", CALLS),
    ("launch behind a fork", 30),
];

#[test]
fn what_a_call_costs() {
    let built = std::env::var_os("HOT_PATH_LIBRARIES").map(PathBuf::from);
    let mut over = Vec::new();
    for case in CASES {
        let cost = count(case.kind, case.asked, built.as_ref());
        let line = format!("{:<45} {:<9} {cost}", case.kind, case.asked.first().map_or("", |(name, _)| &name[8..]));
        println!("{line}");
        let Cost { instructions, locked, allocations, calls } = cost;
        let is_within = instructions <= case.instructions && (locked, allocations, calls) == (0, 0, 0);
        if built.is_none() && !is_within {
            over.push(format!("{line}; allowed are {} instructions, and nothing else", case.instructions));
        }
    }
    assert!(over.is_empty(), "\n{}", over.join("\n"));
}

#[test]
fn what_a_call_asks_the_system() {
    let counted: Vec<(&str, u64)> =
        WITH_SYSTEM_CALLS.iter().map(|(kind, _)| (*kind, count(kind, &[], None).calls)).collect();
    let is_within = counted.iter().zip(WITH_SYSTEM_CALLS).all(|((_, calls), (_, most))| calls <= most);
    assert!(is_within, "{counted:?}; allowed are {WITH_SYSTEM_CALLS:?}");
}

#[derive(Default)]
struct Cost {
    /// Of a call.
    instructions: u64,
    /// Of all calls: none has any. Prefix LOCK, or an exchange with memory.
    locked: u64,
    allocations: u64,
    calls: u64,
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let Cost { instructions, locked, allocations, calls } = self;
        write!(f, "{instructions:>6} instructions, {locked:>2} locked, {allocations} allocations, {calls} system calls")
    }
}

/// Steps through the calls.
#[track_caller]
fn count(kind: &str, asked: &[(&str, &str)], built: Option<&PathBuf>) -> Cost {
    let place = Place::new();
    let mut command = place.preloaded(client("hot_path.c"));
    if let Some(built) = built {
        command.env("LD_PRELOAD", built.join("libcutrace.so")).env("CUTRACE_LIBCUDA", built.join("libcuda_sim.so"));
    }
    command.args([kind, &CALLS.to_string()]).envs(asked.iter().copied()).stdout(Stdio::null());
    let mut stepped = Stepped::begin(command);
    stepped.run_to_breakpoint();
    let parts = Parts::of(&stepped);
    let (mut cost, mut is_ours, mut code) = (Cost::default(), false, HashMap::new());
    loop {
        let at = stepped.registers().rip;
        match parts.part(at) {
            Some(part) => is_ours = part == Part::Recorder,
            // What the C library does, it does for whoever called it.
            None if is_ours => cost.allocations += u64::from(parts.allocating.contains(&at)),
            None => {}
        }
        let kind = *code.entry(at).or_insert_with(|| Kind::of(stepped.word(at)));
        if kind == Kind::Breakpoint {
            break;
        }
        if is_ours {
            cost.instructions += 1;
            cost.locked += u64::from(kind == Kind::Locked);
            cost.calls += u64::from(kind == Kind::SystemCall);
        }
        stepped.step();
    }
    Cost { instructions: cost.instructions.div_ceil(CALLS), ..cost }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Program,
    Recorder,
    Driver,
}

/// Who has which code.
struct Parts {
    code: Vec<(Range<u64>, Part)>,
    allocating: Vec<u64>,
}

impl Parts {
    fn of(stepped: &Stepped) -> Parts {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", stepped.pid())).expect("our own child");
        let part = |path: &str| match path.rsplit('/').next()? {
            "libcutrace.so" => Some(Part::Recorder),
            "libcuda_sim.so" | "libcuda.so.1" => Some(Part::Driver),
            "hot_path" => Some(Part::Program),
            _ => None,
        };
        let mappings = maps.lines().filter_map(Mapping::parse);
        let code: Vec<_> = mappings.filter_map(|m| Some((m.range, m.path.and_then(part)?))).collect();
        for wanted in [Part::Program, Part::Recorder, Part::Driver] {
            assert!(code.iter().any(|(_, part)| *part == wanted), "{maps}");
        }
        let list = stepped.registers().rdi;
        let allocating = (0..).map(|n| stepped.word(list + 8 * n)).take_while(|at| *at != 0).collect();
        Parts { code, allocating }
    }

    fn part(&self, at: u64) -> Option<Part> {
        self.code.iter().find(|(range, _)| range.contains(&at)).map(|(_, part)| *part)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Locked,
    SystemCall,
    Breakpoint,
}

impl Kind {
    /// Of the instruction whose first bytes these are.
    fn of(word: u64) -> Kind {
        let bytes = word.to_le_bytes();
        let is_prefix = |byte: &&u8| matches!(**byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3);
        let prefixes = bytes.iter().take_while(is_prefix).count();
        let rest = &bytes[prefixes..];
        let rest = if rest.first().is_some_and(|byte| byte & 0xf0 == 0x40) { &rest[1..] } else { rest };
        match rest {
            _ if bytes[..prefixes].contains(&0xf0) => Kind::Locked,
            [0xcc, ..] => Kind::Breakpoint,
            [0x0f, 0x05, ..] => Kind::SystemCall,
            // An exchange with a register is none with memory.
            [0x86 | 0x87, operands, ..] if operands >> 6 != 3 => Kind::Locked,
            _ => Kind::Plain,
        }
    }
}

/// A child of this thread, of which one thread is traced.
struct Stepped(Child);

impl Stepped {
    #[track_caller]
    fn begin(mut command: Command) -> Stepped {
        // SAFETY: async-signal-safe.
        let traced = || match unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        };
        // SAFETY: as above.
        let child = unsafe { command.pre_exec(traced) }.spawn().expect("it runs, and may be traced");
        let mut stepped = Stepped(child);
        assert_eq!(stepped.stopped(), libc::SIGTRAP, "by the exec");
        stepped
    }

    fn pid(&self) -> libc::pid_t {
        self.0.id() as libc::pid_t
    }

    fn request(&self, request: libc::c_uint, data: u64) {
        // SAFETY: the child has stopped; none of the requests that come here has an address in this process.
        let done = unsafe { libc::ptrace(request, self.pid(), 0, data) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }

    /// The signal that has stopped it.
    #[track_caller]
    fn stopped(&mut self) -> i32 {
        let mut status = 0;
        // SAFETY: our own child, and an output.
        let found = unsafe { libc::waitpid(self.pid(), &mut status, 0) };
        assert!(found == self.pid() && libc::WIFSTOPPED(status), "it has ended: {status:#x}");
        libc::WSTOPSIG(status)
    }

    #[track_caller]
    fn run_to_breakpoint(&mut self) {
        let mut signal = 0;
        loop {
            self.request(libc::PTRACE_CONT, signal as u64);
            signal = self.stopped();
            if signal == libc::SIGTRAP {
                return;
            }
        }
    }

    #[track_caller]
    fn step(&mut self) {
        self.request(libc::PTRACE_SINGLESTEP, 0);
        assert_eq!(self.stopped(), libc::SIGTRAP);
    }

    fn registers(&self) -> libc::user_regs_struct {
        // SAFETY: all zeros are a struct of numbers, which the call fills; the child has stopped.
        unsafe {
            let mut registers = std::mem::zeroed();
            assert_eq!(libc::ptrace(libc::PTRACE_GETREGS, self.pid(), 0, &raw mut registers), 0);
            registers
        }
    }

    /// Eight bytes of its memory.
    fn word(&self, at: u64) -> u64 {
        // SAFETY: the child has stopped; the C library hands out what Linux writes.
        unsafe { libc::ptrace(libc::PTRACE_PEEKDATA, self.pid(), at, 0) as u64 }
    }
}

impl Drop for Stepped {
    fn drop(&mut self) {
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}

#[test]
fn instructions_are_told_apart() {
    let of = |bytes: &[u8]| {
        let mut word = [0x90; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        Kind::of(u64::from_le_bytes(word))
    };
    // lock cmpxchg, xchg with memory, with a register, syscall, int3, mov, nop with prefixes
    for (bytes, kind) in [
        (&[0xf0, 0x48, 0x0f, 0xb1, 0x0a][..], Kind::Locked),
        (&[0x48, 0x87, 0x07], Kind::Locked),
        (&[0x48, 0x87, 0xc7], Kind::Plain),
        (&[0x0f, 0x05], Kind::SystemCall),
        (&[0xcc], Kind::Breakpoint),
        (&[0x48, 0x89, 0xe5], Kind::Plain),
        (&[0x66, 0x2e, 0x0f, 0x1f], Kind::Plain),
    ] {
        assert!(of(bytes) == kind, "{bytes:x?}");
    }
}
