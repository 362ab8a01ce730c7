//! Writes case files: a template to fill in, or an existing [`Case`].

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::CaseError;
use super::model::{
    Arguments, BiasPlace, Case, Configurations, Exp, Finalize, GlobalScale, KTail, Minimum, Routing,
    ScaleRule, ScaleTiles, Slots,
};
use super::router::{Groups, Router};

const STUB: &str = "\
# One sentence on what the case tests; a case without one is rejected.
about: \"\"
# Tokens, and the model's sizes; `model: gpt-oss-120b` stands for the other four.
tokens: 8
hidden: 256
inter: 256
experts: 8
top_k: 2
# exact: every sum is exact and compared bit for bit. impulse: one block per row. real: values as in a model. special: NaN,
# extreme scales and ties.
regime: exact
# random, balanced, same, ties, or rows with `expert_rows: [3, 0, 13, ...]` that add up to tokens * top_k.
routing: random
";

/// Writes `<folder>/<name>.yaml` and returns its path. The loader rejects the file until its `about` is filled in.
///
/// # Errors
/// [`CaseError::Name`] and [`CaseError::Write`]; an existing file is never overwritten.
pub fn create(folder: &Path, name: &str) -> Result<PathBuf, CaseError> {
    let usable = |s: &str| {
        s.starts_with(|c: char| c.is_ascii_alphanumeric())
            && s.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    let stem = name.strip_suffix(".yaml").unwrap_or(name);
    if !usable(stem) {
        return Err(CaseError::Name(name.to_owned()));
    }
    let path = folder.join(format!("{stem}.yaml"));
    let failed = |source: io::Error| CaseError::Write { path: path.clone(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    let mut file = fs::File::create_new(&path).map_err(failed)?;
    io::Write::write_all(&mut file, STUB.as_bytes()).map_err(failed)?;
    Ok(path)
}

/// Returns the text of a file that parses as the same case.
#[must_use]
pub fn to_yaml(case: &Case) -> String {
    let mut out = String::new();
    let mut line = |key: &str, value: String| {
        let _ = writeln!(out, "{key}: {value}");
    };
    line("about", format!("{:?}", case.about));
    if let Some(model) = &case.model {
        line("model", model.clone());
    }
    line("format", case.pair.word().to_owned());
    for (key, value) in [
        ("tokens", case.tokens),
        ("hidden", case.hidden),
        ("inter", case.inter),
        ("experts", case.experts),
        ("top_k", case.top_k),
        ("shared_experts", case.shared_experts),
    ] {
        line(key, value.to_string());
    }
    line("router", router(&case.router));
    line("seed", case.seed.to_string());
    line("regime", case.regime.word().to_owned());
    line("routing", case.routing.word().to_owned());
    if case.routing == Routing::Rows {
        line("expert_rows", format!("{:?}", case.expert_rows));
    }
    if case.global_scale != GlobalScale::default() {
        line("global_scale", case.global_scale.word().to_owned());
    }
    if case.scale_rule != ScaleRule::default() {
        line("scale_rule", case.scale_rule.word().to_owned());
    }
    line("gate_up", case.gate_up.word().to_owned());
    for (key, value) in [("alpha", case.alpha), ("beta", case.beta), ("limit", case.limit)] {
        line(key, if value.is_infinite() { ".inf".to_owned() } else { format!("{value:?}") });
    }
    line("bias", case.bias.to_string());
    for (key, place) in [("fc1_bias", case.fc1_bias), ("fc2_bias", case.fc2_bias)] {
        if place != BiasPlace::default() {
            line(key, place.word().to_owned());
        }
    }
    if case.k_tail != KTail::default() {
        line("k_tail", case.k_tail.word().to_owned());
    }
    if case.scale_tiles != ScaleTiles::default() {
        line("scale_tiles", format!("\"{}\"", case.scale_tiles.word()));
    }
    if case.slots != Slots::default() {
        line("slots", case.slots.word().to_owned());
    }
    for (key, value, plain) in [
        ("pdl", case.pdl.to_string(), !case.pdl),
        ("exp", case.exp.word().to_owned(), case.exp == Exp::default()),
        ("finalize", case.finalize.word().to_owned(), case.finalize == Finalize::default()),
        ("schedules", case.schedules.to_string(), case.schedules == 1),
        (
            "configurations",
            case.configurations.word().to_owned(),
            case.configurations == Configurations::default(),
        ),
        ("arguments", case.arguments.word().to_owned(), case.arguments == Arguments::default()),
    ] {
        if !plain {
            line(key, value);
        }
    }
    if !case.tiles.is_empty() {
        let tiles: Vec<String> = case.tiles.iter().map(ToString::to_string).collect();
        line("tiles", format!("{tiles:?}"));
    }
    if let Some(Minimum { rounds, n_tiles, m_tiles }) = case.minimum {
        line("minimum", format!("{{rounds: {rounds}, n_tiles: {n_tiles}, m_tiles: {m_tiles}}}"));
    }
    out
}

fn router(of: &Router) -> String {
    let Router { scores, correction_bias, groups, renormalise, scaling } = of;
    let groups = groups.map_or(String::new(), |Groups { count, kept, score }| {
        format!(", groups: {{count: {count}, kept: {kept}, score: {}}}", score.word())
    });
    let scores = scores.word();
    format!(
        "{{scores: {scores}, correction_bias: {correction_bias}, renormalise: {renormalise}, scaling: {scaling:?}{groups}}}"
    )
}

#[cfg(test)]
mod tests {
    use super::super::{Library, library};
    use super::*;

    #[test]
    fn every_built_in_case_reads_back() {
        for case in library().cases {
            let mut again = Library::default();
            again.add(&case.path, &to_yaml(&case));
            assert!(again.problems.is_empty(), "{}: {:?}", case.name, again.problems);
            let known_failures = case.known_failures.clone();
            assert_eq!(Case { known_failures, ..again.cases[0].clone() }, case);
        }
    }

    #[test]
    fn a_new_case_is_refused_until_it_says_what_it_asks() {
        let dir = tempfile::tempdir().unwrap();
        let path = create(dir.path(), "mine").unwrap();
        assert!(matches!(create(dir.path(), "mine"), Err(CaseError::Write { .. })));
        assert!(matches!(create(dir.path(), "../mine"), Err(CaseError::Name(_))));
        let text = fs::read_to_string(&path).unwrap();
        let mut read = Library::default();
        read.add(&path, &text);
        assert!(read.cases.is_empty() && read.problems[0].to_string().contains("mine.yaml:2:"));
        read.add(&path, &text.replace("about: \"\"", "about: \"x\""));
        assert_eq!(read.cases.len(), 1);
    }
}
