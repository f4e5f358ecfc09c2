//! Annotations on their way into the trace: recorded, or kept until recording begins.

use crate::os::text::Text;
use crate::os::{clock, generation};
use crate::records::notes::add;
use crate::records::pre_init_nvtx;
use crate::records::thread_start;
use trace::file::record::Annotation;

/// Records an annotation, if this process records. `trouble`: what of it cannot be.
#[inline]
pub(crate) fn write(mut about: Annotation, text: Text, trouble: Option<&'static str>) {
    let records = thread_start::annotate(|lane| {
        about.time = clock::entry();
        add(lane, about, text, trouble);
    });
    if !records && generation::dormant() {
        pre_init_nvtx::keep(about, text, trouble);
    }
}
