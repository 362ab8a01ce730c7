//! No file of a crate uses, over any number of others, a file that uses it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::{files, root};

/// Crates without import circles between their files.
const CRATES: [&str; 1] = ["crates/cuda/src"];

/// The path of a file's module, in segments: none for `lib.rs`.
fn module_path(inside: &str) -> Vec<String> {
    let path = inside.trim_end_matches(".rs").trim_end_matches("/mod");
    path.split('/').filter(|segment| *segment != "lib").map(str::to_owned).collect()
}

/// The paths that a text names from a point on: all branches of grouped imports.
fn branches(text: &str) -> Vec<Vec<String>> {
    let text = text.trim_start();
    if let Some(group) = text.strip_prefix('{') {
        let mut depth = 0;
        let mut start = 0;
        let mut all = Vec::new();
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth > 0 => depth -= 1,
                ',' | '}' if depth == 0 => {
                    all.extend(branches(&group[start..at]));
                    start = at + 1;
                    if c == '}' {
                        return all;
                    }
                }
                _ => {}
            }
        }
        return all;
    }
    let word: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    match text[word.len()..].strip_prefix("::") {
        _ if word.is_empty() => vec![Vec::new()],
        Some(rest) => branches(rest).into_iter().map(|tail| [vec![word.clone()], tail].concat()).collect(),
        None => vec![vec![word]],
    }
}

/// The paths from the crate's root that the code of a module names.
fn paths(code: &str, own: &[String]) -> BTreeSet<Vec<String>> {
    let mut all = BTreeSet::new();
    for (word, base) in [("crate::", &[][..]), ("super::", &own[..own.len().saturating_sub(1)])] {
        for (at, _) in code.match_indices(word) {
            all.extend(branches(&code[at + word.len()..]).into_iter().map(|path| [base, &path].concat()));
        }
    }
    all
}

/// Which files each file uses.
fn uses(texts: &BTreeMap<Vec<String>, String>) -> BTreeMap<Vec<String>, BTreeSet<Vec<String>>> {
    let used = |(own, text): (&Vec<String>, &String)| {
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let code = lines.collect::<Vec<_>>().join("\n");
        // The longest part of a path that is a file. In a module of tests, `super` is the file itself; its parent is named instead, which
        // only declares modules.
        let file = |path: &Vec<String>| {
            (1..=path.len()).rev().map(|len| path[..len].to_vec()).find(|path| texts.contains_key(path))
        };
        let used = paths(&code, own).iter().filter_map(file).filter(|file| file != own).collect();
        (own.clone(), used)
    };
    texts.iter().map(used).collect()
}

/// The files on a circle, and those that use them or lie between two.
fn circle(
    mut uses: BTreeMap<Vec<String>, BTreeSet<Vec<String>>>,
) -> BTreeMap<Vec<String>, BTreeSet<Vec<String>>> {
    loop {
        let used: BTreeSet<_> = uses.values().flatten().cloned().collect();
        let before = uses.len();
        let names: BTreeSet<_> = uses.keys().cloned().collect();
        // A file that uses none of the rest, or that none of the rest uses, is on no circle.
        uses.retain(|file, other| used.contains(file) && other.iter().any(|other| names.contains(other)));
        if uses.len() == before {
            return uses;
        }
    }
}

#[test]
fn files_of_a_crate_use_each_other_in_one_direction() {
    for folder in CRATES {
        let folder = root().join(folder);
        let texts: BTreeMap<_, _> = files(&folder, "rs")
            .iter()
            .map(|path| {
                let inside = path.strip_prefix(&folder).unwrap().to_str().unwrap();
                (module_path(inside), fs::read_to_string(path).unwrap())
            })
            .collect();
        let uses = uses(&texts);
        assert!(uses.values().map(BTreeSet::len).sum::<usize>() > 100, "the imports are not seen");
        let circle: Vec<String> = circle(uses)
            .iter()
            .map(|(file, used)| {
                let used: Vec<String> = used.iter().map(|path| path.join("::")).collect();
                format!("{} uses {}", file.join("::"), used.join(", "))
            })
            .collect();
        assert!(circle.is_empty(), "{} has an import circle:\n{}", folder.display(), circle.join("\n"));
    }
}

#[test]
fn the_circle_test_sees_every_way_to_name_a_file() {
    let text = |text: &str| text.to_owned();
    let name = |path: &str| path.split("::").map(str::to_owned).collect::<Vec<_>>();
    let texts = |a: &str| {
        BTreeMap::from([
            (name("a"), text(a)),
            (name("b::c"), text("use crate::d::{self, e::{F, G}};")),
            (name("b"), text("pub mod c;")),
            (name("d::e"), text("fn x() { crate::a::f() }")),
            (name("d"), text("pub mod e;")),
            (name("g"), text("use crate::b::c::X;")),
        ])
    };
    for closing in ["use crate::{g, b::c::X};", "fn y() -> crate::b::c::X;", "use super::b::{c::X};"] {
        let circle: Vec<_> = circle(uses(&texts(closing))).into_keys().collect();
        let wanted = [name("a"), name("b::c"), name("d::e")];
        assert!(wanted.iter().all(|file| circle.contains(file)), "{closing}: {circle:?}");
        assert!(!circle.contains(&name("d")), "{circle:?}");
    }
    assert!(circle(uses(&texts("// use crate::b::c::X;"))).is_empty());
    assert_eq!(module_path("device/mod.rs"), name("device"));
    assert!(module_path("lib.rs").is_empty());
}
