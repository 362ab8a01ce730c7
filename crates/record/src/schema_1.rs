//! Reads documents of schema 1, which knew one family of kernels and gave each word of its configurations a field of its own.

use serde_json::{Map, Value, json};

/// The family of every row of schema 1.
const FAMILY: &str = "moe";

/// The schema that [`record`] and [`bench`] read.
pub(super) const SCHEMA: u64 = 1;

/// Turns a record of schema 1 into one of the current schema. What does not have the form of schema 1 is left as it is, so that the
/// reader of the current schema reports it.
pub(super) fn record(document: &mut Value) {
    let Some(fields) = document.as_object_mut() else { return };
    fields.insert("schema".to_owned(), super::document::SCHEMA.into());
    rename(fields, &[("pipeline", "trials"), ("witness", "fault_coverage")]);
    for_each(fields.get_mut("runs"), checks);
    for_each(fields.get_mut("trials"), |row| {
        of_family(row);
        rename(row, &[("stages", "depth")]);
        checks(row);
        for_each(row.get_mut("results"), place);
    });
    for_each(fields.get_mut("fault_coverage"), |row| {
        of_family(row);
        rename(row, &[("witnessed", "exposed")]);
    });
    for_each(fields.get_mut("exercised"), exercised);
    for_each(fields.get_mut("faults"), |row| {
        row.insert("family".to_owned(), FAMILY.into());
        let kinds = [
            ("exact_and_impulse", "exact and impulse data"),
            ("real", "real values"),
            ("real_decode", "real values with one row per expert"),
        ];
        let exposed: Vec<Value> = kinds
            .iter()
            .filter_map(|(field, by)| Some(json!({ "by": by, "faults": row.remove(*field)? })))
            .collect();
        row.insert("exposed".to_owned(), exposed.into());
    });
    if let Some(tiles) = fields.get_mut("tiles").and_then(Value::as_object_mut) {
        rename(tiles, &[("offers", "peers")]);
        for_each(tiles.get_mut("rows"), |row| {
            of_family(row);
            rename(row, &[("stages", "depth")]);
        });
        for_each(tiles.get_mut("peers"), |row| {
            let name = words(row, &["tile", "swap_ab"]);
            row.insert("configurations".to_owned(), name.into());
        });
    }
    if ["trials", "tiles"].iter().any(|part| fields.contains_key(*part)) {
        fields.entry("families").or_insert_with(|| json!([family()]));
    }
}

/// Turns a table of times of schema 1 into one of the current schema.
pub(super) fn bench(document: &mut Value) {
    let Some(fields) = document.as_object_mut() else { return };
    fields.insert("schema".to_owned(), super::document::SCHEMA.into());
    fields.insert("family".to_owned(), FAMILY.into());
    for_each(fields.get_mut("rows"), |row| {
        let name = configuration(row);
        row.insert("configuration".to_owned(), name.into());
    });
    for part in ["rates", "regrets"] {
        for_each(fields.get_mut(part), |row| rename(row, &[("kernel_path", "path")]));
    }
}

/// The description of the one family, as the tools of schema 1 reported it.
fn family() -> Value {
    let stages = ["route", "permute", "quantize", "fc1", "activation", "requantize", "fc2", "finalize"];
    let stages: Vec<Value> = stages.iter().map(|name| json!({ "name": name, "about": "" })).collect();
    json!({
        "name": FAMILY,
        "title": "MXFP4 fused-MoE pipeline",
        "leading": "tile",
        "stages": stages,
        "all": "sm121probe moe --all",
    })
}

fn for_each(list: Option<&mut Value>, each: impl Fn(&mut Map<String, Value>)) {
    let rows = list.and_then(Value::as_array_mut).into_iter().flatten();
    rows.filter_map(Value::as_object_mut).for_each(each);
}

fn rename(fields: &mut Map<String, Value>, names: &[(&str, &str)]) {
    for (old, new) in names {
        if let Some(value) = fields.remove(*old) {
            fields.insert((*new).to_owned(), value);
        }
    }
}

fn of_family(row: &mut Map<String, Value>) {
    let name = configuration(row);
    row.insert("family".to_owned(), FAMILY.into());
    row.insert("configuration".to_owned(), name.into());
}

fn configuration(row: &mut Map<String, Value>) -> String {
    words(row, &["tile", "swap_ab", "kernel_path", "load"])
}

/// Removes these fields, and joins their words; a field that is `true` is a word.
fn words(row: &mut Map<String, Value>, fields: &[&str]) -> String {
    let word = |field: &&str| match row.remove(*field)? {
        Value::String(word) => Some(word),
        Value::Bool(true) => Some((*field).to_owned()),
        _ => None,
    };
    fields.iter().filter_map(word).collect::<Vec<_>>().join(" ")
}

fn checks(row: &mut Map<String, Value>) {
    rename(row, &[("rungs", "checks")]);
    for_each(row.get_mut("checks"), |check| rename(check, &[("rung", "check")]));
}

fn place(result: &mut Map<String, Value>) {
    let Some(place) = result.get_mut("place") else { return };
    let axis = |name: &&str| Some(format!("{name}={}", place.get(*name)?.as_u64()?));
    let parts: Vec<String> = ["expert", "row", "col"].iter().filter_map(axis).collect();
    if !parts.is_empty() {
        *place = parts.join(" ").into();
    }
}

fn exercised(row: &mut Map<String, Value>) {
    of_family(row);
    let things =
        [("k_tiles", "K tile"), ("wraps", "stage wrap"), ("n_tiles", "N tile"), ("m_tiles", "M tile")];
    let counts: Vec<Value> = things
        .iter()
        .filter_map(|(field, what)| Some(json!({ "what": what, "count": row.remove(*field)? })))
        .collect();
    let phrases =
        [("ragged_k", "a ragged K tile"), ("ragged_n", "a ragged N tile"), ("ragged_m", "a ragged M tile")];
    let met: Vec<Value> = phrases
        .iter()
        .filter(|(field, _)| row.remove(*field).is_some_and(|is| is == true))
        .map(|(_, phrase)| (*phrase).into())
        .collect();
    row.insert("counts".to_owned(), counts.into());
    row.insert("met".to_owned(), met.into());
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{BenchTable, Place, Record, Verdict};

    #[test]
    fn a_record_of_schema_1_keeps_every_answer() {
        let text = r#"{"schema": 1, "tool": "sm121probe 0.1.0",
            "matrix": {"toolkits":[],"disassembler":null,"pairs":[],"snippets":[],"variants":[],"messages":[],"kinds":[],"opcodes":[],"claims":[]},
            "tiles": {"rows":[{"tile":"8x64x128","swap_ab":true,"kernel_path":"native","load":"tma","target":"sm_121a","toolkit":"13.5.37","stages":4,
                "shared":7,"shared_limit":9,"registers":3,"spills":[1,2],"blocked":null,"remark":""}],
                "offers":[{"tile":"8x64x128","swap_ab":true,"stack":"s","answer":"offered","sentence":"x"}],"policies":[]},
            "runs": [{"variant":"v","target":"sm_90a","device":"gpu:0","code":"ptxas 13.0.88","rungs":[{"rung":"loads","verdict":"pass","note":""}]}],
            "pipeline": [{"case":"c","tile":"128x64x128","swap_ab":false,"stages":4,"kernel_path":"portable","load":"cp_async","target":"sm_121a",
                "device":"emulator","remark":"","results":[{"stage":"fc1","verdict":"fail","worst_over_bound":"inf","mismatches":3,
                "place":{"expert":2,"row":7,"col":11},"note":""},{"stage":"finalize","verdict":"fail","worst_over_bound":2.5,"mismatches":1,
                "place":{"expert":null,"row":7,"col":0},"note":""}]}],
            "witness": [{"tile":"8x64x128","swap_ab":true,"kernel_path":"native","load":"tma","target":"sm_121a","device":"emulator",
                "cases":["c"],"witnessed":5,"total":6}],
            "exercised": [{"tile":"8x64x128","swap_ab":true,"kernel_path":"native","load":"tma","target":"sm_121a","device":"emulator",
                "k_tiles":9,"wraps":2,"n_tiles":7,"m_tiles":6,"ragged_k":true,"ragged_n":false,"ragged_m":true,"missing":[]}],
            "faults": [{"dimensions":"d","faults":10,"exact_and_impulse":9,"real":8,"real_decode":7}]}"#;
        let read = Record::parse(Path::new("old.json"), text).unwrap();
        let trial = &read.trials[0];
        assert_eq!((trial.family.as_str(), trial.depth), ("moe", 4));
        assert_eq!(trial.configuration.text(), "128x64x128 portable cp_async");
        assert_eq!(trial.results[0].place, Some(Place::at(&[("expert", 2), ("row", 7), ("col", 11)])));
        assert_eq!(trial.results[1].place, Some(Place::at(&[("row", 7), ("col", 0)])));
        assert_eq!(trial.results[0].verdict, Verdict::Fail);
        assert_eq!(read.runs[0].checks.len(), 1);
        let tile = &read.tiles.rows[0];
        assert_eq!((tile.configuration.text(), tile.depth), ("8x64x128 swap_ab native tma", Some(4)));
        assert!(tile.configuration.has(&read.tiles.peers[0].configurations));
        assert_eq!((read.fault_coverage[0].exposed, read.fault_coverage[0].total), (5, 6));
        let exercised = &read.exercised[0];
        assert_eq!(exercised.counts.iter().map(|c| c.count).collect::<Vec<_>>(), [9, 2, 7, 6]);
        assert_eq!(exercised.met, ["a ragged K tile", "a ragged M tile"]);
        assert_eq!(read.faults[0].exposed.iter().map(|e| e.faults).collect::<Vec<_>>(), [9, 8, 7]);
        assert_eq!(read.family("moe").map(|f| f.stages.len()), Some(8));
        // It is written in the current schema, and reads back.
        let again = Record::parse(Path::new("new.json"), &read.to_json().unwrap()).unwrap();
        assert_eq!(again, read);
        let damaged = text.replace("\"worst_over_bound\":2.5", "\"worst_over_bound\":\"much\"");
        assert!(Record::parse(Path::new("old.json"), &damaged).unwrap_err().to_string().contains("much"));
    }

    #[test]
    fn a_table_of_times_of_schema_1_is_read() {
        let text = r#"{"tool":"t","device":{"architecture":"sm_90","cuda":"13.0","device":"gpu:0","driver":"580","l2":1,"memory":2,
            "multiprocessors":3,"name":"n"},"target":"sm_90a","code":"ptxas 13.0.88","dimensions":"d","sizes":[1,2,3,4],"warm_up":1,
            "samples":2,"flushed":3,"bandwidth":4.0,"rates":[{"kernel_path":"portable","instruction":"i","operations":1.0}],
            "rows":[{"tile":"8x64x128","swap_ab":true,"kernel_path":"portable","load":"tma","tokens":1,"experts":1,"stage":"fc1",
            "microseconds":1.0,"range":[1.0,2.0],"bytes":1,"weights":1,"operations":1,"multiplied":1,"of_bandwidth":0.5,"of_rate":null}],
            "regrets":[{"policy":"p","kernel_path":"portable","tokens":1,"m":8,"microseconds":null,"best":"b","best_microseconds":1.0}]}"#;
        let table = BenchTable::parse(text).unwrap();
        assert_eq!(table.rows[0].configuration.text(), "8x64x128 swap_ab portable tma");
        assert_eq!((table.rates[0].path.as_str(), table.regrets[0].path.as_str()), ("portable", "portable"));
        assert_eq!(BenchTable::parse(&table.to_json().unwrap()).unwrap(), table);
        assert!(BenchTable::parse("{\"schema\":3}").unwrap_err().to_string().contains("schema 3"));
    }
}
