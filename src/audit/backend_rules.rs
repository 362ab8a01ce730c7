//! Parses `backends.yaml`: JIT compilers in packages, and the requirements of serving engines' MoE backends.

use std::path::Path;
use std::sync::OnceLock;

use ptx::arch::Requirement;
use serde::Deserialize;

use super::pattern::Pattern;
use crate::header::{self, EntriesError, Placed};

const TABLE: &str = include_str!("backends.yaml");

/// The compilers and backends of the rule file.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) compilers: Vec<Compiler>,
    pub(super) backends: Vec<Backend>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    compilers: Vec<Compiler>,
    backends: Vec<Backend>,
}

/// A package that compiles kernels just in time.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Compiler {
    pub(super) package: String,
    /// Files that contain the compiler's version, relative to site-packages; the first that exists is read. The name of a file may have a
    /// `*`: every such file is read.
    #[serde(default)]
    pub(super) tools: Vec<String>,
    /// One architecture of each family that it compiles for; all if empty.
    #[serde(default)]
    pub(super) gate: Vec<u16>,
    /// The tool version that SM12x requires.
    pub(super) needs: Option<Requirement>,
    /// The compiler it uses, as shown in reports.
    pub(super) with: String,
    /// The source of the rule.
    #[expect(dead_code, reason = "every rule cites its source; reports show those of backends")]
    source: String,
}

/// A MoE backend of a serving engine.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Backend {
    pub(super) backend: String,
    pub(super) about: String,
    /// The packages that provide it; all are required.
    pub(super) packages: Vec<String>,
    /// One architecture of each family on which the engine selects it.
    pub(super) gate: Vec<u16>,
    /// Matches the names of the kernels that it launches.
    pub(super) kernels: Option<Pattern>,
    /// Matches the paths of the files that contain them.
    pub(super) files: Option<Pattern>,
    /// Whether kernels whose opcodes are known count only if these are block-scaled.
    #[serde(default)]
    pub(super) scaled: bool,
    /// A file whose presence shows that the backend is compiled just in time.
    pub(super) jit: Option<String>,
    /// The package that compiles it.
    pub(super) compiler: Option<String>,
    /// The source of the rule.
    pub(super) source: String,
}

enum Item {
    Compiler(Compiler),
    Backend(Backend),
}

/// Returns the built-in rules; `None` if the file is invalid, which a test rules out.
pub(super) fn rules() -> Option<&'static Rules> {
    static ALL: OnceLock<Option<Rules>> = OnceLock::new();
    ALL.get_or_init(|| parse(Path::new("src/audit/backends.yaml"), TABLE).ok()).as_ref()
}

/// Parses rules; `path` is used in error messages.
fn parse(path: &Path, text: &str) -> Result<Rules, EntriesError> {
    let list = |file: File| -> Vec<Item> {
        let compilers = file.compilers.into_iter().map(Item::Compiler);
        compilers.chain(file.backends.into_iter().map(Item::Backend)).collect()
    };
    let mut rules = Rules { compilers: Vec::new(), backends: Vec::new() };
    for placed in header::parse_entries(path, text, list)? {
        if let Item::Backend(backend) = &placed.entry {
            rules.check(backend).map_err(|message| placed.wrong(path, message))?;
        }
        match placed {
            Placed { entry: Item::Compiler(compiler), .. } => rules.compilers.push(compiler),
            Placed { entry: Item::Backend(backend), .. } => rules.backends.push(backend),
        }
    }
    Ok(rules)
}

impl Rules {
    /// Checks a backend against the compilers; the error says what is wrong with it.
    fn check(&self, backend: &Backend) -> Result<(), String> {
        if let Some(name) = &backend.compiler
            && !self.compilers.iter().any(|c| c.package == *name)
        {
            return Err(format!("`{name}` is not among the compilers"));
        }
        if backend.packages.is_empty() || backend.gate.is_empty() {
            return Err("`packages` and `gate` name at least one each".to_owned());
        }
        if backend.kernels.is_none() && backend.compiler.is_none() {
            return Err("has neither `kernels` nor `compiler`: nothing could show that it works".to_owned());
        }
        if backend.kernels.is_some() != backend.files.is_some() {
            return Err("`kernels` and `files` go together".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_can_be_read() {
        let rules = parse(Path::new("backends.yaml"), TABLE).unwrap();
        assert!(rules.compilers.len() >= 3 && rules.backends.len() >= 8);
        assert!(rules.backends.iter().any(|b| b.scaled) && rules.backends.iter().any(|b| b.jit.is_some()));
    }

    #[test]
    fn mistakes_name_file_and_line() {
        let compilers = "compilers:\n- package: triton\n  with: w\n  source: s\n";
        let good =
            "- backend: B\n  about: a\n  packages: [p]\n  gate: [120]\n  compiler: triton\n  source: s\n";
        let text = |bad: &str| format!("{compilers}backends:\n{good}{bad}");
        assert!(parse(Path::new("b.yaml"), &text("")).is_ok());
        for (from, to, words) in [
            ("compiler: triton\n", "compiler: tritone\n", "b.yaml:12: `tritone` is not among the compilers"),
            ("  source: s\n", "  source: s\n  scale: true\n", "unknown field `scale`"),
            ("[120]", "[sm_120]", "b.yaml:15:"),
            ("  compiler: triton\n", "", "b.yaml:12: has neither"),
            ("  compiler: triton\n", "  kernels: '['\n  files: f\n", "regex parse error"),
            ("  compiler: triton\n", "  kernels: k\n", "b.yaml:12: `kernels` and `files` go together"),
            ("packages: [p]", "packages: []", "b.yaml:12: `packages` and `gate`"),
        ] {
            let error = parse(Path::new("b.yaml"), &text(&good.replace(from, to))).unwrap_err().to_string();
            assert!(error.contains(words) && error.starts_with("b.yaml:"), "{words}: {error}");
        }
    }
}
