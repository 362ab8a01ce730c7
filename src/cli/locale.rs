//! What a terminal can show: how wide it is, and whether it takes characters beyond ASCII.

use std::env::var_os;
use std::io::IsTerminal as _;

use miette::{GraphicalTheme, MietteHandlerOpts, ThemeCharacters};

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
    if is_ascii() {
        // A second command of the same process finds the hook set, and the same.
        let _ = miette::set_hook(Box::new(|_| Box::new(MietteHandlerOpts::new().unicode(false).build())));
    }
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
    fn locales_name_their_character_set() {
        for (locale, utf8) in
            [("C", false), ("POSIX", false), ("C.UTF-8", true), ("de_DE.utf8", true), ("en_US", false)]
        {
            assert_eq!(is_utf8(locale), utf8, "{locale}");
        }
    }
}
