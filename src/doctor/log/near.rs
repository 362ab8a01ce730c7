//! The signs whose words are nearest to those of a message that shows none: what may be related, never what is known of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::OnceLock;

use regex::Regex;

use super::judge::{Flag, flag};
use super::rules::{Rules, Sign};
use crate::header::{self, HeaderError};

/// Messages, and titles of reports, by the name of the sign that they show.
pub(super) const EXAMPLES: &str = include_str!("examples.yaml");

/// Signs that are named at most.
const MOST: usize = 3;

/// Distinct words that a message and a sign must share. One alone is a coincidence.
const SHARED: usize = 2;

/// The share of a message's words that a sign must have: `words_of_every_report_are_near_nothing` holds it from below, and
/// `messages_are_near_their_signs` from above.
const SHARE: f64 = 0.4;

/// Words that say nothing of a cause: those of every sentence, of every error, and the names of the GPUs that all signs are about.
const COMMON: &str = "a about after all also an and any are as at be been before but by can cannot could did do does else for from get got had has have \
    how i if in into is it its just me more most my new no not of old on only or other out over same should so some such than that the their then \
    there they this to too up use used uses using very was we were what when where which while who why will with without would you your yet \
    bug error errors exception runtimeerror valueerror typeerror assertionerror fail failed failing fails failure help issue message problem report trouble warning \
    cuda gpu gpus nvidia rtx pro 6000 5050 5060 5070 5080 5090 ti blackwell gb10 dgx spark sparks sm sm120 sm121 sm_120 sm_121 sm_120a sm_121a 120 121 12.0 12.1";

/// Endings that two forms of a word may differ by.
const ENDINGS: [&str; 5] = ["ing", "ed", "es", "s", "ly"];

/// Divides a text into words of one form: `fused_moe` into itself, `fused` and `moe`, `crashed` and `crashes` into the same.
struct Words {
    common: BTreeSet<&'static str>,
    word: Regex,
    part: Regex,
}

impl Words {
    fn new() -> Result<Self, regex::Error> {
        Ok(Self {
            common: COMMON.split_whitespace().collect(),
            word: Regex::new(r"[A-Za-z0-9](?:[A-Za-z0-9_.]*[A-Za-z0-9])?")?,
            part: Regex::new(r"[A-Z]+[a-z]*|[a-z]+|\d+(?:\.\d+)*")?,
        })
    }

    /// The words of a text, and the parts of those that have several.
    fn split(&self, text: &str) -> Vec<String> {
        let mut all = Vec::new();
        for word in self.word.find_iter(text).map(|word| word.as_str()) {
            let parts: Vec<&str> = self.part.find_iter(word).map(|part| part.as_str()).collect();
            let parts = parts.iter().copied().filter(|part| part.len() > 2 && parts.len() > 1);
            for word in std::iter::once(word).chain(parts) {
                let word = word.to_ascii_lowercase();
                let short_number = word.len() < 3 && word.bytes().all(|byte| byte.is_ascii_digit());
                if word.len() > 1 && !short_number && !self.common.contains(word.as_str()) {
                    all.push(stem(&word).to_owned());
                }
            }
        }
        all
    }
}

/// A word without its ending, if four letters are left.
fn stem(word: &str) -> &str {
    let without = |ending: &&str| word.strip_suffix(*ending).filter(|stem| stem.len() >= 4);
    ENDINGS.iter().find_map(without).unwrap_or(word)
}

/// How soon more occurrences of a word in a text count no more, and how much a long text counts less than a short one: the parameters k1
/// and b of BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009), with their usual values.
const SATURATION: f64 = 1.2;
const LENGTH: f64 = 0.75;

/// The signs, ordered by words.
struct Index {
    words: Words,
    /// By word, the numbers of the signs that have it, each with its weight there.
    signs: BTreeMap<String, Vec<(usize, f64)>>,
}

/// Why the table cannot be ordered, which a test rules out.
#[derive(Debug, thiserror::Error)]
pub(super) enum NearError {
    #[error(transparent)]
    Examples(#[from] HeaderError),
    #[error(transparent)]
    Words(#[from] regex::Error),
}

/// The text of a sign in which words are looked for: its name, what it says, the words of its pattern, and its examples.
fn text_of(sign: &Sign, examples: &[String], pattern: &[Regex; 2]) -> String {
    let [classes, others] = pattern;
    let line = classes.replace_all(sign.pattern(), " ");
    let line = others.replace_all(&line, " ");
    format!("{} {line} {} {} {}", sign.name.replace('_', " "), sign.meaning, sign.remedy, examples.join(" "))
}

impl Index {
    fn new(rules: &Rules, examples: &BTreeMap<String, Vec<String>>) -> Result<Self, NearError> {
        // Flags, classes and repetitions are no words; what is left of a pattern is.
        let pattern = [Regex::new(r"\(\?[a-z]+:?\)?|\\[A-Za-z]|\{[\d,]+\}")?, Regex::new(r"[^\w.]+")?];
        let none = Vec::new();
        let texts: Vec<String> = rules
            .signs
            .iter()
            .map(|sign| text_of(sign, examples.get(&sign.name).unwrap_or(&none), &pattern))
            .collect();
        let words = Words::new()?;
        let texts: Vec<Vec<String>> = texts.iter().map(|text| words.split(text)).collect();
        let average = texts.iter().map(Vec::len).sum::<usize>() as f64 / texts.len().max(1) as f64;
        let mut counts: BTreeMap<&str, BTreeMap<usize, f64>> = BTreeMap::new();
        for (n, text) in texts.iter().enumerate() {
            for word in text {
                *counts.entry(word).or_default().entry(n).or_default() += 1.0;
            }
        }
        let weighed = |(word, signs): (&str, BTreeMap<usize, f64>)| {
            let (all, has) = (texts.len() as f64, signs.len() as f64);
            let rarity = (1.0 + (all - has + 0.5) / (has + 0.5)).ln();
            let weight = |(n, count): (usize, f64)| {
                let length = 1.0 - LENGTH + LENGTH * texts[n].len() as f64 / average;
                (n, rarity * count * (SATURATION + 1.0) / (count + SATURATION * length))
            };
            (word.to_owned(), signs.into_iter().map(weight).collect())
        };
        let signs = counts.into_iter().map(weighed).collect();
        Ok(Self { words, signs })
    }

    /// The numbers of the signs that are near a line, the nearest first, with their scores.
    fn near(&self, line: &str) -> Vec<(usize, f64)> {
        let asked: BTreeSet<String> = self.words.split(line).into_iter().collect();
        // By sign, how many words it shares, and its score.
        let mut found: BTreeMap<usize, (usize, f64)> = BTreeMap::new();
        for (n, weight) in asked.iter().filter_map(|word| self.signs.get(word)).flatten() {
            let (shared, score) = found.entry(*n).or_default();
            (*shared, *score) = (*shared + 1, *score + weight);
        }
        let is_near = |shared: usize| shared >= SHARED && shared as f64 >= SHARE * asked.len() as f64;
        let near = found.into_iter().filter(|(_, (shared, _))| is_near(*shared));
        let mut near: Vec<(usize, f64)> = near.map(|(n, (_, score))| (n, score)).collect();
        near.sort_by(|a, b| b.1.total_cmp(&a.1));
        // One that is far behind the first is another subject.
        let best = near.first().map_or(0.0, |(_, score)| *score);
        near.retain(|(_, score)| *score >= 0.5 * best);
        near.truncate(MOST);
        near
    }
}

fn index(rules: &Rules) -> Result<&'static Index, &'static NearError> {
    static ALL: OnceLock<Result<Index, NearError>> = OnceLock::new();
    let made = || {
        let examples = header::parse_file(Path::new("src/doctor/log/examples.yaml"), EXAMPLES)?;
        Index::new(rules, &examples)
    };
    ALL.get_or_init(made).as_ref()
}

/// The signs whose words are nearest to those of a message, the nearest first: of its lines, to the one that is nearest to any.
pub(super) fn near(text: &str, rules: &Rules) -> Result<Vec<Flag>, &'static NearError> {
    let index = index(rules)?;
    let mut best: Vec<(usize, f64)> = Vec::new();
    let mut at = (1, "");
    for (line, number) in text.lines().zip(1..) {
        let found = index.near(line);
        let score = |found: &[(usize, f64)]| found.first().map_or(0.0, |(_, score)| *score);
        if score(&found) > score(&best) {
            (best, at) = (found, (number, line));
        }
    }
    Ok(best.iter().filter_map(|(n, _)| Some(flag(rules.signs.get(*n)?, at.0, at.1))).collect())
}

#[cfg(test)]
mod tests {
    use super::super::rules::table;
    use super::*;

    /// Each example in turn is left out of the text of its sign: as if somebody else had written it.
    #[test]
    fn messages_are_near_their_signs() {
        let rules = table().unwrap();
        let examples: BTreeMap<String, Vec<String>> =
            header::parse_file(Path::new("src/doctor/log/examples.yaml"), EXAMPLES).unwrap();
        let (mut asked, mut first, mut named) = (0, 0, 0);
        // One of every fifth sign, and the index without those.
        let mut left = examples.clone();
        let mut taken = Vec::new();
        for (n, (name, messages)) in left.iter_mut().enumerate() {
            if n % 5 == 0 && !messages.is_empty() {
                taken.push((name.clone(), messages.remove(0)));
            }
        }
        let index = Index::new(rules, &left).unwrap();
        for (name, message) in taken {
            let line = message.lines().next().unwrap_or_default();
            let found = index.near(line);
            let names: Vec<&str> = found.iter().map(|(n, _)| rules.signs[*n].name.as_str()).collect();
            asked += 1;
            first += usize::from(names.first() == Some(&name.as_str()));
            named += usize::from(names.contains(&name.as_str()));
        }
        assert!(asked > 100);
        let found = format!("{asked} messages: {first} nearest to their sign, {named} near it");
        assert!(10 * first >= 7 * asked && 10 * named >= 8 * asked, "{found}");
    }

    #[test]
    fn words_of_every_report_are_near_nothing() {
        let rules = table().unwrap();
        for line in ["How do I bake bread", "", "the error is a failure", "RTX 5090", "CUDA error"] {
            assert!(near(line, rules).unwrap().is_empty(), "{line}");
        }
    }

    #[test]
    fn words_have_one_form() {
        let words = Words::new().unwrap();
        let of = |text| words.split(text);
        assert_eq!(
            of("The FusedMoE kernel crashed on an RTX 5090"),
            ["fusedmoe", "fused", "kernel", "crash"]
        );
        assert_eq!(
            words.split("fused_moe crashes with 12.8"),
            ["fused_moe", "fused", "moe", "crash", "12.8"]
        );
    }
}
