//! Finds, in a whole PTX module, what a cell rewrites: `.version`, `.target`, and the one entry that may be batched.
//!
//! This reads only the top level of a file and judges nothing: text it does not understand is left as it is, for ptxas
//! to speak about.

use std::ops::Range;

/// A token: a word, a string or one character of punctuation.
struct Token<'a> {
    text: &'a str,
    range: Range<usize>,
}

/// The places of a module that matter here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outline {
    /// The version of `.version`.
    pub(crate) version: Option<Range<usize>>,
    /// The first word of `.target`.
    pub(crate) target: Option<Range<usize>>,
    /// The directives `.version`, `.target` and `.address_size`, whole.
    pub(super) directives: Vec<Range<usize>>,
    /// The name of the entry, when one entry is all that the module holds and it may stand beside others in one file.
    pub(super) lone_entry: Option<Range<usize>>,
}

/// Reads the top level of `text`.
pub(crate) fn outline(text: &str) -> Outline {
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
                // A stray brace ends the item; ptxas will say more.
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
    // A name that occurs again would have to be renamed there too.
    let once = item.iter().filter(|t| t.text == name.text).count() == 1;
    (plain && is_name && once).then(|| name.range.clone())
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b"_$%.".contains(&b) || !b.is_ascii();
    let mut out = Vec::new();
    let mut i = 0;
    while i < bytes.len() {
        let rest = &text[i..];
        let end = if rest.starts_with("//") {
            i += rest.find('\n').unwrap_or(rest.len());
            continue;
        } else if rest.starts_with("/*") {
            i += rest.find("*/").map_or(rest.len(), |n| n + 2);
            continue;
        } else if bytes[i].is_ascii_whitespace() {
            i += 1;
            continue;
        } else if bytes[i] == b'"' {
            i + rest[1..].find('"').map_or(rest.len(), |n| n + 2)
        } else if is_word(bytes[i]) {
            i + bytes[i..].iter().position(|b| !is_word(*b)).unwrap_or(rest.len())
        } else {
            i + 1
        };
        out.push(Token { text: &text[i..end], range: i..end });
        i = end;
    }
    out
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

    proptest::proptest! {
        #[test]
        fn any_text_is_survived(text in "[ -~\n\u{e9}]{0,200}") {
            outline(&text);
        }

        #[test]
        fn any_run_of_ptx_words_is_survived(words in proptest::collection::vec("\\.version|\\.target|\\.entry|\\.func|[{}();,\"]|/\\*|//|x|9\\.0|\n| ", 0..40)) {
            outline(&words.concat());
        }
    }
}
