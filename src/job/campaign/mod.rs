//! Random kernels with compilers under test: many kernels are assembled in one run of a compiler, run on a GPU in one worker process, and
//! compared byte for byte with the emulator. What differs is assembled again alone, explained by a known miscompile or shrunk.

mod examine;
mod keep;
mod machine;

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use compiler::fuzz::{Difference, ENTRY, Generator, RandomKernel, before, check, shrink, without_choice};
use compiler::known::{Miscompile, find};
use emulator::device::Failure;
use ptx::arch::Target;
use rayon::prelude::*;

use super::build::Build;
use super::ptxas::{Assembler, Failed, joined};
use crate::event::{Event, Sink};
use crate::gpu::GpuDevice;
use crate::record::{FuzzBuild, FuzzFinding, FuzzTable};
use crate::toolkit::Disassembler;

pub use keep::keep;

/// How many kernels one run of a compiler gets.
pub const MODULE: usize = 32;

/// Why a campaign cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// ptxas cannot be started, or files cannot be written.
    #[error("ptxas cannot be run: {0}")]
    Io(#[from] io::Error),
    /// The GPU is gone.
    #[error("{0}")]
    Device(Failure),
}

/// A kernel that the emulator has run.
#[derive(Debug, Clone)]
pub struct Case {
    /// The seed of its inputs.
    pub seed: u64,
    /// Its PTX, which leaves nothing open.
    pub text: String,
    /// What it leaves in memory, by the emulator.
    pub expected: Vec<u8>,
    /// The memory before it runs, all buffers.
    memory: Vec<u8>,
    /// The known miscompiles that it has for its target, each once.
    known: Vec<&'static Miscompile>,
}

impl Case {
    /// A kernel with the emulator's results.
    #[must_use]
    pub fn new(seed: u64, text: String, expected: Vec<u8>, target: Target) -> Self {
        let known = known_in(&text, target);
        Self { seed, text, expected, memory: before(seed).concat(), known }
    }

    /// A kernel of the generator, checked in every way that the emulator has. If it is to run on a GPU, it leaves nothing open.
    fn checked(kernel: &RandomKernel, runs: bool, target: Target) -> Result<Self, Difference> {
        let (seed, text) = (kernel.seed, kernel.text.as_str());
        let fixed = if runs { without_choice(text) } else { text.to_owned() };
        let expected = check(&fixed, seed)?;
        if fixed != text {
            check(text, seed)?;
        }
        Ok(Self::new(seed, fixed, expected, target))
    }

    /// The known miscompiles that it has with a build.
    fn known_with(&self, build: &Build) -> Vec<&'static Miscompile> {
        self.known.iter().copied().filter(|m| build.has(m)).collect()
    }
}

/// The known miscompiles of a text for a target, each once.
fn known_in(text: &str, target: Target) -> Vec<&'static Miscompile> {
    let mut known: Vec<&'static Miscompile> = Vec::new();
    for found in ptx::parse(text).iter().flat_map(find) {
        if found.miscompile.affects_target(target) && !known.contains(&found.miscompile) {
            known.push(found.miscompile);
        }
    }
    known
}

/// What is wrong with a build of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrong {
    /// The compiler wrote no machine code.
    NotAssembled(Failed),
    /// The GPU did not load or end it.
    Stopped(Failure),
    /// It ended with other results.
    Differs(Vec<u8>),
}

/// A kernel that nothing known explains.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The seed of its inputs.
    pub seed: u64,
    /// What is wrong, in words.
    pub what: String,
    /// The builds that have it, by their place in the campaign; none if the emulator disagrees with itself.
    pub builds: Vec<usize>,
    /// The kernel, as small as it was made.
    pub kernel: String,
    /// The emulator's results.
    pub expected: Vec<u8>,
    /// Whether its launch ends by itself, as far as it was launched.
    pub ends: bool,
    /// The results of the first build, if it ended.
    pub got: Option<Vec<u8>>,
}

/// Where kernels come from.
#[derive(Debug, Clone)]
pub enum Kernels {
    /// The generator: the first seed, and how many.
    Random {
        /// The first seed.
        seed: u64,
        /// How many.
        count: u64,
    },
    /// These, with the seeds of their inputs.
    Given(Vec<RandomKernel>),
}

impl Kernels {
    /// How many there are.
    fn count(&self) -> u64 {
        match self {
            Self::Random { count, .. } => *count,
            Self::Given(kernels) => kernels.len() as u64,
        }
    }

    /// Takes at most `most` of them.
    fn next(&mut self, most: usize, generator: &mut Generator) -> Vec<RandomKernel> {
        match self {
            Self::Random { seed, count } => {
                let now = (*count).min(most as u64).min(u64::MAX - *seed);
                let kernels = (*seed..*seed + now).map(|seed| generator.kernel(seed)).collect();
                (*seed, *count) = (*seed + now, if now == 0 { 0 } else { *count - now });
                kernels
            }
            Self::Given(kernels) => kernels.drain(..most.min(kernels.len())).collect(),
        }
    }
}

/// Which kernels.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The kernels.
    pub kernels: Kernels,
    /// The time after which no more begin.
    pub time: Option<Duration>,
    /// How many kernels that nothing explains are made smaller.
    pub shrinks: usize,
}

/// How often progress is told.
const TELL: Duration = Duration::from_secs(10);

/// Compilers and a GPU.
pub struct Campaign<'a> {
    /// Runs ptxas.
    pub assembler: &'a Assembler,
    /// The target of the machine code.
    pub target: Target,
    /// The compilers.
    pub builds: Vec<Build>,
    /// The GPU; without one, kernels are only assembled.
    pub device: Option<&'a Mutex<GpuDevice>>,
    /// The time in which kernels are made smaller, once all have run.
    pub shrink_limit: Duration,
    /// Reads machine code of kernels that do not end.
    pub disassembler: Option<Disassembler>,
}

/// What became of the kernels of one module.
#[derive(Default)]
struct Answer {
    assembled: u64,
    compared: u64,
    not_run: Vec<&'static str>,
    /// The kernel's place in the block, and what is wrong.
    wrong: Vec<(usize, Wrong)>,
}

impl Campaign<'_> {
    /// Counts of all builds, all 0.
    #[must_use]
    pub fn counts(&self) -> Vec<FuzzBuild> {
        let of =
            |build: &Build| FuzzBuild { code: build.code(), level: build.level(), ..FuzzBuild::default() };
        self.builds.iter().map(of).collect()
    }

    /// Runs kernels of a generator and adds what becomes of them to `table`.
    ///
    /// # Errors
    /// [`CampaignError`].
    pub fn fuzz(
        &mut self,
        generator: &mut Generator,
        ask: &Ask,
        table: &mut FuzzTable,
        sink: &dyn Sink,
    ) -> Result<Vec<Finding>, CampaignError> {
        let begin = Instant::now();
        let mut told = begin;
        let empty = RandomKernel { seed: table.seed, text: generator.empty() };
        if let Ok(empty) = Case::checked(&empty, false, self.target) {
            table.left_out = self.leave_out(&empty)?;
        }
        table.builds = self.counts();
        let mut findings: Vec<Finding> = Vec::new();
        let (all, mut source) = (ask.kernels.count(), ask.kernels.clone());
        while source.count() > 0 && ask.time.is_none_or(|limit| begin.elapsed() < limit) {
            // Few enough that the time limit and the news are not late: each core gets two modules.
            let modules = (2 * rayon::current_num_threads()).div_ceil(self.builds.len().max(1));
            let kernels = source.next(MODULE * modules, generator);
            table.kernels += kernels.len() as u64;
            let runs = self.device.is_some();
            let checked: Vec<Result<Case, Difference>> =
                kernels.par_iter().map(|kernel| Case::checked(kernel, runs, self.target)).collect();
            let mut cases = Vec::new();
            for (kernel, checked) in kernels.iter().zip(checked) {
                match checked {
                    Ok(case) => cases.push(case),
                    Err(difference) => {
                        table.defects += 1;
                        findings.push(defect(kernel, &difference, findings.len() < ask.shrinks));
                    }
                }
            }
            findings.extend(self.block(&cases, &mut table.builds)?);
            if told.elapsed() >= TELL {
                told = Instant::now();
                let text = format!(
                    "{} of {} kernels in {} s; {} findings",
                    table.kernels,
                    all,
                    begin.elapsed().as_secs(),
                    findings.len()
                );
                sink.emit(Event::Notice { text });
            }
        }
        let findings = self.smaller(findings, ask.shrinks)?;
        let named = |finding: &Finding| FuzzFinding {
            seed: finding.seed,
            what: finding.what.clone(),
            builds: finding.builds.iter().map(|n| self.builds[*n].to_string()).collect(),
            kernel: finding.kernel.clone(),
        };
        table.findings = findings.iter().map(named).collect();
        let reached = generator.reached();
        table.not_reached = reached.missing().map(str::to_owned).collect();
        table.reached = reached.rows() - table.not_reached.len();
        Ok(findings)
    }

    /// Leaves out builds that cannot be used at all, shown by a kernel that does nothing. Returns them with the reasons.
    ///
    /// # Errors
    /// [`CampaignError`].
    pub fn leave_out(&mut self, empty: &Case) -> Result<BTreeMap<String, String>, CampaignError> {
        let mut left_out = BTreeMap::new();
        for build in std::mem::take(&mut self.builds) {
            match self.alone(&build, empty)? {
                Some(Wrong::NotAssembled(failed)) => {
                    _ = left_out.insert(build.to_string(), failed.to_string())
                }
                Some(Wrong::Stopped(failure)) => _ = left_out.insert(build.to_string(), failure.to_string()),
                Some(Wrong::Differs(_)) | None => self.builds.push(build),
            }
        }
        Ok(left_out)
    }

    /// Lets every compiler assemble every kernel, runs and compares them, and adds to `counts`.
    ///
    /// # Errors
    /// [`CampaignError`].
    pub fn block(&self, cases: &[Case], counts: &mut [FuzzBuild]) -> Result<Vec<Finding>, CampaignError> {
        let modules = (0..cases.len()).step_by(MODULE);
        let jobs: Vec<(usize, usize)> =
            modules.flat_map(|first| (0..self.builds.len()).map(move |build| (first, build))).collect();
        let answers: Vec<(usize, Answer)> = jobs
            .into_par_iter()
            .map(|(first, build)| {
                let module = &cases[first..cases.len().min(first + MODULE)];
                Ok((build, self.module(&self.builds[build], first, module)?))
            })
            .collect::<Result<_, CampaignError>>()?;
        let mut wrong: BTreeMap<usize, Vec<(usize, Wrong)>> = BTreeMap::new();
        for (build, answer) in answers {
            let count = &mut counts[build];
            count.assembled += answer.assembled;
            count.compared += answer.compared;
            for name in answer.not_run {
                *count.not_run.entry(name.to_owned()).or_default() += 1;
            }
            for (case, what) in answer.wrong {
                wrong.entry(case).or_default().push((build, what));
            }
        }
        let examined: Vec<examine::Examined> = wrong
            .into_iter()
            .collect::<Vec<_>>()
            .into_par_iter()
            .map(|(case, wrong)| self.examine(&cases[case], wrong))
            .collect::<Result<_, CampaignError>>()?;
        let mut findings = Vec::new();
        for of_kernel in examined {
            for (build, name) in of_kernel.known {
                *counts[build].known.entry(name).or_default() += 1;
            }
            for (build, what) in of_kernel.left_open {
                *counts[build].left_open.entry(what.to_owned()).or_default() += 1;
            }
            for finding in &of_kernel.findings {
                finding.builds.iter().for_each(|build| counts[*build].unexplained += 1);
            }
            findings.extend(of_kernel.findings);
        }
        Ok(findings)
    }

    /// Assembles the kernels of a module together, or alone if that fails, and runs them.
    fn module(&self, build: &Build, first: usize, cases: &[Case]) -> Result<Answer, CampaignError> {
        let mut answer = Answer::default();
        let mut run = Vec::new();
        for (n, case) in cases.iter().enumerate() {
            // Without a GPU, nothing can hang.
            match case.known_with(build).iter().find(|m| m.hangs && self.device.is_some()) {
                Some(hangs) => answer.not_run.push(&hangs.name),
                None => run.push((first + n, case)),
            }
        }
        let texts: Vec<&str> = run.iter().map(|(_, case)| case.text.as_str()).collect();
        let together = match joined(&texts) {
            Some(text) if run.len() > 1 => build.image(self.assembler, self.target, &text)?.ok(),
            _ => None,
        };
        if let Some(image) = together {
            answer.assembled = run.len() as u64;
            let kernels: Vec<_> =
                run.iter().enumerate().map(|(n, (_, case))| (format!("{ENTRY}{n}"), *case)).collect();
            let results = self.run(&image, &kernels)?;
            answer.compared = results.len() as u64;
            let wrong = run.iter().zip(results).filter_map(|((n, _), wrong)| Some((*n, wrong?)));
            answer.wrong.extend(wrong);
            return Ok(answer);
        }
        for (n, case) in run {
            let wrong = self.alone(build, case)?;
            if !matches!(wrong, Some(Wrong::NotAssembled(_))) {
                answer.assembled += 1;
                answer.compared += u64::from(self.device.is_some());
            }
            answer.wrong.extend(wrong.map(|wrong| (n, wrong)));
        }
        Ok(answer)
    }

    /// Assembles and runs one kernel.
    fn alone(&self, build: &Build, case: &Case) -> Result<Option<Wrong>, CampaignError> {
        let image = match build.image(self.assembler, self.target, &case.text)? {
            Ok(image) => image,
            Err(failed) => return Ok(Some(Wrong::NotAssembled(failed))),
        };
        Ok(self.run(&image, &[(ENTRY.to_owned(), case)])?.into_iter().next().flatten())
    }
}

/// The finding of a kernel on which the emulator disagrees with itself.
fn defect(kernel: &RandomKernel, difference: &Difference, shrinks: bool) -> Finding {
    let wanted = kind(difference);
    let same = |text: &str| check(text, kernel.seed).is_err_and(|other| kind(&other) == wanted);
    let text = without_choice(&kernel.text);
    // The difference is that of the kernel as it is, or without choices.
    let text = if same(&kernel.text) { kernel.text.clone() } else { text };
    let small = if shrinks { shrink(&text, same) } else { text };
    Finding {
        seed: kernel.seed,
        what: difference.to_string(),
        builds: Vec::new(),
        kernel: small,
        expected: Vec::new(),
        ends: true,
        got: None,
    }
}

/// What a difference is, without the line and the values, which change as a kernel shrinks.
fn kind(difference: &Difference) -> String {
    match difference {
        Difference::Stopped { way, why } => {
            let (place, rest) = why.split_once(": ").unwrap_or(("", why));
            format!("{way}: {}", if place.starts_with("line ") { rest } else { place })
        }
        Difference::Results { way, .. } => (*way).to_owned(),
        Difference::Text(_) => String::new(),
    }
}
