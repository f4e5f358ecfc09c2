//! The user's actions: one line each, from which the keymap, the help and the palette are made.

use super::tab::{Tab, VIEWS};

/// An action, its name in the configuration, its help, and its default keys.
pub struct Line {
    /// The action.
    pub action: Action,
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// The default keys by name.
    pub keys: &'static [&'static str],
    /// Under which heading the help has it.
    pub group: &'static str,
}

macro_rules! actions {
    ($($group:literal { $($action:ident $name:literal $about:literal [$($key:literal)*];)* })*) => {
        /// An action of the user, by key, palette or mouse.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Action {
            $($(#[doc = $about] $action,)*)*
            /// Show a view.
            Show(Tab),
        }

        const OTHERS: &[Line] = &[$($(
            Line { action: Action::$action, name: $name, about: $about, keys: &[$($key),*], group: $group },
        )*)*];
    };
}

actions! {
    "Move" {
        Left "left" "Move the cursor one column left" ["left" "h"];
        Right "right" "Move the cursor one column right" ["right" "l"];
        Up "up" "The row above" ["up" "k"];
        Down "down" "The row below" ["down" "j"];
        PageUp "page-up" "A page up" ["pageup" "ctrl-b"];
        PageDown "page-down" "A page down" ["pagedown" "ctrl-f"];
        PageLeft "page-left" "Move left by a quarter window" ["shift-left" "A" "H"];
        PageRight "page-right" "Move right by a quarter window" ["shift-right" "D" "L"];
        PanLeft "pan-left" "Move the window left" ["a"];
        PanRight "pan-right" "Move the window right" ["d"];
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
        NextEvent "next-event" "Next event of the row" ["." "tab"];
        PreviousEvent "previous-event" "Previous event of the row" ["," "shift-tab"];
        NextError "next-error" "Next call that failed, on any row" ["e"];
        PreviousError "previous-error" "Previous call that failed" ["E"];
        NextGap "next-gap" "Next gap on the row: idle for 100 us or more (setting: gap)" ["g"];
        PreviousGap "previous-gap" "Previous gap on the row" ["G"];
        Follow "follow" "From a call to its work, and from work to its call; from a collective to the next rank's" ["]"];
        Back "back" "Back to before the last jump" ["["];
        GoTo "go-to" "Go to a call (1234), a time (1.5s, 20ms) or a share (50%)" ["ctrl-g" "@"];
        NextMark "next-mark" "Next mark; in a table, scroll long names" [">"];
        PreviousMark "previous-mark" "Previous mark; in a table, scroll long names back" ["<"];
    }
    "Find and filter" {
        Search "search" "Search names of functions and kernels (regular expression)" ["/"];
        NextMatch "next-match" "Next match" ["n"];
        PreviousMatch "previous-match" "Previous match" ["N"];
        Filter "filter" "Filter: words are regular expressions for names; also failed, >10us, <1ms, is:copy, t0, call:10..20, uses:stream#1" ["&"];
        FilterMode "filter-mode" "Dim or hide filtered-out events" ["*"];
        Lens "lens" "Only calls that use an object of this call; again: next object" ["u"];
    }
    "Select and note" {
        Select "select" "Begin or end a time selection; it snaps to events of the row" ["v"];
        SelectEvent "select-event" "Select the time of the event under the cursor; on an NVTX range: its calls, and the work that they submitted" ["V"];
        Mark "mark" "Mark this moment, with a note; in the list of marks, edit the note" ["m"];
        Unmark "unmark" "Remove the mark nearest to the cursor; in the list, the selected one" ["M" "delete"];
        Clear "clear" "Close the prompt, help, selection, details or filter" ["esc"];
    }
    "Rows" {
        Fold "fold" "Fold or unfold the row" ["space"];
        Pin "pin" "Pin the row to the top, or unpin it" ["p"];
        Raise "raise" "Move the row up" ["K"];
        Lower "lower" "Move the row down" ["J"];
        Hide "hide" "Hide the row" ["z"];
        ShowAll "show-all" "Show hidden rows again" ["Z"];
        Align "align" "Two traces: align this call with its partner" ["c"];
    }
    "Tables and details" {
        TableScope "table-scope" "Tables of the window, or of the whole trace, unless time is selected" ["t"];
        Split "split" "Show or hide the table below the timeline (tall screens)" ["T"];
        Sort "sort" "Sort the table by the next column" ["o"];
        Reverse "reverse" "Reverse the table's order" ["O"];
        Open "open" "Open or close the details; in a table, go to the slowest" ["enter"];
        DetailsDown "details-down" "Scroll the details down" ["ctrl-d"];
        DetailsUp "details-up" "Scroll the details up" ["ctrl-u"];
    }
    "Copy and write" {
        Copy "copy" "Copy the call to the terminal's clipboard (OSC 52) as text; a whole table as CSV" ["y"];
        CopyCommand "copy-command" "Copy the command line that prints this screen" ["Y"];
        Export "export" "Write the selection, or the window, to a file (.json, .csv or .pftrace for Perfetto); a table as .csv" ["x"];
    }
    "The viewer" {
        NextView "next-view" "Next view" ["}"];
        PreviousView "previous-view" "Previous view" ["{"];
        Palette "palette" "All actions, by name" [":" "ctrl-p"];
        Help "help" "This help" ["?" "f1"];
        Legend "legend" "What colours and signs mean" ["i"];
        Mouse "mouse" "Mouse on or off (off: the terminal selects text)" ["ctrl-t"];
        Redraw "redraw" "Redraw the screen" ["ctrl-l"];
        Suspend "suspend" "Suspend (fg resumes)" ["ctrl-z"];
        Quit "quit" "Quit" ["q" "ctrl-c"];
    }
}

/// All of them, as the help lists them.
pub fn actions() -> impl Iterator<Item = &'static Line> {
    OTHERS.iter().chain(VIEWS)
}

impl Action {
    pub(crate) fn by_name(name: &str) -> Option<Action> {
        actions().find(|line| line.name == name).map(|line| line.action)
    }
}
