//! Finds incorrect architecture tests and build options in one file.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use ptx::arch::{Suffix, Target};

use super::block::{Block, Blocks, Branch, blocks};
use super::bound;
use super::condition::Condition;
use super::define::Definitions;
use super::derived::{Derived, Origin, Tree};
use super::flag::{self, Entry};
use super::need::{Need, need};
use super::refusal::{Refusal, Text, refusal, whitelists};
use super::selection::selections;
use super::token::{Kind, Language, Token, tokens};
use super::{GateFile, GateRow, GateRule, GateTest, place};

/// The devices of SM12x.
const SM12X: [u16; 2] = [120, 121];

/// The distance in lines within which a test for the other number counts as a counterpart.
const BESIDE: usize = 25;

/// The distance in lines within which a mention of the other number shows that the author considered both.
const AROUND: usize = 6;

/// The distance in lines within which the documentation of a Python function belongs to a test.
const FUNCTION: usize = 30;

/// The number of tokens before a test to search for an assignment of its variable.
const SET_WITHIN: usize = 400;

/// The number of characters shown of a test.
const SHOWN: usize = 160;

/// A condition and its value for each target.
struct Seen {
    range: Range<usize>,
    branch: Branch,
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

    /// Returns the number that it admits if it excludes the other number with the same suffix; `None` if it admits both or neither.
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

/// The number of passes over a file in which macros may depend on other macros of it.
const PASSES: usize = 3;

/// Adds the macros and constants of a C, C++ or CUDA file to those of its tree.
pub(super) fn survey(file: &str, text: &str, tree: &mut Tree) {
    let tokens = tokens(text, Language::C);
    let mut names = Definitions::new(&tokens, Language::C, None);
    tree.add_constants(names.constants());
    derive(file, text, &tokens, &mut names);
    tree.add(names.all_derived());
}

/// Finds the blocks of a file, and lets the names know the macros that are defined under architecture tests.
fn derive<'a>(file: &str, text: &str, tokens: &'a [Token<'a>], names: &mut Definitions<'a>) -> Blocks<'a> {
    let (all, lines) = (Target::default_set(), Lines::new(text));
    let mut found = blocks(tokens, &all, names);
    for _ in 0..PASSES {
        let derived: HashMap<&str, Arc<Derived>> = found
            .derived
            .iter()
            .filter_map(|(name, defined)| {
                let line = lines.number(tokens.get(defined.first?)?.at);
                let states = all.iter().copied().zip(defined.states.iter().copied()).collect();
                let origin = Origin { file: file.to_owned(), line };
                Some((*name, Arc::new(Derived { name: (*name).to_owned(), origin, states })))
            })
            .collect();
        if !names.derive(derived) {
            break;
        }
        found = blocks(tokens, &all, names);
    }
    found
}

/// Returns the architecture tests and the findings of a file.
#[expect(clippy::too_many_lines, reason = "the kinds of tests in turn")]
pub(super) fn judge(file: &str, text: &str, language: Language, tree: Option<&Tree>) -> GateFile {
    let tokens = tokens(text, language);
    let lines = Lines::new(text);
    let all = Target::default_set();
    let mut seen: Vec<Seen> = Vec::new();
    let mut names = Definitions::new(&tokens, language, tree);
    let mut rows = Rows { file, text, tokens: &tokens, lines: &lines, rows: Vec::new() };
    let Blocks { blocks: guarded, apart, lacking, .. } =
        if language == Language::C { derive(file, text, &tokens, &mut names) } else { Blocks::default() };
    let (names, mut refusals) = (names, Vec::new());
    let whole = Text { tokens: &tokens, text, language };
    // Tests in the code of the host, and what SM12x lacks of the code that some of them guard.
    let (mut host, mut lacks): (Vec<bound::Test>, Vec<(usize, String)>) = Default::default();
    for block in &guarded {
        let answers = all.iter().copied().zip(block.reached.iter().copied()).collect();
        let (line, range) = (lines.line_at(&tokens, &block.range), block.range.clone());
        seen.push(Seen { line, range, branch: block.branch, answers });
    }
    if language == Language::Cmake {
        for range in place::conditions(&tokens) {
            let condition = Condition::parse(&place::plain(&tokens[range.clone()]), &names);
            let numbers = all.iter().filter(|t| t.suffix == Suffix::Base);
            let answers: Vec<_> = numbers.map(|t| (*t, condition.on(*t))).collect();
            if condition.tests_architecture() {
                let line = lines.line_at(&tokens, &range);
                seen.push(Seen { line, range, branch: Branch::If, answers });
            }
        }
    } else if !matches!(language, Language::Shell | Language::Yaml) {
        for selection in selections(&tokens, language, text, &names) {
            let numbers = all.iter().filter(|t| t.suffix == Suffix::Base);
            let answers: Vec<_> = numbers.map(|t| (*t, selection.condition.on(*t))).collect();
            let line = lines.line_at(&tokens, &selection.range);
            seen.push(Seen { line, range: selection.range, branch: Branch::If, answers });
        }
        for range in place::expressions(&tokens, &names) {
            if apart.iter().any(|d| d.contains(&range.start)) || is_of_software(&tokens, &range) {
                continue;
            }
            let condition = Condition::parse(&tokens[range.clone()], &names);
            // Host code sees only the number of a GPU; only the preprocessor sees a suffix.
            let numbers = all.iter().filter(|t| t.suffix == Suffix::Base);
            let answers: Vec<_> = numbers.map(|t| (*t, condition.on(*t))).collect();
            let own = &tokens[range.clone()];
            if condition.tests_architecture() && (!is_generation(own) || sm_is_a_device(text)) {
                let line = lines.line_at(&tokens, &range);
                let test = bound::Test { range: range.clone(), condition };
                if let Some(Refusal { admits }) = refusal(&whole, &range, &test.condition, &names) {
                    refusals.push((seen.len(), admits));
                } else if !names_120(own)
                    && let Some(lacking) = bound::lacking(&whole, &test, &host)
                {
                    lacks.push((seen.len(), lacking));
                }
                host.push(test);
                seen.push(Seen { line, range, branch: Branch::If, answers });
            }
        }
    }
    let read = |range: &Range<usize>| match language {
        // `IN_LIST` names its values elsewhere.
        Language::Cmake => place::plain(&tokens[range.clone()])
            .into_iter()
            .flat_map(|token| {
                let listed = names.bodies(token.text).iter().flat_map(|body| body.iter().copied());
                std::iter::once(token).chain(listed)
            })
            .collect(),
        _ => names.with_lists(&tokens[range.clone()]),
    };
    let conditions = seen.iter().filter(|s| s.branch != Branch::Else);
    let lone: Vec<Lone> = conditions
        .clone()
        .filter_map(|s| {
            let number = s.lone()?;
            let own = read(&s.range);
            let named = [120, 121].map(|number| knows(&own, number));
            Some(Lone { line: s.line, number, named, next: s.branch == Branch::Elif })
        })
        .collect();
    for (n, one) in seen.iter().enumerate() {
        let guards = guarded.get(n).map_or(&[][..], |block| &block.names);
        let own = &read(&one.range);
        let is_singled = |number: u16| {
            // An author who names 12.1 with 12.0 knows both; one who names only 12.1 may not.
            let (knows_120, knows_121) = (knows(own, 120), knows(own, 121));
            let other = usize::from(!knows_121);
            // A test for the other number is a counterpart, as is the next branch of the same conditional.
            let is_counterpart =
                |l: &Lone| l.named[other] && !l.named[1 - other] || l.next && l.number != number;
            let counterpart = lone.iter().any(|l| l.line.abs_diff(one.line) <= BESIDE && is_counterpart(l));
            let named = if knows_121 { number == 121 && !knows_120 } else { names_120(own) };
            named && !counterpart && !rows.mentions(one, if knows_121 { 120 } else { 121 })
        };
        let singled = one.branch != Branch::Else && one.lone().is_some_and(is_singled);
        let for_121 = one.lone() == Some(121) && names_121(file);
        if singled && !is_meant(own, guards) && !is_tuning(own) && !for_121 {
            rows.add(GateRule::OneDevice, one, Vec::new(), None);
            continue;
        }
        if let Some(block) = guarded.get(n) {
            if let Some((rule, held)) = misfit(block)
                .filter(|(rule, _)| if *rule == GateRule::Absent { !lacking } else { !names_others(file) })
            {
                rows.add(rule, one, held, block.through.clone());
            } else if let Some(held) = shut_out(block, &guarded, file)
                .filter(|_| block.branch != Branch::Else && !lacking && !names_120(own))
            {
                rows.add(GateRule::ShutOut, one, held, block.through.clone());
            } else if let Some(lacking) = names_lacking(block, &all).filter(|_| {
                block.branch != Branch::Else && !lacking && !names_120(own) && !names_others(file)
            }) {
                rows.add(GateRule::Absent, one, vec![lacking.to_owned()], block.through.clone());
            } else if block.branch != Branch::Else
                && names_120(own)
                && no_family(one, block)
                && !family_beside(&seen, one, &tokens)
            {
                rows.add(GateRule::NoFamily, one, Vec::new(), None);
            }
        }
    }
    for list in whitelists(&whole, &names) {
        let named =
            |n: &usize| tokens[seen[*n].range.clone()].iter().any(|t| t.is(tokens[list.range.start].text));
        if !refusals.iter().any(|(n, _)| named(n)) {
            let line = lines.line_at(&tokens, &list.range);
            let one = Seen { line, range: list.range, branch: Branch::If, answers: Vec::new() };
            rows.refuse(&one, list.admits);
        }
    }
    for (n, admits) in refusals {
        rows.refuse(&seen[n], admits);
    }
    for (n, lacking) in lacks {
        rows.lack(&seen[n], lacking);
    }
    let lists = ["ARCH_LIST", "arch_list"].iter().any(|word| text.contains(word));
    for (range, newest) in if lists { flag::ptx_alone(&tokens, language) } else { Vec::new() } {
        let line = lines.line_at(&tokens, &range);
        rows.jit(&Seen { line, range, branch: Branch::If, answers: Vec::new() }, newest);
    }
    let entries = flag::entries(&tokens, language);
    for (range, admits, shuts_out) in lone_builds(&entries, &tokens, &lines) {
        let mut answers: Vec<_> = admits.into_iter().map(|t| (t, Some(true))).collect();
        answers.extend(shuts_out.into_iter().map(|t| (t, Some(false))));
        let line = lines.line_at(&tokens, &range);
        rows.add(GateRule::OneBuild, &Seen { line, range, branch: Branch::If, answers }, Vec::new(), None);
    }
    let tests = conditions.filter_map(|one| rows.test(one)).collect();
    let mut out = GateFile { tests, builds: !entries.is_empty(), rows: rows.rows };
    out.rows.sort_by_key(|row| (row.line, row.column));
    out.tests.sort_by_key(|test| (test.line, test.column));
    out
}

/// A test that distinguishes 12.0 from 12.1.
struct Lone {
    line: usize,
    /// The number that it admits.
    number: u16,
    /// Whether it names 12.0 and whether it names 12.1.
    named: [bool; 2],
    /// Whether it is a `#elif`.
    next: bool,
}

/// Whether a test names SM12x.
fn names_120(tokens: &[Token<'_>]) -> bool {
    let number = |t: &Token<'_>| {
        matches!(t.number(), "12" | "120" | "1200" | "12.0")
            || (t.kind == Kind::Text && flag::numbered(t.text) == Some(120))
            || (t.kind == Kind::Name && super::name::member(t.text) == Some(120))
    };
    // `MATCHES "^120"`
    let matched = |w: &[Token<'_>]| w[0].is("MATCHES") && w[1].text.contains("12");
    tokens.iter().any(|t| number(t) || t.text.contains("SM120") || t.text.contains("SM121"))
        || tokens.windows(2).any(matched)
}

/// Whether a test names 12.0 or 12.1 exactly, other than as an exclusive upper bound.
fn knows(tokens: &[Token<'_>], number: u16) -> bool {
    let (whole, minor) = (number.to_string(), (number % 10).to_string());
    let (macros, point) = (format!("{whole}0"), format!("12.{minor}"));
    let feature = format!("SM{whole}");
    let bounds = |n: usize| {
        let beside = |n: Option<usize>, sign: &str| n.and_then(|n| tokens.get(n)).is_some_and(|t| t.is(sign));
        beside(n.checked_sub(1), "<") || beside(Some(n + 1), ">")
    };
    let names = |(n, t): (usize, &Token<'_>)| {
        let number = t.number();
        ((number == whole || number == macros || number == point) && !bounds(n))
            || t.text.contains(&feature)
            || (t.kind == Kind::Text && flag::numbered(t.text) == whole.parse().ok())
            || (t.kind == Kind::Name && super::name::member(t.text) == whole.parse().ok())
    };
    let pair = |w: &[Token<'_>]| w[0].text == "12" && w[1].is(",") && w[2].text == minor;
    let minor = |w: &[Token<'_>]| {
        w[0].text.to_ascii_lowercase().ends_with("minor") && w[1].is("==") && w[2].text == minor
    };
    tokens.iter().enumerate().any(names) || tokens.windows(3).any(|w| pair(w) || minor(w))
}

/// Whether the `major` or `minor` of a test belongs to software: the last statement that sets it refers to a software version.
fn is_of_software(tokens: &[Token<'_>], range: &Range<usize>) -> bool {
    let part = |t: &Token<'_>| t.is("major") || t.is("minor");
    let Some(own) = (range.start..range.end).find(|n| part(&tokens[*n])) else { return false };
    // A member is set when its owner is set.
    let owner = |n: usize| n.checked_sub(2).filter(|_| [".", "->"].iter().any(|sign| tokens[n - 1].is(sign)));
    let name = owner(own).map_or(tokens[own].text, |n| tokens[n].text);
    let sets = |n: usize| {
        let t = &tokens[n];
        let next = |sign: &str| tokens.get(n + 1).is_some_and(|t| t.is(sign));
        let before = |sign: &str| n > 0 && tokens[n - 1].is(sign);
        let declared = n > 0 && tokens[n - 1].kind == Kind::Name && (next(";") || next("{"));
        t.is(name) && (next("=") || next(",") || before("&") || declared || (before(",") && next(")")))
    };
    let mut before = (0..range.start).rev().take(SET_WITHIN);
    before.find(|n| sets(*n)).is_some_and(|n| {
        let ends = |t: &Token<'_>| t.kind == Kind::End || [";", "{", "}"].iter().any(|s| t.is(s));
        let first = tokens[..n].iter().rposition(ends).map_or(0, |n| n + 1);
        let last = tokens[n..].iter().position(ends).map_or(tokens.len(), |l| n + l);
        let words: Vec<String> = tokens[first..last].iter().map(|t| t.text.to_ascii_lowercase()).collect();
        let of = |parts: &[&str]| words.iter().any(|word| parts.iter().any(|part| word.contains(part)));
        of(&["version", "toolkit", "nvcc", "nvrtc", "driver"])
            && !of(&["capab", "sm_version", "sm_arch", "device_arch", "devprop"])
    })
}

/// Whether a test is on a bare `sm`, the name that kernel generators use for the generation they generate code for.
fn is_generation(tokens: &[Token<'_>]) -> bool {
    tokens.iter().any(|t| t.is("sm"))
}

/// Whether a file assigns `sm` from a device's properties.
fn sm_is_a_device(text: &str) -> bool {
    let assigns = |line: &str| {
        let (left, right) = line.split_once('=')?;
        let from = ["device", "capability", "props", "getSM", "get_sm", "sm_arch", "major"]
            .iter()
            .any(|word| right.contains(word));
        (from && left.split_whitespace().last() == Some("sm")).then_some(())
    };
    text.lines().any(|line| assigns(line).is_some())
}

/// Whether a test singles out an architecture intentionally: it, or the code that it guards, contains a project-specific name for
/// the architecture.
fn is_meant(tokens: &[Token<'_>], names: &[&str]) -> bool {
    // A member such as `Arch.sm_120a` is what is compared.
    let is_member = |t: &Token<'_>| super::name::member(t.text).is_some();
    let own = tokens.iter().filter(|t| t.kind == Kind::Name && !is_member(t)).map(|t| t.text);
    own.chain(names.iter().copied()).filter(|name| !name.starts_with("__CUDA_ARCH")).any(|name| {
        let name = name.to_ascii_uppercase();
        ["SM120", "SM121", "SM_120", "SM_121"].iter().any(|part| name.contains(part))
    })
}

/// Whether a test also compares a shape or size: then it selects the fastest code, not the supported code.
fn is_tuning(tokens: &[Token<'_>]) -> bool {
    // `(m, k, n) in _PRODUCTION_SHAPES`
    let listed = tokens.windows(2).any(|w| {
        let list = w[1].text.to_ascii_lowercase();
        w[0].is("in")
            && w[1].kind == Kind::Name
            && ["shape", "tuned", "config"].iter().any(|word| list.contains(word))
    });
    listed
        || tokens.windows(3).any(|w| {
            let compared = ["==", "!=", "<", ">", "<=", ">="].iter().any(|sign| w[1].is(sign));
            let number = w[2].number().parse::<u32>().ok();
            compared
                && !w[0].text.starts_with("__CUDA_ARCH")
                && number.is_some_and(|n| n >= 16 && !is_architecture(n))
        })
}

/// Whether a number denotes an architecture, as in `sm_120` or in the unit of `__CUDA_ARCH__`.
const fn is_architecture(number: u32) -> bool {
    let whole = if number >= 500 && number.is_multiple_of(10) { number / 10 } else { number };
    matches!(whole, 50..=53 | 60..=62 | 70 | 72 | 75 | 80 | 86..=90 | 100..=103 | 107 | 110 | 120 | 121 | 130)
}

/// Returns instructions of the branch that some target certainly reaches but does not support.
fn misfit(block: &Block<'_>) -> Option<(GateRule, Vec<String>)> {
    let lacks = |need: Need, reached: &[Target]| reached.iter().any(|target| !need.is_met_by(*target));
    let held = block.holds.iter().filter_map(|(text, reached)| Some((text.as_str(), need(text)?, reached)));
    let found: Vec<(&str, Need)> =
        held.filter(|(_, need, reached)| lacks(*need, reached)).map(|(text, need, _)| (text, need)).collect();
    let worst = found.iter().map(|(_, need)| *need).max()?;
    let rule = if worst == Need::Absent { GateRule::Absent } else { GateRule::NeedsSuffix };
    let mut held: Vec<String> = found.iter().map(|(instruction, _)| (*instruction).to_owned()).collect();
    held.dedup();
    held.truncate(4);
    Some((rule, held))
}

/// Returns what SM12x lacks and a macro in a branch is named after, if all SM12x targets certainly reach the branch.
fn names_lacking(block: &Block<'_>, all: &[Target]) -> Option<&'static str> {
    let reached = block.reached.len() == all.len() && block.reached.iter().all(|r| *r == Some(true));
    let macros = block.names.iter().filter(|name| !name.chars().any(char::is_lowercase));
    macros.filter_map(|name| bound::of_name(name)).next().filter(|_| reached)
}

/// Returns the instructions of a branch that no SM12x target reaches although SM12x has them, unless another branch of the file holds
/// one of them for SM12x. A file that is named after another architecture serves that one alone.
fn shut_out(block: &Block<'_>, all: &[Block<'_>], file: &str) -> Option<Vec<String>> {
    let never = !block.reached.is_empty() && block.reached.iter().all(|r| *r == Some(false));
    // What defines a macro of another file may depend on build options.
    let foreign = block.through.as_ref().is_some_and(|through| !through.contains(&format!("of {file}:")));
    if !never || block.holds.is_empty() || names_others(file) || foreign {
        return None;
    }
    let has = |text: &str| matches!(need(text), Some(Need::Family | Need::Arch));
    let stem = |text: &str| text.split('.').next().unwrap_or_default().to_owned();
    let elsewhere = |text: &str| {
        let serves = |b: &&Block<'_>| b.reached.iter().any(|r| *r != Some(false));
        all.iter().filter(serves).any(|b| b.holds.iter().any(|(held, _)| stem(held) == stem(text)))
    };
    let fits = block.holds.iter().all(|(text, _)| has(text) && !elsewhere(text));
    let mut held: Vec<String> = block.holds.iter().map(|(text, _)| text.clone()).collect();
    held.dedup();
    held.truncate(4);
    fits.then_some(held)
}

/// Whether a file, or a folder of it, is named after an architecture other than SM12x, for which alone it is compiled.
fn names_others(file: &str) -> bool {
    let lower = file.to_ascii_lowercase();
    let others = ["sm100", "sm_100", "sm103", "sm_103", "sm110", "sm_110", "sm90", "sm_90"];
    others.iter().any(|other| lower.contains(other)) && !lower.contains("sm120") && !lower.contains("sm_120")
}

/// Whether a file is named after GB10 alone.
fn names_121(file: &str) -> bool {
    let lower = file.to_ascii_lowercase();
    ["sm121", "sm_121", "gb10", "spark"].iter().any(|word| lower.contains(word)) && !lower.contains("sm120")
}

/// Whether a test admits `a` and excludes `f`, although no guarded instruction needs `a`.
fn no_family(seen: &Seen, block: &Block<'_>) -> bool {
    let shut = [120, 121].into_iter().all(|number| {
        let on = |suffix| seen.on(Target { number, suffix });
        on(Suffix::Family) == Some(false)
    });
    let admitted =
        [120, 121].into_iter().all(|number| seen.on(Target { number, suffix: Suffix::Arch }) != Some(false));
    // A name such as SM120A shows that `a` is intended.
    let meant = block.names.iter().any(|name| name.contains("SM120A") || name.contains("SM121A"));
    let needs_a = block.holds.iter().any(|(instruction, _)| need(instruction) == Some(Need::Arch));
    shut && admitted && !meant && !needs_a
}

/// Whether a nearby test admits `f` of SM12x, so that the two together admit both suffixes.
fn family_beside(seen: &[Seen], one: &Seen, tokens: &[Token<'_>]) -> bool {
    let admits_f = |s: &Seen| s.answers.iter().any(|(t, a)| t.suffix == Suffix::Family && *a != Some(false));
    let base = |s: &Seen| s.answers.iter().any(|(t, a)| t.suffix == Suffix::Base && *a != Some(false));
    seen.iter().any(|s| {
        s.line.abs_diff(one.line) <= BESIDE && admits_f(s) && !base(s) && names_120(&tokens[s.range.clone()])
    })
}

/// Returns build options whose code loads on only one of 12.0 and 12.1.
fn lone_builds(
    entries: &[Entry],
    tokens: &[Token<'_>],
    lines: &Lines,
) -> Vec<(Range<usize>, Vec<Target>, Vec<Target>)> {
    let line = |entry: &Entry| lines.number(tokens[entry.token].at);
    let mut out: Vec<(Range<usize>, Vec<Target>, Vec<Target>)> = Vec::new();
    for entry in entries.iter().filter(|e| e.loads_on().len() == 1) {
        let other = if entry.target.number == 120 { 121 } else { 120 };
        let beside = |e: &&Entry| line(e).abs_diff(line(entry)) <= BESIDE;
        let served = entries.iter().filter(beside).any(|e| e.loads_on().contains(&other));
        let known = out.iter().any(|(range, ..)| lines.number(tokens[range.start].at) == line(entry));
        if !served && !known {
            out.push((
                entry.token..entry.token + 1,
                vec![entry.target],
                vec![Target { number: other, ..entry.target }],
            ));
        }
    }
    out
}

/// The byte offset of each line.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Self {
        Self(std::iter::once(0).chain(text.match_indices('\n').map(|(n, _)| n + 1)).collect())
    }

    /// Returns the line of a byte offset, from 1.
    fn number(&self, at: usize) -> usize {
        self.0.partition_point(|begin| *begin <= at)
    }

    fn line_at(&self, tokens: &[Token<'_>], range: &Range<usize>) -> usize {
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
    /// Whether the text around a test mentions `number` in a comment or a name, which shows that the author considered both.
    fn mentions(&self, seen: &Seen, number: u16) -> bool {
        let first = self.lines.0.get(seen.line.saturating_sub(AROUND)).copied().unwrap_or_default();
        let last = self.lines.0.get(seen.line + AROUND).copied().unwrap_or(self.text.len());
        let first = self.function(seen).map_or(first, |at| at.min(first));
        let around = self.text[first..last].to_ascii_lowercase();
        let words = match number {
            120 => ["sm120", "sm_120", "rtx", "1200", "12, 0)", "12.0"],
            _ => ["sm121", "sm_121", "gb10", "spark", "12, 1)", "12.1"],
        };
        // An author who singles out GB10 by name knows the product.
        let product =
            number == 120 && ["gb10", "spark", "cc121", "igpu"].iter().any(|word| around.contains(word));
        product || words.iter().any(|word| around.contains(word))
    }

    /// Returns where the documentation of a Python function of this test begins, if it is near: it may name the other number.
    fn function(&self, seen: &Seen) -> Option<usize> {
        let at = self.tokens.get(seen.range.start)?.at;
        let begin = self.text[..at].rfind("\n    def ").max(self.text[..at].rfind("\ndef "))?;
        let near = self.text[begin..at].lines().count() <= FUNCTION;
        // Only its documentation, which begins behind the signature.
        let documented = self.text[begin..at].contains("\"\"\"");
        (near && documented).then_some(begin + 1)
    }

    /// Adds a test that refuses every SM12x device.
    fn refuse(&mut self, seen: &Seen, admits: Vec<u16>) {
        self.add_with(GateRule::Refuses, seen, &admits, &SM12X, Vec::new());
    }

    /// Adds a list of architectures of which SM12x can use the PTX of `newest` alone.
    fn jit(&mut self, seen: &Seen, newest: u16) {
        self.add_with(GateRule::PtxOnly, seen, &[newest], &[], Vec::new());
    }

    /// Adds a lower bound that lets SM12x reach what it lacks.
    fn lack(&mut self, seen: &Seen, lacking: String) {
        self.add_with(GateRule::Absent, seen, &SM12X, &[], vec![lacking]);
    }

    /// Adds a test whose answers are these, of devices without suffix, and not those of [`Seen::answers`].
    fn add_with(
        &mut self,
        rule: GateRule,
        seen: &Seen,
        admits: &[u16],
        shuts_out: &[u16],
        instructions: Vec<String>,
    ) {
        let Some((line, column, text)) = self.place(seen) else { return };
        let devices =
            |numbers: &[u16]| numbers.iter().map(|&number| Target { number, suffix: Suffix::Base }).collect();
        let (admits, shuts_out) = (devices(admits), devices(shuts_out));
        let file = self.file.to_owned();
        self.rows.push(GateRow {
            file,
            line,
            column,
            rule,
            text,
            admits,
            shuts_out,
            instructions,
            through: None,
        });
    }

    /// Returns a test's line, column and text.
    fn place(&self, seen: &Seen) -> Option<(usize, usize, String)> {
        let tokens = self.tokens.get(seen.range.clone()).unwrap_or_default();
        let (first, last) = (tokens.first()?, tokens.last()?);
        let flat: Vec<&str> =
            self.text[first.at..last.end()].split_whitespace().filter(|w| *w != "\\").collect();
        let begin = self.lines.0.get(seen.line - 1).copied().unwrap_or_default();
        let branch = if seen.branch == Branch::Else { "#else of " } else { "" };
        let text = branch.chars().chain(flat.join(" ").chars()).take(SHOWN).collect();
        Some((seen.line, self.text[begin..first.at].chars().count() + 1, text))
    }

    fn test(&self, seen: &Seen) -> Option<GateTest> {
        let (line, column, text) = self.place(seen)?;
        let on = |answer| {
            let targets = seen.answers.iter().filter(move |(_, a)| *a == Some(answer));
            targets.map(|(t, _)| *t).collect()
        };
        Some(GateTest {
            file: self.file.to_owned(),
            line,
            column,
            text,
            admits: on(true),
            shuts_out: on(false),
        })
    }

    fn add(&mut self, rule: GateRule, seen: &Seen, instructions: Vec<String>, through: Option<String>) {
        let Some((line, column, text)) = self.place(seen) else { return };
        let (admits, shuts_out) = (seen.admits(), seen.shuts_out());
        let file = self.file.to_owned();
        self.rows.push(GateRow { file, line, column, rule, text, admits, shuts_out, instructions, through });
    }
}
