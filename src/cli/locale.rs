//! What a terminal can show: how wide it is, and whether it takes characters beyond ASCII.

use std::borrow::Cow;
use std::env::var_os;
use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};

use miette::{GraphicalTheme, MietteHandlerOpts, ThemeCharacters};

use crate::report::Format;

/// Whether results are a document for programs, whose characters are part of it.
static WRITES_DATA: AtomicBool = AtomicBool::new(false);

/// Keeps the characters of results that have this format: only text is for a terminal.
pub(super) fn results_are(format: Option<&str>) {
    WRITES_DATA.store(format.is_some_and(|word| word != Format::Text.word()), Ordering::Relaxed);
}

/// Results as standard output takes them.
pub(super) fn results(text: &str) -> Cow<'_, str> {
    if WRITES_DATA.load(Ordering::Relaxed) { Cow::Borrowed(text) } else { shown(text) }
}

/// Text for people as the terminal takes it. A column keeps its width: each sign becomes one character.
pub(super) fn shown(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || !is_ascii() {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.chars().map(in_ascii).collect())
    }
}

/// The character of ASCII that is closest to a sign of the reports.
fn in_ascii(c: char) -> char {
    match c {
        '✓' => '+',
        '✗' | '−' | '–' | '—' => '-',
        '⊘' => '/',
        '×' => 'x',
        '·' => '.',
        '…' => '~',
        '→' => '>',
        '≤' => '<',
        '≥' => '>',
        'µ' | 'μ' => 'u',
        '²' => '2',
        '³' => '3',
        '“' | '”' => '"',
        '‘' | '’' => '\'',
        '█' | '▇' | '▆' | '▅' | '▄' | '▃' | '▂' | '▁' => '#',
        _ if c.is_ascii() => c,
        _ => '?',
    }
}

/// Whether a locale is named whose character set is not UTF-8, such as `C`. Without a name, the terminal decides.
pub(super) fn is_ascii() -> bool {
    let named = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(var_os).find(|name| !name.is_empty());
    named.is_some_and(|name| !is_utf8(&name.to_string_lossy()))
}

fn is_utf8(locale: &str) -> bool {
    let set = locale.to_ascii_lowercase();
    set.contains("utf-8") || set.contains("utf8")
}

/// The theme of drawn errors.
pub(super) fn theme(colours: bool) -> GraphicalTheme {
    let mut theme = if colours { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    if is_ascii() {
        theme.characters = ThemeCharacters::ascii();
    }
    theme
}

/// Draws the errors of this process as its terminal can show them.
pub(super) fn adapt_errors() {
    // A second command of the same process finds the hook set, and the same.
    let _ = miette::set_hook(Box::new(|error| {
        let options = MietteHandlerOpts::new();
        let options = if is_ascii() { options.unicode(false) } else { options };
        let options = if repeats_causes(error) { options.without_cause_chain() } else { options };
        Box::new(options.build())
    }));
}

/// Whether the message of an error has the text of all its causes.
fn repeats_causes(error: &dyn miette::Diagnostic) -> bool {
    let text = error.to_string();
    let mut causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.all(|cause| text.contains(&cause.to_string()))
}

/// The number of columns to which tables keep, if one is known: that of `COLUMNS`, or else of the terminal.
pub(super) fn columns() -> Option<usize> {
    let named = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || std::io::stdout().is_terminal().then(terminal_size::terminal_size).flatten();
    named.or_else(|| terminal().map(|(width, _)| usize::from(width.0))).filter(|columns| *columns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_keep_their_width_in_ascii() {
        let text = "✓ ✗ ⊘ 16×32 a…b −1 µs é\n";
        let ascii: String = text.chars().map(in_ascii).collect();
        assert_eq!(ascii, "+ - / 16x32 a~b -1 us ?\n");
    }

    #[test]
    fn locales_name_their_character_set() {
        for (locale, utf8) in
            [("C", false), ("POSIX", false), ("C.UTF-8", true), ("de_DE.utf8", true), ("en_US", false)]
        {
            assert_eq!(is_utf8(locale), utf8, "{locale}");
        }
    }
}
