//! Colours and glyphs: for every kind of terminal, down to one that has neither.

use crate::data::event::Category;
use ratatui::style::{Color, Modifier, Style};

/// How many colours the terminal shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    None,
    Eight,
    Sixteen,
    Many,
    True,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    pub depth: Depth,
    pub light: bool,
    pub ascii: bool,
}

/// A colour in each depth: red, green and blue; of the 256; of the 16; of the 8.
struct Ink(u8, u8, u8, u8, Color, Color);

/// A colour of the 256 that shows on white, darker in their cube, and what it is made of.
fn darker(index: u8) -> (u8, Color) {
    const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let at = index.saturating_sub(16);
    let mut steps = [at / 36, at / 6 % 6, at % 6];
    loop {
        steps = steps.map(|step| step.saturating_sub(1));
        // As bright as olive.
        if steps.iter().sum::<u8>() <= 5 {
            break;
        }
    }
    let [red, green, blue] = steps;
    let part = |step: u8| STEPS[usize::from(step.min(5))];
    (16 + 36 * red + 6 * green + blue, Color::Rgb(part(red), part(green), part(blue)))
}

impl Theme {
    pub const PLAIN: Theme = Theme { depth: Depth::None, light: false, ascii: true };

    fn ink(&self, ink: &Ink) -> Color {
        match (self.depth, self.light) {
            (Depth::None, _) => Color::Reset,
            (Depth::Eight, false) => ink.5,
            (Depth::Sixteen, false) => ink.4,
            (Depth::Many, false) => Color::Indexed(ink.3),
            (Depth::True, false) => Color::Rgb(ink.0, ink.1, ink.2),
            // What is bright does not show on white.
            (Depth::Eight | Depth::Sixteen, true) => {
                if ink.5 == Color::White {
                    Color::Black
                } else {
                    ink.5
                }
            }
            (Depth::Many, true) => Color::Indexed(darker(ink.3).0),
            (Depth::True, true) => darker(ink.3).1,
        }
    }

    /// What events of a category are filled with.
    pub fn category(&self, category: Category) -> Color {
        use Color::*;
        self.ink(&match category {
            Category::Launch => Ink(95, 175, 95, 71, LightGreen, Green),
            Category::Copy => Ink(95, 135, 215, 68, LightBlue, Blue),
            Category::Submit => Ink(95, 175, 175, 73, Cyan, Cyan),
            Category::Synchronize => Ink(215, 175, 95, 179, LightYellow, Yellow),
            Category::Poll => Ink(175, 175, 95, 143, Yellow, Yellow),
            Category::Memory => Ink(175, 95, 175, 133, Magenta, Magenta),
            Category::Load => Ink(215, 135, 215, 176, LightMagenta, Magenta),
            Category::Graph => Ink(95, 215, 175, 79, LightCyan, Cyan),
            Category::State | Category::Object => Ink(135, 135, 175, 103, Blue, Blue),
            Category::Slower => Ink(215, 135, 95, 173, LightRed, Red),
            Category::Faster => Ink(95, 175, 95, 71, LightGreen, Green),
            Category::Same => Ink(135, 135, 135, 102, DarkGray, White),
            Category::Only => Ink(215, 95, 215, 170, LightMagenta, Magenta),
            Category::Range => Ink(215, 215, 135, 186, White, White),
            Category::Query | Category::Other => Ink(135, 135, 135, 102, DarkGray, White),
        })
    }

    pub fn bad(&self) -> Color {
        self.ink(&Ink(215, 55, 55, 160, Color::LightRed, Color::Red))
    }

    /// An event's cells: its colour behind the text.
    pub fn fill(&self, category: Category, failed: bool) -> Style {
        match self.depth {
            Depth::None if failed => Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD),
            Depth::None => Style::new().add_modifier(Modifier::REVERSED),
            _ => {
                // What is behind text need not show on white.
                let theme = Theme { light: false, ..*self };
                let behind = if failed { theme.bad() } else { theme.category(category) };
                let text = if failed && self.depth != Depth::Eight { Color::White } else { Color::Black };
                Style::new().bg(behind).fg(text)
            }
        }
    }

    /// The colour of glyphs that stand for events.
    pub fn ink_of(&self, category: Category, failed: bool) -> Style {
        // These change from cell to cell: the 256 colours take half the bytes.
        let depth = if self.depth == Depth::True { Depth::Many } else { self.depth };
        let theme = Theme { depth, ..*self };
        match (depth, failed) {
            (Depth::None, true) => Style::new().add_modifier(Modifier::BOLD),
            (Depth::None, false) => Style::new(),
            (_, true) => Style::new().fg(theme.bad()).add_modifier(Modifier::BOLD),
            (_, false) => Style::new().fg(theme.category(category)),
        }
    }

    pub fn quiet(&self) -> Style {
        match (self.depth, self.light) {
            (Depth::None | Depth::Eight, _) => Style::new().add_modifier(Modifier::DIM),
            (Depth::Sixteen, _) => Style::new().fg(Color::DarkGray),
            (_, false) => Style::new().fg(Color::Indexed(245)),
            (_, true) => Style::new().fg(Color::Indexed(242)),
        }
    }

    pub fn title(&self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub fn alarm(&self) -> Style {
        match self.depth {
            Depth::None => Style::new().add_modifier(Modifier::BOLD),
            _ => Style::new().fg(self.bad()).add_modifier(Modifier::BOLD),
        }
    }

    /// The selected row of a list.
    pub fn chosen(&self) -> Style {
        match (self.depth, self.light) {
            (Depth::None | Depth::Eight | Depth::Sixteen, _) => Style::new().add_modifier(Modifier::REVERSED),
            (_, false) => Style::new().bg(Color::Indexed(237)),
            (_, true) => Style::new().bg(Color::Indexed(253)),
        }
    }

    /// Time that is selected.
    pub fn selected(&self) -> Style {
        match (self.depth, self.light) {
            (Depth::None, _) => Style::new().add_modifier(Modifier::UNDERLINED),
            (Depth::Eight | Depth::Sixteen, _) => Style::new().bg(Color::Blue).fg(Color::White),
            (_, false) => Style::new().bg(Color::Indexed(24)),
            (_, true) => Style::new().bg(Color::Indexed(153)),
        }
    }

    pub fn found(&self) -> Style {
        Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
    }

    /// How full a cell is, from nothing to all, of 8.
    pub fn level(&self, eighths: usize) -> &'static str {
        const BLOCKS: [&str; 9] =
            [" ", "\u{2581}", "\u{2582}", "\u{2583}", "\u{2584}", "\u{2585}", "\u{2586}", "\u{2587}", "\u{2588}"];
        const PLAIN: [&str; 9] = [" ", ".", ".", ":", ":", "-", "=", "#", "#"];
        if self.ascii { PLAIN[eighths.min(8)] } else { BLOCKS[eighths.min(8)] }
    }

    pub fn glyph(&self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.ascii { ascii } else { unicode }
    }
}
