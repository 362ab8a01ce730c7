//! The top level of a module: `.version`, `.target`, and the one entry that can share a file with others.

use std::ops::Range;

use super::cursor::Cursor;
use crate::arch::Target;

/// A token: a word, a string or one punctuation character.
struct Token<'a> {
    text: &'a str,
    range: Range<usize>,
}

/// The parts of a module that may be rewritten, as byte ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outline {
    /// The version of `.version`.
    pub version: Option<Range<usize>>,
    /// The first word of `.target`.
    pub target: Option<Range<usize>>,
    /// The complete directives `.version`, `.target` and `.address_size`.
    pub directives: Vec<Range<usize>>,
    /// The name of the entry, if the module consists of one entry that can share a file with others.
    pub lone_entry: Option<Range<usize>>,
}

/// Scans the top level of `text`.
#[must_use]
pub fn outline(text: &str) -> Outline {
    let tokens = tokens(text);
    let mut outline = Outline::default();
    let mut items = 0;
    let mut lone_entry = None;
    let mut wide = true;
    let mut i = 0;
    while i < tokens.len() {
        match tokens[i].text {
            directive @ (".version" | ".target" | ".address_size") if i + 1 < tokens.len() => {
                let mut last = i + 1;
                while directive == ".target" && tokens.get(last + 1).is_some_and(|t| t.text == ",") {
                    last = (last + 2).min(tokens.len() - 1);
                }
                let operand = tokens[i + 1].range.clone();
                match directive {
                    ".version" => outline.version = outline.version.or(Some(operand)),
                    ".target" => outline.target = outline.target.or(Some(operand)),
                    _ => wide &= tokens[i + 1].text == "64",
                }
                outline.directives.push(tokens[i].range.start..tokens[last].range.end);
                i = last + 1;
            }
            _ => {
                let (end, name) = item(&tokens, i);
                items += 1;
                lone_entry = name;
                i = end;
            }
        }
    }
    // A 32-bit module cannot share a file with 64-bit entries.
    if items == 1 && wide {
        outline.lone_entry = lone_entry;
    }
    outline
}

/// The end of the top-level item that begins at `start`, and the entry's name if the item is one complete entry.
fn item(tokens: &[Token<'_>], start: usize) -> (usize, Option<Range<usize>>) {
    let mut depth = 0_usize;
    let mut function = false;
    for i in start..tokens.len() {
        match tokens[i].text {
            ".entry" | ".func" if depth == 0 => function = true,
            "{" => depth += 1,
            "}" => {
                // A stray brace ends the item; ptxas will report it.
                depth = depth.saturating_sub(1);
                if depth == 0 && function {
                    return (i + 1, entry_name(&tokens[start..=i]));
                }
            }
            ";" if depth == 0 => return (i + 1, None),
            _ => {}
        }
    }
    (tokens.len(), None)
}

fn entry_name(item: &[Token<'_>]) -> Option<Range<usize>> {
    let entry = item.iter().position(|t| t.text == ".entry")?;
    let plain = item[..entry].iter().all(|t| matches!(t.text, ".visible" | ".weak"));
    let name = item.get(entry + 1)?;
    let is_name = name.text.starts_with(|c: char| c.is_ascii_alphabetic() || "_$%".contains(c));
    // A name that occurs again would have to be renamed there as well.
    let once = item.iter().filter(|t| t.text == name.text).count() == 1;
    (plain && is_name && once).then(|| name.range.clone())
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut cursor = Cursor::new(text.as_bytes());
    let mut out = Vec::new();
    loop {
        cursor.blank();
        let start = cursor.at;
        let Some(first) = cursor.rest().first() else { return out };
        if *first == b'"' {
            cursor.at += 1;
            cursor.behind(b"\"");
        } else if cursor
            .take_while(|b| b.is_ascii_alphanumeric() || b"_$%.".contains(&b) || !b.is_ascii())
            .is_empty()
        {
            cursor.at += 1;
        }
        out.push(Token { text: &text[start..cursor.at], range: start..cursor.at });
    }
}

/// Returns the first word of `.target`, if it is a known target.
#[must_use]
pub fn target(text: &str) -> Option<Target> {
    let mut cursor = Cursor::new(text.as_bytes());
    // Only the rest of the header precedes it.
    loop {
        match cursor.word() {
            ".target" => return cursor.word().parse().ok(),
            ".version" => _ = cursor.word(),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, range: Option<Range<usize>>) -> Option<&str> {
        range.map(|r| &text[r])
    }

    #[test]
    fn one_entry_alone_is_found() {
        let text = "// .version 1.0\n.version 9.0\n.target sm_90a, debug\n.address_size 64\n.visible .entry k(.param .u64 p)\n.maxntid 128\n{ { ret; } /* } */ }\n";
        let o = outline(text);
        assert_eq!(at(text, o.version), Some("9.0"));
        assert_eq!(at(text, o.target), Some("sm_90a"));
        assert_eq!(at(text, o.lone_entry), Some("k"));
        let directives: Vec<&str> = o.directives.iter().map(|r| &text[r.clone()]).collect();
        assert_eq!(directives, [".version 9.0", ".target sm_90a, debug", ".address_size 64"]);
    }

    #[test]
    fn what_cannot_share_a_file_stays_alone() {
        let head = ".version 9.0\n.target sm_90\n.address_size 64\n";
        for tail in [
            ".entry a() { ret; } .entry b() { ret; }",
            ".global .b32 x[2] = {1, 2}; .entry a() { ret; }",
            ".extern .shared .b8 s[]; .entry a() { ret; }",
            ".func f() { ret; }",
            ".file 1 \"a.cu\"\n.visible .entry a() { ret; }",
            ".entry a() { ret;",
            ".entry a() { call a; }",
            ".entry",
            "",
            "}}}",
        ] {
            assert_eq!(outline(&format!("{head}{tail}")).lone_entry, None, "{tail}");
        }
        assert_eq!(outline(".version 9.0 .target sm_90 .address_size 32 .entry a() { }").lone_entry, None);
    }

    #[test]
    fn the_target_stands_in_the_header() {
        let head = "// by hand\n.version 9.0\n.target sm_120a, debug\n.entry k() {}";
        assert_eq!(target(head), "sm_120a".parse().ok());
        assert_eq!(target(".version 9.0\n.entry k() {}\n.target sm_90"), None);
        assert_eq!(target(".version 9.0 .target sm_1"), None);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_survived(text in "[ -~\n\u{e9}]{0,200}") {
            let _ = outline(&text);
        }

        #[test]
        fn any_run_of_ptx_words_is_survived(words in proptest::collection::vec("\\.version|\\.target|\\.entry|\\.func|[{}();,\"]|/\\*|//|x|9\\.0|\n| ", 0..40)) {
            let _ = outline(&words.concat());
        }
    }
}
