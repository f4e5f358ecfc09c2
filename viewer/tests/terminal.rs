//! The terminal is restored when the viewer panics: in a real one (tmux).

use std::process::Command;
use std::time::{Duration, Instant};
use viewer::terminal::screen::Term;
use viewer::view::theme::Depth;

/// What the shell in the terminal runs; by itself it would take the terminal that the tests run in.
#[test]
#[ignore = "run by the other test, in a terminal"]
fn takes_the_terminal_and_panics() {
    let _term = Term::open(true, Depth::Many).expect("a terminal");
    panic!("as it had to come");
}

#[test]
fn a_panic_gives_the_terminal_back() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let tmux = |arguments: &[&str]| {
        let mut command = Command::new("tmux");
        // The socket by a name of its own: a path to it may be too long for one.
        let done = command.current_dir(&directory).env_remove("TMUX").args(["-S", "tmux"]).args(arguments).output();
        String::from_utf8_lossy(&done.expect("tmux is needed: run scripts/prerequisites").stdout).into_owned()
    };
    tmux(&["-f", "/dev/null", "-u", "new-session", "-d", "-x", "150", "-y", "40", "env PS1='$ ' LC_ALL=C.UTF-8 sh"]);
    let wait = |wanted: &str| {
        let started = Instant::now();
        loop {
            let text = tmux(&["capture-pane", "-p"]);
            if text.contains(wanted) || started.elapsed() > Duration::from_secs(120) {
                return text;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait("$");
    let own = std::env::current_exe().expect("this program").display().to_string();
    let line = format!("'{own}' --ignored --nocapture takes_the_terminal; echo status=$?");
    tmux(&["send-keys", "-l", &line]);
    tmux(&["send-keys", "Enter"]);
    let text = wait("status=101");
    assert!(text.contains("as it had to come"), "the message is told on the terminal as it was: {text}");
    tmux(&[
        "send-keys",
        "-l",
        "stty -a | tr ' ;' '\\n\\n' | grep -x -e '-*icanon' -e '-*echo' | tr '\\n' ,; echo done",
    ]);
    tmux(&["send-keys", "Enter"]);
    let text = wait(",done");
    assert!(text.contains("icanon,echo,done") && !text.contains("-icanon"), "{text}");
    let modes = tmux(&["display-message", "-p", "#{alternate_on}#{mouse_any_flag}#{cursor_flag}"]);
    tmux(&["kill-server"]);
    assert_eq!(modes.trim(), "001", "alternate screen, mouse, cursor");
}
