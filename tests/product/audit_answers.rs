//! Verdicts on device code: the rules as a table, kernels judged by the best of their entries, and the reports.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::collections::BTreeSet;
use std::path::Path;

use devcode::{CodeKind, Compression, Entry, Format, Found, Holder, Kernel, Place, Problem, ToldBy, Trouble};
use ptx::arch::{PtxIsa, Suffix};
use sm121probe::audit::{self, Collector, Device};
use sm121probe::record::{AuditTable, AuditVerdict, Matrix, Record};
use sm121probe::report::{self, Styles};

fn entry(file: &str, index: u32, kind: CodeKind, target: &str, kernels: &[&str]) -> Entry {
    let text = target.trim_start_matches("sm_");
    let (digits, suffix) = match text.chars().last() {
        Some('a') => (&text[..text.len() - 1], Some(Suffix::Arch)),
        Some('f') => (&text[..text.len() - 1], Some(Suffix::Family)),
        Some('?') => (&text[..text.len() - 1], None),
        _ => (text, Some(Suffix::Base)),
    };
    let kernel = |name: &&str| Kernel { name: (*name).to_owned(), registers: Some(32), ..Kernel::default() };
    let mut place = Place::in_file(file);
    place.index = index;
    place.section = Some(".nv_fatbin".into());
    place.offset = u64::from(index) * 0x100;
    Entry {
        place,
        kind,
        number: digits.parse().unwrap(),
        suffix,
        told_by: if suffix.is_some() { ToldBy::FatbinFlags } else { ToldBy::Nothing },
        isa: (kind == CodeKind::Ptx).then_some(PtxIsa { major: 8, minor: 8 }),
        compression: Compression::None,
        bytes: 100,
        unpacked: 100,
        toolkit: None,
        name: None,
        kernels: kernels.iter().map(kernel).collect(),
    }
}

fn letter(entry: &Entry, device: &Device) -> char {
    match audit::answer(entry, device).0 {
        AuditVerdict::Native => 'N',
        AuditVerdict::Family => 'F',
        AuditVerdict::Jit => 'J',
        AuditVerdict::Fallback => 'B',
        AuditVerdict::Undetermined => '?',
        AuditVerdict::Stub => 'S',
        AuditVerdict::NoCode => '-',
    }
}

/// Derived by hand from the CUDA Programming Guide (binary compatibility) and the PTX ISA (`.target`).
#[test]
fn every_target_has_its_answer_on_both_devices() {
    //   target    cubin PTX, each on 12.0 and 12.1
    let rows = [
        ("sm_80", "-- JJ"),
        ("sm_89", "-- JJ"),
        ("sm_90a", "-- --"),
        ("sm_100", "-- JJ"),
        ("sm_100a", "-- --"),
        ("sm_100f", "-- --"),
        ("sm_103a", "-- --"),
        ("sm_110f", "-- --"),
        ("sm_120", "NF JJ"),
        ("sm_120a", "N- J-"),
        ("sm_120f", "NF JJ"),
        ("sm_120?", "NF JJ"),
        ("sm_121", "-N -J"),
        ("sm_121a", "-N -J"),
        ("sm_121f", "-N -J"),
        ("sm_121?", "-N -J"),
    ];
    for (target, wanted) in rows {
        let of = |kind| -> String {
            let entry = entry("x", 0, kind, target, &[]);
            [120, 121].iter().map(|n| letter(&entry, &Device::from_number(*n))).collect()
        };
        assert_eq!(format!("{} {}", of(CodeKind::Cubin), of(CodeKind::Ptx)), wanted, "{target}");
        // Code that waits for a linker is never reported to run; if no linking can help, the file has no code.
        let linked = of(CodeKind::Relocatable);
        assert_eq!(linked, wanted[..2].replace(['N', 'F'], "?"), "{target}");
    }
    // PTX without a suffix runs on later GPUs of every family; only the suffix decides that, and the file does not record it.
    assert_eq!(letter(&entry("x", 0, CodeKind::Ptx, "sm_100?", &[]), &Device::from_number(121)), '?');
    assert_eq!(letter(&entry("x", 0, CodeKind::Bitcode, "sm_0", &[]), &Device::from_number(121)), '-');
    assert_eq!(letter(&entry("x", 0, CodeKind::Other(64), "sm_121", &[]), &Device::from_number(121)), '?');
    assert_eq!(letter(&entry("x", 0, CodeKind::LtoIr, "sm_120f", &[]), &Device::from_number(121)), '?');
    assert_eq!(letter(&entry("x", 0, CodeKind::LtoIr, "sm_120a", &[]), &Device::from_number(121)), '-');
}

#[test]
fn a_driver_compiles_ptx_up_to_its_own_version() {
    let device = |cuda: &str| Device { number: 121, cuda: Some(cuda.to_owned()), isa: PtxIsa::of_cuda(cuda) };
    let ptx = entry("x", 0, CodeKind::Ptx, "sm_80", &[]);
    assert_eq!(letter(&ptx, &device("12.9")), 'J');
    let (verdict, reason) = audit::answer(&ptx, &device("12.8"));
    assert_eq!(verdict, AuditVerdict::NoCode);
    assert!(reason.contains("needs a driver of CUDA 12.9 or later"), "{reason}");
}

/// A library as it is commonly shipped, a damaged file, and one without problems.
fn table() -> AuditTable {
    let devices = vec![Device::from_number(120), Device::from_number(121)];
    let mut collector = Collector::new(devices, &[String::new(), String::new()], None);
    let file = "site/foo/lib.so";
    let mut give = |found: Found<'_>| collector.take(found);
    let mut add = |index, kind, target, kernels: &[&str]| {
        give(Found::Entry { entry: entry(file, index, kind, target, kernels), code: &[] });
    };
    add(0, CodeKind::Cubin, "sm_80", &["_Z4axpyPfS_f", "_Z4gemmv"]);
    add(1, CodeKind::Ptx, "sm_80", &["_Z4axpyPfS_f"]);
    add(2, CodeKind::Cubin, "sm_120", &["_Z4axpyPfS_f"]);
    add(3, CodeKind::Cubin, "sm_120a", &["_Z9mxfp4gemmv"]);
    add(4, CodeKind::Cubin, "sm_121?", &["last, \"quoted\""]);
    let holder = |file: &str, entries, needs: &[&str]| {
        let needs = needs.iter().map(|n| (*n).to_owned()).collect();
        Found::Holder(Holder { file: file.into(), format: Format::HostElf, bytes: 4096, entries, needs })
    };
    give(holder(file, 5, &["libc.so.6", "libcudart.so.13"]));
    let trouble = Trouble::Truncated("the fatbin ends at 0x10".to_owned());
    give(Found::Problem(Problem { place: Place::in_file("site/foo/cut.fatbin"), trouble }));
    give(Found::Entry {
        entry: entry("site/bar.cubin", 0, CodeKind::Cubin, "sm_100a", &["tcgen"]),
        code: &[],
    });
    give(holder("site/bar.cubin", 1, &[]));
    give(holder("site/host.so", 0, &["libc.so.6"]));
    collector.finish()
}

#[test]
fn a_kernel_is_answered_by_the_best_of_its_entries() {
    let table = table();
    let words: Vec<(&str, Vec<&str>)> = table
        .kernels
        .iter()
        .map(|k| (k.name.as_str(), k.verdicts.iter().map(|v| v.word()).collect()))
        .collect();
    assert_eq!(
        words,
        [
            ("_Z4axpyPfS_f", vec!["native", "family"]),
            ("_Z4gemmv", vec!["no_code", "no_code"]),
            ("_Z9mxfp4gemmv", vec!["native", "no_code"]),
            ("last, \"quoted\"", vec!["no_code", "native"]),
            ("tcgen", vec!["no_code", "no_code"]),
        ]
    );
    // A file without device code or requirements is not mentioned; a problem hides no other file.
    assert_eq!(table.files.len(), 2);
    assert_eq!(table.problems.len(), 1);
}

fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/audit").join(name);
    snapbox::Assert::new().action_env("SNAPSHOTS").eq(text, snapbox::Data::read_from(&path, None).raw());
}

#[test]
fn the_reports_say_it() {
    let table = table();
    golden("text.txt", &report::audit_text(&table, &Styles::plain()));
    golden("page.md", &report::audit_markdown(&table, 1));
    golden("rows.csv", &report::audit_csv(&table));
    golden("results.sarif", &report::audit_sarif(&table).unwrap());
    let table = AuditTable { no_gpu: "gpu:0: held by another".to_owned(), ..table };
    let text = report::audit_markdown(&table, 1);
    assert!(
        text.contains("This machine has none of these GPUs (gpu:0: held by another): the answers follow"),
        "{text}"
    );
}

#[test]
fn the_members_of_a_static_library_stand_together() {
    let mut collector = Collector::new(vec![Device::from_number(121)], &[String::new()], None);
    for (member, target, kernel) in
        [("x.o", "sm_90a", "one"), ("y.o", "sm_90a", "two"), ("z.o", "sm_120", "three")]
    {
        let entry = entry(&format!("lib/libfoo.a!{member}"), 0, CodeKind::Cubin, target, &[kernel]);
        collector.take(Found::Entry { entry, code: &[] });
    }
    let text = report::audit_markdown(&collector.finish(), 1);
    for words in [
        "3 files with device code, 3 kernels.",
        "|libfoo.a|3|1 run|90a 120|",
        "sm_121: libfoo.a, 2 members: 2 kernels without code: machine code for sm_90a runs",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
}

#[test]
fn the_record_holds_it_and_sarif_keeps_its_schema() {
    let mut record = Record::of_matrix("t".to_owned(), Matrix::default());
    record.audit = table();
    let text = record.to_json().unwrap();
    let read = Record::parse(Path::new("r.json"), &text).unwrap();
    assert_eq!(read.audit, record.audit);
    // Merged, both remain, and every index still points to its own file.
    let mut both = record.audit.clone();
    assert!(both.append(table()) && both == record.audit);
    let mut later = table();
    later.problems.clear();
    assert!(both.append(later));
    assert_eq!((both.kernels.len(), both.files.len()), (10, 4));
    let last = both.kernels.last().unwrap();
    assert_eq!(both.files[last.file].path, "site/bar.cubin");
    assert_eq!(both.entries[last.images[0].entry].target, "sm_100a");
    assert!(both.reasons[last.reasons[0]].contains("sm_100a"));
    let other = Collector::new(vec![Device::from_number(90)], &[String::new()], None).finish();
    assert!(!both.append(other));
    // An index out of range is refused.
    let damaged = text.replacen("\"file\":1", "\"file\":9", 1);
    assert_ne!(damaged, text);
    assert!(Record::parse(Path::new("r.json"), &damaged).unwrap_err().to_string().contains("damaged"));

    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schemas/sarif-2.1.0.json");
    let schema: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(schema).unwrap()).unwrap();
    let sarif: serde_json::Value =
        serde_json::from_str(&report::audit_sarif(&record.audit).unwrap()).unwrap();
    let errors: Vec<String> =
        jsonschema::validator_for(&schema).unwrap().iter_errors(&sarif).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let prints: BTreeSet<&str> = sarif["runs"][0]["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["partialFingerprints"]["sm121probe/v1"].as_str().unwrap())
        .collect();
    assert_eq!(prints.len(), sarif["runs"][0]["results"].as_array().unwrap().len());
}
