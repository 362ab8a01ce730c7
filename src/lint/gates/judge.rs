//! What is wrong with the tests of one file.

use std::ops::Range;

use ptx::arch::{Suffix, Target};

use super::block::{Block, blocks};
use super::condition::Condition;
use super::flag::{self, Entry};
use super::need::{Need, need};
use super::token::{Kind, Language, Token, tokens};
use super::{GateRow, GateRule, place};

/// Lines around a test in which another test for the other number is its counterpart.
const BESIDE: usize = 25;

/// Lines around a test in which a mention of 12.1 says that both were thought of.
const AROUND: usize = 6;

/// Characters of a test that are shown.
const SHOWN: usize = 160;

/// A condition and what it is for each target.
struct Seen {
    range: Range<usize>,
    line: usize,
    answers: Vec<(Target, Option<bool>)>,
}

impl Seen {
    fn on(&self, target: Target) -> Option<bool> {
        self.answers.iter().find(|(t, _)| *t == target).and_then(|(_, answer)| *answer)
    }

    fn admits(&self) -> Vec<Target> {
        self.answers.iter().filter(|(_, a)| *a != Some(false)).map(|(t, _)| *t).collect()
    }

    fn shuts_out(&self) -> Vec<Target> {
        self.answers.iter().filter(|(_, a)| *a == Some(false)).map(|(t, _)| *t).collect()
    }

    /// The number that it admits while it shuts out the other with the same suffix; none where it admits both, or neither.
    fn lone(&self) -> Option<u16> {
        let pair = |suffix| {
            let [left, right] = [120, 121].map(|number| self.on(Target { number, suffix }));
            let known = self.answers.iter().any(|(t, _)| t.suffix == suffix);
            match (left, right) {
                _ if !known => None,
                (left, Some(false)) if left != Some(false) => Some(120),
                (Some(false), right) if right != Some(false) => Some(121),
                _ => None,
            }
        };
        [Suffix::Base, Suffix::Arch, Suffix::Family].into_iter().find_map(pair)
    }
}

/// The number of tests of SM12x in a file, and those that are wrong.
pub(super) fn judge(file: &str, text: &str, language: Language) -> (usize, Vec<GateRow>) {
    let tokens = tokens(text, language);
    let lines = Lines::new(text);
    let all = Target::default_set();
    let mut seen: Vec<Seen> = Vec::new();
    let mut rows = Rows { file, text, tokens: &tokens, lines: &lines, rows: Vec::new() };
    let (mut guarded, mut directives) = (Vec::new(), Vec::new());
    if language == Language::C {
        (guarded, directives) = blocks(&tokens, &all);
    }
    for block in &guarded {
        let answers = all.iter().copied().zip(block.reached.iter().copied()).collect();
        seen.push(Seen { line: lines.of(&tokens, &block.range), range: block.range.clone(), answers });
    }
    if language != Language::Cmake {
        for range in place::expressions(&tokens) {
            if directives.iter().any(|d| d.contains(&range.start)) {
                continue;
            }
            let condition = Condition::parse(&tokens[range.clone()]);
            // A program's own code knows the number of a GPU; only the preprocessor knows a suffix.
            let numbers = all.iter().filter(|t| t.suffix == Suffix::Base);
            let answers: Vec<_> = numbers.map(|t| (*t, condition.on(*t))).collect();
            let own = &tokens[range.clone()];
            if condition.tests_architecture() && (!is_generation(own) || sm_is_a_device(text)) {
                seen.push(Seen { line: lines.of(&tokens, &range), range, answers });
            }
        }
    }
    let lone: Vec<(usize, u16)> = seen.iter().filter_map(|s| Some((s.line, s.lone()?))).collect();
    for (n, one) in seen.iter().enumerate() {
        let counterpart =
            |number| lone.iter().any(|(line, other)| *other != number && line.abs_diff(one.line) <= BESIDE);
        let names = guarded.get(n).map_or(&[][..], |block| &block.names);
        let own = &tokens[one.range.clone()];
        let singled = one.lone().is_some_and(|number| !counterpart(number));
        if singled
            && names_120(own)
            && !knows_121(own)
            && !is_meant(own, names)
            && !is_tuning(own)
            && !rows.mentions_121(one)
        {
            rows.add(GateRule::OneDevice, one, Vec::new());
            continue;
        }
        if let Some(block) = guarded.get(n) {
            if let Some((rule, held)) = misfit(block) {
                rows.add(rule, one, held);
            } else if names_120(own) && no_family(one, block) && !family_beside(&seen, one, &tokens) {
                rows.add(GateRule::NoFamily, one, Vec::new());
            }
        }
    }
    let entries = flag::entries(&tokens, language);
    for (range, admits, shuts_out) in lone_builds(&entries, &tokens, &lines) {
        let mut answers: Vec<_> = admits.into_iter().map(|t| (t, Some(true))).collect();
        answers.extend(shuts_out.into_iter().map(|t| (t, Some(false))));
        rows.add(GateRule::OneBuild, &Seen { line: lines.of(&tokens, &range), range, answers }, Vec::new());
    }
    let mut out = rows.rows;
    out.sort_by_key(|row| (row.line, row.column));
    (seen.len() + usize::from(!entries.is_empty()), out)
}

/// Whether a test names SM12x.
fn names_120(tokens: &[Token<'_>]) -> bool {
    let number = |t: &Token<'_>| t.kind == Kind::Number && matches!(t.text, "12" | "120" | "1200" | "12.0");
    tokens.iter().any(|t| number(t) || t.text.contains("SM120") || t.text.contains("SM121"))
}

/// Whether a test names 12.1 itself: who writes it knows both.
fn knows_121(tokens: &[Token<'_>]) -> bool {
    let pair = |w: &[Token<'_>]| w[0].text == "12" && w[1].is(",") && w[2].text == "1";
    let number = |t: &Token<'_>| t.kind == Kind::Number && matches!(t.text, "121" | "1210" | "12.1");
    let minor = |w: &[Token<'_>]| {
        w[0].text.to_ascii_lowercase().ends_with("minor") && w[1].is("==") && w[2].text == "1"
    };
    tokens.iter().any(number) || tokens.windows(3).any(|w| pair(w) || minor(w))
}

/// Whether a test is of a bare `sm`, which generators of kernels call the generation that they write for.
fn is_generation(tokens: &[Token<'_>]) -> bool {
    tokens.iter().any(|t| t.is("sm"))
}

/// Whether a file takes its `sm` from a device.
fn sm_is_a_device(text: &str) -> bool {
    let assigns = |line: &str| {
        let (left, right) = line.split_once('=')?;
        let from =
            ["device", "capability", "props", "getSM", "get_sm"].iter().any(|word| right.contains(word));
        (from && left.split_whitespace().last() == Some("sm")).then_some(())
    };
    text.lines().any(|line| assigns(line).is_some())
}

/// Whether a test, or what it guards, is about an architecture by name: it defines or reads the project's own name of it.
fn is_meant(tokens: &[Token<'_>], names: &[&str]) -> bool {
    let own = tokens.iter().filter(|t| t.kind == Kind::Name).map(|t| t.text);
    own.chain(names.iter().copied()).filter(|name| !name.starts_with("__CUDA_ARCH")).any(|name| {
        let name = name.to_ascii_uppercase();
        ["SM120", "SM121", "SM_120", "SM_121"].iter().any(|part| name.contains(part))
    })
}

/// Whether a test also compares with a shape or a size: then it chooses what is fast, not what is there.
fn is_tuning(tokens: &[Token<'_>]) -> bool {
    tokens.windows(2).any(|w| {
        let compared = ["==", "!=", "<", ">", "<=", ">="].iter().any(|sign| w[0].is(sign));
        let number = w[1].text.parse::<u32>().ok();
        compared && w[1].kind == Kind::Number && number.is_some_and(|n| n >= 16 && !is_architecture(n))
    })
}

/// Whether a number is one that an architecture has, whole or as `__CUDA_ARCH__` has it.
const fn is_architecture(number: u32) -> bool {
    let whole = if number >= 500 && number.is_multiple_of(10) { number / 10 } else { number };
    matches!(whole, 50..=53 | 60..=62 | 70 | 72 | 75 | 80 | 86..=90 | 100..=103 | 107 | 110 | 120 | 121 | 130)
}

/// An instruction of the branch that some target certainly reaches and does not have.
fn misfit(block: &Block<'_>) -> Option<(GateRule, Vec<String>)> {
    let lacks = |need: Need, reached: &[Target]| reached.iter().any(|target| !need.is_met_by(*target));
    let held = block.holds.iter().filter_map(|(text, reached)| Some((*text, need(text)?, reached)));
    let found: Vec<(&str, Need)> =
        held.filter(|(_, need, reached)| lacks(*need, reached)).map(|(text, need, _)| (text, need)).collect();
    let worst = found.iter().map(|(_, need)| *need).max()?;
    let rule = if worst == Need::Absent { GateRule::Absent } else { GateRule::NeedsSuffix };
    let mut held: Vec<String> = found.iter().map(|(instruction, _)| (*instruction).to_owned()).collect();
    held.dedup();
    held.truncate(4);
    Some((rule, held))
}

/// Whether a test admits `a` and shuts out `f`, though nothing in it needs `a`.
fn no_family(seen: &Seen, block: &Block<'_>) -> bool {
    let shut = [120, 121].into_iter().all(|number| {
        let on = |suffix| seen.on(Target { number, suffix });
        on(Suffix::Family) == Some(false)
    });
    let admitted =
        [120, 121].into_iter().all(|number| seen.on(Target { number, suffix: Suffix::Arch }) != Some(false));
    // A name such as SM120A says that `a` is meant.
    let meant = block.names.iter().any(|name| name.contains("SM120A") || name.contains("SM121A"));
    let needs_a = block.holds.iter().any(|(instruction, _)| need(instruction) == Some(Need::Arch));
    shut && admitted && !meant && !needs_a
}

/// Whether a test beside it admits `f` of SM12x: the two together admit both suffixes.
fn family_beside(seen: &[Seen], one: &Seen, tokens: &[Token<'_>]) -> bool {
    let admits_f = |s: &Seen| s.answers.iter().any(|(t, a)| t.suffix == Suffix::Family && *a != Some(false));
    let base = |s: &Seen| s.answers.iter().any(|(t, a)| t.suffix == Suffix::Base && *a != Some(false));
    seen.iter().any(|s| {
        s.line.abs_diff(one.line) <= BESIDE && admits_f(s) && !base(s) && names_120(&tokens[s.range.clone()])
    })
}

/// Options that build for one number with a suffix and have nothing for the other.
fn lone_builds(
    entries: &[Entry],
    tokens: &[Token<'_>],
    lines: &Lines,
) -> Vec<(Range<usize>, Vec<Target>, Vec<Target>)> {
    let line = |entry: &Entry| lines.number(tokens[entry.token].at);
    let mut out: Vec<(Range<usize>, Vec<Target>, Vec<Target>)> = Vec::new();
    for entry in entries.iter().filter(|e| e.target.suffix == Suffix::Arch) {
        let other = if entry.target.number == 120 { 121 } else { 120 };
        let beside = |e: &&Entry| line(e).abs_diff(line(entry)) <= BESIDE;
        let served = entries.iter().filter(beside).any(|e| {
            e.target.number == other || (e.target.suffix == Suffix::Family && e.target.number == 120)
        });
        let known = out.iter().any(|(range, ..)| lines.number(tokens[range.start].at) == line(entry));
        if !served && !known {
            out.push((
                entry.token..entry.token + 1,
                vec![entry.target],
                vec![Target { number: other, suffix: Suffix::Arch }],
            ));
        }
    }
    out
}

/// Where lines begin.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Self {
        Self(std::iter::once(0).chain(text.match_indices('\n').map(|(n, _)| n + 1)).collect())
    }

    /// The line of a byte, from 1.
    fn number(&self, at: usize) -> usize {
        self.0.partition_point(|begin| *begin <= at)
    }

    fn of(&self, tokens: &[Token<'_>], range: &Range<usize>) -> usize {
        tokens.get(range.start).map_or(1, |t| self.number(t.at))
    }
}

struct Rows<'a> {
    file: &'a str,
    text: &'a str,
    tokens: &'a [Token<'a>],
    lines: &'a Lines,
    rows: Vec<GateRow>,
}

impl Rows<'_> {
    /// Whether the text around a test speaks of 12.1, in a comment or a name: then both were thought of.
    fn mentions_121(&self, seen: &Seen) -> bool {
        let first = self.lines.0.get(seen.line.saturating_sub(AROUND)).copied().unwrap_or_default();
        let last = self.lines.0.get(seen.line + AROUND).copied().unwrap_or(self.text.len());
        let around = self.text[first..last].to_ascii_lowercase();
        ["sm121", "sm_121", "gb10", "spark", "12, 1)", "12.1"].iter().any(|word| around.contains(word))
    }

    fn add(&mut self, rule: GateRule, seen: &Seen, instructions: Vec<String>) {
        let tokens = self.tokens.get(seen.range.clone()).unwrap_or_default();
        let (Some(first), Some(last)) = (tokens.first(), tokens.last()) else { return };
        let flat: Vec<&str> =
            self.text[first.at..last.end()].split_whitespace().filter(|w| *w != "\\").collect();
        let begin = self.lines.0.get(seen.line - 1).copied().unwrap_or_default();
        self.rows.push(GateRow {
            file: self.file.to_owned(),
            line: seen.line,
            column: self.text[begin..first.at].chars().count() + 1,
            rule,
            text: flat.join(" ").chars().take(SHOWN).collect(),
            admits: seen.admits(),
            shuts_out: seen.shuts_out(),
            instructions,
        });
    }
}
