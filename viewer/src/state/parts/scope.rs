//! The scope of tables and totals.

/// Where an event is: lane of the model, and place in it.
pub type EventPlace = (usize, usize);

/// The part of the trace that tables and totals are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The whole trace.
    Whole,
    /// What touches the window, ns.
    Window(u64, u64),
    /// What touches the selected piece of time, ns.
    Selection(u64, u64),
    /// A selected NVTX range: the calls that its thread made within it, and the work that these gave to
    /// devices, whenever that ran. Where the range is, and when it began and ended, ns.
    Range(EventPlace, u64, u64),
}

impl Scope {
    /// The piece of time that it is about; none of the whole trace.
    pub(crate) fn time(&self) -> Option<(u64, u64)> {
        match *self {
            Scope::Whole => None,
            Scope::Window(from, to) | Scope::Selection(from, to) | Scope::Range(_, from, to) => Some((from, to)),
        }
    }
}

/// The inputs of a table, by which it is known when it must be made again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Basis {
    pub(crate) scope: Scope,
    pub(crate) filter: Option<String>,
}

impl Basis {
    /// Whether nothing is left out.
    pub fn is_everything(&self) -> bool {
        self.scope == Scope::Whole && self.filter.is_none()
    }
}
