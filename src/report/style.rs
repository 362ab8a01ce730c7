//! The colours of a terminal report. The caller decides whether to use them.

use owo_colors::Style;

/// The styles of a terminal report.
#[derive(Debug, Clone, Copy)]
pub struct Styles {
    head: Style,
    good: Style,
    bad: Style,
    doubt: Style,
    faint: Style,
}

/// The role of a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// Nothing special.
    Plain,
    /// A heading.
    Head,
    /// Accepted, confirmed.
    Good,
    /// Rejected, refuted.
    Bad,
    /// Unknown, or failed.
    Doubt,
    /// Of less interest.
    Faint,
}

impl Styles {
    /// No colours: for files, pipes and `NO_COLOR`.
    #[must_use]
    pub const fn plain() -> Self {
        let none = Style::new();
        Self { head: none, good: none, bad: none, doubt: none, faint: none }
    }

    /// Colours for a terminal.
    #[must_use]
    pub const fn colored() -> Self {
        Self {
            head: Style::new().bold(),
            good: Style::new().green(),
            bad: Style::new().red(),
            doubt: Style::new().yellow(),
            faint: Style::new().dimmed(),
        }
    }

    /// `text` as a `tone` looks.
    pub(super) fn paint(&self, tone: Tone, text: &str) -> String {
        let style = match tone {
            _ if text.is_empty() => return String::new(),
            Tone::Plain => return text.to_owned(),
            Tone::Head => self.head,
            Tone::Good => self.good,
            Tone::Bad => self.bad,
            Tone::Doubt => self.doubt,
            Tone::Faint => self.faint,
        };
        style.style(text).to_string()
    }
}
