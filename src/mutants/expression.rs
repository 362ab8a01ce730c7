//! Finds expressions in tokens: the operands of an operator, matching brackets, and calls.

use std::ops::{Range, RangeInclusive};

use super::lexer::{Kind, Token, tokens};

/// A text, its tokens, and the matching bracket of each bracket.
pub(super) struct Code<'t> {
    pub(super) text: &'t str,
    pub(super) tokens: Vec<Token>,
    partner: Vec<Option<usize>>,
}

/// A call: its name, closing bracket and arguments, as token indices.
pub(super) struct Call {
    pub(super) name: usize,
    pub(super) close: usize,
    pub(super) arguments: Vec<RangeInclusive<usize>>,
}

/// Names before a parenthesis that are not calls.
const NO_CALLS: [&str; 10] =
    ["if", "for", "while", "switch", "return", "sizeof", "asm", "volatile", "__launch_bounds__", "__align__"];

/// Types in casts to a pointer or a number.
const TYPES: [&str; 22] = [
    "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "int", "unsigned", "signed", "long", "short",
    "char", "float", "double", "size_t", "uint32_t", "int32_t", "uint64_t", "int64_t", "const",
];

/// The precedence of assignments, the lowest.
const ASSIGNMENT: u8 = 0;
/// The precedence of `?` and `:`.
pub(super) const CONDITIONAL: u8 = 1;

/// Returns the precedence of a binary operator.
pub(super) fn precedence(sign: &str) -> Option<u8> {
    Some(match sign {
        "=" | "+=" | "-=" | "*=" | "/=" | "%=" | "|=" | "&=" | "^=" | "<<=" | ">>=" => ASSIGNMENT,
        "?" | ":" => CONDITIONAL,
        "||" => 2,
        "&&" => 3,
        "|" => 4,
        "^" => 5,
        "&" => 6,
        "==" | "!=" => 7,
        "<" | ">" | "<=" | ">=" => 8,
        "<<" | ">>" => 9,
        "+" | "-" => 10,
        "*" | "/" | "%" => 11,
        _ => return None,
    })
}

impl<'t> Code<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let tokens = tokens(text);
        let mut partner = vec![None; tokens.len()];
        let mut open = Vec::new();
        for (n, token) in tokens.iter().enumerate() {
            match token.kind {
                Kind::Open => open.push(n),
                Kind::Close => {
                    if let Some(first) = open.pop() {
                        partner[first] = Some(n);
                        partner[n] = Some(first);
                    }
                }
                // A bracket opened in a macro's body is not closed outside.
                Kind::Boundary => open.retain(|first| text[tokens[*first].at.clone()] == *"{"),
                _ => {}
            }
        }
        Self { text, tokens, partner }
    }

    /// Returns the text of a token; empty beyond the last.
    pub(super) fn word(&self, n: usize) -> &'t str {
        self.tokens.get(n).map_or("", |t| &self.text[t.at.clone()])
    }

    pub(super) fn kind(&self, n: usize) -> Kind {
        self.tokens.get(n).map_or(Kind::Boundary, |t| t.kind)
    }

    pub(super) fn partner(&self, n: usize) -> Option<usize> {
        self.partner.get(n).copied().flatten()
    }

    /// Returns the byte range of tokens.
    pub(super) fn bytes(&self, tokens: &RangeInclusive<usize>) -> Range<usize> {
        self.tokens[*tokens.start()].at.start..self.tokens[*tokens.end()].at.end
    }

    /// Returns the text of tokens, in parentheses if there are several.
    pub(super) fn grouped(&self, tokens: &RangeInclusive<usize>) -> String {
        let text = &self.text[self.bytes(tokens)];
        let is_one = tokens.start() == tokens.end() || self.partner(*tokens.start()) == Some(*tokens.end());
        if is_one { text.to_owned() } else { format!("({text})") }
    }

    /// Whether the operator has no left operand.
    pub(super) fn is_unary(&self, n: usize) -> bool {
        let Some(before) = n.checked_sub(1) else { return true };
        match self.kind(before) {
            Kind::Number | Kind::Text => false,
            Kind::Word => ["return", "case", "else"].contains(&self.word(before)),
            Kind::Close => self.word(before) == "}" || self.is_cast(before),
            Kind::Sign => !["++", "--"].contains(&self.word(before)),
            Kind::Open | Kind::Boundary => true,
        }
    }

    /// Whether the parenthesis closes a cast.
    fn is_cast(&self, close: usize) -> bool {
        let Some(open) = self.partner(close).filter(|_| self.word(close) == ")") else { return false };
        let inside = open + 1..close;
        let of_type = |n: usize| TYPES.contains(&self.word(n)) || self.word(n) == "*";
        !inside.is_empty() && inside.clone().all(of_type)
    }

    /// Returns the operands of the binary operator `n`; `None` if one is missing.
    pub(super) fn operands(&self, n: usize) -> Option<(RangeInclusive<usize>, RangeInclusive<usize>)> {
        if self.is_unary(n) {
            return None;
        }
        let binds = precedence(self.word(n))?;
        let (first, last) = (self.left(n, binds), self.right(n, binds));
        (first < n && last > n).then(|| (first..=n - 1, n + 1..=last))
    }

    /// Returns the first token of the operand left of `n`, whose operators have at least the precedence
    /// `binds`.
    pub(super) fn left(&self, n: usize, binds: u8) -> usize {
        let mut at = n;
        while let Some(before) = at.checked_sub(1) {
            match self.kind(before) {
                Kind::Close if self.word(before) != "}" => match self.partner(before) {
                    Some(open) => at = open,
                    None => break,
                },
                Kind::Close | Kind::Open | Kind::Boundary => break,
                Kind::Word if ["return", "case", "else", "do"].contains(&self.word(before)) => break,
                Kind::Sign if [",", ";"].contains(&self.word(before)) => break,
                Kind::Sign
                    if !self.is_unary(before)
                        && precedence(self.word(before)).is_some_and(|other| other < binds) =>
                {
                    break;
                }
                _ => at = before,
            }
        }
        at
    }

    /// Returns the last token of the operand right of `n`, whose operators have a higher precedence than
    /// `binds`.
    fn right(&self, n: usize, binds: u8) -> usize {
        let mut at = n;
        loop {
            let next = at + 1;
            match self.kind(next) {
                Kind::Open => match self.partner(next) {
                    Some(close) => at = close,
                    None => break,
                },
                Kind::Close | Kind::Boundary => break,
                Kind::Sign if [",", ";"].contains(&self.word(next)) => break,
                Kind::Sign
                    if next > n + 1
                        && !self.is_unary(next)
                        && precedence(self.word(next)).is_some_and(|other| other <= binds) =>
                {
                    break;
                }
                _ => at = next,
            }
        }
        at
    }

    /// Returns the condition, first arm and second arm of the conditional whose `?` is token `n`.
    pub(super) fn arms(&self, n: usize) -> Option<[RangeInclusive<usize>; 3]> {
        let first = self.left(n, CONDITIONAL + 1);
        let mut colon = None;
        let (mut at, mut depth) = (n, 0);
        loop {
            let next = at + 1;
            match (self.kind(next), self.word(next)) {
                (Kind::Open, _) => {
                    at = self.partner(next)?;
                    continue;
                }
                (Kind::Close | Kind::Boundary, _) | (_, "," | ";") => break,
                (_, "?") => depth += 1,
                (_, ":") if depth > 0 => depth -= 1,
                (_, ":") if colon.is_none() => colon = Some(next),
                (_, ":") => break,
                (_, sign) if precedence(sign) == Some(ASSIGNMENT) => break,
                _ => {}
            }
            at = next;
        }
        let colon = colon?;
        (first < n && colon > n + 1 && at > colon).then(|| [first..=n - 1, n + 1..=colon - 1, colon + 1..=at])
    }

    /// Returns the call whose name is token `n`.
    pub(super) fn call(&self, n: usize) -> Option<Call> {
        let is_name = self.kind(n) == Kind::Word && !NO_CALLS.contains(&self.word(n));
        // A name after another word is being declared.
        let declared =
            n > 0 && self.kind(n - 1) == Kind::Word && !["return", "else"].contains(&self.word(n - 1));
        if !is_name || declared || self.word(n + 1) != "(" {
            return None;
        }
        let close = self.partner(n + 1)?;
        let mut arguments = Vec::new();
        let mut first = n + 2;
        let mut at = first;
        while at <= close {
            if at == close || self.word(at) == "," {
                if at > first {
                    arguments.push(first..=at - 1);
                }
                first = at + 1;
            } else if self.kind(at) == Kind::Open {
                at = self.partner(at)?;
            }
            at += 1;
        }
        Some(Call { name: n, close, arguments })
    }

    /// Whether the call is a whole statement.
    pub(super) fn is_statement(&self, call: &Call) -> bool {
        let before = call.name.checked_sub(1);
        let begins = before.is_none_or(|n| {
            matches!(self.word(n), ";" | "{" | "}" | ")" | "else") || self.kind(n) == Kind::Boundary
        });
        begins && self.word(call.close + 1) == ";"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the operands of the first binary `sign` in a text.
    fn operands(text: &str, sign: &str) -> Option<(String, String)> {
        let code = Code::new(text);
        let n = (0..code.tokens.len()).find(|n| code.word(*n) == sign && code.operands(*n).is_some())?;
        let (left, right) = code.operands(n)?;
        Some((text[code.bytes(&left)].to_owned(), text[code.bytes(&right)].to_owned()))
    }

    #[test]
    fn operands_reach_as_far_as_the_operator_binds() {
        for (text, sign, left, right) in [
            ("x = a + b * c - d;", "-", "a + b * c", "d"),
            ("x = a - b * c + d;", "-", "a", "b * c"),
            ("f(u, v - w[i - 1], z)", "-", "v", "w[i - 1]"),
            ("return a ? b : c << 2 | d;", "<<", "c", "2"),
            ("y = (u64)p.x[1] << -n & 3;", "<<", "(u64)p.x[1]", "-n"),
            ("if (a < b && c >= d + 1)", ">=", "c", "d + 1"),
            ("bool t = i < n && k;", "&&", "i < n", "k"),
        ] {
            let found = operands(text, sign).unwrap_or_default();
            assert_eq!((found.0.as_str(), found.1.as_str()), (left, right), "{text}");
        }
        for unary in ["x = -y;", "f(-y)", "return -y;", "(u32)-y", "a * -y"] {
            assert_eq!(operands(unary, "-"), None, "{unary}");
        }
    }

    #[test]
    fn arms_nest_to_the_right() {
        let text = "return code < 0 ? 0 : code > 254 ? f(a, b) : code;";
        let code = Code::new(text);
        let marks: Vec<usize> = (0..code.tokens.len()).filter(|n| code.word(*n) == "?").collect();
        let shown = |n: usize| code.arms(n).unwrap().map(|r| &text[code.bytes(&r)]);
        assert_eq!(shown(marks[0]), ["code < 0", "0", "code > 254 ? f(a, b) : code"]);
        assert_eq!(shown(marks[1]), ["code > 254", "f(a, b)", "code"]);
    }

    #[test]
    fn a_declaration_is_no_call() {
        let text = "DEVICE float f(float a, float b)\n{ g(a, h(b, 1)); if (a) wait(b); return f(a, b); }";
        let code = Code::new(text);
        let calls: Vec<Call> = (0..code.tokens.len()).filter_map(|n| code.call(n)).collect();
        let names: Vec<(&str, usize, bool)> =
            calls.iter().map(|c| (code.word(c.name), c.arguments.len(), code.is_statement(c))).collect();
        assert_eq!(names, [("g", 2, true), ("h", 2, false), ("wait", 1, true), ("f", 2, false)]);
    }
}
