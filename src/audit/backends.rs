//! Applies the rules of `backends.yaml` to an environment: its JIT compilers and MoE backends.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use ptx::arch::{Requirement, ToolkitVersion};

use super::backend_rules::{Backend, Compiler, rules};
use super::installed::{Installed, of_wheel};
use crate::record::{
    AuditBackend, AuditKernel, AuditPackage, AuditProblem, AuditTable, Shown, Support, readable_kernel,
};

/// The version text that every CUDA tool contains.
const RELEASE: &[u8] = b"Cuda compilation tools, release ";

/// The longest name shown in evidence, in characters.
const NAME: usize = 60;

/// Bytes read from a tool at a time.
const CHUNK: usize = 1 << 20;

/// Adds to `table` the package of every file, the compiler of every package, and whether each backend can work.
pub fn describe(table: &mut AuditTable, installed: &Installed) {
    let devices: Vec<u16> =
        table.devices.iter().filter_map(|d| d.architecture()).map(|target| target.number).collect();
    own(table, installed);
    let Some(rules) = rules() else { return };
    for compiler in &rules.compilers {
        let Some(found) = installed.find(&compiler.package) else { continue };
        let (compiles, knows) = compiled_with(compiler, &found.site, &devices);
        let row = package(&mut table.packages, found.name.clone(), found.version.clone());
        table.packages[row].compiles = compiles;
        table.packages[row].knows = knows;
    }
    let here = |b: &Backend| b.packages.iter().any(|p| installed.find(p).is_some());
    if rules.backends.iter().any(here) {
        table.backends = rules.backends.iter().map(|b| standing(b, table, installed, &devices)).collect();
    }
    for (path, why) in &installed.unreadable {
        table.problems.push(AuditProblem {
            place: path.display().to_string(),
            problem: format!("cannot be read: {why}"),
            remedy: "files of this package are not assigned to any package: reinstall it".to_owned(),
        });
    }
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
    let gated =
        |number: u16| !compiler.gate.is_empty() && !compiler.gate.iter().any(|gate| gate / 10 == number / 10);
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

/// Decides whether a backend can work on each device, with the evidence.
fn standing(backend: &Backend, table: &AuditTable, installed: &Installed, devices: &[u16]) -> AuditBackend {
    let Backend { kernels, files, .. } = backend;
    let in_files: Vec<bool> =
        table.files.iter().map(|f| files.as_ref().is_some_and(|r| r.is_match(&f.path))).collect();
    let of_it: Vec<usize> = (0..table.kernels.len())
        .filter(|k| {
            let row = &table.kernels[*k];
            in_files[row.file] && kernels.as_ref().is_some_and(|r| r.is_match(&row.name))
        })
        .collect();
    let missing: Vec<&str> =
        backend.packages.iter().map(String::as_str).filter(|p| installed.find(p).is_none()).collect();
    let answers = devices.iter().enumerate().map(|(device, number)| {
        let shown = |k: usize| {
            let row = &table.kernels[k];
            row.images[row.by[device]].shown
        };
        // Kernels with unknown opcodes count; those known not to be block-scaled do not.
        let counts = |k: &usize| !backend.scaled || matches!(shown(*k), None | Some(Shown::Native));
        let worth =
            |k: &usize| (!counts(k), table.kernels[*k].verdicts[device], shown(*k) != Some(Shown::Native));
        let best = of_it.iter().copied().min_by_key(worth);
        let shows = |k: usize| {
            let row = &table.kernels[k];
            let entry = &table.entries[row.images[row.by[device]].entry];
            let path = &table.files[row.file].path;
            let name = cut(path.rsplit('/').next().unwrap_or(path));
            format!(
                "{name}: {} of its kernels, such as {}: {} ({}{})",
                of_it.len(),
                cut(&readable_kernel(&row.name)),
                row.verdicts[device].phrase(),
                entry.target,
                opcodes(table, row, device)
            )
        };
        if !missing.is_empty() {
            return (Support::NotInstalled, format!("{} is not installed", missing.join(", ")));
        }
        if !backend.gate.iter().any(|gate| gate / 10 == number / 10) {
            let made = best.map_or_else(String::new, |k| format!("; {}", shows(k)));
            let families: Vec<String> = backend.gate.iter().map(|g| format!("{}.x", g / 10)).collect();
            return (Support::Absent, format!("vLLM uses it only on {}{made}", families.join(", ")));
        }
        if let Some(k) = best.filter(|k| counts(k) && table.kernels[*k].verdicts[device].runs()) {
            return (Support::Works, shows(k));
        }
        let compiler = backend
            .compiler
            .as_ref()
            .and_then(|name| installed.find(name))
            .and_then(|d| table.packages.iter().find(|p| p.name == d.name && !p.compiles.is_empty()));
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
            Some(k) => (Support::Absent, shows(k)),
            None => (Support::NotInstalled, "none of its kernels is in the installed files".to_owned()),
        }
    });
    let (standing, evidence) = answers.unzip();
    AuditBackend {
        backend: backend.backend.clone(),
        about: backend.about.clone(),
        standing,
        evidence,
        source: backend.source.clone(),
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
    use super::*;

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
