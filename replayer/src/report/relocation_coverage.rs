//! The limits of a replay in which some memory is not at its recorded addresses.

use crate::memory::words::Words;
use crate::report::{PlacementCounts, Report};

/// What translation cannot find, wherever memory is elsewhere.
pub const UNTRANSLATED: &str =
    "addresses that kernels compute from integers, or store other than as 8 aligned bytes, cannot be found";

impl Report {
    /// What was done about memory that is elsewhere, and what that may miss; nothing if all of it is at its
    /// place and no variable of a module, and no memory of a graph, is named in anything.
    pub fn trust(&self) -> Vec<String> {
        trust(&self.tally.words, &self.placement)
    }
}

fn trust(words: &Words, placed: &PlacementCounts) -> Vec<String> {
    let is_elsewhere = placed.translated + placed.host_translated > 0;
    if !is_elsewhere && *words == Words::default() {
        return Vec::new();
    }
    let mut lines = vec![format!(
        "{} in payloads, {} in kernel arguments, {} mapped back in results",
        addresses(words.payloads),
        words.arguments,
        words.results
    )];
    if words.learned > 0 {
        let blocks = if words.learned == 1 { "block" } else { "blocks" };
        let whose = "of driver addresses (functions, virtual function tables)";
        lines.push(format!("{} {blocks} {whose} located by results", words.learned));
    }
    if words.left > 0 {
        lines.push(format!("{} not translated: no memory of the replay stands for them", addresses(words.left)));
    }
    if is_elsewhere {
        lines.push(UNTRANSLATED.to_owned());
    }
    lines
}

fn addresses(count: u64) -> String {
    format!("{count} address{}", if count == 1 { "" } else { "es" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_to_say_where_all_is_at_its_place() {
        assert_eq!(
            trust(&Words::default(), &PlacementCounts { placed: 5, host_placed: 2, ..PlacementCounts::default() }),
            [""; 0]
        );
        let words = Words { arguments: 1, ..Words::default() };
        assert_eq!(
            trust(&words, &PlacementCounts::default()),
            ["0 addresses in payloads, 1 in kernel arguments, 0 mapped back in results"]
        );
    }

    #[test]
    fn what_may_be_missed_is_said() {
        let words = Words { payloads: 1, left: 2, learned: 1, ..Words::default() };
        let lines = trust(&words, &PlacementCounts { translated: 1, ..PlacementCounts::default() });
        assert!(lines[0].starts_with("1 address in payloads"), "{lines:?}");
        assert!(lines[1].starts_with("1 block of driver addresses"), "{lines:?}");
        assert!(lines[2].starts_with("2 addresses not translated"), "{lines:?}");
        assert_eq!(lines[3..], [UNTRANSLATED]);
    }
}
