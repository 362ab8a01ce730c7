//! Parses `backends.yaml` and `attention_backends.yaml`: JIT compilers in packages, and the requirements of backends for MoE layers and
//! for attention.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use ptx::arch::Requirement;
use serde::Deserialize;

use super::attention::Takes;
use super::capability::Gate;
use super::pattern::Pattern;
use crate::header::{self, EntriesError, Placed};

/// The rule files, in the order in which they are read: a backend may name a compiler of a file before its own.
const TABLES: [(&str, &str); 2] = [
    ("src/audit/backends.yaml", include_str!("backends.yaml")),
    ("src/audit/attention_backends.yaml", include_str!("attention_backends.yaml")),
];

/// The compilers and backends of the rule files.
#[derive(Debug, Default)]
pub(super) struct Rules {
    pub(super) compilers: Vec<Compiler>,
    pub(super) backends: Vec<Backend>,
    /// The versions whose sources were read, by package.
    pub(super) versions: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    versions: BTreeMap<String, String>,
    #[serde(default)]
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
    /// The compute capabilities that it compiles for; all if absent.
    pub(super) gate: Option<Gate>,
    /// The tool version that SM12x requires.
    pub(super) needs: Option<Requirement>,
    /// The compiler it uses, as shown in reports.
    pub(super) with: String,
    /// The source of the rule.
    #[expect(dead_code, reason = "every rule cites its source; reports show those of backends")]
    source: String,
}

/// A backend of a serving engine or of a library: for MoE layers or, if it has `takes`, for attention.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Backend {
    /// The engine that selects it.
    pub(super) engine: String,
    pub(super) backend: String,
    pub(super) about: String,
    /// The packages that provide it; all are required.
    pub(super) packages: Vec<String>,
    /// The compute capabilities on which the engine selects it.
    pub(super) gate: Gate,
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
    /// What it takes on SM12x, if it is for attention.
    pub(super) takes: Option<Takes>,
    /// Texts in installed files that show the rule.
    #[serde(default)]
    pub(super) quotes: Vec<Quote>,
    /// The source of the rule.
    #[serde(default)]
    pub(super) source: String,
}

/// A text in a file of a package that shows a part of a rule. If an installed file lacks it, the rule does not hold for that version.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Quote {
    /// The part of the rule.
    pub(super) shows: Shows,
    /// The file, relative to site-packages.
    pub(super) file: String,
    /// A text that the file contains in one line.
    pub(super) text: String,
}

record::words! {
    /// What a quoted text shows.
    Shows {
        /// The compute capabilities.
        Gate "gate",
        /// The form of attention.
        Forms "forms",
        /// The widths of heads.
        Heads "heads",
        /// The numbers of query heads.
        QueryHeads "query_heads",
        /// The models that it takes alone, or not.
        Models "models",
        /// Whether there are windows.
        Window "window",
        /// Whether there are sinks.
        Sinks "sinks",
        /// Whether there is a soft cap.
        Cap "cap",
        /// The types of the cache.
        Cache "cache",
        /// The only step.
        Step "step",
        /// A combination that is refused.
        Refuses "refuses",
        /// Another condition.
        Note "note",
    }
}

impl Quote {
    /// Returns where the text is and what it shows, in words.
    pub(super) fn words(&self) -> String {
        format!("{}: {} `{}`", self.shows.word(), self.file, self.text)
    }
}

impl Backend {
    /// Returns the source of its rule: quoted texts, or the text of the rule file.
    pub(super) fn source_words(&self) -> String {
        let quotes = self.quotes.iter().map(Quote::words);
        quotes.chain((!self.source.is_empty()).then(|| self.source.clone())).collect::<Vec<_>>().join("; ")
    }

    /// Returns the text that shows its gate.
    pub(super) fn gate_quote(&self) -> Option<&Quote> {
        self.quotes.iter().find(|quote| quote.shows == Shows::Gate)
    }
}

enum Item {
    Compiler(Compiler),
    Backend(Box<Backend>),
}

/// Returns the built-in rules; `None` if a file is invalid, which a test rules out.
pub(super) fn rules() -> Option<&'static Rules> {
    static ALL: OnceLock<Option<Rules>> = OnceLock::new();
    ALL.get_or_init(|| parse_all().ok()).as_ref()
}

/// Parses the rule files.
fn parse_all() -> Result<Rules, EntriesError> {
    let mut rules = Rules::default();
    for (path, text) in TABLES {
        rules.parse(Path::new(path), text)?;
    }
    Ok(rules)
}

impl Rules {
    /// Parses a rule file and adds what it has; `path` is used in error messages.
    fn parse(&mut self, path: &Path, text: &str) -> Result<(), EntriesError> {
        let mut versions = BTreeMap::new();
        let list = |file: File| -> Vec<Item> {
            versions = file.versions;
            let compilers = file.compilers.into_iter().map(Item::Compiler);
            let backends = file.backends.into_iter().map(|backend| Item::Backend(Box::new(backend)));
            compilers.chain(backends).collect()
        };
        let placed = header::parse_entries(path, text, list)?;
        self.versions.extend(versions);
        for placed in placed {
            if let Item::Backend(backend) = &placed.entry {
                self.check(backend).map_err(|message| placed.wrong(path, message))?;
            }
            match placed {
                Placed { entry: Item::Compiler(compiler), .. } => self.compilers.push(compiler),
                Placed { entry: Item::Backend(backend), .. } => self.backends.push(*backend),
            }
        }
        Ok(())
    }

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
        if backend.kernels.is_some() != backend.files.is_some() {
            return Err("`kernels` and `files` go together".to_owned());
        }
        if backend.takes.is_some() {
            return match backend.gate_quote() {
                Some(_) if self.versions.contains_key(&backend.packages[0]) => Ok(()),
                Some(_) => Err(format!("`versions` does not say which {} was read", backend.packages[0])),
                None => Err("has no quote that shows its gate".to_owned()),
            };
        }
        if backend.kernels.is_none() && backend.compiler.is_none() {
            return Err("has neither `kernels` nor `compiler`: nothing could show that it works".to_owned());
        }
        if backend.source_words().is_empty() {
            return Err("has no source".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_can_be_read() {
        let rules = parse_all().unwrap();
        let (attention, moe): (Vec<&Backend>, Vec<&Backend>) =
            rules.backends.iter().partition(|b| b.takes.is_some());
        assert!(rules.compilers.len() >= 3 && moe.len() >= 8 && attention.len() >= 40);
        assert!(moe.iter().any(|b| b.scaled) && moe.iter().any(|b| b.jit.is_some()));
        for engine in ["vLLM", "SGLang", "FlashInfer"] {
            assert!(attention.iter().any(|b| b.engine == engine), "{engine}");
        }
        // The gates that leave out GB10.
        let exact = attention.iter().filter(|b| b.gate.takes(120) && !b.gate.takes(121));
        assert!(exact.count() >= 5);
    }

    #[test]
    fn mistakes_name_file_and_line() {
        let compilers = "versions: { p: '1' }\ncompilers:\n- package: triton\n  with: w\n  source: s\n";
        let good = "- engine: E\n  backend: B\n  about: a\n  packages: [p]\n  gate: [12.x]\n  compiler: triton\n  source: s\n";
        let takes = "  takes: { forms: [grouped], heads: '64', cache: [bf16] }\n";
        let quotes = "  quotes: [{ shows: gate, file: p/a.py, text: t }]\n";
        let parsed = |bad: &str| {
            let text = format!("{compilers}backends:\n{good}{bad}");
            Rules::default().parse(Path::new("b.yaml"), &text)
        };
        assert!(parsed("").is_ok());
        let attention = good.replace("  source: s\n", &format!("{takes}{quotes}"));
        assert!(parsed(&attention).is_ok());
        for (from, to, words) in [
            ("compiler: triton\n", "compiler: tritone\n", "b.yaml:14: `tritone` is not among the compilers"),
            ("  source: s\n", "  source: s\n  scale: true\n", "unknown field `scale`"),
            ("  source: s\n", "", "b.yaml:14: has no source"),
            ("[12.x]", "[sm_120]", "`sm_120` names no compute capabilities"),
            ("  compiler: triton\n", "", "b.yaml:14: has neither"),
            ("  compiler: triton\n", "  kernels: '['\n  files: f\n", "regex parse error"),
            ("  compiler: triton\n", "  kernels: k\n", "b.yaml:14: `kernels` and `files` go together"),
            ("packages: [p]", "packages: []", "b.yaml:14: `packages` and `gate`"),
        ] {
            let error = parsed(&good.replace(from, to)).expect_err(words).to_string();
            assert!(error.contains(words) && error.starts_with("b.yaml:"), "{words}: {error}");
        }
        for (from, to, words) in [
            (quotes, "", "b.yaml:14: has no quote that shows its gate"),
            ("shows: gate", "shows: heads", "b.yaml:14: has no quote that shows its gate"),
            ("packages: [p]", "packages: [q]", "b.yaml:14: `versions` does not say which q was read"),
            ("heads: '64'", "heads: 'wide'", "`wide` names no widths of heads"),
            ("cache: [bf16]", "cache: [bf17]", "unknown variant `bf17`"),
        ] {
            let error = parsed(&attention.replace(from, to)).expect_err(words).to_string();
            assert!(error.contains(words) && error.starts_with("b.yaml:"), "{words}: {error}");
        }
    }
}
