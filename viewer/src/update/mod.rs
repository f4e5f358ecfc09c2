//! The change of the state by an input, action by action. Nothing here knows a terminal: [`State::update`]
//! takes an input and returns the requests to the outside. Imports `details/`, `state/` and the layers below.

mod act;
mod pointer;
mod prompt;

use crate::state::{Effect, Input, State};

impl State {
    /// Follows one input; returns what is to be done outside.
    pub fn update(&mut self, input: Input) -> Vec<Effect> {
        let before = self.stand();
        let effects = self.handle(input);
        self.welcome &= before == self.stand();
        self.refresh();
        effects
    }

    fn handle(&mut self, input: Input) -> Vec<Effect> {
        match input {
            Input::Key(key) => {
                self.message.clear();
                if self.prompt.is_some() {
                    return self.type_key(&key);
                }
                if self.type_in_help(&key) {
                    return Vec::new();
                }
                match self.keymap.action(&key) {
                    Some(action) => return self.act(action),
                    None => self.say(format!("{} is not bound; ? shows the keys", key.0)),
                }
            }
            Input::Resize(width, height) => self.resize(width, height),
            Input::Paste(text) => text.chars().for_each(|c| self.type_char(c)),
            Input::Press(x, y) => match self.hint_at(x, y) {
                Some(action) => return self.act(action),
                None => self.press(x, y),
            },
            Input::Drag(x, y) => self.drag(x, y),
            Input::Release => {
                if self.anchor.is_some() && self.fixed.is_none() {
                    self.fixed = Some(self.snapped(self.window.cursor));
                    if self.selection().is_none() {
                        (self.anchor, self.fixed) = (None, None);
                    }
                }
            }
            Input::Wheel { x, y, up, pan } => self.wheel(x, y, up, pan),
        }
        Vec::new()
    }
}
