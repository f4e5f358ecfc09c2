//! Lookup of the images of a call with many of them: by start address, and by an address within.

/// In records of more bytes images are found by a [`Lookup`]; in smaller ones by looking at each.
pub(crate) const CROWDED: u64 = 4096;

/// The places of images in the records of one call.
#[derive(Debug)]
pub(crate) struct Lookup {
    /// All of them, by address, those of one address in the order of capture.
    pub(crate) by_address: Vec<(u64, Place)>,
    pub(crate) at_entry: Vec<Stretch>,
    pub(crate) at_return: Vec<Stretch>,
}

/// An attachment: its record, and its offset behind the first attachment. Ordered by capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) is_return: bool,
    pub(crate) at: u32,
}

/// From `start` up to the next stretch, memory is found in this image, or in none.
#[derive(Debug)]
pub(crate) struct Stretch {
    pub(crate) start: u64,
    pub(crate) place: Option<Place>,
}
