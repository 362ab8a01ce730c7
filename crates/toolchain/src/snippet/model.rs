//! A snippet, its header, and the code of one variant.

use std::ops::Range;
use std::path::PathBuf;

use indexmap::IndexMap;
use numerics::OperandKind;
use ptx::arch::{PtxIsa, Target};
use ptx::scan::Outline;
use serde::Deserialize;

use super::axes::{Assignment, Condition, Value, holds};
use super::claim::Claim;
use super::template::Tables;

/// The `//@` header of a snippet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// What the snippet tests, in one sentence.
    pub about: String,
    /// The section of the PTX ISA that specifies it.
    pub spec: String,
    /// Capabilities that acceptance grants.
    pub grants: Vec<String>,
    /// Capabilities that acceptance of some variants grants; kernels name them in their headers.
    #[serde(default)]
    pub grants_when: Vec<Grant>,
    #[serde(default)]
    pub(super) axes: IndexMap<String, Vec<Value>>,
    #[serde(default)]
    pub(super) except: Vec<Condition>,
    #[serde(default)]
    pub(super) tables: Tables,
    /// A pinned PTX version; the highest that the toolkit supports if omitted.
    pub isa: Option<PtxIsa>,
    /// Opcodes that prove the hardware instruction, by dotted prefix.
    #[serde(default)]
    pub(super) sass: Vec<String>,
    /// How many of these opcodes the text yields if every form in it is one hardware instruction; `1` if omitted.
    /// May contain placeholders.
    pub(super) sass_count: Option<Value>,
    /// Whether ptxas may refuse a variant as late as during code generation, so that a check without code proves nothing.
    #[serde(default)]
    pub(super) judged_late: bool,
    /// Whether the variants are also assembled with every other `-arch`.
    #[serde(default)]
    pub cross_arch: bool,
    /// How the bodies are run; if omitted, they are only assembled.
    pub execute: Option<Execute>,
    /// Claims about the snippet.
    #[serde(default)]
    pub claims: Vec<Claim>,
}

/// How the bodies of a snippet are run: every lane of a warp has its own `in` and `out`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Execute {
    /// The types of the 32-bit words of `in`, repeated cyclically: u32, f64, f32, tf32, f16, bf16, e4m3, e5m2,
    /// e3m2, e2m3, e2m1, ue8m0, ue4m3. May contain placeholders.
    pub inputs: Vec<String>,
}

/// Size of a lane's `in`, and of its `out`, in bytes.
pub const LANE_BYTES: usize = 512;

/// A capability that some variants of a snippet grant.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// Its name.
    pub capability: String,
    /// The variants that must be accepted; all of the snippet if omitted.
    #[serde(default)]
    pub when: Condition,
}

/// One snippet file.
#[derive(Debug, Clone)]
pub struct Snippet {
    /// The file.
    pub path: PathBuf,
    /// The name of its folder.
    pub family: String,
    /// The file name without `.ptx`: the first part of every variant id.
    pub stem: String,
    /// Its header; empty for a plain file.
    pub header: Header,
    /// The file as written and the target it names, if it has no header.
    pub as_written: Option<AsWritten>,
}

/// A plain file as its author wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AsWritten {
    /// The whole text.
    pub text: String,
    /// The target of its `.target`.
    pub target: Target,
}

impl Snippet {
    /// Whether `grant` depends on the variant with these axis values.
    #[must_use]
    pub fn grant_rests_on(&self, grant: &Grant, axes: &[(String, String)]) -> bool {
        holds(&grant.when, axes)
    }

    /// Whether `claim` covers the variant with these axis values.
    #[must_use]
    pub fn claim_speaks_of(&self, claim: &Claim, axes: &[(String, String)]) -> bool {
        holds(&claim.when, axes)
    }
}

/// One variant: a form of one instruction.
#[derive(Debug, Clone)]
pub struct Variant {
    /// Stem and axis values, joined by dots.
    pub id: String,
    /// Index of the snippet in the library.
    pub snippet: usize,
    /// Axis values in the order written.
    pub axes: Assignment,
    /// Opcodes that prove the hardware instruction, by dotted prefix.
    pub sass: Vec<String>,
    /// How many of these opcodes show that every form of the text is one hardware instruction.
    pub sass_count: u32,
    /// Whether ptxas may refuse it as late as during code generation; always `true` for snippets that are not built in, where
    /// this is unknown.
    pub judged_late: bool,
    /// The types of the 32-bit words of its inputs if it is run; `None` if it is only assembled.
    pub execute: Option<Vec<OperandKind>>,
    /// The code to assemble.
    pub code: Code,
}

/// The code to assemble for a variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Code {
    /// One entry that may share a file with others: `before`, a name, `after`.
    Entry {
        /// The text before the entry's name.
        before: String,
        /// The text after the entry's name.
        after: String,
        /// The line of the snippet file at which `before` begins, for files that users know by line.
        first_line: Option<usize>,
    },
    /// A whole module; `.version` and `.target` are rewritten in place.
    Module {
        /// The text.
        text: String,
        /// The range of the version in `text`.
        version: Option<Range<usize>>,
        /// The range of the target in `text`.
        target: Option<Range<usize>>,
        /// The line of the snippet file at which the text begins.
        first_line: usize,
    },
}

/// The text before a body: parameters and the two addresses that every body may use.
const PROLOGUE: &str = "(.param .u64 p_in, .param .u64 p_out)\n{\n.reg .b64 in, out;\nld.param.u64 in, [p_in];\n\
    ld.param.u64 out, [p_out];\ncvta.to.global.u64 in, in;\ncvta.to.global.u64 out, out;\n";

/// Advances both addresses to the lane's own part.
const OWN_PLACE: &str = "{\n.reg .b32 cta, lane;\n.reg .b64 place;\nmov.u32 cta, %ctaid.x;\nmov.u32 lane, %tid.x;\n\
    mad.lo.u32 lane, cta, 32, lane;\nmul.wide.u32 place, lane, 512;\nadd.u64 in, in, place;\nadd.u64 out, out, place;\n}\n";

impl Code {
    /// Wraps declarations and statements in an entry.
    pub(super) fn from_body(body: &str) -> Self {
        let newline = if body.ends_with('\n') { "" } else { "\n" };
        Self::Entry {
            before: ".visible .entry ".to_owned(),
            after: format!("{PROLOGUE}{body}{newline}ret;\n}}\n"),
            first_line: None,
        }
    }

    /// Splits a whole module as far as a cell requires. `first_line` is the line of the file at which `text` begins.
    pub(super) fn from_module(text: &str, outline: Outline, first_line: usize) -> Self {
        let Some(name) = outline.lone_entry else {
            let (text, version, target) = (text.to_owned(), outline.version, outline.target);
            return Self::Module { text, version, target, first_line };
        };
        let mut before = text[..name.start].to_owned();
        for directive in outline.directives {
            // Every directive is before or after the only item; line numbers do not change.
            if directive.end <= before.len() {
                let blank: String =
                    before[directive.clone()].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
                before.replace_range(directive, &blank);
            }
        }
        let mut after = text[name.end..].to_owned();
        if !after.ends_with('\n') {
            after.push('\n');
        }
        Self::Entry { before, after, first_line: Some(first_line) }
    }

    /// Returns the variant as a complete file.
    #[must_use]
    pub fn standalone(&self, isa: PtxIsa, target: Target) -> String {
        match self {
            Self::Entry { before, after, .. } => format!("{}{before}v0{after}", preamble(isa, target)),
            Self::Module { text, version, target: place, .. } => {
                let mut out = text.clone();
                let mut edits: Vec<(Range<usize>, String)> = Vec::new();
                edits.extend(version.clone().map(|r| (r, isa.to_string())));
                edits.extend(place.clone().map(|r| (r, target.to_string())));
                // From the end, so that earlier ranges stay valid.
                edits.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
                for (range, new) in edits {
                    out.replace_range(range, &new);
                }
                if place.is_none() {
                    out.insert_str(0, &format!(".target {target}\n"));
                }
                if version.is_none() {
                    out.insert_str(0, &format!(".version {isa}\n"));
                }
                out
            }
        }
    }

    /// Returns a body as an entry `v0` for grids of one warp per CTA, in which every lane has its own [`LANE_BYTES`] of `in`
    /// and `out`; `None` for whole files.
    #[must_use]
    pub fn per_lane(&self, isa: PtxIsa, target: Target) -> Option<String> {
        let Self::Entry { before, after, first_line: None } = self else { return None };
        let body = after.strip_prefix(PROLOGUE)?;
        Some(format!("{}{before}v0{PROLOGUE}{OWN_PLACE}{body}", preamble(isa, target)))
    }

    /// Returns the body as its snippet has it, without parameters and `ret`; `None` for whole files.
    #[must_use]
    pub fn body(&self) -> Option<&str> {
        let Self::Entry { after, first_line: None, .. } = self else { return None };
        after.strip_prefix(PROLOGUE)?.strip_suffix("ret;\n}\n")
    }

    /// Returns the line of the snippet file that corresponds to `line` of [`Code::standalone`], both from 1; `None` for bodies,
    /// which users know by id.
    #[must_use]
    pub fn file_line(&self, line: usize) -> Option<usize> {
        match self {
            Self::Entry { first_line, .. } => Some(line.checked_sub(PREAMBLE_LINES + 1)? + (*first_line)?),
            Self::Module { version, target, first_line, .. } => {
                let inserted = usize::from(version.is_none()) + usize::from(target.is_none());
                (line + first_line).checked_sub(inserted + 1)
            }
        }
    }

    /// Returns everything that the verdict depends on, except toolkit, target, arch and PTX version.
    #[must_use]
    pub fn identity(&self) -> String {
        match self {
            Self::Entry { before, after, first_line: None } => format!("entry\n{before}\n{after}"),
            // Messages name lines of the file, which move with the length of the header.
            Self::Entry { before, after, first_line: Some(line) } => {
                format!("entry {line}\n{before}\n{after}")
            }
            Self::Module { text, first_line, .. } => format!("module {first_line}\n{text}"),
        }
    }
}

/// Number of lines of [`preamble`].
const PREAMBLE_LINES: usize = 3;

/// Returns the directives that open a file of entries.
#[must_use]
pub fn preamble(isa: PtxIsa, target: Target) -> String {
    format!(".version {isa}\n.target {target}\n.address_size 64\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptx::scan::outline;

    #[test]
    fn a_module_is_rewritten_in_place() {
        let text = ".version 8.0\n.target sm_80, debug\n.global .b32 x;\n.entry a() { ret; }\n";
        let code = Code::from_module(text, outline(text), 1);
        let got = code.standalone("9.5".parse().unwrap(), "sm_121a".parse().unwrap());
        assert_eq!(got, ".version 9.5\n.target sm_121a, debug\n.global .b32 x;\n.entry a() { ret; }\n");
    }

    #[test]
    fn a_module_without_directives_gets_them() {
        let code = Code::from_module("add;", outline("add;"), 1);
        let got = code.standalone("9.5".parse().unwrap(), "sm_121a".parse().unwrap());
        assert_eq!(got, ".version 9.5\n.target sm_121a\nadd;");
    }

    #[test]
    fn a_lone_entry_loses_its_directives_but_keeps_its_lines() {
        let text = ".version 8.0\n.target sm_80\n.visible .entry k() { ret; }";
        let Code::Entry { before, after, first_line } = Code::from_module(text, outline(text), 1) else {
            panic!("not an entry")
        };
        assert_eq!(
            (before.trim(), before.matches('\n').count(), first_line),
            (".visible .entry", 2, Some(1))
        );
        assert_eq!(after, "() { ret; }\n");
    }
}
