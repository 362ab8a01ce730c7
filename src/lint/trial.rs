//! Tries changes of one instruction: its module with the change is assembled by the newest toolkit that refuses the instruction.

use std::ops::RangeInclusive;
use std::path::Path;

use ptx::arch::{Suffix, Target};
use regex::Regex;

use super::ask::{Assemblers, Desk, Question};
use super::instead::places;
use super::result::ProblemRow;
use super::source::Module;
use crate::record::Outcome;

/// Where an instruction is changed.
pub(super) struct Trial<'a> {
    assemblers: &'a Assemblers<'a>,
    module: &'a Module,
    scratch: &'a Path,
    toolkit: usize,
    target: Target,
    /// Line of the module, from 1.
    line: usize,
    instruction: String,
}

impl<'a> Trial<'a> {
    /// `None` if the problem has no line, or if no toolkit refuses it for a target of SM12x.
    pub(super) fn for_problem(
        problem: &ProblemRow,
        module: &'a Module,
        assemblers: &'a Assemblers<'a>,
        scratch: &'a Path,
    ) -> Option<Self> {
        let line = problem.line?.checked_sub(module.first_line)? + 1;
        let refuses = |name: &String| problem.refused.iter().any(|refusal| refusal.toolkits.contains(name));
        let toolkit = assemblers.toolkits.iter().rposition(|t| refuses(&t.version.to_string()))?;
        let mut targets = places(problem);
        targets.retain(|target| assemblers.toolkits[toolkit].knows(*target));
        let own = module.known_target().filter(|own| targets.contains(own));
        let all = targets.iter().rfind(|target| target.suffix == Suffix::Arch).or(targets.last());
        let target = own.or(all.copied())?;
        Some(Self {
            assemblers,
            module,
            scratch,
            toolkit,
            target,
            line,
            instruction: problem.instruction.clone(),
        })
    }

    /// Whether the toolkit accepts the instruction with other modifiers; errors in other places do not count.
    pub(super) fn accepts(&self, form: &str) -> bool {
        let Some((text, lines)) = replaced(&self.module.text, self.line, &self.instruction, form) else {
            return false;
        };
        let module = self.module.changed(&text);
        let question = Question {
            toolkit: self.toolkit,
            version: Some(self.assemblers.toolkits[self.toolkit].isa),
            target: Some(self.target),
            arch: self.target,
        };
        let answer = Desk::new(self.assemblers, &module, self.scratch).answer(&question);
        match answer.outcome {
            Outcome::Accepted => true,
            Outcome::Rejected => {
                let elsewhere = |line: usize| !lines.contains(&line);
                !answer.errors.is_empty() && answer.errors.iter().all(|e| e.line.is_some_and(elsewhere))
            }
            _ => false,
        }
    }
}

/// Replaces an instruction on a line (from 1) of a text, with all its modifiers, by another form; returns the text, with as many lines, and
/// the lines of the instruction. `None` if it is not there.
fn replaced(
    text: &str,
    line: usize,
    instruction: &str,
    form: &str,
) -> Option<(String, RangeInclusive<usize>)> {
    let start: usize = text.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    let end = text[start..].find('\n').map_or(text.len(), |at| start + at);
    let words: Vec<String> = instruction.split('.').map(regex::escape).collect();
    let pattern = Regex::new(&words.join(r"\s*\.")).ok()?;
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_$%.".contains(c);
    let found = pattern.find_iter(&text[start..]).find(|found| {
        let (before, after) = (&text[..start + found.start()], &text[start + found.end()..]);
        // A further modifier may follow after a space.
        !before.ends_with(is_word) && !after.starts_with(is_word) && !after.trim_start().starts_with('.')
    })?;
    let (from, to) = (start + found.start(), start + found.end());
    if from >= end {
        return None;
    }
    let stop = text[to..].find(';').map_or(text.len(), |at| to + at);
    let lines = line..=line + text[from..stop].matches('\n').count();
    let breaks = "\n".repeat(found.as_str().matches('\n').count());
    Some((format!("{}{form}{breaks}{}", &text[..from], &text[to..]), lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_is_replaced_where_it_is() {
        let text = "{\nmul.lo.u32 a, b, c; mul.lo a; @p mul\n  .lo a,\n b; // \n}\n";
        let (changed, lines) = replaced(text, 2, "mul.lo", "mul.hi").unwrap();
        assert_eq!(changed, "{\nmul.lo.u32 a, b, c; mul.hi a; @p mul\n  .lo a,\n b; // \n}\n");
        assert_eq!(lines, 2..=2);
        let split = "@p mul\n  .lo a,\n b;";
        assert_eq!(replaced(split, 1, "mul.lo", "mul.hi"), Some(("@p mul.hi\n a,\n b;".to_owned(), 1..=3)));
        assert!(replaced(split, 2, "mul.lo", "mul.hi").is_none() && replaced("", 0, "a", "b").is_none());
    }
}
