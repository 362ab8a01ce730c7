//! The emulator against the committed matrix.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ptx::arch::Target;
use serde_json::Value;
use sm121probe::snippet::Library;

#[test]
fn dump() {
    let record: Value = serde_json::from_str(&std::fs::read_to_string("reports/matrix.json").unwrap()).unwrap();
    let matrix = &record["matrix"];
    let toolkit = "13.5.37";
    let pairs: Vec<(usize, String)> = matrix["pairs"].as_array().unwrap().iter().enumerate()
        .filter(|(_, p)| p["toolkit"] == toolkit && p["arch"] == p["target"])
        .map(|(n, p)| (n, p["target"].as_str().unwrap().to_owned())).collect();
    let library = Library::embedded();
    let outcomes: BTreeMap<&str, &str> = matrix["variants"].as_array().unwrap().iter()
        .map(|v| (v["id"].as_str().unwrap(), v["outcomes"].as_str().unwrap())).collect();
    let mut out = String::new();
    for variant in &library.variants {
        let Some(cells) = outcomes.get(variant.id.as_str()) else { writeln!(out, "{} ABSENT", variant.id).unwrap(); continue };
        let (mut lenient, mut strict, mut why) = (Vec::new(), Vec::new(), String::new());
        for (n, target) in &pairs {
            let cell = cells.as_bytes()[*n];
            let t: Target = target.parse().unwrap();
            let loaded = emulator::load(&variant.code.standalone("9.5".parse().unwrap(), t));
            match (cell, &loaded) {
                (b'R', Ok(_)) => lenient.push(target.as_str()),
                (b'A', Err(e)) => { strict.push(target.as_str()); why = e.to_string(); }
                _ => {}
            }
        }
        if !lenient.is_empty() { writeln!(out, "LENIENT {} {}", variant.id, lenient.join(",")).unwrap(); }
        if !strict.is_empty() { writeln!(out, "STRICT {} {} :: {}", variant.id, strict.join(","), why.replace('\n', " ")).unwrap(); }
    }
    std::fs::write(std::env::var("DUMP").unwrap(), out).unwrap();
}
