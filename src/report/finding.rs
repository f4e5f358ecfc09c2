//! What somebody should look at, with the evidence.

/// One thing found.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// A word for scripts: `failed_calls`.
    pub kind: &'static str,
    /// In one line.
    pub what: String,
    /// Figures, and the numbers of calls.
    pub evidence: String,
    /// A command that shows more, without the trace's path: see [`Finding::command`].
    pub next: String,
    pub cost: Cost,
}

impl Finding {
    /// The command that shows more of the trace at this path.
    pub fn command(&self, path: &str) -> String {
        match self.next.splitn(3, ' ').collect::<Vec<_>>()[..] {
            [program, subcommand, flags] => format!("{program} {subcommand} {path} {flags}"),
            _ => format!("{} {path}", self.next),
        }
    }
}

/// What it costs the program, and so how soon it is told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cost {
    /// Something is wrong, whatever time it takes.
    Wrong,
    /// Nanoseconds of the host's time that go there. Little of it is not worth telling.
    Time(i64),
    /// Bytes held that nobody uses.
    Memory(u64),
    /// Objects that are held by nobody.
    Objects(u64),
}
