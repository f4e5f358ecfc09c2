//! Exports of the screen: the events of a piece of time as JSON or CSV, marks beside the trace, a frame as
//! text.

use crate::data::event::NO_CALL;
use crate::data::lane::Source;
use crate::data::side_files::{Kind, create_temporary, keep, places};
use crate::state::parts::rows;
use crate::state::{Mark, State};
use crossterm::style::ContentStyle;
use ratatui::backend::IntoCrossterm;
use ratatui::buffer::Buffer;
use serde_json::{Value, json};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use trace::show::text::csv;

/// Writes the events between two moments that the filter lets pass, of the rows that are shown; how many. An
/// existing file is left alone.
pub fn events(state: &State, path: &Path, from: u64, to: u64) -> io::Result<u64> {
    let temporary = create_temporary(path)?;
    let mut out = BufWriter::new(temporary.as_file());
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    let (mut count, mut first) = (0, true);
    if is_json {
        write!(out, "{{\"schema\":\"cutrace.view.events/1\",\"from_ns\":{from},\"to_ns\":{to},\"events\":[")?;
    } else {
        writeln!(out, "call,lane,name,category,begin_ns,end_ns,failed,known_end")?;
    }
    for row in &state.rows {
        for at in &row.lanes {
            let Some(lane) = state.opened.model.lanes.get(*at) else { continue };
            let title = rows::title(row, &state.opened);
            for index in lane.first_from(from)..lane.first_at(to) {
                let event = lane.event(index);
                if state.filter.as_ref().is_some_and(|filter| !filter.passes(&event, &lane.source)) {
                    continue;
                }
                let name = state.opened.model.name(event.name);
                let (category, failed) = (event.flags.category().name(), event.flags.failed());
                let call = (event.call != NO_CALL).then_some(event.call);
                let is_known = !matches!(lane.source.inner(), Source::Stream(_)) && !event.flags.open();
                if is_json {
                    let object: Value = json!({
                        "call": call, "lane": title, "name": name, "category": category,
                        "begin_ns": event.begin, "end_ns": event.end, "failed": failed, "known_end": is_known,
                    });
                    write!(out, "{}\n{object}", if first { "" } else { "," })?;
                } else {
                    let (title, name) = (csv(&title), csv(name));
                    let (begin, end) = (event.begin, event.end);
                    let call = call.map_or(String::new(), |call| call.to_string());
                    writeln!(out, "{call},{title},{name},{category},{begin},{end},{failed},{is_known}")?;
                }
                (count, first) = (count + 1, false);
            }
        }
    }
    if is_json {
        writeln!(out, "\n]}}")?;
    }
    out.flush()?;
    drop(out);
    persist(temporary, path)?;
    Ok(count)
}

/// Writes the table that is shown as CSV; how many rows. An existing file is left alone.
pub fn table(state: &State, path: &Path) -> io::Result<u64> {
    let temporary = create_temporary(path)?;
    temporary.as_file().write_all(state.table.csv().as_bytes())?;
    persist(temporary, path)?;
    Ok(state.table.rows.len() as u64)
}

/// Gives a file its name once it is whole, unless something has that name.
fn persist(whole: NamedTempFile, path: &Path) -> io::Result<()> {
    whole.persist_noclobber(path).map(drop).map_err(|error| error.error)
}

/// Writes calls, from the first up to the one past the last, for Perfetto: with the command that does so;
/// what it said.
pub fn perfetto(trace: &Path, path: &str, (first, end): (u32, u32)) -> String {
    if first >= end {
        return "no calls in this time range; nothing was written".into();
    }
    let run = std::env::current_exe().and_then(|own| {
        let mut command = std::process::Command::new(own);
        command.arg("export").arg(trace).args(["--to", "perfetto", "-o", path]);
        command.args(["--calls", &format!("{first}..{end}")]).stdin(std::process::Stdio::null()).output()
    });
    match run {
        Ok(done) => {
            let said = if done.status.success() { done.stdout } else { done.stderr };
            String::from_utf8_lossy(&said).lines().last().unwrap_or("cutrace export printed nothing").to_owned()
        }
        Err(error) => format!("cannot run cutrace export: {error}"),
    }
}

/// They begin as [`State::marks_as_json`] does.
const MARKS: Kind = Kind { suffix: "marks", begins: b"{\n  \"schema\": \"cutrace.marks/1\"" };

/// The marks of a trace: where there are several files of them, of the newest.
pub fn load_marks(trace: &Path) -> Vec<Mark> {
    let changed = |path: &Path| path.metadata().ok().filter(|about| about.is_file())?.modified().ok();
    let made = changed(trace);
    let files =
        places(trace, &MARKS).into_iter().enumerate().filter_map(|(at, path)| Some((changed(&path)?, at, path)));
    // In the cache directory they may be of another trace that had this name.
    let newest = files.filter(|(changed, at, _)| *at == 0 || Some(*changed) >= made).max();
    let read = newest.and_then(|(.., path)| std::fs::read(path).ok());
    let value = read.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    value.map_or_else(Vec::new, |value| State::marks_from_json(&value))
}

/// Keeps the marks beside the trace, or in the cache directory; no file is left where there are none.
pub fn save_marks(state: &State) -> io::Result<()> {
    let path = &state.opened.path;
    let is_gone = |place: &PathBuf| !place.exists() || (MARKS.is_at(place) && std::fs::remove_file(place).is_ok());
    // One that stays where nothing can be changed needs a newer one.
    if state.marks.is_empty() && places(path, &MARKS).iter().all(is_gone) {
        return Ok(());
    }
    let text = format!("{:#}\n", state.marks_as_json());
    keep(path, &MARKS, |mut file| file.write_all(text.as_bytes())).map(|_| ())
}

/// A frame as text, without colours and without blanks at the ends of lines.
pub fn frame(buffer: &Buffer) -> String {
    let mut out = String::new();
    for y in 0..buffer.area().height {
        let line: String =
            (0..buffer.area().width).filter_map(|x| buffer.cell((x, y))).map(|cell| cell.symbol()).collect();
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// The same with its colours, for a terminal.
pub fn painted(buffer: &Buffer) -> String {
    // Whether there are any has been decided: crossterm would look at NO_COLOR by itself.
    crossterm::style::force_color_output(true);
    let width = usize::from(buffer.area().width).max(1);
    let mut out = String::new();
    for line in buffer.content().chunks(width) {
        for alike in line.chunk_by(|a, b| a.style() == b.style()) {
            let text: String = alike.iter().map(|cell| cell.symbol()).collect();
            let style: ContentStyle = alike[0].style().into_crossterm();
            out.push_str(&style.apply(text).to_string());
        }
        out.push('\n');
    }
    out
}
