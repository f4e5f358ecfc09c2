//! The command as one file: its libraries, their extraction, and the output for a user with nothing else.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tests::*;

/// A directory with a copy of the command and nothing beside it.
struct Alone(TempDir);

impl Alone {
    fn new() -> Alone {
        // It reads them where they were built, which must not be older than their sources.
        let [_, _, command] = ["libcutrace.so", "libcuda_sim.so", "cutrace"].map(artifact);
        let directory = tempfile::tempdir_in(command.parent().expect("a directory")).expect("a directory");
        fs::create_dir(directory.path().join("bin")).expect("made");
        fs::hard_link(&command, directory.path().join("bin/cutrace")).expect("one file system");
        Alone(directory)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn cutrace(&self, place: &Place, arguments: &[&str]) -> Command {
        fs::create_dir_all(place.join("tmp")).expect("made");
        let mut command = place.command(self.join("bin/cutrace"));
        command.args(arguments).env("XDG_CACHE_HOME", place.join("cache")).env("TMPDIR", place.join("tmp"));
        command
    }
}

fn preload(command: &mut Command) -> PathBuf {
    let ran = run(command).expect(0);
    assert_eq!(ran.stderr, "");
    ran.stdout.trim_end().into()
}

#[test]
fn one_file_records_and_replays() {
    let (alone, place) = (Alone::new(), Place::new());
    let program = client("vector_add.c");
    let mut record = alone.cutrace(&place, &["record", "--driver", "sim", "--"]);
    let ran = run(record.arg(program)).expect(0);
    assert!(ran.said()[0].ends_with("replayable"), "{}", ran.stderr);
    // A sandboxed replay writes nothing: what it needs is put there before.
    for (options, cache) in [(&["replay"][..], "cache"), (&["replay", "--untrusted"], "new")] {
        let ran = run(alone.cutrace(&place, options).env("XDG_CACHE_HOME", place.join(cache))).expect(0);
        assert!(ran.stdout.starts_with("verified"), "{}", ran.stdout);
    }
    let ran = run(&mut alone.cutrace(&place, &["doctor", "--driver", "sim"]));
    assert!(ran.stdout.contains("libcutrace.so (within cutrace)"), "{}", ran.stdout);
}

#[test]
fn what_it_holds_is_put_into_the_cache_directory() {
    let (alone, place) = (Alone::new(), Place::new());
    let print = || preload(&mut alone.cutrace(&place, &["record", "--print-preload"]));
    let library = print();
    let directory = library.parent().expect("a directory");
    assert_eq!(directory.parent(), Some(place.join("cache/cutrace").as_path()));
    let inode = |path: &Path| fs::metadata(path).map(|found| (found.ino(), found.mode() & 0o777)).expect("there");
    assert_eq!((inode(directory).1, inode(&library).1), (0o700, 0o500));
    let content = || fs::read(&library).expect("read");
    let (first, whole) = (inode(&library), content());
    assert_eq!(whole, fs::read(artifact("libcutrace.so")).expect("read"));
    assert_eq!((print(), inode(&library)), (library.clone(), first), "it is written once");
    assert!(directory.join("libcuda_sim.so").exists(), "docs/record.md names it beside the recorder");

    // Cut off by a full disk; then something else of the same length; then a link to something else.
    fs::remove_file(&library).expect("removed");
    fs::write(&library, &whole[..whole.len() / 2]).expect("written");
    print();
    assert!(content() == whole);
    let mut other = whole.clone();
    other[whole.len() - 1] ^= 1;
    fs::remove_file(&library).expect("removed");
    fs::write(&library, other).expect("written");
    print();
    assert!(content() == whole);
    fs::rename(&library, place.join("elsewhere")).expect("renamed");
    std::os::unix::fs::symlink(place.join("elsewhere"), &library).expect("linked");
    print();
    assert!(fs::symlink_metadata(&library).expect("there").is_file());
    assert_eq!(fs::read_dir(directory).expect("read").count(), 2, "nothing else is left there");
}

#[test]
fn a_cache_directory_that_will_not_do() {
    let (alone, place) = (Alone::new(), Place::new());
    let print =
        |cache: &Path| preload(alone.cutrace(&place, &["record", "--print-preload"]).env("XDG_CACHE_HOME", cache));
    // Not even root can make a directory in /proc.
    let library = print(Path::new("/proc/cache"));
    assert!(library.starts_with(place.join("tmp")), "{}", library.display());
    let library = print(&place.join("with space"));
    assert!(library.starts_with(place.join("tmp")), "{}", library.display());
    // Somebody else could write there.
    let library = print(&place.join("cache"));
    let directory = library.parent().expect("a directory");
    fs::set_permissions(directory, Permissions::from_mode(0o770)).expect("our own directory");
    let library = print(&place.join("cache"));
    assert!(library.starts_with(place.join("tmp")), "{}", library.display());
}

/// As in a checkout whose path has one: the library beside it cannot be preloaded from there.
#[test]
fn a_directory_with_a_space() {
    let (alone, place) = (Alone::new(), Place::new());
    let bin = alone.join("with space");
    fs::rename(alone.join("bin"), &bin).expect("renamed");
    fs::hard_link(artifact("libcutrace.so"), bin.join("libcutrace.so")).expect("one file system");
    let record = || {
        let mut record = alone.cutrace(&place, &["record", "--driver", "sim", "--"]);
        record.arg(client("vector_add.c"));
        let mut moved = place.command(bin.join("cutrace"));
        moved.args(record.get_args()).envs(record.get_envs().filter_map(|(name, value)| Some((name, value?))));
        moved
    };
    let ran = run(&mut record()).expect(0);
    let [line] = ran.said()[..] else { panic!("{}", ran.stderr) };
    assert!(line.ends_with("replayable"), "{line}");
    let mut print = place.command(bin.join("cutrace"));
    print.args(["record", "--print-preload"]).env("XDG_CACHE_HOME", place.join("cache"));
    fs::hard_link(artifact("libcuda_sim.so"), bin.join("libcuda_sim.so")).expect("one file system");
    fs::remove_dir_all(place.join("cache")).expect("removed");
    assert!(
        preload(&mut print).with_file_name("libcuda_sim.so").exists(),
        "docs/record.md names it beside the recorder"
    );
    // Asked for by name, nothing else will do.
    let ran = run(record().env("CUTRACE_SHIM", bin.join("libcutrace.so"))).expect(126);
    assert!(ran.stderr.contains("LD_PRELOAD cannot contain a path with a space"), "{}", ran.stderr);
}

/// On one that forbids programs or files, and with no other: one line that says what to do.
#[test]
fn no_directory_at_all() {
    no_directory_mounted("noexec", "mounted noexec");
    no_directory_mounted("ro", "Read-only file system");
}

fn no_directory_mounted(how: &str, told: &str) {
    let (alone, place) = (Alone::new(), Place::new());
    // The program may itself lie below /tmp: it is opened before.
    let script = format!(
        "exec 9<\"$1\"; shift; \
         mount -t tmpfs -o {how} none cache && mount --bind /tmp /tmp && mount -o remount,bind,{how} /tmp || exit 70; \
         exec /proc/self/fd/9 \"$@\""
    );
    let mut shell = alone.cutrace(&place, &[]);
    fs::create_dir(place.join("cache")).expect("made");
    let program = shell.get_program().to_owned();
    shell = place.command("unshare");
    shell.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"]).arg(program);
    shell.args(["record", "true"]).env("XDG_CACHE_HOME", place.join("cache")).env_remove("TMPDIR");
    let ran = run(&mut shell);
    if ran.stderr.contains("unshare: ") || ran.code() == 70 {
        eprintln!("skipped: {}", ran.stderr.lines().next().unwrap_or_default());
        return;
    }
    assert_eq!(ran.code(), 126, "{ran:?}");
    let [line] = ran.stderr.lines().collect::<Vec<_>>()[..] else { panic!("{}", ran.stderr) };
    assert!(line.matches(told).count() == 2 && line.contains("set XDG_CACHE_HOME"), "{line}");
}

/// The recorder, as another version of it would be.
fn of_another_version(to: &Path) {
    let mut bytes = fs::read(artifact("libcutrace.so")).expect("read");
    let mark = trace::file::mark::MARK;
    let at = bytes.windows(mark.len()).position(|window| window == mark).expect("its mark");
    bytes[at..at + 4].copy_from_slice(b"\x029.9");
    fs::write(to, bytes).expect("written");
}

#[test]
fn a_recorder_of_another_version() {
    let (alone, place) = (Alone::new(), Place::new());
    let beside = alone.join("bin/libcutrace.so");
    of_another_version(&beside);
    let ran = run(&mut alone.cutrace(&place, &["record", "--driver", "sim", "true"])).expect(0);
    let [line, _] = ran.said()[..] else { panic!("{}", ran.stderr) };
    let versions = "its version is 9.9.0 (trace format 2), cutrace's 0.1.0 (trace format 1)";
    assert!(line.contains(versions) && line.contains("remove this file"), "{line}");
    // Asked for by name, nothing else will do; that it cannot be a driver is known, too.
    for (variable, status) in [("CUTRACE_SHIM", 126), ("CUTRACE_LIBCUDA", 0)] {
        let ran = run(alone.cutrace(&place, &["record", "true"]).env(variable, &beside)).expect(status);
        let wanted = if status == 0 { "cutrace's own recorder" } else { versions };
        assert!(ran.stderr.contains(wanted), "{}", ran.stderr);
    }
}

/// The loader would end the program, and nothing would tell that a recorder was the reason.
#[test]
fn a_recorder_that_needs_a_newer_glibc() {
    let place = Place::new();
    let mut bytes = fs::read(artifact("libcutrace.so")).expect("read");
    let version = b"GLIBC_2.14\0";
    let at = bytes.windows(version.len()).position(|window| window == version).expect("memcpy is of that one");
    bytes[at..at + version.len()].copy_from_slice(b"GLIBC_9.99\0");
    fs::write(place.join("libcutrace.so"), bytes).expect("written");
    let mut record = place.cutrace(["record", "true"]);
    let ran = run(record.env("CUTRACE_SHIM", place.join("libcutrace.so"))).expect(126);
    let [line] = ran.stderr.lines().collect::<Vec<_>>()[..] else { panic!("{}", ran.stderr) };
    assert!(
        line.contains("it needs glibc 9.99, this machine has 2.") && line.contains("install its package"),
        "{line}"
    );
}

#[test]
fn alone_it_says_what_to_do() {
    let ran = run(&mut Place::new().cutrace([""; 0])).expect(2);
    assert_eq!((ran.stdout.as_str(), ran.stderr.lines().count()), ("", 3));
    let commands: Vec<&str> = ran.stderr.lines().filter_map(|line| line.split("  ").next()).collect();
    assert_eq!(commands, ["cutrace demo", "cutrace record ./app", "cutrace --help"]);
}

#[test]
fn the_demo_shows_each_command_and_cleans_up() {
    let (alone, place) = (Alone::new(), Place::new());
    // What the user's shell asks of recordings is not meant for it.
    let demo = |options: &[&str]| run(alone.cutrace(&place, options).env("CUTRACE_DATA", "none")).expect(0).stdout;
    let shown = demo(&["demo"]);
    let commands: Vec<&str> = shown.lines().filter_map(|line| line.strip_prefix("$ cutrace ")).collect();
    let first = |command: &&str| command.split(' ').next().unwrap_or_default().to_owned();
    assert_eq!(commands.iter().map(first).collect::<Vec<_>>(), ["record", "info", "replay", "report", "view"]);
    for wanted in
        ["\n4 steps on 16384 numbers", "\nverdict: replayable", "\nverified: ", "scale_and_add", "Demo files removed"]
    {
        assert!(shown.contains(wanted), "{wanted}: {shown}");
    }
    assert_eq!(fs::read_dir(place.join("tmp")).expect("read").count(), 0);
    let shown = demo(&["demo", "-o", "kept.bin"]);
    assert!(shown.contains(&format!("The trace is {}", place.join("kept.bin").display())), "{shown}");
    assert_eq!(sound(place.join("kept.bin")).len(), 22);
    let again = run(&mut alone.cutrace(&place, &["demo", "-o", "kept.bin"])).expect(1);
    assert!(again.stdout.is_empty() && again.stderr.contains("kept.bin: exists"), "{}", again.stderr);
}

#[test]
fn the_version_names_the_build() {
    let said = run(&mut Place::new().cutrace(["--version"])).expect(0).stdout;
    assert_eq!(said, "cutrace 0.1.0 (debug build, trace format 1)\n");
}

#[test]
fn each_command_has_a_man_page() {
    let place = Place::new();
    let told = run(&mut place.cutrace(["man", "pages", "--json"])).expect(0).stdout;
    let help = run(&mut place.cutrace(["--help"])).expect(0).stdout;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = commands.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    let mut wanted: Vec<String> = names.map(|name| format!("cutrace-{name}.1")).chain(["cutrace.1".into()]).collect();
    let entries = fs::read_dir(place.join("pages")).expect("read");
    let mut found: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
    wanted.sort();
    found.sort();
    assert_eq!(found, wanted);
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    let told = told["files"].as_array().expect("files").iter().map(|file| file.as_str().expect("a path").to_owned());
    let mut told: Vec<String> = told.collect();
    told.sort();
    assert_eq!(told, wanted.iter().map(|name| format!("pages/{name}")).collect::<Vec<_>>());
    run(&mut place.cutrace(["man", "pages"])).expect(0);
    fs::write(place.join("pages/cutrace.1"), "mine").expect("ours");
    let refused = run(&mut place.cutrace(["man", "pages"])).expect(1).stderr;
    assert!(refused.contains("pages/cutrace.1 exists already; --force replaces it"), "{refused}");
    assert_eq!(fs::read(place.join("pages/cutrace.1")).expect("ours"), b"mine");
    run(&mut place.cutrace(["man", "pages", "--force"])).expect(0);
    let page = fs::read_to_string(place.join("pages/cutrace-record.1")).expect("read");
    for heading in ["EXAMPLES", "ENVIRONMENT", "\"EXIT STATUS\""] {
        assert!(page.contains(&format!(".SH {heading}\n")), "{heading}: {page}");
    }
    // groff is not on every machine.
    if let Ok(groff) = Command::new("groff").arg("--version").output()
        && groff.status.success()
    {
        let pages = found.iter().map(|name| place.join("pages").join(name));
        assert_eq!(run(place.command("groff").args(["-ww", "-man", "-Tutf8"]).args(pages)).expect(0).stderr, "");
    }
}

#[test]
fn bash_takes_the_completions() {
    let place = Place::new();
    let script = run(&mut place.cutrace(["completions", "bash"])).expect(0).stdout;
    let asked =
        "COMP_WORDS=(cutrace record --print-p); COMP_CWORD=2; _cutrace cutrace --print-p record; echo ${COMPREPLY[@]}";
    let ran = run(place.command("bash").args(["-c", &format!("{script}\n{asked}")])).expect(0);
    assert_eq!(ran.stdout, "--print-preload\n", "{}", ran.stderr);
}
