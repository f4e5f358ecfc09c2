//! How an annotation gets into the trace: recorded, or kept until recording begins.

use crate::join;
use crate::notes::add;
use crate::text::Text;
use crate::{clock, early, generation};
use trace::record::Annotation;

/// Records an annotation, if this process records. `trouble`: what of it cannot be.
#[inline]
pub fn write(mut about: Annotation, text: Text, trouble: Option<&'static str>) {
    let records = join::annotate(|lane| {
        about.time = clock::entry();
        add(lane, about, text, trouble);
    });
    if !records && generation::dormant() {
        early::keep(about, text, trouble);
    }
}
