//! Splits C++, CUDA, Python, TOML, CMake, Bazel, shell and YAML text into the tokens that conditions need. Comments are skipped.

/// The syntax in which a file is scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    /// C, C++ and CUDA.
    C,
    /// Python and TOML.
    Python,
    /// Bazel rules and macros.
    Bazel,
    /// CMake, and `.bazelrc` options.
    Cmake,
    /// Shell scripts, Makefiles and Dockerfiles: only their build options are read.
    Shell,
    /// YAML: only its build options are read.
    Yaml,
}

impl Language {
    /// Returns the language of a file by its name; `None` if the file is not read.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        match lower.as_str() {
            // A line of .bazelrc is an option and its values, without quotes.
            "cmakelists.txt" | ".bazelrc" => return Some(Self::Cmake),
            "build" | "workspace" => return Some(Self::Bazel),
            "makefile" | "gnumakefile" | "dockerfile" | "containerfile" | ".env" => return Some(Self::Shell),
            _ if ["makefile.", "dockerfile.", "containerfile."].iter().any(|s| lower.starts_with(s)) => {
                return Some(Self::Shell);
            }
            _ => {}
        }
        let (stem, extension) = lower.rsplit_once('.')?;
        match extension {
            "c" | "cc" | "cpp" | "cxx" | "cu" | "cuh" | "h" | "hh" | "hpp" | "hxx" | "inl" | "inc"
            | "ipp" | "tpp" | "tcc" | "cppm" => Some(Self::C),
            "py" | "pyi" | "pyx" | "toml" => Some(Self::Python),
            "bzl" | "bazel" => Some(Self::Bazel),
            "cmake" => Some(Self::Cmake),
            "sh" | "bash" | "zsh" | "mk" | "mak" | "make" | "dockerfile" | "containerfile" | "env" => {
                Some(Self::Shell)
            }
            "yml" | "yaml" => Some(Self::Yaml),
            // Templates: `kernel.cu.jinja`, `config.cmake.in`.
            "jinja" | "jinja2" | "j2" | "in" | "tmpl" | "template" | "mako" => Self::from_name(stem),
            _ => None,
        }
    }
}

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An identifier, without `::`.
    Name,
    /// A number.
    Number,
    /// A string literal, with its quotes.
    Text,
    /// An operator or a bracket.
    Sign,
    /// The end of a statement (except in C), or of a preprocessor directive.
    End,
    /// The `#` of a preprocessor directive.
    Directive,
}

/// A token of source text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    /// Its byte offset.
    pub(super) at: usize,
}

impl Token<'_> {
    pub(super) fn is(&self, text: &str) -> bool {
        matches!(self.kind, Kind::Sign | Kind::Name) && self.text == text
    }

    /// Returns a number without its type suffix; an empty string for other tokens.
    pub(super) fn number(&self) -> &str {
        match self.kind {
            Kind::Number => self.text.trim_end_matches(['u', 'U', 'l', 'L']),
            _ => "",
        }
    }

    pub(super) const fn end(&self) -> usize {
        self.at + self.text.len()
    }
}

/// Operators of two characters.
const PAIRS: [&str; 11] = ["==", "!=", "<=", ">=", "&&", "||", "->", "//", "**", "+=", "-="];

/// Returns the tokens of a text.
pub(super) fn tokens(text: &str, language: Language) -> Vec<Token<'_>> {
    let at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    Scanner { text, language, at, depth: 0, directive: false, out: Vec::new() }.run()
}

struct Scanner<'a> {
    text: &'a str,
    language: Language,
    at: usize,
    /// The number of open brackets, within which a statement continues.
    depth: usize,
    directive: bool,
    out: Vec<Token<'a>>,
}

impl<'a> Scanner<'a> {
    fn run(mut self) -> Vec<Token<'a>> {
        while let Some(c) = self.rest().chars().next() {
            self.step(c);
        }
        self.take(Kind::End, 0);
        self.out
    }

    /// Whether a value needs no quotes, so that `120a` is one word.
    const fn is_words(&self) -> bool {
        matches!(self.language, Language::Shell | Language::Yaml)
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn take(&mut self, kind: Kind, length: usize) {
        let text = self.text.get(self.at..self.at + length).unwrap_or_default();
        self.out.push(Token { kind, text, at: self.at });
        self.at += length;
    }

    fn skip_line(&mut self) {
        self.at += self.rest().find('\n').unwrap_or(self.rest().len());
    }

    fn step(&mut self, c: char) {
        let rest = self.rest();
        let c_like = self.language == Language::C;
        match c {
            '\n' => {
                if self.directive || (!c_like && (self.depth == 0 || self.is_words())) {
                    self.take(Kind::End, 0);
                    self.directive = false;
                }
                self.at += 1;
            }
            '\\' if rest.starts_with("\\\n") => self.at += 2,
            '\\' if rest.starts_with("\\\r\n") => self.at += 3,
            '#' if c_like => {
                let before = self.text[..self.at].rsplit('\n').next().unwrap_or_default();
                self.directive = before.trim_start_matches('\u{feff}').trim().is_empty();
                self.take(if self.directive { Kind::Directive } else { Kind::Sign }, 1);
            }
            '#' if self.language == Language::Cmake && rest.starts_with("#[") => {
                // #[[ … ]], #[=[ … ]=]
                let equals = rest[2..].chars().take_while(|c| *c == '=').count();
                if !rest[2 + equals..].starts_with('[') {
                    return self.skip_line();
                }
                let close = format!("]{}]", "=".repeat(equals));
                self.at += rest.find(&close).map_or(rest.len(), |n| n + close.len());
            }
            // `$#` and `${x#y}` are no comments.
            '#' if self.is_words()
                && !self.text[..self.at].ends_with(|c: char| c.is_whitespace())
                && self.at > 0 =>
            {
                self.take(Kind::Sign, 1);
            }
            '#' => self.skip_line(),
            '/' if c_like && rest.starts_with("//") => self.skip_line(),
            '/' if c_like && rest.starts_with("/*") => {
                self.at += rest.find("*/").map_or(rest.len(), |n| n + 2);
            }
            // An apostrophe of prose, as in `echo don't`, opens no string.
            '\'' if self.is_words() && self.text[..self.at].ends_with(char::is_alphanumeric) => self.at += 1,
            '"' | '\'' if c != '\'' || self.language != Language::Cmake => self.string(c),
            c if c.is_alphabetic() || c == '_' => {
                let name = |c: char| c.is_alphanumeric() || c == '_';
                let length = rest.find(|c| !name(c)).unwrap_or(rest.len());
                self.take(Kind::Name, length);
            }
            c if c.is_ascii_digit() => {
                let number = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
                // 1'000'000
                let separates = |n: usize| {
                    c_like
                        && rest[n..].starts_with('\'')
                        && rest[n + 1..].starts_with(|c: char| c.is_ascii_digit())
                };
                let ends = |(n, c): &(usize, char)| !number(*c) && !separates(*n);
                let length = rest.char_indices().find(ends).map_or(rest.len(), |(n, _)| n);
                self.take(Kind::Number, length);
            }
            c if c.is_whitespace() => self.at += c.len_utf8(),
            c => {
                match c {
                    '(' | '[' | '{' => self.depth += 1,
                    ')' | ']' | '}' => self.depth = self.depth.saturating_sub(1),
                    _ => {}
                }
                let pair =
                    PAIRS.iter().any(|pair| rest.starts_with(pair)) && !(c_like && rest.starts_with("**"));
                self.take(Kind::Sign, if pair { 2 } else { c.len_utf8() });
            }
        }
    }

    fn string(&mut self, quote: char) {
        let rest = self.rest();
        let triple = [r#"""""#, "'''"].into_iter().find(|t| rest.starts_with(t));
        let raw = self
            .out
            .last()
            .is_some_and(|t| t.kind == Kind::Name && t.text.ends_with('R') && t.end() == self.at);
        if let (Language::C, true) = (self.language, raw) {
            // R"tag( … )tag"
            let tag = rest[1..].split('(').next().unwrap_or_default();
            let close = format!("){tag}\"");
            let length = rest.find(&close).map_or(rest.len(), |n| n + close.len());
            return self.take(Kind::Text, length);
        }
        let has_triple = matches!(self.language, Language::Python | Language::Bazel);
        if let Some(triple) = triple.filter(|_| has_triple) {
            let length = rest[3..].find(triple).map_or(rest.len(), |n| n + 6);
            return self.take(Kind::Text, length);
        }
        let mut escaped = false;
        for (n, c) in rest.char_indices().skip(1) {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                // A string of a shell script, such as `sh -c '…'`, has lines.
                '\n' if !matches!(self.language, Language::Cmake | Language::Shell | Language::Yaml) => {
                    return self.take(Kind::Text, n);
                }
                c if c == quote => return self.take(Kind::Text, n + 1),
                _ => {}
            }
        }
        self.take(Kind::Text, rest.len());
    }
}
