//! Locates the instruction that a message of ptxas refers to.

use ptx::scan::forms_on;

/// The place in a line that a message refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offence {
    /// The line, without its line end.
    pub(super) excerpt: String,
    /// First column of the underlined part, in characters from 1.
    pub(super) column: usize,
    /// Length of the underlined part, in characters.
    pub(super) length: usize,
    /// The instruction with all modifiers but without operands: `mma.sync.aligned.m16n8k32…`; empty if there is none.
    pub(super) form: String,
}

/// Searches `line` (from 1) of `lines` for the part that `message` quotes, or else for the first instruction.
pub(super) fn offence(lines: &[&str], line: usize, message: &str) -> Option<Offence> {
    let number = line.checked_sub(1)?;
    let excerpt = (*lines.get(number)?).to_owned();
    let forms = forms_on(lines, number);
    let quoted: Vec<&str> = message.split('\'').skip(1).step_by(2).filter(|w| !w.is_empty()).collect();
    let holds = |form: &&String| quoted.iter().any(|w| form.contains(w));
    let form = forms.iter().find(holds).or_else(|| forms.first()).cloned().unwrap_or_default();
    // Underline the instruction's first word on this line, or the quoted part.
    let head = form.split('.').next().unwrap_or_default();
    let from = excerpt.find(&form).or_else(|| word_at(&excerpt, head)).unwrap_or(0);
    let part = quoted.iter().find_map(|w| Some((excerpt[from..].find(w)? + from, w.len())));
    let part = part.or_else(|| quoted.iter().find_map(|w| Some((excerpt.find(w)?, w.len()))));
    let (start, bytes) = part.unwrap_or_else(|| {
        let rest = &excerpt[from..];
        let lead = rest.len() - rest.trim_start().len();
        let body = rest.trim();
        let length =
            if form.is_empty() { body.len() } else { body.find(char::is_whitespace).unwrap_or(body.len()) };
        (from + lead, length)
    });
    let column = excerpt[..start].chars().count() + 1;
    let length = excerpt[start..start + bytes].chars().count().max(1);
    Some(Offence { excerpt, column, length, form })
}

fn word_at(line: &str, word: &str) -> Option<usize> {
    if word.is_empty() {
        return None;
    }
    let bytes = line.as_bytes();
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b"_$%".contains(&b);
    line.match_indices(word).map(|(at, _)| at).find(|at| {
        let before = at.checked_sub(1).is_none_or(|b| !is_word(bytes[b]));
        before && bytes.get(at + word.len()).is_none_or(|b| !is_word(*b))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, line: usize, message: &str) -> (String, String) {
        let lines: Vec<&str> = text.lines().collect();
        let o = offence(&lines, line, message).unwrap();
        (o.form, o.excerpt.chars().skip(o.column - 1).take(o.length).collect())
    }

    #[test]
    fn the_quoted_part_of_the_right_instruction_is_found() {
        let text = "add.u32 a, b, c; @!%p1 mma.sync.aligned\n  .kind::mxf4 {a},\n {b};\nL1: bla r0; // 'x'\n";
        let pair = |form: &str, part: &str| (form.to_owned(), part.to_owned());
        assert_eq!(at(text, 1, "Unknown 'add'"), pair("add.u32", "add"));
        assert_eq!(at(text, 1, "'.kind::mxf4' no"), pair("mma.sync.aligned.kind::mxf4", "mma.sync.aligned"));
        assert_eq!(at(text, 2, "nothing quoted").0, "");
        assert_eq!(at(text, 4, "Not a name of any known instruction: 'bla'"), pair("bla", "bla"));
        assert_eq!(at("\tret;\n", 1, "no"), pair("ret", "ret;"));
        let lines: Vec<&str> = text.lines().collect();
        assert!(offence(&lines, 9, "x").is_none() && offence(&lines, 0, "x").is_none());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_survived(text in "[ -~\n\u{e9}]{0,200}", line in 0_usize..6, message in "[ -~\u{e9}]{0,40}") {
            offence(&text.lines().collect::<Vec<_>>(), line, &message);
        }
    }
}
