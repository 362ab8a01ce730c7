//! The format of a case file, and the checks that make it a [`Case`].

use std::path::Path;

use serde::Deserialize;

use super::error::CaseError;
use super::model::{
    Arguments, BiasPlace, Case, Configurations, Exp, Finalize, GateUp, GlobalScale, KTail, KnownFailure,
    Minimum, Regime, Routing, ScaleRule, ScaleTiles, Slots,
};
use super::models::{Model, models};
use super::pair::FormatPair;
use super::router::Router;
use crate::moe::configuration::Tile;
use toolchain::header;

/// Elements that share one scale (OCP MX 1.0).
const BLOCK: usize = 32;

/// The most experts of a token: one per lane of a warp.
const MOST_SLOTS: usize = 32;

/// The most tiles that a `minimum` may require.
const MOST_TILES: usize = 16;

/// The parameters of gpt-oss's activation, the default of cases without a model.
const ALPHA: f32 = 1.702;
const BETA: f32 = 1.0;
const LIMIT: f32 = 7.0;

/// The fields of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseFile {
    about: String,
    model: Option<String>,
    format: Option<String>,
    tokens: usize,
    hidden: Option<usize>,
    inter: Option<usize>,
    experts: Option<usize>,
    top_k: Option<usize>,
    shared_experts: Option<usize>,
    router: Option<Router>,
    #[serde(default)]
    seed: u64,
    regime: Regime,
    #[serde(default)]
    routing: Routing,
    #[serde(default)]
    expert_rows: Vec<usize>,
    #[serde(default)]
    scale_rule: ScaleRule,
    #[serde(default)]
    global_scale: GlobalScale,
    gate_up: Option<GateUp>,
    alpha: Option<f32>,
    beta: Option<f32>,
    limit: Option<f32>,
    bias: Option<bool>,
    #[serde(default)]
    fc1_bias: BiasPlace,
    #[serde(default)]
    fc2_bias: BiasPlace,
    #[serde(default)]
    k_tail: KTail,
    #[serde(default)]
    scale_tiles: ScaleTiles,
    #[serde(default)]
    slots: Slots,
    #[serde(default)]
    pdl: bool,
    #[serde(default)]
    exp: Exp,
    #[serde(default)]
    finalize: Finalize,
    schedules: Option<u64>,
    #[serde(default)]
    tiles: Vec<Tile>,
    minimum: Option<Minimum>,
    #[serde(default)]
    configurations: Configurations,
    #[serde(default)]
    arguments: Arguments,
    #[serde(default)]
    known_failures: Vec<KnownFailure>,
}

/// Parses the case in `text`; `path` supplies its name.
///
/// # Errors
/// [`CaseError::Header`] and [`CaseError::Invalid`], with the line and a remedy.
pub(super) fn parse(path: &Path, text: &str) -> Result<Case, CaseError> {
    let file: CaseFile = header::parse_file(path, text)?;
    resolve(path, file).map_err(|(key, message)| {
        let at = |l: &str| l.trim_start().strip_prefix(key).is_some_and(|rest| rest.starts_with(':'));
        let line = text.lines().position(at).map_or(1, |n| n + 1);
        CaseError::Invalid { path: path.to_owned(), line, message }
    })
}

/// The key at fault, and the message.
type Fault = (&'static str, String);

fn resolve(path: &Path, file: CaseFile) -> Result<Case, Fault> {
    let model = match &file.model {
        None => None,
        Some(name) => Some(models().iter().find(|m| m.name == *name).ok_or_else(|| {
            let known: Vec<&str> = models().iter().map(|m| m.name.as_str()).collect();
            ("model", format!("unknown model `{name}`; known are {}", known.join(", ")))
        })?),
    };
    let size = |key, given: Option<usize>, of: fn(&Model) -> usize| {
        given.or(model.map(of)).ok_or_else(|| (key, format!("`{key}` is missing; give it, or a `model`")))
    };
    let pair = match &file.format {
        None => model.map(|m| m.format).unwrap_or_default(),
        Some(word) => FormatPair::from_word(word).ok_or_else(|| {
            ("format", format!("unknown format pair `{word}`; known are {}", FormatPair::listed()))
        })?,
    };
    let name = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let case = Case {
        name,
        path: path.to_owned(),
        about: file.about,
        pair,
        tokens: file.tokens,
        hidden: size("hidden", file.hidden, |m| m.hidden)?,
        inter: size("inter", file.inter, |m| m.inter)?,
        experts: size("experts", file.experts, |m| m.experts)?,
        top_k: size("top_k", file.top_k, |m| m.top_k)?,
        shared_experts: file.shared_experts.or(model.map(|m| m.shared_experts)).unwrap_or(0),
        router: file.router.or(model.map(|m| m.router)).unwrap_or_default(),
        seed: file.seed,
        regime: file.regime,
        routing: file.routing,
        expert_rows: file.expert_rows,
        scale_rule: file.scale_rule,
        global_scale: file.global_scale,
        gate_up: file.gate_up.or(model.map(|m| m.gate_up)).unwrap_or_default(),
        alpha: file.alpha.or(model.map(|m| m.alpha)).unwrap_or(ALPHA),
        beta: file.beta.or(model.map(|m| m.beta)).unwrap_or(BETA),
        limit: file.limit.or(model.map(|m| m.limit)).unwrap_or(LIMIT),
        bias: file.bias.or(model.map(|m| m.bias)).unwrap_or(true),
        model: file.model,
        fc1_bias: file.fc1_bias,
        fc2_bias: file.fc2_bias,
        k_tail: file.k_tail,
        scale_tiles: file.scale_tiles,
        slots: file.slots,
        pdl: file.pdl,
        exp: file.exp,
        finalize: file.finalize,
        schedules: file.schedules.unwrap_or(1),
        tiles: file.tiles,
        minimum: file.minimum,
        configurations: file.configurations,
        arguments: file.arguments,
        known_failures: file.known_failures,
    };
    check(&case)?;
    Ok(case)
}

fn check(case: &Case) -> Result<(), Fault> {
    let fault = |key, message: String| Err((key, message));
    if case.about.trim().is_empty() {
        return fault("about", "`about` is empty: say in a sentence what the case tests".to_owned());
    }
    if case.schedules == 0 {
        return fault("schedules", "`schedules` is 0; use at least 1".to_owned());
    }
    for (key, value) in [
        ("tokens", case.tokens),
        ("hidden", case.hidden),
        ("inter", case.inter),
        ("experts", case.experts),
        ("top_k", case.top_k),
    ] {
        if value == 0 {
            return fault(key, format!("`{key}` is 0; a problem without it has no output"));
        }
    }
    for (key, value) in [("hidden", case.hidden), ("inter", case.inter)] {
        if value % BLOCK != 0 {
            let next = value.next_multiple_of(BLOCK);
            return fault(
                key,
                format!("`{key}` is {value}, but a scale covers {BLOCK} elements; use {next}"),
            );
        }
    }
    if case.top_k > case.experts {
        let (k, e) = (case.top_k, case.experts);
        return fault(
            "top_k",
            format!("`top_k` is {k}, but there are only {e} experts; a token chooses each at most once"),
        );
    }
    let slots = case.top_k.saturating_add(case.shared_experts);
    if slots > MOST_SLOTS {
        let message = format!(
            "a token has {slots} experts, shared ones included; the kernels keep at most {MOST_SLOTS}"
        );
        return fault("top_k", message);
    }
    if case.global_scale == GlobalScale::Token && !case.pair.activation().has_global() {
        let message = format!(
            "`global_scale: token` needs NVFP4 activations, but those of {} have no global scale",
            case.pair.word()
        );
        return fault("global_scale", message);
    }
    if !case.scale_rule.suits(case.pair.activation()) {
        let (rule, pair) = (case.scale_rule.word(), case.pair.word());
        let message = format!(
            "`scale_rule: {rule}` needs NVFP4 activations, but those of {pair} have power-of-two scales or none"
        );
        return fault("scale_rule", message);
    }
    // Indices are i32 in the dump format and on the device.
    let elements = [
        ("tokens", [case.tokens, slots, case.hidden.max(case.inter).saturating_mul(2)]),
        ("experts", [case.tokens, case.experts.saturating_add(case.shared_experts), 1]),
        ("inter", [case.inter, 2, case.hidden]),
    ];
    for (key, factors) in elements {
        let product = factors.iter().try_fold(1_usize, |p, f| p.checked_mul(*f));
        if product.is_none_or(|p| p > i32::MAX as usize) {
            let text = factors.map(|f| f.to_string()).join(" x ");
            return fault(
                key,
                format!("{text} elements are more than an i32 index counts; make `{key}` smaller"),
            );
        }
    }
    for (key, value, wanted) in [
        ("alpha", case.alpha, case.alpha.is_finite()),
        ("beta", case.beta, case.beta.is_finite()),
        ("limit", case.limit, case.limit > 0.0),
    ] {
        if !wanted {
            return fault(
                key,
                format!("`{key}` is {value}; alpha and beta must be finite, limit above 0 (.inf for none)"),
            );
        }
    }
    check_routing(case)?;
    check_minimum(case)?;
    check_slots(case)?;
    if let Some(bad) = case.known_failures.iter().find(|k| !k.url.starts_with("https://")) {
        return fault(
            "known_failures",
            format!("`{}` is not a URL; a known failure needs the address of its report", bad.url),
        );
    }
    Ok(())
}

/// `minimum` lets the planner enlarge dimensions, so the case must not fix them.
fn check_minimum(case: &Case) -> Result<(), Fault> {
    let Some(Minimum { rounds, n_tiles, m_tiles }) = case.minimum else { return Ok(()) };
    let fault = |message: String| Err(("minimum", message));
    if n_tiles == 0 || m_tiles == 0 {
        return fault("`minimum` counts n_tiles and m_tiles from 1, and rounds from 0".to_owned());
    }
    if rounds.max(n_tiles).max(m_tiles) > MOST_TILES {
        return fault(format!(
            "`minimum` requires more than {MOST_TILES} tiles, which take hours on the emulator"
        ));
    }
    if case.model.is_some() {
        return fault("`minimum` needs dimensions that the planner may choose; remove `model`".to_owned());
    }
    if case.routing == Routing::Rows {
        return fault("`minimum` chooses the rows of every expert; remove `routing: rows`".to_owned());
    }
    if case.experts < 3 {
        return fault("`minimum` gives rows to two of at least three experts; use `experts: 3`".to_owned());
    }
    Ok(())
}

/// `slots: spread` moves three experts to distant slots, so it needs at least four.
fn check_slots(case: &Case) -> Result<(), Fault> {
    const SPREAD: usize = 4;
    if case.slots == Slots::Spread && case.experts < SPREAD {
        let experts = case.experts;
        return Err((
            "slots",
            format!("`slots: spread` spreads three of at least {SPREAD} experts, but there are {experts}"),
        ));
    }
    Ok(())
}

fn check_routing(case: &Case) -> Result<(), Fault> {
    case.router.check(case.experts, case.top_k).map_err(|message| ("router", message))?;
    if case.router.groups.is_some() && !matches!(case.routing, Routing::Random | Routing::Ties) {
        let routing = case.routing.word();
        let message =
            format!("`routing: {routing}` names experts that groups may exclude; use `routing: random`");
        return Err(("routing", message));
    }
    let fault = |message: String| Err(("expert_rows", message));
    let rows = case.tokens * case.top_k;
    if case.routing != Routing::Rows {
        if case.expert_rows.is_empty() {
            return Ok(());
        }
        return fault(format!(
            "`expert_rows` requires `routing: rows`, but routing is `{}`",
            case.routing.word()
        ));
    }
    if case.expert_rows.len() != case.experts {
        let n = case.expert_rows.len();
        return fault(format!("`expert_rows` has {n} entries, but there are {} experts", case.experts));
    }
    if let Some(most) = case.expert_rows.iter().find(|n| **n > case.tokens) {
        return fault(format!("an expert cannot have {most} rows of {} tokens", case.tokens));
    }
    let sum: usize = case.expert_rows.iter().sum();
    if sum != rows {
        return fault(format!("`expert_rows` add up to {sum}, but tokens x top_k is {rows}"));
    }
    Ok(())
}
