//! Cubins of every ptxas on this machine: which targets can be told apart, and by which part of the file.

use std::time::Duration;

use devcode::{Entry, Found, Limits, ToldBy, scan_bytes};
use ptx::arch::{Suffix, Target, ToolkitVersion};
use sm121probe::store::Store;
use sm121probe::toolkit::{CubinError, Places, cubin, discover};

use super::need::{Need, Test};

pub(super) const TESTS: &[Test] =
    &[("every_toolkit_s_cubins_are_told_apart", &[Need::Ptxas], every_toolkit_s_cubins_are_told_apart)];

const LIMIT: Duration = Duration::from_secs(120);

/// The base, family and architecture forms of every Blackwell target, and older targets.
const TARGETS: &str = "80 89 90 90a 100 100f 100a 103 103f 103a 110 110f 110a 120 120f 120a 121 121f 121a";

/// Where a cubin records its suffix: `e_flags` before 13.0, `.nv.compat` from 13.0 on for `a`; a note tells base
/// from `f`, which toolkits before 12.9 do not have.
fn expected(target: Target, toolkit: ToolkitVersion) -> ToldBy {
    match (target.suffix, target.number) {
        (_, ..90) => ToldBy::NoOther,
        (Suffix::Arch, _) if toolkit.major < 13 => ToldBy::ElfFlags,
        (Suffix::Arch, _) => ToldBy::Compat,
        (_, 90) if toolkit.major < 13 => ToldBy::ElfFlags,
        (_, 90) => ToldBy::Compat,
        _ if (toolkit.major, toolkit.minor) < (12, 9) => ToldBy::NoOther,
        _ => ToldBy::Tkinfo,
    }
}

fn every_toolkit_s_cubins_are_told_apart() {
    let store = Store::open(None).unwrap();
    let toolkits = discover(None, &Places::from_environment(Some(store.root()))).toolkits;
    let template = include_str!("../../crates/devcode/tests/data/two.ptx");
    let mut told = 0;
    for toolkit in &toolkits {
        for name in TARGETS.split(' ') {
            let target: Target = name.parse().unwrap();
            // The first version that knows this form of the target.
            let isa = match (target.number, target.suffix) {
                (110, _) => "9.0",
                (_, Suffix::Family) => "8.8",
                (103 | 121, _) => "8.8",
                (120, _) => "8.7",
                (100, _) => "8.6",
                _ => "8.0",
            };
            let ptx = template
                .replace("sm_121f", &target.to_string())
                .replace(".version 8.8", &format!(".version {isa}"));
            let code = match cubin(toolkit, target, &ptx, Some(&store), LIMIT) {
                Ok(code) => code.image,
                Err(CubinError::Refused { .. }) if !knows(toolkit.version, target) => continue,
                Err(error) => panic!("{error}"),
            };
            let context = format!("{target} by {}", toolkit.version);
            let entry = entry_of(code.clone());
            assert_eq!(entry.target(), Some(target), "{context}");
            assert_eq!(entry.told_by, expected(target, toolkit.version), "{context}");
            let mut names: Vec<_> = entry.kernels.iter().map(|k| (k.name.as_str(), k.max_threads)).collect();
            names.sort_unstable();
            assert_eq!(names, [("alpha", Some(256)), ("beta", Some(128))], "{context}");
            // ptxas's output for each kernel.
            assert!(entry.kernels.iter().all(|k| k.registers.is_some_and(|r| r > 0)), "{context}");
            without_the_note(target, toolkit.version, code);
            told += 1;
        }
    }
    println!("{told} cubins of {} toolkits", toolkits.len());
    assert!(told >= 4 * toolkits.len());
}

/// The one entry of a cubin.
fn entry_of(code: Vec<u8>) -> Entry {
    let (mut entries, mut troubles) = (Vec::new(), Vec::new());
    scan_bytes("k.cubin", code, &Limits::default(), &mut |found| match found {
        Found::Entry { entry, .. } => entries.push(entry),
        Found::Problem(problem) => troubles.push(problem.trouble.to_string()),
        Found::Holder(_) => {}
    });
    assert_eq!((entries.len(), troubles.as_slice()), (1, [].as_slice()));
    entries.remove(0)
}

/// Whether a ptxas knows a target: 12.8 is the first with Blackwell, 12.9 with families; 13.0 renames sm_101 to sm_110.
fn knows(toolkit: ToolkitVersion, target: Target) -> bool {
    let first = match (target.number, target.suffix) {
        (_, Suffix::Family) | (103 | 121, _) => (12, 9),
        (100 | 120, _) => (12, 8),
        _ => (0, 0),
    };
    let first = if target.number == 110 { (13, 0) } else { first };
    (toolkit.major, toolkit.minor) >= first
}

/// The same with ptxas's options made unreadable: what depends on them alone is unknown, everything else is unchanged.
fn without_the_note(target: Target, toolkit: ToolkitVersion, mut code: Vec<u8>) {
    let Some(at) = code.windows(6).position(|w| w == b"-arch ") else { return };
    code[at..at + 6].copy_from_slice(b"-xxxx ");
    let entry = entry_of(code);
    let by_note = expected(target, toolkit) == ToldBy::Tkinfo;
    assert_eq!(entry.suffix, (!by_note).then_some(target.suffix), "{target} by {toolkit} without the note");
    assert_eq!(entry.number, target.number);
}
