//! The instructions in a text, by opcode and modifiers.

use super::lines::CodeLines;

/// Maximum number of lines of one instruction.
const LINES: usize = 64;

/// Returns every instruction of a text, with its modifiers and without operands.
#[must_use]
pub fn instructions(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    (0..lines.len()).flat_map(|n| forms_on(&lines, n)).collect()
}

/// Returns the instructions that begin on line `number` (from 0) of `lines`, in the form of [`instructions`]; none after the
/// last line.
#[must_use]
pub fn forms_on(lines: &[&str], number: usize) -> Vec<String> {
    let mut scanner = CodeLines::default();
    let Some(line) = lines.get(number) else { return Vec::new() };
    // A comment is assumed not to span more lines than this.
    let mut before = String::new();
    for line in &lines[number.saturating_sub(LINES)..number] {
        let code = scanner.code(line);
        if !code.trim().is_empty() {
            before = code;
        }
    }
    let open = !matches!(before.trim_end().chars().next_back(), None | Some(';' | '{' | '}' | ':'));
    let directive = before.trim_start().starts_with('.');
    let first = scanner.code(line);
    let length = first.len();
    let mut code = first;
    for line in lines[number + 1..].iter().take(LINES) {
        code.push('\n');
        code.push_str(&scanner.code(line));
    }
    let mut out = Vec::new();
    let mut start = 0;
    for (n, piece) in code.split(';').enumerate() {
        let statement = after_braces(piece);
        let begins = start + piece.len() - statement.len();
        if begins >= length.max(1) {
            break;
        }
        start += piece.len() + 1;
        // The line may begin inside an instruction of the previous line.
        if n == 0 && open && !directive {
            continue;
        }
        let form = form(statement);
        if !form.is_empty() {
            out.push(form);
        }
    }
    out
}

/// The text after the braces of blocks, and after the head of a function or another directive that opens one; braces
/// of operands are kept.
fn after_braces(piece: &str) -> &str {
    let mut rest = piece;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || "{}".contains(c));
        match rest.split_once('{') {
            Some((_, behind)) if rest.starts_with('.') => rest = behind,
            _ => return rest,
        }
    }
}

/// Opcode and modifiers of a statement, which may span several lines.
fn form(statement: &str) -> String {
    let mut words = statement.split_whitespace();
    let mut out = String::new();
    for word in words.by_ref() {
        let label = word.ends_with(':');
        if label || word.starts_with('@') {
            continue;
        }
        out.push_str(word);
        break;
    }
    for word in words {
        if !word.starts_with('.') || out.starts_with('.') {
            break;
        }
        out.push_str(word);
    }
    let is_opcode = out.starts_with(|c: char| c.is_ascii_alphabetic());
    if is_opcode { out } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_declarations_are_no_instructions() {
        assert_eq!(instructions(".entry k(.param .u64 p)\n{ ret; }\n{ exit; }\n"), ["ret", "exit"]);
        assert_eq!(instructions(".global .b8 x[2] = {1, 2};\nst.v2.b32 [a], {b, c};"), ["st.v2.b32"]);
        assert!(forms_on(&[], 3).is_empty());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_survived(text in "[ -~\n\u{e9}]{0,200}") {
            let _ = instructions(&text);
        }
    }
}
