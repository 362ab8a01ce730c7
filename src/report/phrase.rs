//! Words and columns: counts, lists and tables as plain text.

use std::sync::atomic::{AtomicUsize, Ordering};

use ptx::arch::Target;

use super::style::{Styles, Tone};
use crate::record::readable_kernel;
pub(super) use crate::record::{counted, grouped};

/// The width that a report keeps to where the terminal is wider, or unknown.
const WIDEST: usize = 100;

/// The narrowest table that can be read.
const NARROWEST: usize = 40;

/// The width of the terminal, at most [`WIDEST`].
static COLUMNS: AtomicUsize = AtomicUsize::new(WIDEST);

/// Makes reports for a terminal keep to its width.
pub fn keep_to(columns: usize) {
    COLUMNS.store(columns.clamp(NARROWEST, WIDEST), Ordering::Relaxed);
}

/// The width that a report for a terminal keeps to.
pub(super) fn width() -> usize {
    COLUMNS.load(Ordering::Relaxed)
}

/// `99.8 %` of a whole, rounded down, so that only all of it is 100 %; 0 % of nothing.
pub(super) fn percent(part: u64, whole: u64, decimals: u32) -> String {
    let scale = 10_u128.pow(decimals);
    let units = (100 * scale * u128::from(part)).checked_div(u128::from(whole)).unwrap_or(0);
    let (integer, fraction) = (units / scale, units % scale);
    if decimals == 0 {
        format!("{integer} %")
    } else {
        format!("{integer}.{fraction:0width$} %", width = decimals as usize)
    }
}

/// `all six`, or the number if it is not six.
pub(super) fn all_of(number: usize) -> String {
    if number == 6 { "all six".to_owned() } else { format!("all {number}") }
}

/// `121a`: a target without `sm_`, where the column explains it.
pub(super) fn short(target: Target) -> String {
    target.to_string().trim_start_matches("sm_").to_owned()
}

/// Targets joined by spaces.
pub(super) fn names<'a>(targets: impl IntoIterator<Item = &'a Target>) -> String {
    targets.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// One line without control characters: messages quote files, and files may contain anything.
pub(super) fn clean(text: &str) -> String {
    printable(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// `text` with a symbol for each character that controls a terminal or reorders the surrounding text.
pub(super) fn printable(text: &str) -> String {
    let obeyed = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if obeyed(c) { '\u{fffd}' } else { c }).collect()
}

/// A kernel's readable name, cut in the middle if longer than `width`.
pub(super) fn kernel(name: &str, width: usize) -> String {
    let text = readable_kernel(name);
    let length = text.chars().count();
    if length <= width {
        return text;
    }
    let head: String = text.chars().take(width / 2).collect();
    let tail: String = text.chars().skip(length - (width - width / 2 - 1)).collect();
    format!("{head}…{tail}")
}

/// Words in lines of at most [`width`], the first after `first`, the others indented by the same width. Ends with a line end.
pub(super) fn wrapped<'a>(first: &str, words: impl IntoIterator<Item = &'a str>) -> String {
    hanging(first, first.chars().count(), words)
}

/// Words behind `first`, broken at the width, every line but the first indented by `indent`.
pub fn hanging<'a>(first: &str, indent: usize, words: impl IntoIterator<Item = &'a str>) -> String {
    let (mut out, mut column, mut is_begun) = (first.to_owned(), first.chars().count(), false);
    for word in words {
        let length = word.chars().count();
        if is_begun && column + 1 + length > width() {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            (column, is_begun) = (indent, false);
        }
        if is_begun {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
        is_begun = true;
    }
    let mut out = out.trim_end().to_owned();
    out.push('\n');
    out
}

/// A table of aligned columns: the first left-aligned, the others right-aligned, the last left-aligned again if `tail`.
#[derive(Default)]
pub(super) struct Columns {
    rows: Vec<Vec<(String, Tone)>>,
    tail: bool,
}

impl Columns {
    /// An empty table.
    pub(super) fn new(tail: bool) -> Self {
        Self { rows: Vec::new(), tail }
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = (String, Tone)>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table, each line indented by two spaces.
    pub(super) fn render(&self, styles: &Styles) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |c: usize| {
            self.rows.iter().filter_map(|r| r.get(c)).map(|p| p.0.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut out = String::new();
        for row in &self.rows {
            let mut line = " ".to_owned();
            for (c, (text, tone)) in row.iter().enumerate() {
                let left = c == 0 || (self.tail && c + 1 == columns);
                let pad = " ".repeat(widths[c].saturating_sub(text.chars().count()));
                let painted = styles.paint(*tone, text);
                line.push(' ');
                if left && c + 1 == row.len() {
                    line.push_str(&painted);
                } else if left {
                    line.push_str(&(painted + &pad));
                } else {
                    line.push_str(&(pad + &painted));
                }
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_is_100_percent() {
        assert_eq!(percent(1190, 1192, 1), "99.8 %");
        assert_eq!([percent(99_999, 100_000, 2), percent(99_999, 100_000, 0)], ["99.99 %", "99 %"]);
        assert_eq!([percent(7, 7, 1), percent(1, 3000, 2), percent(0, 0, 1)], ["100.0 %", "0.03 %", "0.0 %"]);
        assert_eq!(percent(u64::MAX - 1, u64::MAX, 3), "99.999 %");
    }

    #[test]
    fn lines_break_before_the_width() {
        let text = wrapped("  say: ", std::iter::repeat_n("word", 60));
        assert!(text.lines().all(|l| l.chars().count() <= width() && l.starts_with("  ")));
        assert_eq!(text.matches("word").count(), 60);
    }

    #[test]
    fn control_characters_do_not_reach_a_terminal() {
        assert_eq!(clean("a\n\tb\u{1b}[31m\u{202e}x"), "a b\u{fffd}[31m\u{fffd}x");
        assert_eq!(printable("a  b\u{9b}"), "a  b\u{fffd}");
    }
}
