//! Colours and glyphs for every kind of terminal, down to one that has neither.

use crate::data::event::Category;
use ratatui::style::{Color, Modifier, Style};

/// The number of colours of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// No colours.
    None,
    /// The 8 colours of ANSI.
    Eight,
    /// The 8 colours and their bright variants.
    Sixteen,
    /// 256 colours.
    Many,
    /// 24 bits of colour.
    True,
}

/// Colours and glyphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    /// Number of colours.
    pub depth: Depth,
    /// Whether the background is light.
    pub light: bool,
    /// Whether to draw with ASCII alone.
    pub ascii: bool,
}

/// A colour in each depth: of the 256 and of all, from their cube; of the 16; of the 8.
struct Ink(u8, Color, Color);

/// Steps of red, green and blue in the cube of the 256 colours.
fn steps(index: u8) -> [u8; 3] {
    let at = index.saturating_sub(16);
    [at / 36, at / 6 % 6, at % 6]
}

/// The same for white behind it: darker, so that it is no brighter than olive.
fn darker(mut steps: [u8; 3]) -> [u8; 3] {
    loop {
        steps = steps.map(|step| step.saturating_sub(1));
        if steps.iter().sum::<u8>() <= 5 {
            return steps;
        }
    }
}

impl Theme {
    /// Neither colours nor glyphs beyond ASCII.
    pub const PLAIN: Theme = Theme { depth: Depth::None, light: false, ascii: true };

    fn ink(&self, ink: &Ink) -> Color {
        const PARTS: [u8; 6] = [0, 95, 135, 175, 215, 255];
        let steps = if self.light { darker(steps(ink.0)) } else { steps(ink.0) };
        match (self.depth, self.light) {
            (Depth::None, _) => Color::Reset,
            // What is bright does not show on white.
            (Depth::Eight | Depth::Sixteen, true) if ink.2 == Color::White => Color::Black,
            (Depth::Eight, _) | (Depth::Sixteen, true) => ink.2,
            (Depth::Sixteen, false) => ink.1,
            (Depth::Many, _) => Color::Indexed(16 + 36 * steps[0] + 6 * steps[1] + steps[2]),
            (Depth::True, _) => {
                let [red, green, blue] = steps.map(|step| PARTS[usize::from(step)]);
                Color::Rgb(red, green, blue)
            }
        }
    }

    /// What events of a category are filled with.
    pub(crate) fn category(&self, category: Category) -> Color {
        use Color::*;
        self.ink(&match category {
            Category::Launch => Ink(71, LightGreen, Green),
            Category::Copy => Ink(68, LightBlue, Blue),
            Category::Submit => Ink(73, Cyan, Cyan),
            Category::Synchronize => Ink(179, LightYellow, Yellow),
            Category::Poll => Ink(143, Yellow, Yellow),
            Category::Memory => Ink(133, Magenta, Magenta),
            Category::Load => Ink(176, LightMagenta, Magenta),
            Category::Graph => Ink(79, LightCyan, Cyan),
            Category::State | Category::Object => Ink(103, Blue, Blue),
            Category::Slower => Ink(173, LightRed, Red),
            Category::Faster => Ink(71, LightGreen, Green),
            Category::Same => Ink(102, DarkGray, White),
            Category::Only => Ink(170, LightMagenta, Magenta),
            Category::Range => Ink(186, White, White),
            Category::Query | Category::Other => Ink(102, DarkGray, White),
        })
    }

    /// The colour of failures.
    pub fn bad(&self) -> Color {
        self.ink(&Ink(160, Color::LightRed, Color::Red))
    }

    /// An event's cells: its colour behind the text.
    pub(crate) fn fill(&self, category: Category, failed: bool) -> Style {
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
    pub(crate) fn ink_of(&self, category: Category, failed: bool) -> Style {
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

    pub(crate) fn quiet(&self) -> Style {
        match (self.depth, self.light) {
            (Depth::None | Depth::Eight, _) => Style::new().add_modifier(Modifier::DIM),
            (Depth::Sixteen, _) => Style::new().fg(Color::DarkGray),
            (_, false) => Style::new().fg(Color::Indexed(245)),
            (_, true) => Style::new().fg(Color::Indexed(242)),
        }
    }

    pub(crate) fn title(&self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(crate) fn alarm(&self) -> Style {
        match self.depth {
            Depth::None => Style::new().add_modifier(Modifier::BOLD),
            _ => Style::new().fg(self.bad()).add_modifier(Modifier::BOLD),
        }
    }

    /// The selected row of a list: what is behind it, and what stands there without a colour of its own.
    pub(crate) fn chosen(&self) -> Style {
        match (self.depth, self.light) {
            (Depth::None | Depth::Eight | Depth::Sixteen, _) => self.cursor(),
            (_, false) => Style::new().bg(Color::Indexed(237)).fg(Color::Indexed(255)),
            (_, true) => Style::new().bg(Color::Indexed(253)).fg(Color::Indexed(232)),
        }
    }

    /// Where one types.
    pub(crate) fn cursor(&self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Time that is selected.
    pub(crate) fn selected(&self) -> Style {
        match (self.depth, self.light) {
            (Depth::None, _) => Style::new().add_modifier(Modifier::UNDERLINED),
            (Depth::Eight | Depth::Sixteen, _) => Style::new().bg(Color::Blue).fg(Color::White),
            (_, false) => Style::new().bg(Color::Indexed(24)).fg(Color::Indexed(255)),
            (_, true) => Style::new().bg(Color::Indexed(153)).fg(Color::Indexed(232)),
        }
    }

    /// In the lowest line of a column of which some events failed: a tick over what it would show else, which
    /// is of a category and that high, of 8.
    pub(crate) fn tick(&self, category: Category, eighths: usize) -> (&'static str, Style) {
        let failed = self.ink_of(category, true);
        if self.ascii || self.depth == Depth::None {
            return ("!", failed);
        }
        let behind = self.fill(category, false).bg.filter(|_| eighths > 4);
        ("\u{2581}", behind.map_or(failed, |behind| failed.bg(behind)))
    }

    pub(crate) fn match_style(&self) -> Style {
        Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
    }

    /// How full a cell is, from nothing to all, of 8.
    pub(crate) fn level(&self, eighths: usize) -> &'static str {
        const BLOCKS: [&str; 9] =
            [" ", "\u{2581}", "\u{2582}", "\u{2583}", "\u{2584}", "\u{2585}", "\u{2586}", "\u{2587}", "\u{2588}"];
        const PLAIN: [&str; 9] = [" ", ".", ".", ":", ":", "-", "=", "#", "#"];
        if self.ascii { PLAIN[eighths.min(8)] } else { BLOCKS[eighths.min(8)] }
    }

    pub(crate) fn glyph(&self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.ascii { ascii } else { unicode }
    }
}
