//! A known miscompile of ptxas, for `explain`.

use std::fmt::Write as _;

use compiler::known::Miscompile;
use compiler::machine::Place;

/// For the terminal.
#[must_use]
pub fn miscompile(m: &Miscompile) -> String {
    let mut out = format!("{}: a known miscompile of ptxas\n", m.name);
    let targets = if m.targets.is_empty() { "all".to_owned() } else { m.targets.join(", ") };
    let machine = match (&m.evidence.gpu, &m.evidence.driver) {
        (Some(gpu), Some(driver)) => format!("{gpu}, driver {driver}, {}", m.evidence.date),
        (Some(gpu), None) => format!("{gpu}, {}", m.evidence.date),
        (None, _) => format!("no GPU, {}", m.evidence.date),
    };
    for (name, text) in [
        ("effect", &m.effect),
        ("rule", &m.rule),
        ("instead", &m.rewrite),
        ("seen with", &m.where_in_words()),
        ("targets", &targets),
        ("evidence", &format!("{machine}: {}", m.evidence.seen)),
        ("kernel", &format!("crates/compiler/tests/data/{}", m.kernel)),
    ] {
        _ = writeln!(out, "  {name:<10} {text}");
    }
    out
}

/// A structure of machine code, with its place.
#[must_use]
pub fn structure(file: &str, place: &Place) -> String {
    let names = place.structure.miscompiles().join(", ");
    format!(
        "{file}: {} at {:#06x}: `{}`: {}\n  {}\n  known miscompile: {names}\n",
        place.function,
        place.address,
        place.opcode,
        place.structure.word(),
        place.structure.sentence()
    )
}
