//! Ranks of a job, in the form `0,3-5`.

use super::Job;
use crate::error::{Error, Result};
use crate::text::figures::{in_words, ranges};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Numbers of processes in their job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranks {
    ranges: Vec<RangeInclusive<u64>>,
    /// A variable has named them, which a launcher sets for each process that it starts.
    pub are_launched: bool,
}

impl Ranks {
    /// Whether the ranges contain this rank. A process without a rank never matches.
    pub fn has(&self, rank: Option<u64>) -> bool {
        rank.is_some_and(|rank| self.ranges.iter().any(|range| range.contains(&rank)))
    }

    /// Whether all are ranks of the job, be it that no trace is of them.
    pub fn are_of(&self, job: &Job) -> Result<()> {
        let known = job.ranks();
        let beyond = self.ranges_missing_from(&known);
        if beyond.is_empty() {
            return Ok(());
        }
        let (which, known) = (in_words(beyond), known.into_iter().collect::<Vec<_>>());
        let why = match &known[..] {
            [] => "its processes have no ranks; omit --rank to read them all".into(),
            known => format!("this job has the ranks {}", ranges(known)),
        };
        Err(Error::usage(format_args!("{}: no rank {which}; {why}", job.directory.display())))
    }

    /// What of these ranges is not known, by the first and the last of each.
    fn ranges_missing_from(&self, known: &BTreeSet<u64>) -> Vec<(u64, u64)> {
        let mut beyond = Vec::new();
        for range in &self.ranges {
            let mut from = Some(*range.start());
            for &rank in known.range(range.clone()) {
                beyond.extend(from.filter(|from| *from < rank).map(|from| (from, rank - 1)));
                from = rank.checked_add(1);
            }
            beyond.extend(from.filter(|from| from <= range.end()).map(|from| (from, *range.end())));
        }
        beyond
    }
}

/// With what variables hold for `%q{VARIABLE}`.
fn with_variables(text: &str) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, name)) = rest.split_once("%q{") {
        let (name, behind) = name.split_once('}').ok_or("expected %q{VARIABLE}")?;
        let value = std::env::var(name).map_err(|_| format!("the environment variable {name} is not set"))?;
        out += before;
        out += &value;
        rest = behind;
    }
    Ok(out + rest)
}

impl FromStr for Ranks {
    type Err = String;

    fn from_str(text: &str) -> Result<Ranks, String> {
        let named = with_variables(text)?;
        let ranges = numbers(&named).ok_or_else(|| format!("{named:?}: expected ranks such as 3 or 0,3-5"))?;
        Ok(Ranks { ranges, are_launched: named != text })
    }
}

/// `0,3-5`.
pub fn numbers(text: &str) -> Option<Vec<RangeInclusive<u64>>> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        number(first).zip(number(last)).filter(|(first, last)| first <= last).map(|(first, last)| first..=last)
    };
    text.split(',').map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_a_job_does_not_have() {
        let beyond = |text: &str, known: &[u64]| {
            let ranks: Ranks = text.parse().expect("ranks");
            in_words(ranks.ranges_missing_from(&known.iter().copied().collect()))
        };
        assert_eq!(beyond("0-2,9", &[0, 1, 2]), "9");
        assert_eq!(beyond("0-2", &[0, 1, 2, 3]), "");
        assert_eq!(beyond("1-6,9-11", &[0, 3, 9]), "1-2,4-6,10-11");
        let most = u64::MAX;
        assert_eq!(beyond(&format!("5-{most}"), &[0, most]), format!("5-{}", most - 1));
    }
}
