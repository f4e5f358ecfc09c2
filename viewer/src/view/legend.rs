//! The meaning of colours and signs, in the form in which they are drawn.

use super::overlay::clear;
use super::paint::draw_text;
use super::theme::Theme;
use crate::data::event::Category;
use crate::data::open::Opened;
use crate::text::lines;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Where the meaning of a sign begins.
const ABOUT: u16 = 11;

const COLOURS: &[(Category, &str)] = &[
    (Category::Launch, "launches of kernels and graphs; kernels"),
    (Category::Copy, "copies and fills"),
    (Category::Synchronize, "waits"),
    (Category::Poll, "queries for completion"),
    (Category::Memory, "memory: allocations and frees"),
    (Category::Load, "modules: loads and unloads"),
    (Category::Graph, "graphs: capture, nodes, instantiation"),
    (Category::Submit, "other work on a stream"),
    (Category::Object, "contexts, streams, events: create to destroy"),
    (Category::Query, "other queries"),
    (Category::Range, "NVTX ranges and marks"),
];

const OF_TWO: &[(Category, &str)] = &[
    (Category::Slower, "slower than in the other trace"),
    (Category::Faster, "faster"),
    (Category::Same, "same: less than 10% apart"),
    (Category::Only, "missing in the other trace"),
];

type Sign = (String, Style, &'static str);

fn signs(theme: &Theme, opened: &Opened) -> Vec<Sign> {
    let of = |(category, about): &(Category, &'static str)| (" name ".into(), theme.fill(*category, false), *about);
    let mut all: Vec<Sign> = COLOURS.iter().map(of).collect();
    all.extend(OF_TWO.iter().filter(|_| opened.second.is_some()).map(of));
    all.push(("!name".into(), theme.fill(Category::Launch, true), "failed"));
    let launch = theme.ink_of(Category::Launch, false);
    let levels: String = (1..=8).map(|level| theme.level(level)).collect();
    all.push((levels, launch, "several events: their share of the column's time"));
    let (tick, style) = theme.tick(Category::Launch, 8);
    all.push((tick.repeat(4), style, "some events of the column failed; all red: most failed"));
    all.push((theme.glyph("\u{258f}", "|").into(), launch, "one short event"));
    let hatched = theme.glyph("\u{258f}\u{2591}\u{2591}\u{2591}", "|~~~");
    all.push((hatched.into(), launch, "work, from its submission to the next, or to the wait that showed its end"));
    all.push((theme.glyph("\u{2573}\u{2573}\u{2573}", "xxx").into(), theme.alarm(), "lost calls"));
    all.push(("name ?".into(), launch, "end unknown"));
    all.push(("43%".into(), theme.quiet(), "busy share of the window"));
    all.push(("! | +".into(), Style::new(), "at the top: failed calls, waits, module loads"));
    if opened.job.is_some() {
        let line = theme.glyph("\u{2517}\u{2501}\u{2501}\u{2513}", "+--+");
        let about = "connects the beginnings of the collective at the cursor, rank by rank";
        all.push((line.into(), theme.ink_of(Category::Submit, false), about));
        all.push(("last, +".into(), theme.title(), "the last rank to begin it, and its delay"));
        all.push(("not begun".into(), theme.alarm(), "a rank that has not begun it"));
    }
    all.push((theme.glyph("\u{2022}", "*").into(), theme.title(), "search matches"));
    all.push((theme.glyph("\u{25bc}", "v").into(), theme.title(), "a mark"));
    all.push((theme.glyph("\u{25be}", "V").into(), theme.title(), "the cursor"));
    all
}

pub(super) fn draw(theme: &Theme, buffer: &mut Buffer, (width, height): (u16, u16), opened: &Opened) {
    clear(buffer, Rect::new(0, 0, width, height));
    draw_text(buffer, 0, 0, "Colours and signs (any key closes)", width, theme.title());
    let mut y = 1;
    for (sign, style, about) in signs(theme, opened) {
        for (n, line) in lines(about, usize::from(width.saturating_sub(ABOUT)).max(8), 4).into_iter().enumerate() {
            if y >= height {
                return;
            }
            if n == 0 {
                draw_text(buffer, 1, y, &sign, ABOUT - 2, style);
            }
            draw_text(buffer, ABOUT, y, line, width.saturating_sub(ABOUT), Style::new());
            y += 1;
        }
    }
}
