//! The prompt: a line for text.

use crate::state::fields::State;
use crate::state::filter::{Filter, Search};
use crate::state::parts::action::{Action, Line, actions};
use crate::state::parts::ask::{Ask, Prompt};
use crate::state::parts::keymap::Key;
use crate::state::parts::outside::Effect;
use crate::text::counted;
use tui_input::{Input, InputRequest};
use unicode_width::UnicodeWidthChar;

/// Longer text is nothing that anybody typed.
const LONGEST: usize = 1000;

/// Answers that are remembered of each kind.
const REMEMBERED: usize = 100;

/// What a key does to the text.
fn request(key: &Key) -> Option<InputRequest> {
    Some(match key.0.as_str() {
        "backspace" | "ctrl-h" => InputRequest::DeletePrevChar,
        "delete" | "ctrl-d" => InputRequest::DeleteNextChar,
        "left" | "ctrl-b" => InputRequest::GoToPrevChar,
        "right" | "ctrl-f" => InputRequest::GoToNextChar,
        "ctrl-left" | "alt-b" => InputRequest::GoToPrevWord,
        "ctrl-right" | "alt-f" => InputRequest::GoToNextWord,
        "home" | "ctrl-a" => InputRequest::GoToStart,
        "end" | "ctrl-e" => InputRequest::GoToEnd,
        "ctrl-w" | "alt-backspace" => InputRequest::DeletePrevWord,
        "alt-d" => InputRequest::DeleteNextWord,
        "ctrl-k" => InputRequest::DeleteTillEnd,
        "ctrl-u" => InputRequest::DeleteLine,
        "ctrl-y" => InputRequest::Yank,
        _ => return None,
    })
}

impl State {
    pub(crate) fn ask(&mut self, ask: Ask) {
        let text = match ask {
            Ask::Filter => self.filter.as_ref().map_or(String::new(), |filter| filter.text.clone()),
            Ask::Note => self.listed_mark().map_or(String::new(), |at| self.marks[at].note.clone()),
            _ => String::new(),
        };
        self.prompt = Some(Prompt::new(ask, text));
    }

    pub(crate) fn type_char(&mut self, c: char) {
        // What takes no cell cannot be seen, nor removed again.
        if let Some(prompt) = &mut self.prompt
            && prompt.text().len() < LONGEST
            && c.width().unwrap_or(0) > 0
        {
            prompt.input.handle(InputRequest::InsertChar(c));
            self.typed();
        }
    }

    pub(crate) fn type_key(&mut self, key: &Key) -> Vec<Effect> {
        let offered = self.offered().len();
        let Some(prompt) = &mut self.prompt else { return Vec::new() };
        let is_palette = prompt.ask == Ask::Palette;
        match key.0.as_str() {
            "esc" | "ctrl-c" | "ctrl-g" => {
                if prompt.ask == Ask::Search {
                    self.search = None;
                }
                self.prompt = None;
            }
            "enter" => return self.answer(),
            "backspace" if prompt.text().is_empty() => self.prompt = None,
            "up" if is_palette => prompt.choice = prompt.choice.saturating_sub(1),
            "down" | "tab" if is_palette => prompt.choice = (prompt.choice + 1).min(offered.saturating_sub(1)),
            "up" | "ctrl-p" => self.recall(1),
            "down" | "ctrl-n" => self.recall(-1),
            _ => match (request(key), key.char()) {
                (Some(request), _) => {
                    prompt.input.handle(request);
                    self.typed();
                }
                (None, Some(c)) => self.type_char(c),
                (None, None) => {}
            },
        }
        Vec::new()
    }

    /// Shows what was answered before, or after that.
    fn recall(&mut self, by: isize) {
        let Some(prompt) = &mut self.prompt else { return };
        let earlier: Vec<&String> =
            self.answers.iter().rev().filter(|(ask, _)| *ask == prompt.ask).map(|(_, text)| text).collect();
        let wanted = prompt.recalled.saturating_add_signed(by).min(earlier.len());
        if wanted == prompt.recalled {
            return;
        }
        if prompt.recalled == 0 {
            prompt.draft = prompt.text().to_owned();
        }
        let text = wanted.checked_sub(1).map_or(&prompt.draft, |at| earlier[at]).clone();
        (prompt.input, prompt.recalled) = (Input::new(text), wanted);
        self.typed();
    }

    /// Keeps an answer for the next time, once.
    fn remember(&mut self, ask: Ask, text: &str) {
        if text.is_empty() || ask == Ask::Palette {
            return;
        }
        self.answers.retain(|(of, other)| *of != ask || other != text);
        self.answers.push((ask, text.to_owned()));
        if self.answers.iter().filter(|(of, _)| *of == ask).count() > REMEMBERED
            && let Some(oldest) = self.answers.iter().position(|(of, _)| *of == ask)
        {
            self.answers.remove(oldest);
        }
    }

    /// Text has changed: a search tells of its matches while it is typed.
    fn typed(&mut self) {
        let Some(prompt) = &mut self.prompt else { return };
        prompt.choice = 0;
        if prompt.ask != Ask::Search {
            return;
        }
        self.hits.clear();
        if prompt.text().is_empty() {
            self.search = None;
            return;
        }
        match Search::new(prompt.text(), &self.opened.model) {
            Ok(search) => {
                self.message = counted(search.count, "match").replace("matchs", "matches");
                self.search = Some(search);
            }
            Err(wrong) => self.message = wrong,
        }
    }

    fn answer(&mut self) -> Vec<Effect> {
        let chosen = self.offered().get(self.prompt.as_ref().map_or(0, |prompt| prompt.choice)).map(|line| line.action);
        let Some(prompt) = self.prompt.take() else { return Vec::new() };
        let text = prompt.text().trim().to_owned();
        self.remember(prompt.ask, &text);
        match prompt.ask {
            Ask::Search if text.is_empty() => self.step_match(true),
            Ask::Search => match Search::new(&text, &self.opened.model) {
                Ok(search) => {
                    let count = counted(search.count, "match");
                    self.search = Some(search);
                    self.mark_hits();
                    self.step_match(true);
                    if self.message.is_empty() {
                        self.say(format!("{count}; n and N jump"));
                    }
                }
                Err(wrong) => self.say(wrong),
            },
            Ask::Filter if text.is_empty() => self.filter = None,
            Ask::Filter => self.filter_by(&text),
            Ask::GoTo if text.is_empty() => {}
            Ask::GoTo => self.go_to(&text),
            Ask::Note => {
                self.mark(&text);
                return vec![Effect::SaveMarks];
            }
            Ask::Export if !text.is_empty() && self.tab.is_table() => {
                if text.ends_with(".csv") {
                    return vec![Effect::ExportTable(text)];
                }
                self.say(format!("{text}: tables are CSV; expected a name that ends in .csv"));
            }
            Ask::Export if text.is_empty() => self.say("nothing was written"),
            Ask::Export if [".json", ".csv", ".pftrace"].iter().any(|ending| text.ends_with(ending)) => {
                let (from, to) = self.selection().unwrap_or((self.window.from, self.window.to));
                return vec![Effect::Export { path: text, from, to }];
            }
            Ask::Export => self.say(format!("{text}: expected a name that ends in .json, .csv or .pftrace")),
            Ask::Palette => match chosen {
                Some(action) => return self.act(action),
                // A number is a call, as in many pagers.
                None => self.go_to(&text),
            },
        }
        Vec::new()
    }

    pub(crate) fn filter_by(&mut self, text: &str) {
        match Filter::new(text, &self.opened) {
            Ok(filter) => {
                self.say(format!("filter: {}; esc clears it", counted(filter.count, "call")));
                self.filter = Some(filter);
                self.event = None;
            }
            Err(wrong) => self.say(wrong),
        }
    }

    /// The actions that the palette offers for what is typed, the best match first.
    pub fn offered(&self) -> Vec<&'static Line> {
        let Some(prompt) = self.prompt.as_ref().filter(|prompt| prompt.ask == Ask::Palette) else { return Vec::new() };
        let mut offered: Vec<(usize, &Line)> = actions()
            .filter(|line| line.action != Action::Palette)
            .filter_map(|line| Some((rank(prompt.text(), line)?, line)))
            .collect();
        offered.sort_by_key(|(rank, _)| *rank);
        offered.into_iter().map(|(_, line)| line).collect()
    }
}

/// How badly an action fits; none if the letters are not in it in this order.
fn rank(text: &str, line: &Line) -> Option<usize> {
    let (text, about) = (text.trim().to_lowercase(), line.about.to_lowercase());
    if line.name.starts_with(&text) {
        return Some(0);
    }
    if let Some(at) = line.name.find(&text) {
        return Some(10 + at);
    }
    if let Some(at) = about.find(&text) {
        return Some(100 + at);
    }
    let mut letters = line.name.chars();
    let spread = text.chars().filter(|c| *c != ' ').try_fold(0, |sum, c| Some(sum + letters.position(|l| l == c)?));
    spread.map(|spread| 1000 + spread)
}
