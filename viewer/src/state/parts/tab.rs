//! The tabs of the main part: one line each.

use super::action::{Action, Line};

macro_rules! views {
    ($($view:ident $name:literal $title:literal $short:literal $about:literal [$key:literal];)*) => {
        /// A tab of the main part.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Tab {
            $(#[doc = $about] $view),*
        }

        /// The actions that show them.
        pub(crate) const VIEWS: &[Line] =
            &[$(Line { action: Action::Show(Tab::$view), name: $name, about: $about, keys: &[$key], group: "Views" }),*];

        impl Tab {
            /// All views in their order.
            pub const ALL: &[Tab] = &[$(Tab::$view),*];

            pub(crate) fn title(self) -> &'static str {
                match self { $(Tab::$view => $title),* }
            }

            /// The title where there is little room.
            pub fn short(self) -> &'static str {
                match self { $(Tab::$view => $short),* }
            }

            /// As the command line has it.
            pub fn name(self) -> &'static str {
                match self { $(Tab::$view => $name),* }
            }
        }
    };
}

views! {
    Timeline "timeline" "Timeline" "Time" "Timeline" ["1"];
    Events "events" "Events" "Event" "Events of the row" ["2"];
    Kernels "kernels" "Kernels" "Kern" "Kernels" ["3"];
    Api "api" "API" "API" "API functions" ["4"];
    Copies "copies" "Copies" "Copy" "Copies and fills" ["5"];
    Modules "modules" "Modules" "Mod" "Modules loaded" ["6"];
    Findings "findings" "Findings" "Find" "Findings" ["7"];
    Ranges "ranges" "Ranges" "NVTX" "NVTX ranges" ["8"];
    Objects "objects" "Objects" "Obj" "Objects: creation and end; enter: calls that use one" ["9"];
    Marks "marks" "Marks" "Mark" "Marks and their notes: enter goes to one, m edits its note, M removes it" ["'"];
}

impl Tab {
    /// The view with this name on the command line.
    pub fn by_name(name: &str) -> Option<Tab> {
        Tab::ALL.iter().copied().find(|tab| tab.name() == name)
    }

    pub(crate) fn is_table(self) -> bool {
        !matches!(self, Tab::Timeline | Tab::Events)
    }

    /// The one `by` further, round and round.
    pub(crate) fn next(self, by: usize) -> Tab {
        let at = Tab::ALL.iter().position(|tab| *tab == self).unwrap_or(0);
        Tab::ALL[(at + by) % Tab::ALL.len()]
    }

    /// The report that has more of the same, of a trace with or without device times.
    pub fn report(self, timed: bool) -> Option<&'static str> {
        Some(match (self, timed) {
            (Tab::Kernels, true) => "cuda_gpu_kern_sum",
            (Tab::Kernels, false) => "launches",
            (Tab::Api, _) => "cuda_api_sum",
            (Tab::Copies, true) => "cuda_gpu_mem_time_sum",
            (Tab::Copies, false) => "transfers",
            (Tab::Modules, _) => "modules",
            (Tab::Findings, _) => "summary",
            (Tab::Ranges, _) => "nvtx_sum",
            (Tab::Objects, _) => "leaks",
            (Tab::Timeline | Tab::Events | Tab::Marks, _) => return None,
        })
    }
}
