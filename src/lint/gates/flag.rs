//! Architectures in build options: `-gencode`, lists of CMake and Bazel.

use ptx::arch::{Suffix, Target};

use super::token::{Kind, Language, Token};

/// An SM12x architecture that something is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) target: Target,
    /// The index of its token.
    pub(super) token: usize,
}

/// The SM12x architectures of build options, in order.
pub(super) fn entries(tokens: &[Token<'_>], language: Language) -> Vec<Entry> {
    let mut out = Vec::new();
    for (n, token) in tokens.iter().enumerate() {
        // In CMake a value needs no quotes, and the lexer takes `120a` for a number.
        let options = match language {
            Language::C => false,
            Language::Python => token.kind == Kind::Text && is_option(token.text),
            Language::Cmake => is_list(tokens, n),
        };
        if options {
            out.extend(targets(token.text).into_iter().map(|target| Entry { target, token: n }));
        }
    }
    out
}

/// Whether a string is an option of nvcc.
fn is_option(text: &str) -> bool {
    ["gencode", "compute_", "--gpu-architecture", "-arch=", "code=sm_"].iter().any(|word| text.contains(word))
        && !text.contains('\n')
}

/// Whether the statement of CMake names a list of architectures, or the option itself.
fn is_list(tokens: &[Token<'_>], at: usize) -> bool {
    let begin = tokens[..at].iter().rposition(|t| t.kind == Kind::End).map_or(0, |n| n + 1);
    tokens[begin..=at].iter().take(12).any(|t| {
        let text = t.text.to_ascii_uppercase();
        text.contains("ARCH") || text.contains("GENCODE") || text.contains("COMPUTE_")
    })
}

/// `120a`, `12.0f`, `sm_121a`, `compute_120`: the SM12x architectures in a text.
fn targets(text: &str) -> Vec<Target> {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
    let mut out = Vec::new();
    for piece in text.split(|c| !word(c)) {
        let bare = piece.trim_start_matches("sm_").trim_start_matches("compute_");
        let (digits, suffix) = match bare.strip_suffix(['a', 'f']) {
            Some(digits) if bare.ends_with('a') => (digits, Suffix::Arch),
            Some(digits) => (digits, Suffix::Family),
            None => (bare, Suffix::Base),
        };
        let number = match digits {
            "120" | "12.0" => 120,
            "121" | "12.1" => 121,
            _ => continue,
        };
        out.push(Target { number, suffix });
    }
    out
}
