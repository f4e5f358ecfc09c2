//! `--grep`: calls by the function's name, and by the kernel's after a space, as recorded or as the reports
//! show it.

use crate::filter::selection::Selection;
use crate::text::kernel_name::{Names, Style};
use regex::Regex;
use trace::Call;
use trace::api::roles::Class;

/// The test of `--grep`.
pub struct Grep<'r> {
    pattern: Option<&'r Regex>,
    shown: [Names; 2],
}

impl Grep<'_> {
    /// Without a pattern in the selection, all calls match.
    pub fn new(selection: &Selection) -> Grep<'_> {
        Grep { pattern: selection.grep.as_ref(), shown: [Style::Full, Style::Short].map(Names::new) }
    }

    /// Whether the function's name matches, or the name of the kernel that it launches.
    pub fn matches(&self, call: &Call) -> bool {
        self.pattern.is_none_or(|pattern| pattern.is_match(call.name()))
            || kernel_name(call).is_some_and(|kernel| self.matches_with(call, kernel))
    }

    /// A call that gives a device this kernel, by itself or in a graph.
    pub fn matches_with(&self, call: &Call, kernel: &str) -> bool {
        let Some(pattern) = self.pattern else { return true };
        let is_match = |name: &str| pattern.is_match(&format!("{} {name}", call.name()));
        is_match(kernel) || self.shown.iter().any(|names| is_match(&names.display_name(kernel)))
    }
}

/// The kernel that a launch names, as the trace has it.
pub fn kernel_name<'t>(call: &Call<'t>) -> Option<&'t str> {
    call.function().filter(|function| function.class == Class::launch)?;
    Some(&call.named_kernel()?.name)
}
