//! Keys by name, and the action of each.

use super::action::{Action, actions};
use std::collections::HashMap;

/// A key as the configuration spells it: `w`, `E`, `ctrl-g`, `shift-left`, `space`, `f1`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key(pub String);

impl Key {
    /// The character that the key writes in a prompt.
    pub fn char(&self) -> Option<char> {
        let mut chars = self.0.chars();
        match (self.0.as_str(), chars.next(), chars.next()) {
            ("space", ..) => Some(' '),
            (_, Some(only), None) => Some(only),
            _ => None,
        }
    }

    /// Whether a key can have this name.
    fn is_known(name: &str) -> bool {
        const NAMED: &[&str] = &[
            "left",
            "right",
            "up",
            "down",
            "home",
            "end",
            "pageup",
            "pagedown",
            "enter",
            "esc",
            "space",
            "tab",
            "backspace",
            "delete",
            "insert",
        ];
        let bare =
            ["ctrl-", "alt-", "shift-"].iter().fold(name, |name, prefix| name.strip_prefix(prefix).unwrap_or(name));
        let function = bare.strip_prefix('f').and_then(|number| number.parse::<u8>().ok());
        bare.chars().count() == 1 || NAMED.contains(&bare) || function.is_some_and(|n| (1..=24).contains(&n))
    }
}

/// The action of each key.
#[derive(Debug, Clone)]
pub struct Keymap {
    keys: HashMap<Key, Action>,
}

impl Default for Keymap {
    fn default() -> Keymap {
        let lines = actions().flat_map(|line| line.keys.iter().map(|key| (Key((*key).into()), line.action)));
        Keymap { keys: lines.collect() }
    }
}

impl Keymap {
    /// The action of this key.
    pub fn action(&self, key: &Key) -> Option<Action> {
        self.keys.get(key).copied()
    }

    /// Gives an action these keys and no others. What was wrong, if something was.
    pub(crate) fn set(&mut self, action: &str, keys: &[String]) -> Result<(), String> {
        let Some(wanted) = Action::by_name(action) else {
            let known: Vec<&str> = actions().map(|line| line.name).collect();
            return Err(format!("no action {action:?}; actions: {}", known.join(", ")));
        };
        if let Some(wrong) = keys.iter().find(|key| !Key::is_known(key)) {
            return Err(format!(
                "{action}: no key {wrong:?}; expected w, ctrl-g, shift-left, space or f1, for example"
            ));
        }
        self.keys.retain(|_, action| *action != wanted);
        self.keys.extend(keys.iter().map(|key| (Key(key.clone()), wanted)));
        Ok(())
    }

    /// The first key that an action has by itself and still has, or else any that it was given.
    pub(crate) fn first(&self, action: Action) -> Option<&str> {
        let own = actions().find(|line| line.action == action).map_or(&[][..], |line| line.keys);
        let kept = own.iter().copied().find(|key| self.action(&Key((*key).into())) == Some(action));
        kept.or_else(|| self.keys(action).first().copied())
    }

    /// The keys of an action, in a fixed order, the shortest first.
    pub(crate) fn keys(&self, action: Action) -> Vec<&str> {
        let mut keys: Vec<&str> =
            self.keys.iter().filter(|(_, of)| **of == action).map(|(key, _)| key.0.as_str()).collect();
        keys.sort_by_key(|key| (key.chars().count(), *key));
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_key_asks_for_two_things_and_every_action_has_one() {
        let mut seen = HashSet::new();
        for line in actions() {
            assert!(!line.keys.is_empty(), "{}", line.name);
            for key in line.keys {
                assert!(seen.insert(*key), "{key} stands twice");
                assert!(Key::is_known(key), "{key}");
            }
        }
    }

    #[test]
    fn keys_can_be_given_to_others() {
        let mut keymap = Keymap::default();
        keymap.set("quit", &["ctrl-q".into()]).expect("known");
        assert_eq!(keymap.action(&Key("ctrl-q".into())), Some(Action::Quit));
        assert_eq!(keymap.action(&Key("q".into())), None);
        assert!(keymap.set("qiut", &[]).expect_err("unknown").contains("no action \"qiut\""));
        assert!(keymap.set("quit", &["ctl-q".into()]).expect_err("unknown").contains("no key"));
    }
}
