//! What the user can ask for: one line each, from which the keymap, the help and the palette are made.

use super::tab::{Tab, VIEWS};

/// An action, its name in the configuration, what the help says, and the keys it has unless configured
/// otherwise.
pub struct Line {
    pub action: Action,
    pub name: &'static str,
    pub about: &'static str,
    pub keys: &'static [&'static str],
    /// Under which heading the help has it.
    pub group: &'static str,
}

macro_rules! actions {
    ($($group:literal { $($action:ident $name:literal $about:literal [$($key:literal)*];)* })*) => {
        /// Something that a key, the palette or the mouse asks for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Action {
            $($($action,)*)*
            Show(Tab),
        }

        const OTHERS: &[Line] = &[$($(
            Line { action: Action::$action, name: $name, about: $about, keys: &[$($key),*], group: $group },
        )*)*];
    };
}

actions! {
    "Move" {
        Left "left" "Move the cursor a column to earlier" ["left" "h"];
        Right "right" "Move the cursor a column to later" ["right" "l"];
        Up "up" "The lane or row above" ["up" "k"];
        Down "down" "The lane or row below" ["down" "j"];
        PageUp "page-up" "A page up" ["pageup" "ctrl-b"];
        PageDown "page-down" "A page down" ["pagedown" "ctrl-f"];
        PageLeft "page-left" "A quarter of the window to earlier" ["shift-left" "A" "H"];
        PageRight "page-right" "A quarter of the window to later" ["shift-right" "D" "L"];
        PanLeft "pan-left" "Move the window to earlier" ["a"];
        PanRight "pan-right" "Move the window to later" ["d"];
        First "first" "To the start" ["home"];
        Last "last" "To the end" ["end"];
    }
    "Zoom" {
        ZoomIn "zoom-in" "Zoom in at the cursor" ["w" "+" "="];
        ZoomOut "zoom-out" "Zoom out at the cursor" ["s" "-"];
        Fit "fit" "Fit the selection, or the event under the cursor" ["f"];
        FitAll "fit-all" "Fit the whole trace" ["0" "F"];
    }
    "Jump" {
        NextEvent "next-event" "Next event of the lane" ["." "tab"];
        PreviousEvent "previous-event" "Previous event of the lane" ["," "shift-tab"];
        NextError "next-error" "Next call that failed, on any lane" ["e"];
        PreviousError "previous-error" "Previous call that failed" ["E"];
        NextGap "next-gap" "Next pause on the lane: an idle gap of 100 us and more, unless configured" ["g"];
        PreviousGap "previous-gap" "Previous pause, or idle gap, on the lane" ["G"];
        Follow "follow" "From a call to the work it submitted, and from work to its call; from a collective to the next rank's" ["]"];
        Back "back" "Back to where the last jump began" ["["];
        GoTo "go-to" "Go to a call (1234), a time (1.5s, 20ms) or a share (50%)" ["ctrl-g" "@"];
        NextMark "next-mark" "Next mark; in a table, more of long names" [">"];
        PreviousMark "previous-mark" "Previous mark; in a table, back to the start of names" ["<"];
    }
    "Find and filter" {
        Search "search" "Search names of functions and kernels (regular expression)" ["/"];
        NextMatch "next-match" "Next match" ["n"];
        PreviousMatch "previous-match" "Previous match" ["N"];
        Filter "filter" "Filter: words are regular expressions for names; also failed, >10us, <1ms, is:copy, t0, call:10..20, uses:stream#1" ["&"];
        FilterMode "filter-mode" "Dim or hide what the filter leaves out" ["*"];
        Lens "lens" "Only what names an object of this call; again: the next object" ["u"];
    }
    "Select and note" {
        Select "select" "Begin or end a selection of time; it snaps to events of the lane" ["v"];
        SelectEvent "select-event" "Select the time of the event under the cursor; of an NVTX range: what its calls did, and the work that they gave to devices" ["V"];
        Mark "mark" "Mark this moment, with a note; in the list of marks, change the note" ["m"];
        Unmark "unmark" "Remove the mark nearest to the cursor; in the list, the selected one" ["M" "delete"];
        Clear "clear" "Close what is open: prompt, help, selection, details, filter" ["esc"];
    }
    "Rows" {
        Fold "fold" "Fold or unfold the row" ["space"];
        Pin "pin" "Keep the lane at the top, or let it go" ["p"];
        Raise "raise" "Move the row up" ["K"];
        Lower "lower" "Move the row down" ["J"];
        Hide "hide" "Hide the lane" ["z"];
        ShowAll "show-all" "Show hidden lanes again" ["Z"];
        Align "align" "Two traces: let this call and its partner begin together" ["c"];
    }
    "Tables and details" {
        TableScope "table-scope" "Tables of the window, or of the whole trace; of a selection they are anyway" ["t"];
        Split "split" "Below the timeline, on high screens: a table of the window, or nothing" ["T"];
        Sort "sort" "Sort the table by the next column" ["o"];
        Reverse "reverse" "Turn the order of the table" ["O"];
        Open "open" "Open or close the details; from a table, to its slowest instance" ["enter"];
        DetailsDown "details-down" "Scroll the details down" ["ctrl-d"];
        DetailsUp "details-up" "Scroll the details up" ["ctrl-u"];
    }
    "Copy and write" {
        Copy "copy" "Copy the call as text to the terminal's clipboard (OSC 52); of a table, all of it as CSV" ["y"];
        CopyCommand "copy-command" "Copy the command line that prints this screen" ["Y"];
        Export "export" "Write the selection, or what is in the window, to a file (.json, .csv or .pftrace for Perfetto); of a table, its rows (.csv)" ["x"];
    }
    "The viewer" {
        NextView "next-view" "The next of these" ["}"];
        PreviousView "previous-view" "The one before" ["{"];
        Palette "palette" "All actions, by name" [":" "ctrl-p"];
        Help "help" "This help" ["?" "f1"];
        Legend "legend" "What colours and signs mean" ["i"];
        Mouse "mouse" "Mouse on or off (off: the terminal selects text)" ["ctrl-t"];
        Redraw "redraw" "Draw the screen anew" ["ctrl-l"];
        Suspend "suspend" "To the shell (fg comes back)" ["ctrl-z"];
        Quit "quit" "Quit" ["q" "ctrl-c"];
    }
}

/// All of them, as the help lists them.
pub fn actions() -> impl Iterator<Item = &'static Line> {
    OTHERS.iter().chain(VIEWS)
}

impl Action {
    pub fn by_name(name: &str) -> Option<Action> {
        actions().find(|line| line.name == name).map(|line| line.action)
    }
}
