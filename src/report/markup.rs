//! Markdown as GitHub reads it: escapes, code spans, links and tables of untrusted text.
//!
//! A cell is Markdown of one line; [`row`] alone knows what a table adds to its grammar.

use super::phrase::clean;

/// The alignment of the columns after the first, which is left-aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    /// Text.
    Left,
    /// Letters and marks.
    Centre,
    /// Numbers.
    Right,
}

/// `text` as a code span, exact except for white space; empty for an empty text.
pub(super) fn code(text: &str) -> String {
    let text = clean(text);
    if text.is_empty() {
        return text;
    }
    // Parsers of tables disagree about a backslash before an escaped `|` in a code span.
    if text.contains("\\|") {
        return format!("<code>{}</code>", inline(&text));
    }
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if longest > 0 { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// `text` with everything escaped that Markdown or HTML would treat as markup; an address stays one.
pub(super) fn plain(text: &str) -> String {
    beginning(&clean(text))
}

/// Sentences with code in backticks: the code becomes spans, the rest is written as by [`plain`].
pub(super) fn prose(text: &str) -> String {
    let text = clean(text);
    let parts: Vec<&str> = text.split('`').collect();
    let inside = parts.iter().skip(1).take(parts.len().saturating_sub(2));
    if parts.len().is_multiple_of(2) || inside.clone().any(|part| part.trim().is_empty()) {
        return beginning(&text);
    }
    let spelt = |(n, part): (usize, &&str)| match n {
        0 => beginning(part),
        n if n % 2 == 1 => code(part),
        _ => words(part),
    };
    parts.iter().enumerate().map(spelt).collect()
}

/// The address at the start of a word, and the rest.
fn address(word: &str) -> (&str, &str) {
    if !(word.starts_with("https://") || word.starts_with("http://")) {
        return ("", word);
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || "/:._~#?=%+@-".contains(c);
    let end = word.find(|c| !fits(c)).unwrap_or(word.len());
    let end = word[..end].trim_end_matches([':', '.', '?', '_', '~']).len();
    word.split_at(end)
}

/// `text` of one line, escaped for the beginning of a line.
fn beginning(text: &str) -> String {
    let first = text.split(' ').next().unwrap_or_default();
    let only = |mark: char| !first.is_empty() && first.chars().all(|c| c == mark);
    let digits = first.bytes().take_while(u8::is_ascii_digit).count();
    let marker = match &first[digits..] {
        "." | ")" if digits > 0 => digits,
        _ if first.starts_with('>') || ['-', '+', '='].into_iter().any(only) => 0,
        _ => return words(text),
    };
    format!("{}\\{}", &text[..marker], words(&text[marker..]))
}

/// `text` of one line with its addresses, escaped for a place after a word.
fn words(text: &str) -> String {
    if !text.contains("://") {
        return inline(text);
    }
    let mut out = Vec::new();
    for word in text.split(' ') {
        let (before, rest) = word.split_at(word.len() - word.trim_start_matches('(').len());
        let (address, after) = address(rest);
        let address =
            if address.contains(['_', '~', '#']) { format!("<{address}>") } else { address.to_owned() };
        out.push(format!("{before}{address}{}", inline(after)));
    }
    out.join(" ")
}

/// `text` of one line, escaped for a place after a word.
fn inline(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut before = ' ';
    while let Some(c) = chars.next() {
        let after = chars.peek().copied().unwrap_or(' ');
        let markup = match c {
            '`' | '*' | '[' | ']' | '<' | '|' | '~' | '$' => true,
            // Within a word it is not emphasis.
            '_' => !(before.is_alphanumeric() && after.is_alphanumeric()),
            // A heading mark, or an issue number of the reader's repository.
            '#' => before == ' ' || before == '#' || after.is_ascii_digit(),
            '&' => after.is_ascii_alphanumeric() || after == '#',
            _ => false,
        };
        match c {
            // At the end of a cell, some parsers would treat `\\` as an escape.
            '\\' => out.push_str("&#92;"),
            _ if markup => out.extend(['\\', c]),
            _ => out.push(c),
        }
        before = c;
    }
    out
}

/// `text` as a link if there is an address that is safe in a link.
pub(super) fn link(text: &str, url: Option<&str>) -> String {
    let unsafe_in_link = |c: char| c.is_control() || c.is_whitespace() || "<>()|\\`".contains(c);
    let safe = |url: &&str| {
        (url.starts_with("https://") || url.starts_with("http://")) && !url.contains(unsafe_in_link)
    };
    match url.filter(safe) {
        // An address in the text would be a link inside a link.
        Some(url) => format!("[{}]({})", inline(&clean(text)), url.replace('&', "&amp;")),
        None => plain(text),
    }
}

/// The head of a table.
pub(super) fn head(names: &[impl AsRef<str>], align: Align) -> String {
    let others = match align {
        Align::Left => "---",
        Align::Centre => ":-:",
        Align::Right => "---:",
    };
    let rule: Vec<&str> = (0..names.len()).map(|n| if n == 0 { "---" } else { others }).collect();
    format!("{}|{}|\n", row(names), rule.join("|"))
}

/// A row of a table.
pub(super) fn row(cells: &[impl AsRef<str>]) -> String {
    let mut out = String::from("|");
    for cell in cells {
        let mut before = ' ';
        for c in cell.as_ref().chars() {
            // [`plain`] has already escaped its own.
            if c == '|' && before != '\\' {
                out.push('\\');
            }
            out.push(c);
            before = c;
        }
        out.push('|');
    }
    out.push('\n');
    out
}

/// A number as superscript digits.
pub(super) fn superscript(number: usize) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    number.to_string().bytes().map(|b| DIGITS[usize::from(b - b'0')]).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

    use super::*;

    /// What a reader of `markdown` sees: the text of each cell, or of everything, and how often markup occurs in it.
    fn seen(markdown: &str) -> (Vec<String>, usize) {
        let options = Options::ENABLE_TABLES
            | Options::ENABLE_STRIKETHROUGH
            | Options::ENABLE_TASKLISTS
            | Options::ENABLE_FOOTNOTES;
        let (mut texts, mut marks) = (vec![String::new()], 0);
        for event in Parser::new_ext(markdown, options) {
            match event {
                Event::Text(text) | Event::Code(text) => texts.last_mut().unwrap().push_str(&text),
                Event::Start(Tag::TableCell) => texts.push(String::new()),
                Event::Start(Tag::Paragraph | Tag::Table(_) | Tag::TableHead | Tag::TableRow) => {}
                // An address is a link to itself.
                Event::Start(Tag::Link { link_type: pulldown_cmark::LinkType::Autolink, .. }) => {}
                Event::InlineHtml(html) if ["<code>", "</code>"].contains(&&*html) => {}
                Event::End(TagEnd::Paragraph | TagEnd::Link) | Event::End(_) => {}
                _ => marks += 1,
            }
        }
        (texts, marks)
    }

    /// The cells of a row as cmark-gfm's table extension splits it: a backslash escapes the next character.
    fn split(row: &str) -> usize {
        let mut cells = 0;
        let mut chars = row.trim_end().chars().skip(1);
        while let Some(c) = chars.next() {
            match c {
                '\\' => _ = chars.next(),
                '|' => cells += 1,
                _ => {}
            }
        }
        cells
    }

    /// Text of characters with a meaning in Markdown, HTML or a terminal.
    fn hostile() -> impl Strategy<Value = String> {
        let marks = proptest::sample::select(vec![
            "|",
            "`",
            "``",
            "\\",
            "\\|",
            "<",
            ">",
            "&lt;",
            "&#60;",
            "&",
            "*",
            "_",
            "**",
            "[",
            "]",
            "](x)",
            "!",
            "#",
            "-",
            "- ",
            "1. ",
            "2)",
            "+",
            "=",
            "~",
            "~~",
            "$",
            "\n",
            "\r\n",
            "\t",
            "\u{1b}[31m",
            "\u{7}",
            "\u{202e}",
            "<b>",
            "</td>",
            "<!--",
            "a",
            "sm_121a",
            " ",
            "é",
            "https://a.b/c_d_#1",
            "x_",
            "http://",
        ]);
        proptest::collection::vec(marks, 0..12).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn no_text_breaks_a_table(text in hostile()) {
            for cell in [plain(&text), code(&text), prose(&text), link(&text, Some("https://a.b/c"))] {
                let line = row(&[&*cell, "next"]);
                prop_assert_eq!(split(&line), 2, "{}", line);
                prop_assert_eq!(line.matches('\n').count(), 1);
                let table = head(&["a", "b"], Align::Left) + &line;
                let (cells, _) = seen(&table);
                prop_assert_eq!(cells.len(), 5, "{}", table);
                if cell != prose(&text) {
                    prop_assert_eq!(cells[3].trim(), clean(&text), "{}", table);
                }
                prop_assert_eq!(&cells[4], "next");
            }
        }

        #[test]
        fn a_reader_sees_exactly_the_text(text in hostile()) {
            let clean = clean(&text);
            let (texts, marks) = seen(&prose(&text));
            prop_assert_eq!(marks, 0, "{}", prose(&text));
            let letters = |text: &str| text.replace(['`', ' '], "");
            prop_assert_eq!(letters(&texts.concat()), letters(&clean), "{}", prose(&text));
            for (before, markdown) in [("", plain(&text)), ("", code(&text)), ("- ", plain(&text)), ("x ", plain(&text))] {
                let (texts, marks) = seen(&format!("{before}{markdown}"));
                let read = texts.concat();
                let expected = if before == "x " { format!("x {clean}") } else { clean.clone() };
                prop_assert_eq!(read.trim(), expected.trim(), "{}{}", before, markdown);
                // The list and its item.
                prop_assert!(marks <= if before == "- " { 2 } else { 0 }, "{}{}", before, markdown);
            }
        }
    }

    #[test]
    fn prose_has_code_spans() {
        assert_eq!(prose("Use `a_b|c` (or `d`) *here*"), "Use `a_b|c` (or `d`) \\*here\\*");
        assert_eq!(prose("one ` alone"), "one \\` alone");
        assert_eq!(prose("``"), "\\`\\`");
    }

    #[test]
    fn markup_in_words_is_escaped() {
        assert_eq!(row(&[code("a|b\nc")]), "|`a\\|b c`|\n");
        assert_eq!(code("the `x` form"), "`` the `x` form ``");
        assert_eq!(code("``"), "``` `` ```");
        assert_eq!(row(&[code("a\\|b")]), "|<code>a&#92;\\|b</code>|\n");
        assert_eq!(plain("<b>_x_| sm_121a"), "\\<b>\\_x\\_\\| sm_121a");
        assert_eq!(plain("1. see https://a.b/c_d."), "1\\. see <https://a.b/c_d>.");
        assert_eq!(superscript(1203), "¹²⁰³");
        assert_eq!(link("a", Some("javascript:x")), "a");
        assert_eq!(link("a#1", Some("https://x/?a&lt=1")), "[a\\#1](https://x/?a&amp;lt=1)");
    }
}
