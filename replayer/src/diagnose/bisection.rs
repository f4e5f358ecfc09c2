//! Bisection: two replays of one trace, compared launch by launch up to the first difference.

use std::collections::BTreeMap;
use trace::base::hash::Hash;

/// Allocations by name (`mem#3`), and what they held.
pub type State = BTreeMap<String, Hash>;

/// One launch, or one node of a graph that was run by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Number of the call that launches.
    pub call: u64,
    /// Position among the graph's nodes.
    pub node: Option<u64>,
    /// Name of the kernel.
    pub kernel: String,
    /// The memory that it reaches, before and after.
    pub before: State,
    /// The same memory after the launch.
    pub after: State,
}

/// The comparison of two replays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bisection {
    /// Launches up to the first that differs, that one included.
    pub compared: u64,
    /// The first launch that differs; None if the replays agree.
    pub first: Option<FirstDifference>,
}

/// The first launch whose results differ between two replays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstDifference {
    /// Number of the call that launches.
    pub call: u64,
    /// Position among the graph's nodes, if a node differs.
    pub node: Option<u64>,
    /// Name of the kernel.
    pub kernel: String,
    /// It was given other memory already: what differs came from no launch.
    pub is_given: bool,
    /// What differs, by name; empty if only one of the replays made the launch.
    pub memory: Vec<String>,
}

/// The launches in the order of the trace, whichever thread came first.
pub fn bisect(mut one: Vec<Entry>, mut other: Vec<Entry>) -> Bisection {
    let key = |entry: &Entry| (entry.call, entry.node);
    one.sort_by_key(key);
    other.sort_by_key(key);
    let parted = |entry: &Entry, is_given, memory| {
        Some(FirstDifference { call: entry.call, node: entry.node, kernel: entry.kernel.clone(), is_given, memory })
    };
    for (n, (one, other)) in one.iter().zip(&other).enumerate() {
        let compared = n as u64 + 1;
        if key(one) != key(other) {
            let first = if key(one) < key(other) { one } else { other };
            return Bisection { compared, first: parted(first, false, Vec::new()) };
        }
        for (is_given, was, is) in [(true, &one.before, &other.before), (false, &one.after, &other.after)] {
            let memory = differing(was, is);
            if !memory.is_empty() {
                return Bisection { compared, first: parted(one, is_given, memory) };
            }
        }
    }
    let compared = one.len().min(other.len());
    let more = one.get(compared).or(other.get(compared));
    Bisection { compared: compared as u64, first: more.and_then(|entry| parted(entry, false, Vec::new())) }
}

fn differing(was: &State, is: &State) -> Vec<String> {
    let changed = was.iter().filter(|(name, hash)| is.get(*name) != Some(hash)).map(|(name, _)| name);
    let new = is.keys().filter(|name| !was.contains_key(*name));
    changed.chain(new).cloned().collect()
}

/// As text, for another process: a line a launch, fields between tabs.
pub fn write(entries: &[Entry]) -> String {
    let state = |state: &State| {
        let all: Vec<String> = state.iter().map(|(name, hash)| format!("{name}={:x}", hash.0)).collect();
        all.join(" ")
    };
    let line = |entry: &Entry| {
        let node = entry.node.map_or("-".to_owned(), |node| node.to_string());
        let kernel = entry.kernel.escape_default();
        format!("{}\t{node}\t{kernel}\t{}\t{}\n", entry.call, state(&entry.before), state(&entry.after))
    };
    entries.iter().map(line).collect()
}

/// None if the text is not what [`write()`] makes.
pub fn read(text: &str) -> Option<Vec<Entry>> {
    let state = |text: &str| -> Option<State> {
        let one = |part: &str| {
            let (name, hash) = part.split_once('=')?;
            Some((name.to_owned(), Hash(u128::from_str_radix(hash, 16).ok()?)))
        };
        text.split(' ').filter(|part| !part.is_empty()).map(one).collect()
    };
    let entry = |line: &str| {
        let mut fields = line.split('\t');
        let call = fields.next()?.parse().ok()?;
        let node = match fields.next()? {
            "-" => None,
            node => Some(node.parse().ok()?),
        };
        let kernel = fields.next()?.to_owned();
        Some(Entry { call, node, kernel, before: state(fields.next()?)?, after: state(fields.next()?)? })
    };
    text.lines().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(call: u64, before: u128, after: u128) -> Entry {
        let state = |hash| State::from([("mem#1".to_owned(), Hash(hash)), ("mem#2".to_owned(), Hash(7))]);
        Entry { call, node: (call > 5).then_some(call), kernel: "k".into(), before: state(before), after: state(after) }
    }

    #[test]
    fn a_trail_travels_as_text() {
        let trail = [entry(1, 2, 3), entry(9, u128::MAX, 0)];
        assert_eq!(read(&write(&trail)), Some(trail.to_vec()));
        assert_eq!((read(""), read("x\n")), (Some(vec![]), None));
    }

    #[test]
    fn where_they_part() {
        let one = vec![entry(1, 1, 2), entry(3, 2, 3)];
        let found = |other: Vec<Entry>| bisect(one.clone(), other);
        assert_eq!(found(vec![entry(3, 2, 3), entry(1, 1, 2)]), Bisection { compared: 2, first: None });
        let first = found(vec![entry(1, 1, 2), entry(3, 2, 4)]).first.expect("a difference");
        assert_eq!((first.call, first.is_given, &first.memory[..]), (3, false, &["mem#1".to_owned()][..]));
        let first = found(vec![entry(1, 1, 2), entry(3, 5, 4)]).first.expect("a difference");
        assert_eq!((first.call, first.is_given), (3, true));
        let first = found(vec![entry(1, 1, 2)]).first.expect("a difference");
        assert_eq!((first.call, first.memory.len()), (3, 0));
    }
}
