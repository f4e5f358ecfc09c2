//! Inputs, converted from the terminal's events.

use crate::state::Input;
use crate::state::parts::keymap::Key;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

/// None: nothing that the viewer cares for.
pub fn input(event: &Event) -> Option<Input> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => name(key).map(Input::Key),
        Event::Mouse(mouse) => self::mouse(mouse),
        Event::Resize(width, height) => Some(Input::Resize(*width, *height)),
        Event::Paste(text) => Some(Input::Paste(text.clone())),
        _ => None,
    }
}

/// A key as the configuration spells it.
fn name(key: &KeyEvent) -> Option<Key> {
    let bare = match key.code {
        KeyCode::Char(' ') => "space".into(),
        KeyCode::Char(c) => {
            let mut name = String::new();
            if key.modifiers.contains(KeyModifiers::CONTROL) {
                name.push_str("ctrl-");
            }
            if key.modifiers.contains(KeyModifiers::ALT) {
                name.push_str("alt-");
            }
            // Shift has made another character of it already.
            name.push(c);
            return Some(Key(name));
        }
        KeyCode::BackTab => return Some(Key("shift-tab".into())),
        KeyCode::Left => "left".into(),
        KeyCode::Right => "right".into(),
        KeyCode::Up => "up".into(),
        KeyCode::Down => "down".into(),
        KeyCode::Home => "home".into(),
        KeyCode::End => "end".into(),
        KeyCode::PageUp => "pageup".into(),
        KeyCode::PageDown => "pagedown".into(),
        KeyCode::Enter => "enter".into(),
        KeyCode::Esc => "esc".into(),
        KeyCode::Tab => "tab".into(),
        KeyCode::Backspace => "backspace".into(),
        KeyCode::Delete => "delete".into(),
        KeyCode::Insert => "insert".into(),
        KeyCode::F(n) => format!("f{n}"),
        _ => return None,
    };
    let held = [(KeyModifiers::CONTROL, "ctrl-"), (KeyModifiers::ALT, "alt-"), (KeyModifiers::SHIFT, "shift-")];
    let prefix: String = held.into_iter().filter(|(m, _)| key.modifiers.contains(*m)).map(|(_, name)| name).collect();
    Some(Key(prefix + &bare))
}

fn mouse(mouse: &MouseEvent) -> Option<Input> {
    let (x, y) = (mouse.column, mouse.row);
    let pan = mouse.modifiers.intersects(KeyModifiers::SHIFT | KeyModifiers::CONTROL);
    Some(match mouse.kind {
        MouseEventKind::Down(MouseButton::Left) => Input::Press(x, y),
        MouseEventKind::Drag(MouseButton::Left) => Input::Drag(x, y),
        MouseEventKind::Up(MouseButton::Left) => Input::Release,
        MouseEventKind::ScrollUp => Input::Wheel { x, y, up: true, pan },
        MouseEventKind::ScrollDown => Input::Wheel { x, y, up: false, pan },
        MouseEventKind::ScrollLeft => Input::Wheel { x, y, up: true, pan: true },
        MouseEventKind::ScrollRight => Input::Wheel { x, y, up: false, pan: true },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_named_as_the_keymap_names_them() {
        let named = |code, modifiers| name(&KeyEvent::new(code, modifiers)).map(|key| key.0);
        assert_eq!(named(KeyCode::Char('W'), KeyModifiers::SHIFT).as_deref(), Some("W"));
        assert_eq!(named(KeyCode::Char('g'), KeyModifiers::CONTROL).as_deref(), Some("ctrl-g"));
        assert_eq!(named(KeyCode::Left, KeyModifiers::SHIFT).as_deref(), Some("shift-left"));
        assert_eq!(named(KeyCode::BackTab, KeyModifiers::SHIFT).as_deref(), Some("shift-tab"));
        assert_eq!(named(KeyCode::Char(' '), KeyModifiers::NONE).as_deref(), Some("space"));
    }
}
