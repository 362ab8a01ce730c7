//! Markdown's grammar: code spans, escapes and tables.

use super::phrase::clean;

/// `text` as a code span that may stand in a table.
pub(super) fn code(text: &str) -> String {
    let text = clean(text).replace('|', "\\|");
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

/// `text` with what Markdown or HTML would take for markup escaped; an address stays one.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::new();
    for c in clean(text).chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '~') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// `text` as a link when there is an address that may stand in one.
pub(super) fn link(text: &str, url: Option<&str>) -> String {
    let safe = |url: &&str| url.starts_with("http") && !url.contains([' ', '<', '>', '(', ')', '|', '\n']);
    url.filter(safe).map_or_else(|| plain(text), |url| format!("[{}]({url})", plain(text)))
}

/// The head of a table: the first column to the left, the others centred.
pub(super) fn head(names: &[String]) -> String {
    let rule: Vec<&str> = (0..names.len()).map(|n| if n == 0 { "---" } else { ":-:" }).collect();
    format!("{}|{}|\n", row(names), rule.join("|"))
}

/// A row of a table.
pub(super) fn row(cells: &[String]) -> String {
    format!("|{}|\n", cells.join("|"))
}

/// A number as superscript digits.
pub(super) fn superscript(number: usize) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    number.to_string().bytes().map(|b| DIGITS[usize::from(b - b'0')]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_words_does_not_break_a_table() {
        assert_eq!(code("a|b\nc"), "`a\\|b c`");
        assert_eq!(code("the `x` form"), "`` the `x` form ``");
        assert_eq!(plain("<b>_x_|"), "\\<b\\>\\_x\\_\\|");
        assert_eq!(superscript(1203), "¹²⁰³");
        assert_eq!(link("a", Some("javascript:x")), "a");
    }
}
