//! How an annotation gets into the trace: recorded, or kept until recording begins.

use crate::os::text::Text;
use crate::os::{clock, generation};
use crate::records::early;
use crate::records::join;
use crate::records::notes::add;
use trace::file::record::Annotation;

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
