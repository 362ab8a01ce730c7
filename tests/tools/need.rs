//! What a test needs of the machine, and how it becomes a trial.

use std::path::Path;

use libtest_mimic::{Failed, Trial};
use sm121probe::store::Store;
use sm121probe::toolkit::{self, Discovery, Environment, Places};

/// Something that a machine may lack.
#[derive(Debug, Clone, Copy)]
pub(super) enum Need {
    /// Any NVRTC.
    Nvrtc,
    /// Any ptxas.
    Ptxas,
    /// The ptxas of a version, such as `12.9.86`.
    Toolkit(&'static str),
    /// A ptxas that `toolkit install` has installed.
    Installed,
    /// A ptxas whose newest version knows sm_121a.
    NewestKnowsSm121a,
    /// A program on PATH.
    Program(&'static str),
    /// No driver of a GPU.
    NoDriver,
}

/// A test: its name, what it needs, and the function.
pub(super) type Test = (&'static str, &'static [Need], fn());

/// What this machine has.
pub(super) struct Machine {
    store: Option<Store>,
    discovery: Discovery,
    nvrtc: bool,
    /// The words of `SM121PROBE_REQUIRE`.
    required: Vec<String>,
}

impl Machine {
    pub(super) fn look() -> Self {
        let store = Store::open(None).ok();
        let places = Places::from_environment(store.as_ref().map(Store::root));
        let required = std::env::var("SM121PROBE_REQUIRE").unwrap_or_default();
        Self {
            discovery: toolkit::discover(store.as_ref(), &places),
            nvrtc: !toolkit::nvrtcs(store.as_ref(), &Environment::of_process()).is_empty(),
            required: required.split(',').map(|word| word.trim().to_owned()).collect(),
            store,
        }
    }

    /// Returns why a need is not met; `None` if it is.
    fn lacks(&self, need: Need) -> Option<String> {
        let install = |what: &str| format!("sm121probe toolkit install {what}");
        match need {
            Need::Nvrtc if !self.nvrtc => Some(format!("no NVRTC here: {}", install("nvrtc"))),
            Need::Ptxas if self.discovery.toolkits.is_empty() => {
                Some(format!("no ptxas here: {}", install("latest 12.9")))
            }
            Need::Toolkit(name) if !self.discovery.toolkits.iter().any(|t| t.version.is_named(name)) => {
                Some(format!("no toolkit {name} here: {}", install(name)))
            }
            Need::Installed => {
                let there = self.store.as_ref().is_some_and(|s| s.root().join("toolkits").exists());
                (!there).then(|| format!("no installed toolkit here: {}", install("latest nvrtc")))
            }
            Need::NewestKnowsSm121a => {
                let target = "sm_121a".parse().ok()?;
                let knows = self.discovery.toolkits.last().is_some_and(|newest| newest.knows(target));
                (!knows).then(|| format!("no ptxas here that knows sm_121a: {}", install("latest")))
            }
            Need::NoDriver if Path::new("/proc/driver/nvidia/version").exists() => {
                Some("this machine has a driver".to_owned())
            }
            Need::Program(name) if which::which(name).is_err() => Some(format!("no {name} on PATH")),
            _ => None,
        }
    }

    /// Returns a failing trial for each requirement that the machine does not meet.
    pub(super) fn missing(&self) -> Vec<Trial> {
        let here = |name: &str| self.discovery.toolkits.iter().any(|t| t.version.is_named(name));
        let lacks = |word: &&String| match word.strip_prefix("toolkit:") {
            Some(name) => !here(name),
            None => *word == "nvrtc" && !self.nvrtc,
        };
        let fails = |word: &String| {
            let name = word.trim_start_matches("toolkit:");
            let text =
                format!("SM121PROBE_REQUIRE asks for {word}; `sm121probe toolkit install {name}` fetches it");
            Trial::test(format!("required::{word}"), move || Err(Failed::from(text)))
        };
        self.required.iter().filter(lacks).map(fails).collect()
    }

    /// Whether `SM121PROBE_REQUIRE` demands what is lacking.
    fn requires(&self, need: Need) -> bool {
        let toolkit = |word: &str| word.starts_with("toolkit:");
        self.required.iter().any(|word| match need {
            Need::Nvrtc => word == "nvrtc",
            Need::Toolkit(name) => word.strip_prefix("toolkit:").is_some_and(|w| is_release(name, w)),
            Need::Ptxas | Need::Installed | Need::NewestKnowsSm121a => toolkit(word),
            Need::Program(_) | Need::NoDriver => false,
        })
    }

    /// Returns the trial of a test: ignored with the reason, or failing, if the machine lacks something.
    pub(super) fn trial(&self, module: &str, (name, needs, run): &Test) -> Trial {
        let (name, run) = (format!("{module}::{name}"), *run);
        let lacking = |need: &Need| self.lacks(*need).map(|reason| (*need, reason));
        match needs.iter().find_map(lacking) {
            None => Trial::test(name, move || {
                run();
                Ok(())
            }),
            Some((need, reason)) if self.requires(need) => Trial::test(name, move || {
                Err(Failed::from(format!("SM121PROBE_REQUIRE asks for it; {reason}")))
            }),
            Some((_, reason)) => Trial::test(name, || Ok(())).with_kind(reason).with_ignored_flag(true),
        }
    }
}

/// Whether `word` (`12.9`) denotes the version `name` (`12.9.86`), or the same release.
fn is_release(name: &str, word: &str) -> bool {
    name == word || name.strip_prefix(word).is_some_and(|rest| rest.starts_with('.'))
}
