//! The user's settings: `cutrace/view.toml` in the configuration directory, and the known abilities of the
//! terminal.
//!
//! ```toml
//! theme = "light"        # or dark
//! ascii = false
//! mouse = true
//! gap = "100us"          # the shortest gap that g and G stop at
//! [keys]                 # of any action that the help lists
//! zoom-in = ["w", "+"]
//! ```

use crate::state::parts::keymap::Keymap;
use crate::view::theme::{Depth, Theme};
use analysis::text::numbers::time;
use std::path::PathBuf;
use std::time::Duration;
use terminal_colorsaurus::{QueryOptions, background_color};

/// The user's settings; None where the file sets nothing.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Whether the terminal's background is light.
    pub light: Option<bool>,
    /// Whether to draw with ASCII alone.
    pub ascii: Option<bool>,
    /// Whether to react to the mouse.
    pub mouse: Option<bool>,
    /// The shortest gap on a row that g and G stop at, ns.
    pub gap: Option<u64>,
    pub(crate) keymap: Keymap,
}

/// A file of settings that cannot be read or understood.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {what}")]
pub struct Error {
    path: PathBuf,
    what: String,
}

/// Where the file is, or would be.
pub fn path() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let directory = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))?;
    Some(directory.join("cutrace/view.toml"))
}

/// The user's configuration; the default where there is no file.
pub fn load() -> Result<Config, Error> {
    let Some(path) = path() else { return Ok(Config::default()) };
    match std::fs::read_to_string(&path) {
        Ok(text) => parse(&text).map_err(|what| Error { path, what }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Config::default()),
        Err(error) => Err(Error { path, what: error.to_string() }),
    }
}

fn parse(text: &str) -> Result<Config, String> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    let mut config = Config::default();
    for (name, value) in &table {
        let boolean = || value.as_bool().ok_or_else(|| format!("{name}: expected true or false, found {value}"));
        match name.as_str() {
            "theme" => match value.as_str() {
                Some("light") => config.light = Some(true),
                Some("dark") => config.light = Some(false),
                _ => return Err(format!("theme: expected \"light\" or \"dark\", found {value}")),
            },
            "ascii" => config.ascii = Some(boolean()?),
            "mouse" => config.mouse = Some(boolean()?),
            "gap" => {
                let text = value.as_str().ok_or_else(|| format!("gap: expected a time (\"100us\"), found {value}"))?;
                config.gap = Some(time(text).map_err(|wrong| format!("gap: {wrong}"))?);
            }
            "keys" => {
                let keys = value.as_table().ok_or_else(|| format!("keys: expected a table, found {value}"))?;
                for (action, keys) in keys {
                    let list = match keys {
                        toml::Value::String(only) => vec![only.clone()],
                        toml::Value::Array(all) => {
                            all.iter().filter_map(|key| key.as_str().map(str::to_owned)).collect()
                        }
                        other => return Err(format!("keys.{action}: expected a list of keys, found {other}")),
                    };
                    config.keymap.set(action, &list)?;
                }
            }
            _ => return Err(format!("no setting {name:?}; settings: theme, ascii, mouse, gap, keys")),
        }
    }
    Ok(config)
}

/// How long the terminal may take to tell its colours: those that know nothing of such questions are told
/// apart at once, by another one that all answer.
const ANSWERED: Duration = Duration::from_millis(500);

/// Whether the terminal's background is light, if it says so. Nobody else may be reading what it answers.
pub fn ask_terminal() -> Option<bool> {
    let mut options = QueryOptions::default();
    options.timeout = ANSWERED;
    // Some tell of their background alone.
    background_color(options).ok().map(|colour| colour.perceived_lightness() > 0.5)
}

/// What the terminal shows, as the environment tells. `colored`: as `--color` and NO_COLOR have decided.
pub fn theme(config: &Config, colored: bool) -> Theme {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let (term, colorterm) = (variable("TERM"), variable("COLORTERM"));
    // Terminals that have no colours, and no more than ASCII.
    let is_plain = ["dumb", "vt52", "vt100", "vt102", "vt220", "vt320"].contains(&term.as_str());
    let depth = if !colored || is_plain || term.ends_with("-mono") {
        Depth::None
    } else if colorterm == "truecolor" || colorterm == "24bit" {
        Depth::True
    } else if term.contains("256") || term.contains("kitty") || term.contains("alacritty") || term.contains("ghostty") {
        Depth::Many
    } else if term == "linux" || term == "ansi" {
        Depth::Eight
    } else {
        Depth::Sixteen
    };
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].map(variable).into_iter().find(|value| !value.is_empty());
    let utf8 = locale.is_some_and(|value| value.to_uppercase().replace('-', "").contains("UTF8"));
    // "foreground;background", as some terminals tell: light backgrounds are 7 and 15.
    let light = variable("COLORFGBG").rsplit(';').next().is_some_and(|behind| behind == "7" || behind == "15");
    let ascii = config.ascii.unwrap_or(!utf8 || is_plain);
    Theme { depth, light: config.light.unwrap_or(light), ascii }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::parts::action::Action;
    use crate::state::parts::keymap::Key;

    #[test]
    fn keys_and_themes_can_be_set() {
        let config = parse("theme = \"light\"\nascii = true\n[keys]\nquit = \"ctrl-q\"\nhelp = [\"f1\", \"f2\"]\n")
            .expect("valid");
        assert_eq!((config.light, config.ascii, config.mouse), (Some(true), Some(true), None));
        assert_eq!(config.keymap.action(&Key("f2".into())), Some(Action::Help));
        assert_eq!(config.keymap.action(&Key("q".into())), None);
        for (wrong, told) in [
            ("theme = 1", "theme: expected"),
            ("colour = 1", "no setting"),
            ("[keys]\nqiut = \"q\"", "no action"),
            ("[keys]\nquit = 3", "a list of keys"),
            ("x", "expected"),
        ] {
            let error = parse(wrong).expect_err(wrong);
            assert!(error.contains(told), "{error}");
        }
    }
}
