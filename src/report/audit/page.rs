//! The content of an audit in reading order: packages, libraries, exceptions, backends, advice, problems.
//! A page consists of headings, sentences, tables and lists; the terminal and Markdown draw it in their own ways.

use std::collections::BTreeSet;

use super::super::phrase::{counted, grouped};
use super::rollup::{self, Group};
use super::{advice, exceptions};
use crate::record::{AuditBackend, AuditKnownBad, AuditMiscompile, AuditTable, AuditTakes, Support};

/// A table, or a list if it has no columns.
pub(super) struct Section {
    pub(super) title: String,
    /// The text above it.
    pub(super) note: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    pub(super) items: Vec<String>,
    /// What was left out, and where to find it.
    pub(super) more: String,
}

/// The amount of detail.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    /// The number of table rows.
    pub(super) rows: usize,
    /// The number of exceptions.
    pub(super) exceptions: usize,
    /// The number of characters of a kernel's name.
    pub(super) name: usize,
    /// The number of problems.
    pub(super) problems: usize,
    /// The number of files of a package above which none is listed.
    pub(super) files: usize,
    /// Whether attention backends show the sources of their rules.
    pub(super) sources: bool,
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
    let wholes = rollup::libraries(table, &files);
    let exceptions = rollup::exceptions(table);
    let mut sections = vec![
        package_table(table, &packages, &rest, extent),
        compilers(table),
        libraries(table, &wholes, &packages, extent),
        Section::list(
            "What does not simply run",
            exceptions::items(table, &exceptions, extent.name),
            extent.exceptions,
            "group",
        ),
        moe_backends(table, extent),
    ];
    sections.extend(attention_backends(table, extent));
    sections.extend([
        Section::list("What to do", advice::to_do(table, &packages, &wholes), extent.rows, "line"),
        known_bad(table, extent),
        miscompiles(table, extent),
        problems(table, extent),
    ]);
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
    if table.entries.is_empty() {
        let by_rules = table.packages.is_empty() && !table.models.is_empty();
        let said = match by_rules {
            true => "No package was found: what is said below is what the sources of the packages say.",
            false => {
                "No file has device code: what is said below is about packages that compile it at run time."
            }
        };
        out.push(said.to_owned());
    }
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
    let why = if table.no_gpu.is_empty() { String::new() } else { format!(" ({})", table.no_gpu) };
    out.push(if here.is_empty() {
        format!(
            "This machine has none of these GPUs{why}: the answers follow from the files and the documented rules."
        )
    } else {
        format!("{}{why}.", here.join("; "))
    });
    let named = table
        .kernels
        .iter()
        .flat_map(|k| &k.images)
        .filter(|i| i.opcodes.is_some() && i.code.is_some())
        .count();
    out.extend(model_lines(table));
    match table.disassembler {
        Some(version) if named > 0 => out.push(format!(
            "nvdisasm {version} named the opcodes of {} that promise FP4 or block scales, or that were selected.",
            counted(named, "kernel image")
        )),
        _ if !table.no_opcodes.is_empty() => out.push(table.no_opcodes.clone()),
        _ => {}
    }
    out
}

/// The layers of the models that backends were asked to serve.
fn model_lines(table: &AuditTable) -> impl Iterator<Item = String> + '_ {
    table.models.iter().map(|model| format!("{}: {} ({}).", model.name, model.layers, model.source))
}

fn device_columns(table: &AuditTable) -> impl Iterator<Item = String> + '_ {
    table.devices.iter().map(|d| d.name.clone())
}

fn package_table(table: &AuditTable, packages: &[Group], rest: &Group, extent: Extent) -> Section {
    let mut order: Vec<usize> = (0..packages.len()).filter(|p| packages[*p].kernels() > 0).collect();
    order.sort_unstable_by(|a, b| table.packages[*a].name.cmp(&table.packages[*b].name));
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
    let columns = columns.chain(device_columns(table)).chain(["code for sm_".to_owned()]).collect();
    Section::table("Packages with device code", columns, rows, extent.rows, "package")
}

/// `80 90a 120, PTX 80 90`.
fn targets(group: &Group) -> String {
    let list = |ptx: bool| -> Vec<&str> {
        let of = group.targets.iter().filter(|t| t.starts_with("PTX ") == ptx);
        let mut list: Vec<&str> = of.map(|t| t.trim_start_matches("PTX ")).collect();
        let number = |t: &str| t.trim_end_matches(['a', 'f', '?']).parse::<u16>().unwrap_or(0);
        list.sort_unstable_by(|a, b| number(a).cmp(&number(b)).then_with(|| a.cmp(b)));
        list
    };
    let (machine, ptx) = (list(false).join(" "), list(true).join(" "));
    match (machine.is_empty(), ptx.is_empty()) {
        (_, true) => machine,
        (true, false) => format!("PTX {ptx}"),
        (false, false) => format!("{machine}, PTX {ptx}"),
    }
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
    rows.sort_unstable();
    let columns = ["package".to_owned()].into_iter();
    let columns = columns.chain(device_columns(table)).chain(["with".to_owned()]).collect();
    Section::table("Packages that compile kernels at run time", columns, rows, usize::MAX, "package")
}

pub(super) fn support(standing: Support) -> &'static str {
    match standing {
        Support::Works => "works",
        Support::Compiles => "compiles",
        Support::Taken => "by source",
        Support::Absent => "no",
        Support::NotInstalled => "not installed",
        Support::Unknown => "not known",
    }
}

fn libraries(table: &AuditTable, files: &[Group], packages: &[Group], extent: Extent) -> Section {
    // A package of thousands of single cubins is one row above.
    let few = |f: &usize| table.files[*f].package.is_none_or(|p| packages[p].files.len() <= extent.files);
    let mut order: Vec<usize> = (0..files.len()).filter(|f| files[*f].entries > 0).filter(few).collect();
    // Files that do not run completely come first, larger ones before smaller ones.
    let bad = |f: usize| {
        let all = files[f].kernels();
        files[f].tallies.iter().map(|t| all - t.running()).max().unwrap_or(0)
    };
    order.sort_unstable_by(|a, b| {
        bad(*b).cmp(&bad(*a)).then_with(|| table.files[*a].path.cmp(&table.files[*b].path))
    });
    let path = |f: usize| rollup::whole(&table.files[f].path);
    let short = common_folder(order.iter().map(|f| path(*f)));
    let rows =
        order
            .into_iter()
            .map(|f| {
                let mut row = vec![path(f)[short..].to_owned(), grouped(files[f].kernels())];
                row.extend(files[f].tallies.iter().map(|t| {
                    if files[f].targets.is_empty() { "nothing to load".to_owned() } else { t.words() }
                }));
                row.push(targets(&files[f]));
                row
            })
            .collect();
    let columns = ["file", "kernels"].map(str::to_owned).into_iter();
    let columns = columns.chain(device_columns(table)).chain(["code for sm_".to_owned()]).collect();
    let mut section = Section::table("Files", columns, rows, extent.rows, "file");
    if short > 0 {
        let first = table.files.first().map_or("", |f| &f.path[..short.min(f.path.len())]);
        section.note = format!("in {first}");
    }
    section
}

/// The number of bytes of the folder that all paths share.
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

/// The greatest index up to `at` that is a character boundary.
fn floor(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0)
}

fn moe_backends(table: &AuditTable, extent: Extent) -> Section {
    let rows = table
        .backends
        .iter()
        .filter(|b| b.takes.is_none())
        .map(|b| {
            let mut row = vec![b.backend.clone(), b.about.clone()];
            row.extend(b.standing.iter().map(|s| support(*s).to_owned()));
            row.push(evidence(table, b));
            row
        })
        .collect();
    let columns = ["backend", "computes"].map(str::to_owned).into_iter();
    let columns = columns.chain(device_columns(table)).chain(["evidence".to_owned()]).collect();
    Section::table("MoE backends of vLLM", columns, rows, extent.rows.max(64), "backend")
}

/// The attention backends of an environment, then those of each model that was asked for.
fn attention_backends(table: &AuditTable, extent: Extent) -> Vec<Section> {
    let mut models: Vec<&str> = Vec::new();
    for backend in table.backends.iter().filter(|b| b.takes.is_some()) {
        if !models.contains(&backend.layers_of.as_str()) {
            models.push(&backend.layers_of);
        }
    }
    models.into_iter().map(|model| attention_backends_of(table, model, extent)).collect()
}

/// The attention backends for a model, those that are of use first. The terminal leaves out backends for other layers than those of the
/// model; without a model, those that are of no use.
fn attention_backends_of(table: &AuditTable, model: &str, extent: Extent) -> Section {
    let mut backends: Vec<&AuditBackend> =
        table.backends.iter().filter(|b| b.takes.is_some() && b.layers_of == model).collect();
    backends.sort_by_key(|b| !b.standing.iter().any(|s| serves(*s)));
    let all = backends.len();
    let asked = table.models.iter().find(|row| row.name == model);
    if !extent.sources {
        backends.retain(|b| match (asked, &b.takes) {
            (Some(model), Some(takes)) => takes.forms.contains(&model.form),
            _ => b.standing.iter().any(|s| serves(*s) || *s == Support::Unknown),
        });
    }
    let others = all - backends.len();
    let rows = backends.into_iter().map(|b| {
        let mut row = vec![format!("{} {}", b.engine, b.backend)];
        row.extend(extent.sources.then(|| b.about.clone()));
        row.extend(b.standing.iter().map(|s| support(*s).to_owned()));
        let takes = b.takes.as_ref().map(AuditTakes::phrase).unwrap_or_default();
        let mut said = Vec::new();
        if extent.sources || (asked.is_none() && b.standing.iter().any(|s| serves(*s))) {
            said.push(format!("takes {takes}"));
        }
        said.push(evidence(table, b));
        said.extend(extent.sources.then(|| b.source.clone()));
        row.push(said.join(". "));
        row
    });
    let computes = extent.sources.then(|| "computes".to_owned());
    let columns = ["backend".to_owned()].into_iter().chain(computes);
    let columns = columns.chain(device_columns(table)).chain(["evidence".to_owned()]).collect();
    let title = match asked {
        None => "Attention backends of vLLM, SGLang and FlashInfer".to_owned(),
        Some(model) => format!("Attention backends for the layers of {}", model.name),
    };
    let mut section = Section::table(&title, columns, rows.collect(), extent.rows.max(64), "backend");
    if others > 0 {
        section.more = left_out(others, 0, "backend");
    }
    section
}

/// Whether a backend is of use on a device.
fn serves(standing: Support) -> bool {
    matches!(standing, Support::Works | Support::Compiles | Support::Taken)
}

/// The evidence of a backend, once if it is the same on all devices.
fn evidence(table: &AuditTable, backend: &AuditBackend) -> String {
    let Some(first) = backend.evidence.first() else { return String::new() };
    if backend.evidence.iter().all(|e| e == first) {
        return first.clone();
    }
    let each = table.devices.iter().zip(&backend.evidence);
    each.map(|(device, evidence)| format!("{}: {evidence}", device.name)).collect::<Vec<_>>().join("; ")
}

/// Installed packages of versions that are reported not to work.
fn known_bad(table: &AuditTable, extent: Extent) -> Section {
    let item = |bad: &AuditKnownBad| {
        format!("{} {}: {} {} ({})", bad.package, bad.version, bad.effect, bad.remedy, bad.source)
    };
    let items = table.known_bad.iter().map(item).collect();
    Section::list("Package versions with known problems", items, extent.problems, "package")
}

/// PTX that ptxas is known to compile wrongly; the driver's compiler is one.
fn miscompiles(table: &AuditTable, extent: Extent) -> Section {
    let item = |m: &AuditMiscompile| {
        format!(
            "{}, {}: {} ({} of `{}`; {}): {} {}",
            m.place, m.function, m.name, m.matches, m.form, m.toolkits, m.effect, m.rewrite
        )
    };
    let items = table.miscompiles.iter().map(item).collect();
    Section::list("Known miscompiles of ptxas in PTX", items, extent.problems, "miscompile")
}

fn problems(table: &AuditTable, extent: Extent) -> Section {
    let items = table.problems.iter().map(|p| format!("{}: {}; {}", p.place, p.problem, p.remedy)).collect();
    Section::list("Not read", items, extent.problems, "problem")
}
