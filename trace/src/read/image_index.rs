//! The lookup for a call with many images: its construction and its queries.

use crate::file::lookup::{Lookup, Place, Stretch};
use crate::read::call::{Attachments, Call, Image, When};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

impl Lookup {
    pub(crate) fn from_call(call: &Call) -> Lookup {
        let mut by_address = Vec::new();
        let (mut at_entry, mut at_return) = (Vec::new(), Vec::new());
        for (when, spans) in [(When::Entry, &mut at_entry), (When::Return, &mut at_return)] {
            let mut attachments = call.attachments(when);
            let whole = attachments.bytes.len();
            loop {
                let place = Place { is_return: when == When::Return, at: (whole - attachments.bytes.len()) as u32 };
                let Some(image) = attachments.next() else { break };
                by_address.push((image.address, place));
                if let Some(bytes) = call.image_bytes(&call.resolved(image)).filter(|bytes| !bytes.is_empty()) {
                    spans.push((image.address, image.address.saturating_add(bytes.len() as u64), place));
                }
            }
        }
        by_address.sort_unstable();
        Lookup { by_address, at_entry: flattened(at_entry), at_return: flattened(at_return) }
    }

    pub(crate) fn starting_at<'a>(&'a self, call: Call<'a>, address: u64) -> impl Iterator<Item = Image<'a>> + use<'a> {
        let first = self.by_address.partition_point(|(at, _)| *at < address);
        let same = self.by_address[first..].iter().take_while(move |(at, _)| *at == address);
        same.filter_map(move |(_, place)| place.image(&call))
    }

    pub(crate) fn starting_in<'a>(&self, call: Call<'a>, range: &Range<u64>) -> Vec<Image<'a>> {
        let below = |end| self.by_address.partition_point(|(at, _)| *at < end);
        let (first, behind) = (below(range.start), below(range.end));
        let places = self.by_address.get(first..behind).unwrap_or(&[]).iter().map(|(_, place)| *place);
        let mut places: Vec<Place> = places.collect();
        places.sort_unstable();
        places.into_iter().filter_map(|place| place.image(&call)).collect()
    }

    /// The first image captured at that moment that has this byte.
    pub(crate) fn containing<'a>(&self, call: &Call<'a>, when: When, address: u64) -> Option<Image<'a>> {
        let stretches = if when == When::Entry { &self.at_entry } else { &self.at_return };
        let next = stretches.partition_point(|stretch| stretch.start <= address);
        stretches.get(next.checked_sub(1)?)?.place?.image(call)
    }
}

impl Place {
    fn image<'a>(self, call: &Call<'a>) -> Option<Image<'a>> {
        let Attachments { bytes, words, when } =
            call.attachments(if self.is_return { When::Return } else { When::Entry });
        let image = Attachments { bytes: bytes.get(self.at as usize..)?, words, when }.next()?;
        Some(call.resolved(image))
    }
}

/// Spans that may overlap, as stretches that do not: of several spans the one captured first counts.
fn flattened(mut spans: Vec<(u64, u64, Place)>) -> Vec<Stretch> {
    spans.sort_unstable();
    let mut edges: Vec<u64> = spans.iter().flat_map(|(start, end, _)| [*start, *end]).collect();
    edges.sort_unstable();
    edges.dedup();
    let mut coming = spans.into_iter().peekable();
    let mut open: BinaryHeap<Reverse<(Place, u64)>> = BinaryHeap::new();
    let mut stretches: Vec<Stretch> = Vec::new();
    for edge in edges {
        while let Some((_, end, place)) = coming.next_if(|(start, ..)| *start == edge) {
            open.push(Reverse((place, end)));
        }
        while open.peek().is_some_and(|Reverse((_, end))| *end <= edge) {
            open.pop();
        }
        let place = open.peek().map(|Reverse((place, _))| *place);
        if stretches.last().is_none_or(|last| last.place != place) {
            stretches.push(Stretch { start: edge, place });
        }
    }
    stretches
}
