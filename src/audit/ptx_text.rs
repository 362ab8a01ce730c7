//! The header of PTX text and its entries, tolerant of everything else: foreign PTX may be newer than any parser, and 50 MB.

use std::collections::HashSet;

use super::entry::{KERNELS_LIMIT, Kernel, Trouble};
use crate::arch::{PtxIsa, Suffix};

/// What PTX says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) isa: PtxIsa,
    pub(super) number: u16,
    pub(super) suffix: Suffix,
    pub(super) kernels: Vec<Kernel>,
}

/// Whether a file that starts with `head` is PTX: `.version` is the first directive of every module.
pub(super) fn is_ptx(head: &[u8]) -> bool {
    let mut scanner = Scanner { text: head, at: 0 };
    scanner.blank();
    scanner.rest().starts_with(b".version") && scanner.rest().get(8).is_some_and(u8::is_ascii_whitespace)
}

/// Reads `text`; what stands behind its first NUL is padding.
///
/// # Errors
/// [`Trouble::Damaged`] without a `.version` and a `.target` that can be read.
pub(super) fn facts(text: &[u8]) -> Result<Facts, Trouble> {
    let text = &text[..text.iter().position(|b| *b == 0).unwrap_or(text.len())];
    let mut scanner = Scanner { text, at: 0 };
    let (mut isa, mut target) = (None, None);
    let mut kernels: Vec<Kernel> = Vec::new();
    let mut known = HashSet::new();
    // The kernel whose head is being read, before its body.
    let mut head = None;
    while let Some(directive) = scanner.next() {
        match directive {
            Directive::Version => isa = isa.or_else(|| scanner.word().parse().ok()),
            Directive::Target => target = target.or_else(|| parse_target(scanner.word())),
            Directive::Entry => {
                let name = scanner.word();
                if kernels.len() >= KERNELS_LIMIT {
                    return Err(Trouble::TooLarge(format!("it has more than {KERNELS_LIMIT} kernels")));
                }
                // A kernel may be declared before it is defined.
                head = (!name.is_empty() && known.insert(name)).then(|| {
                    kernels.push(Kernel { name: name.to_owned(), ..Kernel::default() });
                    kernels.len() - 1
                });
            }
            Directive::Threads => {
                let threads = scanner.numbers();
                if let Some(kernel) = head.and_then(|i| kernels.get_mut(i)) {
                    kernel.max_threads = threads;
                }
            }
            Directive::Body => head = None,
        }
    }
    let isa = isa.ok_or_else(|| Trouble::Damaged("the PTX has no `.version` that can be read".to_owned()))?;
    let (number, suffix) =
        target.ok_or_else(|| Trouble::Damaged("the PTX has no `.target` that can be read".to_owned()))?;
    Ok(Facts { isa, number, suffix, kernels })
}

/// `sm_121a`; targets that are not known yet too.
fn parse_target(word: &str) -> Option<(u16, Suffix)> {
    let name = word.strip_prefix("sm_")?;
    let digits = name.trim_end_matches(['a', 'f']);
    let suffix = match &name[digits.len()..] {
        "" => Suffix::Base,
        "a" => Suffix::Arch,
        "f" => Suffix::Family,
        _ => return None,
    };
    Some((digits.parse().ok()?, suffix))
}

/// What is looked for.
enum Directive {
    Version,
    Target,
    Entry,
    /// `.maxntid` or `.reqntid`.
    Threads,
    /// An opening brace.
    Body,
}

const DIRECTIVES: [(&[u8], Directive); 5] = [
    (b".version", Directive::Version),
    (b".target", Directive::Target),
    (b".entry", Directive::Entry),
    (b".maxntid", Directive::Threads),
    (b".reqntid", Directive::Threads),
];

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Goes behind the next `end`, or to the end of the text.
    fn behind(&mut self, end: &[u8]) {
        let (first, rest) = (end[0], &end[1..]);
        while let Some(i) = self.rest().iter().position(|b| *b == first) {
            self.at += i + 1;
            if self.rest().starts_with(rest) {
                self.at += rest.len();
                return;
            }
        }
        self.at = self.text.len();
    }

    /// Goes behind spaces and comments.
    fn blank(&mut self) {
        loop {
            let rest = self.rest();
            self.at += rest.iter().take_while(|b| b.is_ascii_whitespace()).count();
            match self.rest() {
                [b'/', b'/', ..] => self.behind(b"\n"),
                [b'/', b'*', ..] => {
                    self.at += 2;
                    self.behind(b"*/");
                }
                _ => return,
            }
        }
    }

    /// The next word, without what follows it; empty where there is none.
    fn word(&mut self) -> &'a str {
        self.blank();
        let rest = self.rest();
        let len = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || b"_$.%".contains(b)).count();
        self.at += len;
        std::str::from_utf8(&rest[..len]).unwrap_or_default()
    }

    /// The product of numbers with commas between them.
    fn numbers(&mut self) -> Option<u32> {
        let mut product = 1_u32;
        loop {
            product = product.checked_mul(self.word().parse().ok()?)?;
            self.blank();
            if self.rest().first() != Some(&b',') {
                return Some(product);
            }
            self.at += 1;
        }
    }

    fn next(&mut self) -> Option<Directive> {
        loop {
            self.at += self.rest().iter().position(|b| matches!(b, b'.' | b'/' | b'"' | b'{'))?;
            match self.rest() {
                [b'/', b'/' | b'*', ..] => self.blank(),
                [b'{', ..] => {
                    self.at += 1;
                    return Some(Directive::Body);
                }
                [b'"', ..] => {
                    self.at += 1;
                    self.behind(b"\"");
                }
                [b'.', ..] => {
                    let before = self.at.checked_sub(1).and_then(|i| self.text.get(i));
                    let starts = !before.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
                    if starts {
                        let rest = self.rest();
                        let found = DIRECTIVES.into_iter().find(|(name, _)| {
                            rest.starts_with(name)
                                && rest.get(name.len()).is_some_and(u8::is_ascii_whitespace)
                        });
                        if let Some((name, directive)) = found {
                            self.at += name.len();
                            return Some(directive);
                        }
                    }
                    self.at += 1;
                }
                _ => self.at += 1,
            }
        }
    }
}
