//! The program's NVTX annotations in one table: ranges, marks, and the names of domains and categories.

use super::rows::Store;
use super::schema::Nvtx;
use super::{Nsys, labels};
use analysis::error::Result;
use analysis::filter::selection::Selection;
use std::collections::BTreeSet;
use trace::file::record::annotated;
use trace::read::annotation::Annotation;

impl<S: Store> Nsys<'_, '_, S> {
    pub(super) fn annotations(&mut self, selection: &Selection) -> Result<()> {
        let trace = self.trace;
        let is_wanted = selection.annotation_filter(trace)?;
        let is_wanted = |about: &Annotation| is_wanted(about.thread, trace.call_from(about.about.time));
        let mut domains = BTreeSet::new();
        for about in trace.annotations() {
            if about.about.domain != 0 && domains.insert(about.about.domain) {
                self.annotation(&about, labels::DOMAIN_CREATED, None, about.domain.as_deref())?;
            }
            match about.about.what {
                annotated::MARK if is_wanted(&about) => {
                    self.annotation(&about, labels::MARK, None, about.message.as_deref())?;
                }
                annotated::CATEGORY => {
                    self.annotation(&about, labels::CATEGORY, None, about.message.as_deref())?;
                }
                _ => {}
            }
        }
        for range in trace.annotated_ranges().into_iter().filter(|range| is_wanted(&range.opened)) {
            let kind = match range.opened.about.what {
                annotated::PUSH => labels::PUSHED,
                _ => labels::STARTED,
            };
            let end = range.end.map(|end| self.process.nanoseconds(end));
            self.annotation(&range.opened, kind, end, range.opened.message.as_deref())?;
        }
        Ok(())
    }

    fn annotation(&mut self, of: &Annotation, kind: i64, end: Option<i64>, text: Option<&str>) -> Result<()> {
        let about = &of.about;
        let is_named = kind == labels::DOMAIN_CREATED;
        let category = match kind {
            labels::CATEGORY => Some(about.subject as u32),
            _ => (about.category != 0 && !is_named).then_some(about.category),
        };
        // By the type that the program gave it: one of six columns.
        let payload = |kind: u8| (!is_named && kind == about.payload_type).then_some(about.payload);
        self.rows.add_row(Nvtx {
            start: self.process.nanoseconds(about.time).into(),
            end: end.into(),
            eventType: kind.into(),
            rangeId: (kind == labels::STARTED).then_some(about.subject).into(),
            category: category.into(),
            color: of.color().filter(|_| !is_named).into(),
            text: text.into(),
            globalTid: self.thread_id(of.thread).into(),
            domainId: about.domain.into(),
            uint64Value: payload(1).into(),
            int64Value: payload(2).into(),
            doubleValue: payload(3).map(f64::from_bits).into(),
            uint32Value: payload(4).map(|bits| bits as u32).into(),
            int32Value: payload(5).map(|bits| i64::from(bits as u32 as i32)).into(),
            floatValue: payload(6).map(|bits| f64::from(f32::from_bits(bits as u32))).into(),
            ..Nvtx::default()
        })
    }
}
