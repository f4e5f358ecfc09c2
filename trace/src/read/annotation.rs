//! The program's NVTX annotations: ranges, marks, and names.

use crate::file::record::{self, ANNOTATION_SIZE, HEAD, annotated};
use crate::read::index::body_of;
use crate::read::reader::Trace;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

/// One annotation.
#[derive(Debug, Clone)]
pub struct Annotation<'a> {
    /// Number of the recorded thread.
    pub thread: u32,
    /// The record, with time, domain and kind.
    pub about: record::Annotation,
    /// None: it has no message, or the registered text it names is not in the file.
    pub message: Option<Cow<'a, str>>,
    /// None: the default domain.
    pub domain: Option<Cow<'a, str>>,
}

/// A number that the program attached to an annotation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Payload {
    /// NVTX's 32- and 64-bit unsigned types.
    Unsigned(u64),
    /// NVTX's 32- and 64-bit signed types.
    Signed(i64),
    /// NVTX's float and double.
    Float(f64),
    /// Of a type that the recorder did not know.
    Unknown(u64),
}

/// A pushed or started range.
#[derive(Debug, Clone)]
pub struct Range<'a> {
    /// The annotation that began it.
    pub opened: Annotation<'a>,
    /// Time stamp; none if the trace ends first.
    pub end: Option<u64>,
    /// Ranges of the thread and domain around it; 0 for one that was started.
    pub depth: u32,
}

/// A selection of ranges: by name, in one domain or in any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The message of the range.
    pub name: String,
    /// Name of the domain; None for any.
    pub domain: Option<String>,
}

impl Wanted {
    /// `NAME` or `NAME@DOMAIN`; an @ that belongs to the name is written `\\@`.
    pub fn parse(text: &str) -> Option<Wanted> {
        let is_escaped = |at: usize| text[..at].ends_with('\\');
        let at = text.rmatch_indices('@').map(|(at, _)| at).find(|at| !is_escaped(*at));
        let (name, domain) = at.map_or((text, None), |at| (&text[..at], Some(&text[at + 1..])));
        let plain = |text: &str| text.replace("\\@", "@");
        let wanted = Wanted { name: plain(name), domain: domain.map(plain) };
        (!name.is_empty() && domain != Some("")).then_some(wanted)
    }

    /// As `matches`, of a range that was read.
    pub fn covers(&self, opened: &Annotation) -> bool {
        self.matches(opened.message.as_deref().map(str::as_bytes), opened.domain.as_deref().map(str::as_bytes))
    }

    /// Whether a range of this message and domain is one of them; none is the default domain. A name without
    /// a domain may also be `DOMAIN:NAME`, or `:NAME` of the default domain, as reports have it.
    pub fn matches(&self, message: Option<&[u8]>, domain: Option<&[u8]>) -> bool {
        let (Some(message), name) = (message, self.name.as_bytes()) else { return false };
        let Some(wanted) = &self.domain else {
            let printed = name.strip_prefix(domain.unwrap_or_default()).and_then(|rest| rest.strip_prefix(b":"));
            return message == name || printed == Some(message);
        };
        message == name && domain == Some(wanted.as_bytes())
    }
}

/// As `parse` takes it.
impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.name.replace('@', "\\@"))?;
        self.domain.iter().try_for_each(|domain| write!(f, "@{}", domain.replace('@', "\\@")))
    }
}

impl Annotation<'_> {
    /// What asks for ranges like this one.
    pub fn wanted(&self) -> Wanted {
        let (name, domain) = (self.message.as_deref().unwrap_or(""), self.domain.as_deref());
        Wanted { name: name.to_owned(), domain: domain.map(str::to_owned) }
    }

    /// The attached number, if there is one.
    pub fn payload(&self) -> Option<Payload> {
        let bits = self.about.payload;
        match self.about.payload_type {
            0 => None,
            1 => Some(Payload::Unsigned(bits)),
            2 => Some(Payload::Signed(bits as i64)),
            3 => Some(Payload::Float(f64::from_bits(bits))),
            4 => Some(Payload::Unsigned(bits as u32 as u64)),
            5 => Some(Payload::Signed(bits as u32 as i32 as i64)),
            6 => Some(Payload::Float(f32::from_bits(bits as u32).into())),
            _ => Some(Payload::Unknown(bits)),
        }
    }

    /// ARGB.
    pub fn color(&self) -> Option<u32> {
        self.about.has_color.then_some(self.about.color)
    }

    /// Whether it gives something a name, rather than happening at a time.
    pub fn is_name(&self) -> bool {
        (annotated::CATEGORY..=annotated::EVENT).contains(&self.about.what)
    }
}

impl Trace {
    /// Whether the trace has any annotation.
    pub fn has_annotations(&self) -> bool {
        !self.annotations.is_empty()
    }

    /// All annotations by time.
    pub fn annotations(&self) -> impl Iterator<Item = Annotation<'_>> {
        self.annotations.iter().filter_map(|(_, thread, at)| {
            let found = self.record(*at)?;
            let about = body_of::<record::Annotation>(&found.bytes[HEAD..])?;
            let message = match about.registered {
                true => self.texts.get(&about.message).map(|text| Cow::Borrowed(text.as_str())),
                false => text_of(found.bytes, &about),
            };
            let unknown = || Cow::Owned(format!("domain {}", about.domain));
            let named = || self.domains.get(&about.domain).map_or_else(unknown, |name| Cow::Borrowed(name.as_str()));
            Some(Annotation { thread: *thread, about, message, domain: (about.domain != 0).then(named) })
        })
    }

    /// Ranges by the time they were opened. A pop ends the range that its thread pushed last in its domain;
    /// one that finds none counts for nothing, as does the end of a range that was not started.
    pub fn annotated_ranges(&self) -> Vec<Range<'_>> {
        let mut ranges: Vec<Range> = Vec::new();
        let mut pushed: HashMap<(u32, u32), Vec<usize>> = HashMap::new();
        let mut started: HashMap<u64, usize> = HashMap::new();
        for annotation in self.annotations() {
            let record::Annotation { what, time, domain, subject, .. } = annotation.about;
            let stack = pushed.entry((annotation.thread, domain)).or_default();
            let ended = match what {
                annotated::PUSH => {
                    let depth = stack.len() as u32;
                    stack.push(ranges.len());
                    ranges.push(Range { opened: annotation, end: None, depth });
                    None
                }
                annotated::START => {
                    started.insert(subject, ranges.len());
                    ranges.push(Range { opened: annotation, end: None, depth: 0 });
                    None
                }
                annotated::POP => stack.pop(),
                annotated::END => started.remove(&subject),
                _ => None,
            };
            if let Some(range) = ended {
                ranges[range].end = Some(time);
            }
        }
        ranges
    }

    /// The names of categories, by domain and number: the last that each was given.
    pub fn categories(&self) -> HashMap<(u32, u32), String> {
        let named = self.annotations().filter(|annotation| annotation.about.what == annotated::CATEGORY);
        named.filter_map(|a| Some(((a.about.domain, a.about.subject as u32), a.message?.into_owned()))).collect()
    }

    pub(crate) fn index_annotation(&mut self, thread: u32, at: u64, end: u64) {
        let Some(found) = self.record_within(at, end) else { return };
        let Some(about) = body_of::<record::Annotation>(&found.bytes[HEAD..]) else { return };
        let text = || text_of(found.bytes, &about).map_or_else(String::new, Cow::into_owned);
        let number = about.subject as u32;
        match about.what {
            annotated::DOMAIN => {
                let name = text();
                self.domains.insert(number, name);
            }
            annotated::TEXT => {
                let text = text();
                self.texts.insert(number, text);
            }
            _ => self.annotations.push((about.time, thread, at)),
        }
    }
}

/// The text behind the body, as far as the record goes.
fn text_of<'a>(bytes: &'a [u8], about: &record::Annotation) -> Option<Cow<'a, str>> {
    let text = bytes.get(ANNOTATION_SIZE..)?;
    (about.message != 0).then(|| String::from_utf8_lossy(&text[..text.len().min(about.message as usize - 1)]))
}

#[cfg(test)]
mod tests {
    use super::Wanted;

    #[test]
    fn a_domain_stands_behind_the_name() {
        let of = |text: &str| Wanted::parse(text).map(|wanted| (wanted.name, wanted.domain));
        assert_eq!(of("step"), Some(("step".into(), None)));
        assert_eq!(of("step@mine"), Some(("step".into(), Some("mine".into()))));
        assert_eq!(of("a\\@b"), Some(("a@b".into(), None)));
        assert_eq!(of("a\\@b@c"), Some(("a@b".into(), Some("c".into()))));
        assert_eq!([of(""), of("@c"), of("a@")], [None, None, None]);
        assert_eq!(Wanted::parse("a\\@b@c").map(|wanted| wanted.to_string()).as_deref(), Some("a\\@b@c"));
    }

    #[test]
    fn or_in_front_of_it_as_reports_print_it() {
        let is = |text: &str, message: &str, domain: Option<&str>| {
            let wanted = Wanted::parse(text).expect("a name");
            wanted.matches(Some(message.as_bytes()), domain.map(str::as_bytes))
        };
        for (text, domain) in [("step", None), (":step", None), ("step", Some("mine")), ("mine:step", Some("mine"))] {
            assert!(is(text, "step", domain), "{text} {domain:?}");
        }
        for (text, domain) in
            [(":step", Some("mine")), ("mine:step", None), ("step@mine", None), ("mine:", Some("mine"))]
        {
            assert!(!is(text, "step", domain), "{text} {domain:?}");
        }
        assert!(is("aten::add", "aten::add", None) && is("mine:aten::add@mine", "mine:aten::add", Some("mine")));
    }
}
