//! A terminal with a shell in it, for programs that are used by keys: tmux.

use crate::place::{Place, command_in};
use crate::run::HANG;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A terminal of 100 by 30 cells, with a shell in it. Ends with the test.
pub struct Screen {
    directory: PathBuf,
}

impl Screen {
    pub fn new(place: &Place) -> Screen {
        let screen = Screen { directory: place.path().to_path_buf() };
        // The user's shell may run it as a child, and would then be taken for it.
        let shell = "exec env PS1='$ ' LC_ALL=C.UTF-8 TERM=tmux-256color sh";
        screen.tmux(&["-f", "/dev/null", "-u", "new-session", "-d", "-x", "100", "-y", "30", shell]);
        screen.wait("$");
        screen
    }

    pub fn tmux(&self, arguments: &[&str]) -> String {
        // The socket by a name of its own: a path to it may be too long for one.
        let mut command = command_in(&self.directory, "tmux");
        let done =
            command.args(["-S", "tmux"]).args(arguments).output().expect("tmux is needed: run scripts/prerequisites");
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    /// Keys as tmux names them.
    pub fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    pub fn run(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.keys(&["Enter"]);
    }

    pub fn text(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the screen shows this.
    #[track_caller]
    pub fn wait(&self, wanted: &str) -> String {
        let started = Instant::now();
        loop {
            let text = self.text();
            if text.contains(wanted) {
                return text;
            }
            assert!(started.elapsed() < HANG, "no {wanted:?} on the screen:\n{text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until what the shell says of its terminal is what it said before the viewer, and of the exit
    /// status.
    #[track_caller]
    pub fn restored(&self, status: &str) {
        self.wait(status);
        self.run(
            "clear; stty -a | tr ' ;' '\\n\\n' | grep -x -e '-*icanon' -e '-*echo' | tr '\\n' ,; tput cnorm; echo done",
        );
        // The command as it was typed may still be on the screen.
        let text = self.wait(",done");
        assert!(text.contains("icanon,echo,done"), "{text}");
        let modes = self.tmux(&["display-message", "-p", "#{alternate_on}#{mouse_any_flag}#{cursor_flag}"]);
        assert_eq!(modes.trim(), "001", "alternate screen, mouse, cursor");
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}
