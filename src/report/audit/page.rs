//! What an audit says, in the order in which an owner reads it: packages, libraries, exceptions, backends, what to do, problems.
//! A page is headings, sentences, tables and lists; the terminal and Markdown draw it each in its way.

use std::collections::BTreeSet;

use super::super::phrase::{counted, grouped};
use super::names::readable;
use super::rollup::{self, Exception, Group};
use crate::arch;
use crate::record::{AuditTable, AuditVerdict, Support};

/// A table, or a list where it has no columns.
pub(super) struct Section {
    pub(super) title: String,
    /// What stands above it.
    pub(super) note: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    pub(super) items: Vec<String>,
    /// What was left out, and where it is.
    pub(super) more: String,
}

/// How much is said.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    /// Rows of a table.
    pub(super) rows: usize,
    /// Exceptions.
    pub(super) exceptions: usize,
    /// Characters of a kernel's name.
    pub(super) name: usize,
    /// Problems.
    pub(super) problems: usize,
}

/// A page.
pub(super) struct Page {
    pub(super) title: String,
    pub(super) lines: Vec<String>,
    pub(super) sections: Vec<Section>,
}

impl Section {
    fn table(
        title: &str,
        columns: Vec<String>,
        mut rows: Vec<Vec<String>>,
        extent: usize,
        noun: &str,
    ) -> Self {
        let more = left_out(rows.len(), extent, noun);
        rows.truncate(extent);
        let (note, items) = (String::new(), Vec::new());
        Self { title: title.to_owned(), note, columns, rows, items, more }
    }

    fn list(title: &str, mut items: Vec<String>, extent: usize, noun: &str) -> Self {
        let more = left_out(items.len(), extent, noun);
        items.truncate(extent);
        let (note, columns, rows) = (String::new(), Vec::new(), Vec::new());
        Self { title: title.to_owned(), note, columns, rows, items, more }
    }
}

fn left_out(all: usize, extent: usize, noun: &str) -> String {
    let more = all.saturating_sub(extent);
    if more == 0 { String::new() } else { format!("and {}; --format md shows all", counted(more, noun)) }
}

/// The page of an audit.
pub(super) fn page(table: &AuditTable, extent: Extent) -> Page {
    let files = rollup::files(table);
    let (packages, rest) = rollup::packages(table, &files);
    let exceptions = rollup::exceptions(table);
    let mut sections = vec![
        package_table(table, &packages, &rest, extent),
        compilers(table),
        libraries(table, &files, extent),
        exceptions_list(table, &exceptions, extent),
        backends(table, extent),
        Section::list("What to do", to_do(table, &packages, &files), extent.rows, "line"),
        problems(table, extent),
    ];
    sections.retain(|s| !s.rows.is_empty() || !s.items.is_empty());
    Page { title: title(table), lines: lines(table), sections }
}

fn title(table: &AuditTable) -> String {
    let devices: Vec<&str> = table.devices.iter().map(|d| d.name.as_str()).collect();
    format!("Device code for {}", devices.join(" and "))
}

fn lines(table: &AuditTable) -> Vec<String> {
    let holding = table.entries.iter().map(|e| e.file).collect::<BTreeSet<_>>().len();
    let mut counts = Vec::new();
    if !table.packages.is_empty() {
        counts.push(counted(table.packages.len(), "package"));
    }
    counts.push(format!("{} with device code", counted(holding, "file")));
    counts.push(counted(table.kernels.len(), "kernel"));
    let mut out = vec![counts.join(", ") + "."];
    let here: Vec<String> = table
        .devices
        .iter()
        .filter(|d| !d.gpu.is_empty())
        .map(|d| {
            let driver = match (&d.cuda, d.isa) {
                (Some(cuda), Some(isa)) => {
                    format!(" with a driver of CUDA {cuda}, which compiles PTX up to {isa}")
                }
                (Some(cuda), None) => format!(" with a driver of CUDA {cuda}"),
                _ => String::new(),
            };
            format!("{} is this machine's {}{driver}", d.name, d.gpu)
        })
        .collect();
    out.push(if here.is_empty() {
        "No GPU of these is on this machine: answers follow from the files and the documented rules."
            .to_owned()
    } else {
        format!("{}.", here.join("; "))
    });
    let named = table.kernels.iter().flat_map(|k| &k.images).filter(|i| i.opcodes.is_some()).count();
    match table.disassembler {
        Some(version) if named > 0 => out.push(format!(
            "nvdisasm {version} named the opcodes of {} that promise FP4 or block scales, or that were asked for.",
            counted(named, "kernel image")
        )),
        _ if !table.no_opcodes.is_empty() => out.push(table.no_opcodes.clone()),
        _ => {}
    }
    out
}

fn device_columns(table: &AuditTable) -> impl Iterator<Item = String> + '_ {
    table.devices.iter().map(|d| d.name.clone())
}

fn package_table(table: &AuditTable, packages: &[Group], rest: &Group, extent: Extent) -> Section {
    let mut order: Vec<usize> = (0..packages.len()).filter(|p| packages[*p].kernels() > 0).collect();
    order.sort_by_key(|p| table.packages[*p].name.to_lowercase());
    let row = |name: String, group: &Group| {
        let mut row = vec![name, grouped(group.kernels())];
        row.extend(group.tallies.iter().map(rollup::Tally::words));
        row.push(targets(group));
        row
    };
    let mut rows: Vec<Vec<String>> = order
        .into_iter()
        .map(|p| row(format!("{} {}", table.packages[p].name, table.packages[p].version), &packages[p]))
        .collect();
    if !rows.is_empty() && rest.kernels() > 0 {
        rows.push(row("of no package".to_owned(), rest));
    }
    let columns = ["package", "kernels"].map(str::to_owned).into_iter();
    let columns = columns.chain(device_columns(table)).chain(["code for".to_owned()]).collect();
    Section::table("Packages with device code", columns, rows, extent.rows, "package")
}

/// `sm_80 sm_90a PTX sm_90`, shortened where there are many.
fn targets(group: &Group) -> String {
    let mut list: Vec<&String> = group.targets.iter().collect();
    list.sort_by_key(|t| (t.starts_with("PTX"), t.trim_start_matches("PTX ").len(), t.as_str()));
    list.into_iter().cloned().collect::<Vec<_>>().join(" ")
}

fn compilers(table: &AuditTable) -> Section {
    let mut rows: Vec<Vec<String>> = table
        .packages
        .iter()
        .filter(|p| !p.compiles.is_empty())
        .map(|p| {
            let mut row = vec![format!("{} {}", p.name, p.version)];
            row.extend(p.knows.iter().map(|k| support(*k).to_owned()));
            row.push(p.compiles.clone());
            row
        })
        .collect();
    rows.sort();
    let columns = ["package".to_owned()].into_iter();
    let columns = columns.chain(device_columns(table)).chain(["with".to_owned()]).collect();
    Section::table("Packages that compile kernels when they are used", columns, rows, usize::MAX, "package")
}

fn support(standing: Support) -> &'static str {
    match standing {
        Support::Works => "works",
        Support::Compiles => "compiles",
        Support::Absent => "no",
        Support::NotInstalled => "not installed",
        Support::Unknown => "not known",
    }
}

fn libraries(table: &AuditTable, files: &[Group], extent: Extent) -> Section {
    let mut order: Vec<usize> = (0..files.len()).filter(|f| files[*f].entries > 0).collect();
    // What does not all run first, the larger first.
    let bad = |f: usize| {
        let all = files[f].kernels();
        files[f].tallies.iter().map(|t| all - t.running()).max().unwrap_or(0)
    };
    order.sort_by_key(|f| (std::cmp::Reverse(bad(*f)), table.files[*f].path.clone()));
    let short = common_folder(order.iter().map(|f| table.files[*f].path.as_str()));
    let rows =
        order
            .into_iter()
            .map(|f| {
                let path = &table.files[f].path;
                let mut row = vec![path[short..].to_owned(), grouped(files[f].kernels())];
                row.extend(files[f].tallies.iter().map(|t| {
                    if files[f].targets.is_empty() { "nothing to load".to_owned() } else { t.words() }
                }));
                row.push(targets(&files[f]));
                row
            })
            .collect();
    let columns = ["file", "kernels"].map(str::to_owned).into_iter();
    let columns = columns.chain(device_columns(table)).chain(["code for".to_owned()]).collect();
    let mut section = Section::table("Files", columns, rows, extent.rows, "file");
    if short > 0 {
        let first = table.files.first().map_or("", |f| &f.path[..short.min(f.path.len())]);
        section.note = format!("in {first}");
    }
    section
}

/// Bytes of the folder that all paths share.
fn common_folder<'a>(paths: impl Iterator<Item = &'a str>) -> usize {
    let mut common: Option<&str> = None;
    for path in paths {
        let folder = &path[..path.rfind('/').map_or(0, |slash| slash + 1)];
        common = Some(match common {
            None => folder,
            Some(old) => {
                let same = old.bytes().zip(folder.bytes()).take_while(|(a, b)| a == b).count();
                &old[..old[..floor(old, same)].rfind('/').map_or(0, |slash| slash + 1)]
            }
        });
    }
    common.map_or(0, str::len)
}

/// The greatest index up to `at` that is no middle of a character.
fn floor(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0)
}

fn exceptions_list(table: &AuditTable, exceptions: &[Exception], extent: Extent) -> Section {
    // The same sentence of many files is one item: a package of single cubins has thousands of them.
    let mut by: indexmap::IndexMap<(AuditVerdict, usize, Vec<usize>, Option<usize>), Vec<&Exception>> =
        indexmap::IndexMap::new();
    for e in exceptions {
        let package = table.files[e.file].package;
        by.entry((e.verdict, e.reason, e.devices.clone(), package)).or_default().push(e);
    }
    let mut groups: Vec<_> = by.into_iter().collect();
    let weight = |list: &[&Exception]| list.iter().map(|e| e.kernels.len()).sum::<usize>();
    groups
        .sort_by_key(|((verdict, ..), list)| (std::cmp::Reverse(*verdict), std::cmp::Reverse(weight(list))));
    let items = groups
        .iter()
        .map(|((verdict, reason, devices, package), list)| {
            let names: Vec<&str> = devices.iter().map(|d| table.devices[*d].name.as_str()).collect();
            let what = match package {
                Some(p) => table.packages[*p].name.clone(),
                None => String::new(),
            };
            let place = if let [one] = list.as_slice() {
                let path = &table.files[one.file].path;
                let file = path.rsplit('/').next().unwrap_or(path);
                if what.is_empty() { file.to_owned() } else { format!("{what}, {file}") }
            } else {
                let files = counted(list.len(), "file");
                if what.is_empty() { files } else { format!("{what}, {files}") }
            };
            let example = list[0].kernels.first().map_or("", |k| table.kernels[*k].name.as_str());
            format!(
                "{}: {place}: {}: {}; such as {}",
                names.join(" and "),
                phrase(*verdict, weight(list)),
                table.reasons[*reason],
                readable(example, extent.name)
            )
        })
        .collect();
    Section::list("What does not simply run", items, extent.exceptions, "group")
}

fn phrase(verdict: AuditVerdict, kernels: usize) -> String {
    let what = counted(kernels, "kernel");
    let one = kernels == 1;
    match verdict {
        AuditVerdict::NoCode => format!("{what} without code"),
        AuditVerdict::Stub => format!("{what} that {} empty", if one { "is" } else { "are" }),
        AuditVerdict::Fallback => format!("{what} that fall{} back", if one { "s" } else { "" }),
        AuditVerdict::Jit => format!("{what} by JIT"),
        AuditVerdict::Undetermined => format!("{what} undetermined"),
        AuditVerdict::Native | AuditVerdict::Family => what,
    }
}

fn backends(table: &AuditTable, extent: Extent) -> Section {
    let rows = table
        .backends
        .iter()
        .map(|b| {
            let mut row = vec![b.backend.clone(), b.about.clone()];
            row.extend(b.standing.iter().map(|s| support(*s).to_owned()));
            let mut said: Vec<String> = Vec::new();
            for (device, evidence) in table.devices.iter().zip(&b.evidence) {
                if b.evidence.iter().all(|e| e == evidence) {
                    said = vec![evidence.clone()];
                    break;
                }
                said.push(format!("{}: {evidence}", device.name));
            }
            row.push(said.join("; "));
            row
        })
        .collect();
    let columns = ["backend", "computes"].map(str::to_owned).into_iter();
    let columns = columns.chain(device_columns(table)).chain(["evidence".to_owned()]).collect();
    Section::table("MoE backends of vLLM", columns, rows, extent.rows.max(64), "backend")
}

/// What an owner does about what does not run, one line for each package or file.
fn to_do(table: &AuditTable, packages: &[Group], files: &[Group]) -> Vec<String> {
    let mut out = Vec::new();
    let mut lost: BTreeSet<usize> = BTreeSet::new();
    let subjects: Vec<(String, &Group)> = if packages.iter().any(|g| g.kernels() > 0) {
        table.packages.iter().zip(packages).map(|(p, g)| (p.name.clone(), g)).collect()
    } else {
        table.files.iter().zip(files).map(|(f, g)| (f.path.clone(), g)).collect()
    };
    let (mut none, mut some, mut empty, mut jit) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (name, group) in subjects.iter().filter(|(_, g)| g.kernels() > 0) {
        let without = |t: &rollup::Tally| t.of(AuditVerdict::NoCode);
        for (device, tally) in group.tallies.iter().enumerate() {
            if without(tally) > 0 || tally.of(AuditVerdict::Stub) > 0 {
                lost.insert(device);
            }
        }
        let worst = group.tallies.iter().max_by_key(|t| without(t));
        let Some(worst) = worst else { continue };
        if without(worst) == group.kernels() {
            none.push(name.as_str());
        } else if without(worst) > 0 {
            some.push(name.as_str());
        }
        if group.tallies.iter().any(|t| t.of(AuditVerdict::Stub) > 0) {
            empty.push(name.as_str());
        }
        if group.tallies.iter().any(|t| t.of(AuditVerdict::Jit) > 0) {
            jit.push(name.as_str());
        }
    }
    let list = |names: &[&str]| match names {
        [one] => (*one).to_owned(),
        [some @ .., last] if names.len() <= 5 => format!("{} and {last}", some.join(", ")),
        _ => format!("{} and {} more", names[..4].join(", "), names.len() - 4),
    };
    if !none.is_empty() {
        out.push(format!(
            "{}: nothing of it runs on {}. Take a release that was built for it, or build it as below; what calls it fails with \"no kernel image is available\", or takes another way.",
            list(&none),
            devices(table, &lost)
        ));
    }
    if !some.is_empty() {
        out.push(format!(
            "{}: part of its kernels have no code. That is harmless where they are made for other GPUs by design (tcgen05, wgmma): the list above names them; otherwise build as below.",
            list(&some)
        ));
    }
    if !empty.is_empty() {
        out.push(format!(
            "{}: kernels whose body was compiled out load and compute nothing. The usual cause is a target without its suffix, or one that the source does not know: build as below.",
            list(&empty)
        ));
    }
    let numbers: Vec<u16> =
        lost.iter().filter_map(|d| table.devices[*d].name.trim_start_matches("sm_").parse().ok()).collect();
    if !numbers.is_empty() {
        let how = arch::rebuild(&numbers);
        let since = how.cuda.map_or_else(String::new, |v| format!(" (CUDA {v} or later)"));
        out.push(format!(
            "To build for {}{since}: nvcc {}; CMAKE_CUDA_ARCHITECTURES=\"{}\"; TORCH_CUDA_ARCH_LIST=\"{}\".",
            devices(table, &lost),
            how.nvcc,
            how.cmake,
            how.torch
        ));
    }
    if !jit.is_empty() {
        let newest = table
            .entries
            .iter()
            .filter(|e| e.verdicts.contains(&AuditVerdict::Jit))
            .filter_map(|e| e.isa)
            .max();
        let driver = newest
            .and_then(|isa| {
                Some(format!(
                    "a driver of CUDA {} or later (nvidia-smi shows it) takes PTX {isa}",
                    isa.cuda()?
                ))
            })
            .unwrap_or_else(|| "a driver that takes their PTX is needed".to_owned());
        out.push(format!(
            "{}: some kernels run by JIT: {driver}; the first load is slow, and CUDA_CACHE_MAXSIZE=4294967296 keeps what was compiled.",
            list(&jit)
        ));
    }
    for package in &table.packages {
        if package.knows.contains(&Support::Absent) {
            out.push(format!("{}: {}: update it.", package.name, package.compiles));
        }
    }
    out
}

fn devices(table: &AuditTable, which: &BTreeSet<usize>) -> String {
    let names: Vec<&str> = which.iter().map(|d| table.devices[*d].name.as_str()).collect();
    names.join(" and ")
}

fn problems(table: &AuditTable, extent: Extent) -> Section {
    let items = table.problems.iter().map(|p| format!("{}: {}; {}", p.place, p.problem, p.remedy)).collect();
    Section::list("Not read", items, extent.problems, "problem")
}
