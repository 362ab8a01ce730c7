//! Applies the rules of `backends.yaml` and `attention_backends.yaml` to an environment: its JIT compilers, and its backends for MoE layers
//! and for attention.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use ptx::arch::{Requirement, ToolkitVersion};

use super::attention::row_of_model;
use super::backend_rules::{Backend, Compiler, Quote, Rules, rules};
use super::installed::{Installed, of_wheel};
use crate::attention::Model;
use crate::record::{
    AuditBackend, AuditKernel, AuditKnownBad, AuditPackage, AuditProblem, AuditTable, Shown, Support,
    readable_kernel,
};

/// The version text that every CUDA tool contains.
const RELEASE: &[u8] = b"Cuda compilation tools, release ";

/// The longest name shown in evidence, in characters.
const NAME: usize = 60;

/// Bytes read from a tool at a time.
const CHUNK: usize = 1 << 20;

/// The architectures for which the limits of attention backends were read.
const READ_FOR: std::ops::RangeInclusive<u16> = 120..=121;

/// Adds to `table` the package of every file, the compiler of every package, and whether each backend can work; those for attention on
/// the layers of `model`. Without any of their packages, a model is answered by the rules alone.
pub fn describe(table: &mut AuditTable, installed: &Installed, model: Option<&Model>) {
    let devices: Vec<u16> =
        table.devices.iter().filter_map(|d| d.architecture()).map(|target| target.number).collect();
    own(table, installed);
    known_bad(table, installed);
    let Some(rules) = rules() else { return };
    for compiler in &rules.compilers {
        let Some(found) = installed.find(&compiler.package) else { continue };
        let (compiles, knows) = compiled_with(compiler, &found.site, &devices);
        let row = package(&mut table.packages, found.name.clone(), found.version.clone());
        table.packages[row].compiles = compiles;
        table.packages[row].knows = knows;
    }
    let question =
        |b: &Backend| Question { installed: Some(installed), model: model.filter(|_| b.takes.is_some()) };
    let here = |b: &Backend| b.packages.iter().any(|p| installed.find(p).is_some());
    let moe = |b: &&Backend| b.takes.is_none();
    if rules.backends.iter().filter(moe).any(here) {
        let rows = rules.backends.iter().filter(moe);
        table.backends = rows.map(|b| standing(b, rules, table, question(b), &devices)).collect();
    }
    // An engine that is not installed has no row, but a package that one of its backends lacks is named.
    let engine = |b: &&Backend| b.takes.is_some() && installed.find(&b.packages[0]).is_some();
    let mut attention: Vec<AuditBackend> = rules
        .backends
        .iter()
        .filter(engine)
        .map(|b| standing(b, rules, table, question(b), &devices))
        .collect();
    if let Some(model) = model {
        table.models.push(row_of_model(model));
        if attention.is_empty() {
            attention = by_source(rules, table, model, &devices);
        }
    }
    table.backends.extend(attention);
    for (path, why) in &installed.unreadable {
        table.problems.push(AuditProblem {
            place: path.display().to_string(),
            problem: format!("cannot be read: {why}"),
            remedy: "files of this package are not assigned to any package: reinstall it".to_owned(),
        });
    }
}

/// Answers for the layers of a model by the rules alone.
fn by_source(rules: &Rules, table: &AuditTable, model: &Model, devices: &[u16]) -> Vec<AuditBackend> {
    let question = Question { installed: None, model: Some(model) };
    let backends = rules.backends.iter().filter(|b| b.takes.is_some());
    backends.map(|b| standing(b, rules, table, question, devices)).collect()
}

/// Assigns the files in JIT compilers' caches to their owners. Each of `caches` is `(owner, folder)`.
pub fn describe_caches(table: &mut AuditTable, caches: &[(String, PathBuf)]) {
    for (owner, folder) in caches {
        for file in table.files.iter_mut().filter(|f| f.package.is_none()) {
            if Path::new(&file.path).starts_with(folder) {
                file.package = Some(package(&mut table.packages, format!("cache of {owner}"), String::new()));
            }
        }
    }
}

/// Adds the installed packages that are reported not to work on the devices.
fn known_bad(table: &mut AuditTable, installed: &Installed) {
    let gpus: Vec<String> = table.devices.iter().map(|device| device.name.clone()).collect();
    let all = installed.distributions.iter().map(|d| (d.name.as_str(), d.version.as_str()));
    for bad in crate::doctor::known_bad_packages(all, &gpus) {
        let (Some(package), Some(version)) = (bad.package, bad.installed) else { continue };
        let (gpus, effect, remedy, source) = (bad.gpus, bad.effect, bad.remedy, bad.source);
        table.known_bad.push(AuditKnownBad { package, version, gpus, effect, remedy, source });
    }
}

/// Assigns files to packages, by `RECORD` or by the name of the wheel that contains them.
fn own(table: &mut AuditTable, installed: &Installed) {
    for file in &mut table.files {
        let outer = file.path.split('!').next().unwrap_or_default();
        let owner = installed.owner(outer).map(|d| {
            let d = &installed.distributions[d];
            (d.name.clone(), d.version.clone())
        });
        let Some((name, version)) = owner.or_else(|| of_wheel(&file.path)) else { continue };
        file.package = Some(package(&mut table.packages, name, version));
    }
}

/// Returns the row of a package, which is appended if missing.
fn package(rows: &mut Vec<AuditPackage>, name: String, version: String) -> usize {
    // Searches from the end, since files of a package are adjacent.
    if let Some(row) = rows.iter().rposition(|p| p.name == name && p.version == version) {
        return row;
    }
    rows.push(AuditPackage { name, version, compiles: String::new(), knows: Vec::new() });
    rows.len() - 1
}

/// Returns the compiler that a package uses, and whether it supports each device.
fn compiled_with(compiler: &Compiler, site: &Path, devices: &[u16]) -> (String, Vec<Support>) {
    let gated = |number: u16| compiler.gate.as_ref().is_some_and(|gate| !gate.takes(number));
    let tools: Vec<PathBuf> = compiler
        .tools
        .iter()
        .map(|t| named(&site.join(t)))
        .find(|found| !found.is_empty())
        .unwrap_or_default();
    if tools.is_empty() {
        let (all, missing) = match compiler.tools.as_slice() {
            [] => (Support::Compiles, ""),
            _ => (Support::Unknown, ", which is not there"),
        };
        let of = |number: &u16| if gated(*number) { Support::Absent } else { all };
        return (format!("{}{missing}", compiler.with), devices.iter().map(of).collect());
    }
    let mut versions: Vec<ToolkitVersion> = tools.iter().flat_map(|tool| releases(tool)).collect();
    versions.sort();
    versions.dedup();
    let of = |number: &u16| {
        let allows = |needs: &Requirement| versions.iter().filter(|v| needs.allows(**v)).count();
        match compiler.needs.as_ref().map(allows) {
            _ if gated(*number) => Support::Absent,
            // Every tool in use supports architectures older than SM12x.
            _ if *number < 120 => Support::Compiles,
            _ if versions.is_empty() => Support::Unknown,
            Some(0) => Support::Absent,
            Some(all) if all == versions.len() => Support::Compiles,
            // One of several parts is too old: which of them decides is not known.
            _ => Support::Unknown,
        }
    };
    let knows: Vec<Support> = devices.iter().map(of).collect();
    let said: Vec<String> = versions.iter().map(ToString::to_string).collect();
    let said = if said.is_empty() { "of unknown version".to_owned() } else { said.join(" and ") };
    let lacks = match &compiler.needs {
        Some(needs) if knows.contains(&Support::Absent) => {
            format!("; SM12x needs {}", needs.to_string().trim_start_matches(">="))
        }
        _ => String::new(),
    };
    let names: Vec<_> = tools.iter().filter_map(|tool| Some(tool.file_name()?.to_string_lossy())).collect();
    (format!("{}: {} {said}{lacks}", compiler.with, names.join(", ")), knows)
}

/// Returns the files that a path names: itself, or with a `*` in its last part, every file of the folder that fits, sorted.
fn named(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut found: Vec<PathBuf> = match (name.split_once('*'), path.parent()) {
        (Some((start, end)), Some(folder)) => {
            let fits = |file: &PathBuf| {
                let name =
                    file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
            };
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).filter(fits).collect()
        }
        _ => vec![path.to_owned()],
    };
    found.retain(|file| file.is_file());
    found.sort();
    found
}

/// Reads the version texts of a CUDA tool without running the tool; a library may contain several tools.
fn releases(path: &Path) -> Vec<ToolkitVersion> {
    let Ok(mut file) = File::open(path) else { return Vec::new() };
    let mut found: Vec<ToolkitVersion> = Vec::new();
    let mut held: Vec<u8> = Vec::new();
    loop {
        let old = held.len();
        let Ok(taken) = file.by_ref().take(CHUNK as u64).read_to_end(&mut held) else { return found };
        let mut from = 0;
        while let Some(at) = find(&held[from..], RELEASE) {
            let start = from + at + RELEASE.len();
            // `12.9, V12.9.86`
            let text: String =
                held[start..].iter().take(32).map(|b| char::from(*b)).take_while(|c| *c != '\0').collect();
            if let Some(version) = text.split(", V").nth(1).and_then(|v| {
                v.trim_end_matches(|c: char| !c.is_ascii_digit()).split(['\n', ' ']).next()?.parse().ok()
            }) && !found.contains(&version)
            {
                found.push(version);
            }
            from = start;
        }
        if taken == 0 || held.len() == old {
            return found;
        }
        // The text may span two chunks.
        let kept = held.len().saturating_sub(RELEASE.len() + 64);
        held.drain(..kept);
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|w| w == what)
}

/// What a backend is asked.
#[derive(Clone, Copy)]
struct Question<'a> {
    /// The packages; without them the rule answers alone.
    installed: Option<&'a Installed>,
    /// The model whose layers an attention backend should serve.
    model: Option<&'a Model>,
}

/// Decides whether a backend can work on each device, with the evidence.
fn standing(
    backend: &Backend,
    rules: &Rules,
    table: &AuditTable,
    question: Question<'_>,
    devices: &[u16],
) -> AuditBackend {
    let answers: Vec<(Support, String)> = match question.installed {
        None => devices.iter().map(|number| by_rule(backend, rules, question.model, *number)).collect(),
        Some(installed) => match unfounded(backend, rules, installed) {
            Some(answer) => vec![answer; devices.len()],
            None => {
                let kernels = Kernels::of_backend(backend, table);
                let of = |(device, number): (usize, &u16)| match refusal(backend, question.model, *number) {
                    Some((standing, why)) => (standing, format!("{why}{}", kernels.made(device))),
                    None => {
                        let (standing, evidence) = kernels.work(backend, installed, device);
                        (standing, format!("{}{evidence}", served(backend, question.model)))
                    }
                };
                devices.iter().enumerate().map(of).collect()
            }
        },
    };
    let (standing, evidence) = answers.into_iter().unzip();
    AuditBackend {
        engine: backend.engine.clone(),
        backend: backend.backend.clone(),
        about: backend.about.clone(),
        standing,
        evidence,
        source: backend.source_words(),
        takes: backend.takes.as_ref().map(super::attention::Takes::row),
        layers_of: question.model.map(|model| model.name.clone()).unwrap_or_default(),
    }
}

/// Answers by the rule alone.
fn by_rule(backend: &Backend, rules: &Rules, model: Option<&Model>, number: u16) -> (Support, String) {
    refusal(backend, model, number).unwrap_or_else(|| {
        let package = &backend.packages[0];
        let version = rules.versions.get(package).map_or("", String::as_str);
        (Support::Taken, format!("{}by the source of {package} {version}", served(backend, model)))
    })
}

/// Returns the answer if the rule is about something else than what is installed: a package is missing, or a file lacks a quoted text.
fn unfounded(backend: &Backend, rules: &Rules, installed: &Installed) -> Option<(Support, String)> {
    let missing: Vec<&str> =
        backend.packages.iter().map(String::as_str).filter(|p| installed.find(p).is_none()).collect();
    if !missing.is_empty() {
        return Some((Support::NotInstalled, format!("{} is not installed", missing.join(", "))));
    }
    let lost: Vec<&Quote> =
        backend.quotes.iter().filter(|quote| !installed.says(&quote.file, &quote.text)).collect();
    let first = lost.first()?;
    let more = if lost.len() > 1 { format!(" and {} more", lost.len() - 1) } else { String::new() };
    let versions = backend.packages.iter().filter_map(|package| {
        let read = rules.versions.get(package)?;
        Some(format!("{package} {}, the rule was read in {read}", installed.find(package)?.version))
    });
    let versions: Vec<String> = versions.collect();
    let why = format!("not in the installed files: {}{more} ({})", first.words(), versions.join("; "));
    Some((Support::Unknown, why))
}

/// Returns the answer if the gate does not take a device, or the backend not the layers of the model; `None` if both fit.
fn refusal(backend: &Backend, model: Option<&Model>, number: u16) -> Option<(Support, String)> {
    if !backend.gate.takes(number) {
        let gate = backend.gate_quote().map_or_else(String::new, |quote| format!(" ({})", quote.words()));
        return Some((Support::Absent, format!("{} uses it only on {}{gate}", backend.engine, backend.gate)));
    }
    let (Some(takes), Some(model)) = (&backend.takes, model) else { return None };
    if !READ_FOR.contains(&number) {
        let why = "what it takes is known for SM12x only".to_owned();
        return Some((Support::Unknown, why));
    }
    let why = takes.caches_for(model).err()?;
    Some((Support::Absent, format!("{} has {why}", model.name)))
}

/// Returns the words that introduce the evidence of a backend that serves a model.
fn served(backend: &Backend, model: Option<&Model>) -> String {
    let words = backend.takes.as_ref().zip(model).map(|(takes, model)| takes.served_words(model));
    words.filter(|words| !words.is_empty()).map_or_else(String::new, |words| format!("{words}; "))
}

/// The kernels of a backend in the audited files.
struct Kernels<'a> {
    table: &'a AuditTable,
    /// Indices into the kernels of the table.
    of_it: Vec<usize>,
    /// Whether kernels whose opcodes are known count only if these are block-scaled.
    scaled: bool,
}

impl<'a> Kernels<'a> {
    fn of_backend(backend: &Backend, table: &'a AuditTable) -> Self {
        let Backend { kernels, files, .. } = backend;
        let in_files: Vec<bool> =
            table.files.iter().map(|f| files.as_ref().is_some_and(|r| r.is_match(&f.path))).collect();
        let of_it = (0..table.kernels.len()).filter(|k| {
            let row = &table.kernels[*k];
            in_files[row.file] && kernels.as_ref().is_some_and(|r| r.is_match(&row.name))
        });
        Self { table, of_it: of_it.collect(), scaled: backend.scaled }
    }

    fn shown(&self, kernel: usize, device: usize) -> Option<Shown> {
        let row = &self.table.kernels[kernel];
        row.images[row.by[device]].shown
    }

    /// Kernels with unknown opcodes count; those known not to be block-scaled do not.
    fn counts(&self, kernel: usize, device: usize) -> bool {
        !self.scaled || matches!(self.shown(kernel, device), None | Some(Shown::Native))
    }

    /// Returns the kernel that shows best that the backend works.
    fn best(&self, device: usize) -> Option<usize> {
        let worth = |k: &usize| {
            let native = self.shown(*k, device) == Some(Shown::Native);
            (!self.counts(*k, device), self.table.kernels[*k].verdicts[device], !native)
        };
        self.of_it.iter().copied().min_by_key(worth)
    }

    /// Returns a kernel as evidence.
    fn evidence(&self, kernel: usize, device: usize) -> String {
        let row = &self.table.kernels[kernel];
        let entry = &self.table.entries[row.images[row.by[device]].entry];
        let path = &self.table.files[row.file].path;
        let name = cut(path.rsplit('/').next().unwrap_or(path));
        format!(
            "{name}: {} of its kernels, such as {}: {} ({}{})",
            self.of_it.len(),
            cut(&readable_kernel(&row.name)),
            row.verdicts[device].phrase(),
            entry.target,
            opcodes(self.table, row, device)
        )
    }

    /// Returns what follows the reason why a backend is not used: its kernel, if there is one.
    fn made(&self, device: usize) -> String {
        self.best(device).map_or_else(String::new, |k| format!("; {}", self.evidence(k, device)))
    }

    /// Decides whether the backend has what it needs to run: kernels, or a compiler.
    fn work(&self, backend: &Backend, installed: &Installed, device: usize) -> (Support, String) {
        let best = self.best(device);
        if let Some(k) =
            best.filter(|k| self.counts(*k, device) && self.table.kernels[*k].verdicts[device].runs())
        {
            return (Support::Works, self.evidence(k, device));
        }
        let compiler =
            backend.compiler.as_ref().and_then(|name| installed.find(name)).and_then(|d| {
                self.table.packages.iter().find(|p| p.name == d.name && !p.compiles.is_empty())
            });
        let asked = backend.jit.as_ref().is_none_or(|jit| installed.file(jit).is_some());
        if let (Some(compiler), true) = (compiler, asked) {
            let from = backend.jit.as_ref().map_or_else(String::new, |jit| format!("{jit}; "));
            return (
                compiler.knows[device],
                format!("{from}compiled when used, by {} {}", compiler.name, compiler.version),
            );
        }
        if let (Some(name), None, None) = (&backend.compiler, compiler, best) {
            return (Support::NotInstalled, format!("{name} is not installed"));
        }
        match best {
            Some(k) => (Support::Absent, self.evidence(k, device)),
            None if backend.kernels.is_none() && backend.compiler.is_none() => {
                (Support::Unknown, "no rule says which files have its kernels".to_owned())
            }
            None => (Support::NotInstalled, "none of its kernels is in the installed files".to_owned()),
        }
    }
}

/// Shortens a long name in the middle: generated names end with the tile.
fn cut(name: &str) -> String {
    let length = name.chars().count();
    if length <= NAME {
        return name.to_owned();
    }
    let head = name.chars().take(NAME / 2);
    head.chain(['…']).chain(name.chars().skip(length - NAME / 2)).collect()
}

/// The opcodes of the image that the driver selects for a device, or an empty string if they are unknown.
fn opcodes(table: &AuditTable, kernel: &AuditKernel, device: usize) -> String {
    let known = kernel.images[kernel.by[device]].opcodes.map(|o| table.opcodes[o].as_str());
    match known {
        None => String::new(),
        Some("") => "; no matrix instruction".to_owned(),
        Some(list) => format!("; {list}"),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::attention::models;

    const DEVICES: [u16; 2] = [120, 121];

    fn attention() -> impl Iterator<Item = &'static Backend> {
        rules().unwrap().backends.iter().filter(|b| b.takes.is_some())
    }

    fn backend(engine: &str, name: &str) -> &'static Backend {
        attention().find(|b| b.engine == engine && b.backend == name).unwrap()
    }

    fn model(name: &str) -> &'static Model {
        models().iter().find(|model| model.name == name).unwrap()
    }

    /// The answers by the rules alone.
    fn answers(backend: &Backend, model: Option<&Model>) -> AuditBackend {
        let question = Question { installed: None, model };
        standing(backend, rules().unwrap(), &AuditTable::default(), question, &DEVICES)
    }

    #[test]
    fn a_gate_of_exactly_one_device_leaves_out_the_other() {
        let of = |engine, name| answers(backend(engine, name), None).standing;
        assert_eq!(of("FlashInfer", "cute-dsl-prims"), [Support::Taken, Support::Absent]);
        assert_eq!(of("SGLang", "qsa (FlashInfer, paged)"), [Support::Taken, Support::Absent]);
        assert_eq!(of("SGLang", "qsa (packed, SM121)"), [Support::Absent, Support::Taken]);
        assert_eq!(of("vLLM", "B12X"), [Support::Taken, Support::Taken]);
        assert_eq!(of("vLLM", "FLASHMLA"), [Support::Absent, Support::Absent]);
        let row = answers(backend("FlashInfer", "cute-dsl-prims"), None);
        assert_eq!(row.evidence[0], "by the source of flashinfer-python 0.7.2.post1");
        assert!(row.evidence[1].starts_with("FlashInfer uses it only on exactly 12.0 (gate: "), "{row:?}");
    }

    #[test]
    fn models_are_served_or_the_reason_is_said() {
        let of = |engine, name, asked| {
            let row = answers(backend(engine, name), Some(model(asked)));
            assert_eq!(row.layers_of, asked);
            (row.standing[0], row.evidence[0].clone())
        };
        let (standing, why) = of("vLLM", "FLASHINFER", "gpt-oss-20b");
        assert_eq!(standing, Support::Taken);
        assert!(why.starts_with("with a cache of bf16, fp16, e4m3, e5m2; sinks only if"), "{why}");
        let (_, why) = of("vLLM", "FLASHINFER", "llama-3.1-8b");
        assert!(why.starts_with("with a cache of bf16, fp16, e4m3, e5m2, nvfp4; "), "{why}");
        for (engine, name, asked, words) in [
            ("vLLM", "FLASH_ATTN", "gpt-oss-20b", "gpt-oss-20b has sinks, which it lacks"),
            ("vLLM", "FLEX_ATTENTION", "gemma-2-9b", "gemma-2-9b has a soft cap, which it lacks"),
            ("vLLM", "TURBOQUANT", "gemma-3-27b", "gemma-3-27b has a window, which it lacks"),
            ("vLLM", "B12X", "gemma-4-26b-a4b", "gemma-4-26b-a4b has heads of 512, it takes"),
            ("vLLM", "TRITON_ATTN", "mimo-v2-flash", "mimo-v2-flash has heads of 192 with values of 128"),
            ("vLLM", "TRITON_ATTN", "deepseek-v3", "deepseek-v3 has layers of the form latent"),
            (
                "FlashInfer",
                "cute-dsl-prims",
                "gpt-oss-20b",
                "gpt-oss-20b has a window and sinks, which it lacks",
            ),
            ("SGLang", "dsa (flashinfer_sparse_mla)", "deepseek-v3.2", "it takes glm-5 alone"),
        ] {
            let (standing, why) = of(engine, name, asked);
            assert_eq!(standing, Support::Absent, "{name}, {asked}");
            assert!(why.contains(words), "{name}, {asked}: {why}");
        }
        for (engine, name, asked) in [
            ("vLLM", "TRITON_ATTN_DIFFKV", "mimo-v2-flash"),
            ("vLLM", "TRITON_MLA", "deepseek-v3"),
            ("vLLM", "FLASHINFER_MLA_SPARSE_SM120", "deepseek-v3.2"),
            ("vLLM", "FLASHINFER_MLA_SPARSE_DSV4", "deepseek-v4-flash"),
            ("SGLang", "trtllm_mha", "gpt-oss-120b"),
        ] {
            assert_eq!(of(engine, name, asked).0, Support::Taken, "{name}, {asked}");
        }
        // The limits were read for SM12x.
        let question = Question { installed: None, model: Some(model("gpt-oss-20b")) };
        let row = super::standing(
            backend("vLLM", "FLASH_ATTN"),
            rules().unwrap(),
            &AuditTable::default(),
            question,
            &[90, 120],
        );
        assert_eq!(row.standing, [Support::Unknown, Support::Absent]);
    }

    /// What `docs/audit.md` says of the rules.
    #[test]
    fn the_document_has_the_attention_backends() {
        let mark = |takes: bool| if takes { "✓" } else { "✗" };
        let mut rows = "|backend|takes on SM12x|12.0|12.1|gate|\n|---|---|:-:|:-:|---|\n".to_owned();
        let (mut exact, mut elsewhere) = (Vec::new(), Vec::new());
        for b in attention() {
            let [on_120, on_121] = DEVICES.map(|number| b.gate.takes(number));
            if !on_120 && !on_121 {
                elsewhere.push(format!("{} {} ({})", b.engine, b.backend, b.gate));
                continue;
            }
            if on_120 && !on_121 {
                exact.push(format!("{} {}", b.engine, b.backend));
            }
            let (takes, file) = (b.takes.as_ref().unwrap().row(), &b.gate_quote().unwrap().file);
            _ = writeln!(
                rows,
                "|{} {}|{}|{}|{}|{}: `{file}`|",
                b.engine,
                b.backend,
                takes.phrase(),
                mark(on_120),
                mark(on_121),
                b.gate
            );
        }
        let mut served =
            "|model|served on 12.0 and 12.1 by|only on 12.0 by|only on 12.1 by|\n|---|---|---|---|\n"
                .to_owned();
        for model in models() {
            let by = |wanted: [bool; 2]| {
                let of = |b: &&Backend| {
                    answers(b, Some(model)).standing.iter().map(|s| *s == Support::Taken).eq(wanted)
                };
                let mut engines: Vec<(&str, Vec<String>)> = Vec::new();
                for b in attention().filter(of) {
                    let step = b.takes.as_ref().unwrap().row().step;
                    let name =
                        if step.is_empty() { b.backend.clone() } else { format!("{} ({step})", b.backend) };
                    match engines.iter_mut().find(|(engine, _)| *engine == b.engine) {
                        Some((_, names)) => names.push(name),
                        None => engines.push((&b.engine, vec![name])),
                    }
                }
                let words = engines.iter().map(|(engine, names)| format!("{engine}: {}", names.join(", ")));
                words.collect::<Vec<_>>().join("; ")
            };
            let [both, on_120, on_121] = [[true, true], [true, false], [false, true]].map(by);
            _ = writeln!(served, "|{}|{both}|{on_120}|{on_121}|", model.name);
        }
        let texts = [
            rows,
            format!("Gates that take 12.0 and not 12.1: {}.\n", exact.join(", ")),
            format!("Not on SM12x: {}.\n", elsewhere.join(", ")),
            served,
        ];
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/audit.md");
        let document = fs::read_to_string(path).unwrap();
        let missing: Vec<&str> =
            texts.iter().map(String::as_str).filter(|text| !document.contains(text)).collect();
        assert!(missing.is_empty(), "docs/audit.md should have:\n{}", missing.join("\n"));
    }

    #[test]
    fn a_tool_tells_its_version_without_being_run() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut bytes = vec![b'x'; CHUNK - 20];
        bytes.extend(b"Cuda compilation tools, release %d.%d, V%s\0");
        bytes.extend(b"Cuda compilation tools, release 13.4, V13.4.59\nBuild cuda_13\0");
        bytes.extend(b"Cuda compilation tools, release 12.9, V12.9.83\0");
        bytes.extend(b"Cuda compilation tools, release 13.4, V13.4.59\0");
        std::io::Write::write_all(&mut file, &bytes).unwrap();
        let names = |path| releases(path).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(file.path()), ["13.4.59", "12.9.83"]);
        assert!(releases(Path::new("/no/such/file")).is_empty());
    }
}
