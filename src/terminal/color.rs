//! `--color`, an option of all commands: whether the output has colours.

use clap::ColorChoice;
use std::io::IsTerminal;
use std::sync::OnceLock;

static WHEN: OnceLock<ColorChoice> = OnceLock::new();

/// What was asked for.
pub(crate) fn choose(when: ColorChoice) {
    // Once, by `main`.
    let _first = WHEN.set(when);
}

/// On standard output.
pub(crate) fn is_wanted() -> bool {
    is_wanted_with(WHEN.get().copied().unwrap_or(ColorChoice::Auto))
}

pub(crate) fn is_wanted_with(when: ColorChoice) -> bool {
    match when {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && std::io::stdout().is_terminal()
        }
    }
}
