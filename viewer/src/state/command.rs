//! The command line that prints the present screen.

use super::arrange::Step;
use super::fields::State;
use crate::data::event::NO_CALL;
use crate::state::parts::scope::Scope;
use crate::state::parts::tab::Tab;
use analysis::text::numbers::time;

/// The contents of a printed frame, as the command line selects them.
#[derive(Debug, Clone, Default)]
pub struct PrintedFrame {
    /// The view; None for the timeline.
    pub view: Option<Tab>,
    /// Nanoseconds.
    pub window: Option<(u64, u64)>,
    /// Of the timeline, or of the table.
    pub row: Option<usize>,
    /// As the prompt takes it: a call, a time or a share.
    pub place: Option<String>,
    /// From the call to its work.
    pub follow: bool,
    /// The filter's expression.
    pub filter: Option<String>,
    /// What the filter lets go of is hidden, rather than dimmed.
    pub hide: bool,
    /// A selected piece of time.
    pub select: Option<(u64, u64)>,
    /// A column of the table, behind a minus if it is the other way round.
    pub sort: Option<String>,
    /// The details pane is left out.
    pub no_details: bool,
    /// How the rows are arranged.
    pub arrange: Vec<Step>,
}

impl State {
    /// Shows what a command line asks for, and says what of that there is not. Wrong words are told of in the
    /// message.
    pub fn set(&mut self, shown: &PrintedFrame) -> Option<String> {
        let mut beyond = Vec::new();
        let before = self.stand();
        self.take_steps(&shown.arrange, &mut beyond);
        if let Some(filter) = &shown.filter {
            self.filter_by(filter);
            self.hides = shown.hide;
        }
        if let Some(row) = shown.row.filter(|_| shown.view.is_none_or(|view| !view.is_table())) {
            self.row = clamped_row(row, self.rows.len(), &mut beyond);
        }
        if let Some(place) = &shown.place {
            beyond.extend(self.lacks(place));
            self.show(place);
            if shown.follow {
                self.follow();
            }
        }
        if let Some((from, to)) = shown.window {
            self.window = self.window.with_range(from, to);
            beyond.extend(self.ends_before("--window", from, to));
        }
        if let Some((from, to)) = shown.select {
            (self.anchor, self.fixed) = (Some(from), Some(to));
            self.held = self.range_of(from, to);
            beyond.extend(self.ends_before("--select", from, to));
        }
        let is_chosen = shown.place.is_some() || shown.row.is_some() || shown.window.is_some();
        self.welcome &= before == self.stand() && !is_chosen;
        self.details = !shown.no_details;
        self.lay_out();
        if let Some(view) = shown.view {
            self.windowed = view.is_table() && shown.window.is_some();
            self.show_tab(view);
            if let Some(column) = &shown.sort {
                self.sort_by(column, &mut beyond);
            }
            if view.is_table() {
                self.table_row = clamped_row(shown.row.unwrap_or(0), self.table.rows.len(), &mut beyond);
            }
        }
        self.scroll();
        self.refresh();
        (!beyond.is_empty()).then(|| beyond.join("; "))
    }

    /// That there is no such call or moment.
    fn lacks(&self, place: &str) -> Option<String> {
        let (calls, end) = (self.opened.summary().calls, self.window.end);
        match place.trim().replace(['_', ','], "").parse::<u64>() {
            Ok(call) if call >= calls => {
                Some(format!("--at {call}: the trace has calls 0 to {} only", calls.saturating_sub(1)))
            }
            Err(_) if time(place.trim()).is_ok_and(|time| time > end) => {
                Some(format!("--at {}: the trace ends at {} s", place.trim(), end as f64 / 1e9))
            }
            _ => None,
        }
    }

    fn ends_before(&self, flag: &str, from: u64, to: u64) -> Option<String> {
        let [first, last, end] = [from, to, self.window.end].map(|ns| ns as f64 / 1e9);
        (from >= self.window.end).then(|| format!("{flag} {first}s..{last}s: the trace ends at {end} s"))
    }

    fn sort_by(&mut self, column: &str, beyond: &mut Vec<String>) {
        let (name, reversed) = column.strip_prefix('-').map_or((column, false), |name| (name, true));
        match self.table.columns.iter().position(|known| known.eq_ignore_ascii_case(name)) {
            Some(at) => {
                (self.table.sorted, self.table.reversed, self.table.asked) = (at, reversed, true);
                self.table.sort();
            }
            None if self.table.columns.is_empty() => beyond.push(format!("--sort {name}: no table is shown")),
            None => beyond.push(format!("--sort {name}: the columns are {}", self.table.columns.join(", "))),
        }
    }

    /// `cutrace view app.bin --once --view kernels`: prints this screen.
    pub fn command(&self) -> String {
        let path = self.opened.job.as_ref().map_or(&self.opened.path, |job| &job.specs.directory);
        let mut line = format!("cutrace view {}", quoted(&path.display().to_string()));
        if let Some(second) = &self.opened.second {
            line += &format!(" {}", quoted(&second.opened.path.display().to_string()));
        }
        line += " --once";
        if self.size != (120, 40) {
            line += &format!(" --size {}x{}", self.size.0, self.size.1);
        }
        if self.tab != Tab::Timeline {
            line += &format!(" --view {}", self.tab.name());
        }
        if let Some(filter) = &self.filter {
            line += &format!(" --filter {}", quoted(&filter.text));
            line += if self.hides { " --hide" } else { "" };
        }
        if !self.details {
            line += " --no-details";
        }
        if self.tab.is_table() {
            if let Some(column) = self.table.columns.get(self.table.sorted).filter(|_| self.table.asked) {
                let minus = if self.table.reversed { "-" } else { "" };
                line += &format!(" --sort={}", quoted(&format!("{minus}{column}")));
            }
            if self.table_row > 0 {
                line += &format!(" --row {}", self.table_row);
            }
            return line + &self.piece();
        }
        let steps: Vec<String> = self.steps().iter().map(|step| step.to_string()).collect();
        if !steps.is_empty() {
            line += &format!(" --arrange {}", steps.join(","));
        }
        if self.welcome {
            return line;
        }
        let call = self.event.and_then(|(lane, index)| {
            let lane = self.opened.model.lanes.get(lane)?;
            let call = *lane.call.get(index).filter(|call| **call != NO_CALL)?;
            (lane.source.is_thread() || lane.source.is_work()).then_some((call, lane.source.is_work()))
        });
        match call {
            Some((call, false)) => line += &format!(" --at {call}"),
            Some((call, true)) => line += &format!(" --at {call} --follow"),
            None => line += &format!(" --row {} --at {}ns", self.row, self.window.cursor),
        }
        if let Some((from, to)) = self.selection() {
            line += &format!(" --select {from}ns..{to}ns");
        }
        line + &format!(" --window {}ns..{}ns", self.window.from, self.window.to)
    }

    /// The flag that says what a table is of.
    fn piece(&self) -> String {
        match self.scope() {
            Scope::Whole => String::new(),
            Scope::Window(from, to) => format!(" --window {from}ns..{to}ns"),
            Scope::Selection(from, to) | Scope::Range(_, from, to) => format!(" --select {from}ns..{to}ns"),
        }
    }
}

/// The row that is asked for, or else the last.
fn clamped_row(row: usize, rows: usize, beyond: &mut Vec<String>) -> usize {
    let last = rows.saturating_sub(1);
    if row > last {
        let there = match rows {
            0 => "are no rows".into(),
            1 => "is only row 0".into(),
            _ => format!("are rows 0 to {last}"),
        };
        beyond.push(format!("--row {row}: there {there}"));
    }
    row.min(last)
}

/// For a shell.
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}
