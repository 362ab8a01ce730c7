//! Architectures in build options: `-gencode`, CMake and Bazel lists.

use std::ops::Range;

use ptx::arch::{Suffix, Target};

use super::token::{Kind, Language, Token};

/// An SM12x architecture in a build option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) target: Target,
    /// The index of its token.
    pub(super) token: usize,
}

impl Entry {
    /// Returns the GPUs that load its code: with `a` only its own, otherwise its own and those with a higher number.
    pub(super) fn loads_on(self) -> &'static [u16] {
        match (self.target.number, self.target.suffix) {
            (120, Suffix::Arch) => &[120],
            (120, _) => &[120, 121],
            _ => &[121],
        }
    }
}

/// Returns the SM12x architectures in build options, in order.
pub(super) fn entries(tokens: &[Token<'_>], language: Language) -> Vec<Entry> {
    let mut out = Vec::new();
    if language == Language::C {
        return out;
    }
    // For a CMake statement: whether it has named an architecture list so far, and whether it is a condition or a message.
    let (mut names_list, mut tests) = (false, false);
    let mut lines = BuildLine::default();
    for (n, token) in tokens.iter().enumerate() {
        let begins = n == 0 || tokens[n - 1].kind == Kind::End;
        if begins {
            names_list = false;
            tests = ["if", "elseif", "while", "message"].iter().any(|w| token.text.eq_ignore_ascii_case(w));
        }
        names_list |= language == Language::Cmake && is_list(token.text);
        // In CMake a value needs no quotes, and the scanner classifies `120a` as a number.
        let options = match language {
            Language::C => false,
            Language::Python => token.kind == Kind::Text && (is_option(token.text) || is_value(tokens, n)),
            Language::Bazel => {
                token.kind == Kind::Text
                    && (is_option(token.text) || is_value(tokens, n) || is_architecture(tokens, n))
            }
            Language::Cmake => names_list && !tests,
            Language::Shell | Language::Yaml => lines.holds(tokens, n),
        };
        if options {
            out.extend(targets(token.text).into_iter().map(|target| Entry { target, token: n }));
        }
    }
    out
}

/// Returns the values of `TORCH_CUDA_ARCH_LIST` of which SM12x can use the PTX alone, such as `8.0+PTX`, each with the architecture of
/// that PTX.
pub(super) fn ptx_alone(tokens: &[Token<'_>], language: Language) -> Vec<(Range<usize>, u16)> {
    if matches!(language, Language::C) {
        return Vec::new();
    }
    let is_name = |t: &Token<'_>| {
        matches!(t.kind, Kind::Name | Kind::Text)
            && t.text.trim_matches(['"', '\'']).eq_ignore_ascii_case("TORCH_CUDA_ARCH_LIST")
    };
    // `docker build --build-arg "TORCH_CUDA_ARCH_LIST=8.0+PTX"` has the name and the value in one string.
    let holds = |t: &Token<'_>| {
        t.kind == Kind::Text
            && t.text.to_ascii_uppercase().contains("TORCH_CUDA_ARCH_LIST=")
            && !t.text.contains('\n')
    };
    let mut out = Vec::new();
    for n in 0..tokens.len() {
        let range = if holds(&tokens[n]) {
            n..n + 1
        } else if is_name(&tokens[n]) {
            value(tokens, n + 1)
        } else {
            continue;
        };
        let words: String = tokens[range.clone()].iter().map(|t| t.text).collect();
        if let Some(newest) = newest_ptx(words.rsplit('=').next().unwrap_or_default()) {
            out.push((n..range.end, newest));
        }
    }
    out
}

/// Returns the tokens of the value behind a name: one string, or words up to the first that does not touch the one before.
fn value(tokens: &[Token<'_>], from: usize) -> Range<usize> {
    let between = |t: &Token<'_>| ["=", ":", "]", ",", "$", "{", "-", "?"].iter().any(|sign| t.is(sign));
    let start = (from..tokens.len()).find(|n| !between(&tokens[*n])).unwrap_or(tokens.len());
    let Some(first) = tokens.get(start).filter(|t| matches!(t.kind, Kind::Text | Kind::Number)) else {
        return start..start;
    };
    if first.kind == Kind::Text {
        return start..start + 1;
    }
    let touches = |n: &usize| tokens[*n].kind != Kind::End && tokens[*n].at == tokens[n - 1].end();
    let end = (start + 1..tokens.len()).find(|n| !touches(n)).unwrap_or(tokens.len());
    start..end
}

/// Returns the newest architecture whose PTX a list keeps, if none of the list has machine code for SM12x; PTX for a suffix runs on its
/// own devices alone.
fn newest_ptx(list: &str) -> Option<u16> {
    let piece = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '+'));
    let mut newest = None;
    for piece in list.split(piece).filter(|piece| piece.starts_with(|c: char| c.is_ascii_digit())) {
        let (version, ptx) = piece.split_once('+').map_or((piece, false), |(v, end)| (v, end == "PTX"));
        let bare = version.trim_end_matches(['a', 'f']);
        let number = (bare.parse::<f64>().ok()? * 10.0).round();
        let number = super::name::is_architecture(number).then_some(number as u16)?;
        if number >= 120 {
            return None;
        }
        if ptx && bare == version {
            newest = newest.max(Some(number));
        }
    }
    newest
}

/// What a line of a shell script, a Makefile, a Dockerfile or a YAML file has said so far.
#[derive(Default)]
struct BuildLine {
    /// Whether it has named a list of architectures: bare numbers are architectures.
    list: bool,
    /// Whether it has named an option of a compiler: words such as `sm_120a` are architectures.
    option: bool,
    /// The list that a key of YAML opened, whose values follow on lines of their own.
    open: bool,
}

impl BuildLine {
    /// Whether a token is an architecture to build for.
    fn holds(&mut self, tokens: &[Token<'_>], at: usize) -> bool {
        let token = &tokens[at];
        if at == 0 || tokens[at - 1].kind == Kind::End {
            // `- 120a` continues the list of a key.
            let continues = self.open && token.is("-");
            *self = Self { list: continues, option: false, open: continues };
        }
        // A value within quotes may hold the whole of `NAME=value`, or a command.
        let (name, value) = token.text.split_once(['=', ':']).unwrap_or((token.text, ""));
        self.list |= names_build_list(name) || names_build_list(value);
        self.option |= names_option(token.text);
        let keyed = token.is(":") && tokens.get(at + 1).is_some_and(|t| t.kind == Kind::End);
        self.open |= keyed && self.list;
        let prefixed = ["sm_", "compute_"].iter().any(|prefix| token.text.contains(prefix));
        token.kind != Kind::End && (self.list || (self.option && prefixed))
    }
}

/// Whether a word is an option of a compiler that takes an architecture, or a variable that holds one.
fn names_option(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    ["gencode", "generate-code", "gpu-architecture", "gpu-code", "nvcc", "arch=", "code=sm_"]
        .iter()
        .any(|w| lower.contains(w))
        || lower == "arch"
        || ["_arch", "_archs", "_sm"].iter().any(|end| lower.ends_with(end))
}

/// Whether a string contains an architecture option of nvcc or CMake.
fn is_option(text: &str) -> bool {
    let words = ["gencode", "compute_", "--gpu-architecture", "-arch=", "code=sm_"];
    let lists = ["CUDA_ARCH_LIST=", "CUDA_ARCHITECTURES="];
    words.iter().chain(&lists).any(|word| text.contains(word)) && !text.contains('\n')
}

/// Whether a word names an architecture list or option.
fn is_list(text: &str) -> bool {
    let text = text.to_ascii_uppercase();
    text.contains("ARCH") || text.contains("GENCODE") || text.contains("COMPUTE_")
}

/// Whether a string is a value of a named architecture list, or of an option before it.
fn is_value(tokens: &[Token<'_>], at: usize) -> bool {
    if targets(tokens[at].text).is_empty() {
        return false;
    }
    for token in tokens[..at].iter().rev() {
        let bare = token.text.trim_matches(['"', '\'']);
        match token.kind {
            Kind::Text if ["-arch", "--gpu-architecture", "-gencode", "--generate-code"].contains(&bare) => {
                return true;
            }
            Kind::Name | Kind::Text if names_build_list(bare) => return true,
            // Other values of the list.
            Kind::Text if bare.chars().any(|c| c.is_ascii_digit()) => {}
            Kind::Sign if ["=", ":", ",", "(", "[", "{", "]", "+="].contains(&token.text) => {}
            _ => return false,
        }
    }
    false
}

/// Whether a name denotes an architecture list, such as `TORCH_CUDA_ARCH_LIST`, `CMAKE_CUDA_ARCHITECTURES`, `cuda_archs` or
/// `HERMETIC_CUDA_COMPUTE_CAPABILITIES`.
fn names_build_list(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["ARCH_LIST", "CUDA_ARCH", "CUDAARCHS", "COMPUTE_CAPABILITIES"].iter().any(|part| name.contains(part))
}

/// Whether a Bazel string is an architecture by its prefix, and is neither compared nor the name of a Bazel target.
fn is_architecture(tokens: &[Token<'_>], at: usize) -> bool {
    let bare = tokens[at].text.trim_matches(['"', '\'']);
    let before = |n: usize| at.checked_sub(n).and_then(|n| tokens.get(n)).map_or("", |t| t.text);
    (bare.starts_with("sm_") || bare.starts_with("compute_"))
        && !["==", "!=", "in"].contains(&before(1))
        && !(before(1) == "=" && before(2) == "name")
}

/// Returns the SM12x architectures in a text, such as `120a`, `12.0f`, `sm_121a` or `compute_120`.
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

/// Returns the number of an architecture as lists of CMake write it: `120`, `120a`, `12.0`, `"sm_120a"`.
pub(super) fn written(text: &str) -> Option<u16> {
    let bare = text.trim_matches(['"', '\'']);
    let digits = bare.trim_start_matches("sm_").trim_start_matches("compute_");
    let digits = digits.trim_end_matches("-real").trim_end_matches("-virtual");
    digits
        .strip_suffix(['a', 'f'])
        .unwrap_or(digits)
        .replace('.', "")
        .parse()
        .ok()
        .filter(|n| (50..200).contains(n))
}

/// Returns the number of a string that holds nothing else and may be an architecture: `"80"`, `"9.0"`.
pub(super) fn quoted(text: &str) -> Option<f64> {
    let number = text.trim_matches(['"', '\'']).parse::<f64>().ok()?;
    let whole = if text.contains('.') { (number * 10.0).round() } else { number };
    super::name::is_architecture(whole).then_some(number)
}

/// Returns the number in an architecture string such as `"sm_120a"`, not only of SM12x.
pub(super) fn numbered(text: &str) -> Option<u16> {
    let bare = text.trim_matches(['"', '\'']);
    let digits = bare.strip_prefix("sm_").or_else(|| bare.strip_prefix("compute_"))?;
    digits.strip_suffix(['a', 'f']).unwrap_or(digits).parse().ok()
}
