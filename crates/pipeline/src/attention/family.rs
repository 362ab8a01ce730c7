//! Attention as a family: its words, its trials, and what runs one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use numerics::tensor_core::Model;
use ptx::arch::Target;
use rayon::prelude::*;
use record::{
    ConfigurationName, ExerciseRow, Exposed, FamilyRow, FaultCoverageRow, FaultRow, Named, StageName,
    StageRow, TileTable, TrialRow, Verdict,
};

use super::FAMILY;
use super::case::{Case, Pages, Regime, built_in};
use super::configuration::{
    self, Configuration, Launched, MERGE, OUTPUT, PARTIALS, PREFILL_FP4, QUANTIZE_QUERIES, QUERIES, Types,
};
use super::coverage::{self, Count, Exposure, Place};
use super::error::AttentionError;
use super::export;
use super::generate::Data;
use super::stages;
use crate::frame::admission::{Blocked, LaunchSize, Limits, Toolchain};
use crate::frame::code::{Assembler, CodeError};
use crate::frame::compile::KernelSource;
use crate::frame::diagnosis::Diagnosis;
use crate::frame::effort::Effort;
use crate::frame::family::{
    self, CaseName, Choice, Family, Features, Part, Prepared, SharedTrial, TableQuestion,
};
use crate::frame::kept::Kept;
use crate::frame::known::KnownFailure;
use crate::frame::launch;
use crate::frame::stream::{self, PreparedStream, Stored};
use crate::frame::{Memo, TrialError};
use crate::kernel::{FactorRule, Kernel, KernelContract, KernelError, Library};

/// The most keys of a request whose data are searched for places that expose nothing.
const LARGE: usize = 512;

/// The case in which some row finds each key.
const EVERY_KEY: &str = "attention-every-key";

/// The case of records in which some row finds each slot.
const RECORDS: &str = "attention-mla-one-hot";

/// The kind of cache entry.
const KIND: &str = "attention-coverage-3";

/// The family.
pub static ATTENTION: Attention = Attention;

/// Attention over a paged cache.
#[derive(Debug)]
pub struct Attention;

/// A case on a configuration.
#[derive(Debug, Clone)]
struct Trial {
    case: Arc<Case>,
    configuration: Configuration,
    blocked: Option<Blocked>,
}

/// Returns the kernel of a stage of headers.
pub(super) fn kernel<'l>(library: &'l Library, stage: &str) -> Result<&'l Kernel, KernelError> {
    // The user's kernels come first.
    let found = library.kernels.iter().find(|kernel| kernel.family == FAMILY && kernel.stage == stage);
    found.ok_or_else(|| KernelError::Missing { what: format!("{FAMILY} {stage}"), there: String::new() })
}

fn find(name: &str) -> Option<&'static Case> {
    built_in().cases.iter().find(|case| case.name == name)
}

/// The trials of a case on these configurations.
fn trials(case: &Case, configurations: impl IntoIterator<Item = Configuration>) -> Vec<SharedTrial> {
    let case = Arc::new(case.clone());
    let of = |configuration: Configuration| {
        let blocked = super::stages::blocked(&case, configuration).map(Blocked);
        Arc::new(Trial { case: Arc::clone(&case), configuration, blocked }) as SharedTrial
    };
    configurations.into_iter().map(of).collect()
}

/// The configurations whose kernels compute a case.
fn fitting(case: &Case) -> Vec<Configuration> {
    Configuration::all().into_iter().filter(|of| stages::blocked(case, *of).is_none()).collect()
}

/// Checks the quantization that a kernel declares.
fn check_quantization(kernel: &Kernel) -> Result<(), (&'static str, String)> {
    let wanted = match kernel.stage.as_str() {
        QUANTIZE_QUERIES => &[FactorRule::Argument][..],
        PREFILL_FP4 => &[FactorRule::TileMaximum, FactorRule::RunningMaximum],
        _ => return kernel.declares_no_quantization(),
    };
    let words = wanted.iter().map(|rule| rule.word()).collect::<Vec<_>>().join(" or ");
    match kernel.contract.quantizes {
        Some(of) if wanted.contains(&of.factor) => Ok(()),
        Some(_) => Err(("contract", format!("the factor of this stage is {words}"))),
        None => {
            let fields = "rounding: nearest_even, scale: sixth_of_largest";
            let message = format!(
                "a kernel of this stage declares `quantizes: {{{fields}, factor: …}}`; the factor is {words}"
            );
            Err(("contract", message))
        }
    }
}

/// The trials of a case on some of its configurations.
fn part_of(case: &Case, part: Part<'_>) -> Vec<SharedTrial> {
    match part {
        Part::Every => trials(case, fitting(case)),
        Part::Own => trials(case, own(case)),
        Part::Named(words) => {
            trials(case, Configuration::all().into_iter().filter(|of| of.name().has(words)))
        }
    }
}

/// The configurations of a case that names none.
const OWN: [&str; 2] = ["prefill d128 bf16", "decode d128 bf16"];

/// The configurations of a case in the default set.
fn own(case: &Case) -> Vec<Configuration> {
    let named: Vec<&str> = case.configurations.iter().map(String::as_str).collect();
    let named = if named.is_empty() { OWN.to_vec() } else { named };
    Configuration::all().into_iter().filter(|of| named.iter().any(|words| of.name().has(words))).collect()
}

impl Family for Attention {
    fn name(&self) -> &'static str {
        FAMILY
    }

    fn row(&self) -> FamilyRow {
        let stage = |name: &'static str, about: &str| StageRow { name: name.into(), about: about.to_owned() };
        FamilyRow {
            name: FAMILY.to_owned(),
            title: "Attention over a paged cache".to_owned(),
            leading: "kernel".to_owned(),
            stages: vec![
                stage(QUERIES, "quantizes the queries, where a configuration does"),
                stage(PARTIALS, "computes the attention of each split of the keys"),
                stage(OUTPUT, "merges the splits, with the sink"),
            ],
            all: String::new(),
        }
    }

    fn is_configured(&self, _: &Kernel) -> bool {
        true
    }

    fn check_kernel(&self, kernel: &Kernel) -> Result<(), (&'static str, String)> {
        let kernels = configuration::Kernel::ALL.iter().map(|of| of.word());
        let stages: Vec<&str> = kernels.chain([QUANTIZE_QUERIES]).collect();
        if kernel.stage != MERGE && !stages.contains(&kernel.stage.as_str()) {
            let (other, known) = (&kernel.stage, stages.join(", "));
            return Err((
                "stage",
                format!("unknown stage `{other}`; the stages of {FAMILY} are {known} and {MERGE}"),
            ));
        }
        check_quantization(kernel)
    }

    fn kernel_of<'l>(
        &self,
        library: &'l Library,
        configuration: &ConfigurationName,
        stage: &StageName,
    ) -> Option<&'l Kernel> {
        let of = Configuration::all().into_iter().find(|of| of.name() == *configuration)?;
        let launched = of.launches().into_iter().find(|launched| *stage == *launched.stage)?;
        kernel(library, launched.header).ok()
    }

    fn cases(&self) -> Vec<CaseName> {
        let name = |case: &Case| CaseName { name: case.name.clone(), about: case.about.clone() };
        built_in().cases.iter().map(name).collect()
    }

    fn problems(&self) -> Vec<String> {
        built_in().problems.clone()
    }

    fn default_set(&self, cases: &[&str]) -> Vec<SharedTrial> {
        let of = |case: &&Case| match case.swept {
            true => trials(case, fitting(case)),
            false => trials(case, own(case)),
        };
        cases.iter().filter_map(|name| find(name)).collect::<Vec<_>>().iter().flat_map(of).collect()
    }

    fn trials(&self, case: &str, part: Part<'_>) -> Vec<SharedTrial> {
        find(case).map(|case| part_of(case, part)).unwrap_or_default()
    }

    fn trials_of_file(&self, path: &Path, text: &str, part: Part<'_>) -> Result<Vec<SharedTrial>, String> {
        super::case::parse(path, text).map(|case| part_of(&case, part))
    }

    fn representatives(&self, cases: &[&str]) -> Vec<String> {
        // No option of a case changes the code.
        cases.iter().take(1).map(|name| (*name).to_owned()).collect()
    }

    fn exercised(&self, trials: &[(&dyn family::Trial, &TrialRow)], _: Option<u64>) -> Vec<ExerciseRow> {
        let mut rows: BTreeMap<(String, String), ExerciseRow> = BTreeMap::new();
        for (trial, row) in trials {
            let Some(trial) = trial.as_family::<Trial>().filter(|trial| trial.blocked.is_none()) else {
                continue;
            };
            let key = (row.configuration.to_string(), format!("{} {}", row.target, row.device));
            let found = rows.entry(key).or_insert_with(|| ExerciseRow {
                family: FAMILY.to_owned(),
                configuration: row.configuration.clone(),
                target: row.target.clone(),
                device: row.device.clone(),
                counts: ["row", "key", "head"]
                    .map(|what| record::Count { what: what.to_owned(), count: 0 })
                    .into(),
                met: Vec::new(),
                missing: Vec::new(),
            });
            if row.verdict() != Verdict::Pass {
                continue;
            }
            let case = &trial.case;
            for (count, most) in found.counts.iter_mut().zip([case.rows(), case.most_keys(), case.heads]) {
                count.count = count.count.max(u32::try_from(most).unwrap_or(u32::MAX));
            }
            found.met.extend(trial.met());
        }
        for row in rows.values_mut() {
            let met: BTreeSet<String> = std::mem::take(&mut row.met).into_iter().collect();
            row.met = met.into_iter().collect();
            let wanted = ["one_hot data", "real data", "several splits", "a last page that is not full"];
            let lacks = |phrase: &&str| !row.met.iter().any(|met| met == phrase);
            row.missing = wanted.into_iter().filter(lacks).map(str::to_owned).collect();
        }
        rows.into_values().collect()
    }

    fn fault_coverage(
        &self,
        _: &Library,
        trials: &[(&dyn family::Trial, &TrialRow)],
        seed: Option<u64>,
        kept: &Kept<'_>,
    ) -> Result<Vec<FaultCoverageRow>, TrialError> {
        type Kernel<'a> = (ConfigurationName, &'a Named<Target>, &'a str);
        let mut kernels: BTreeMap<Kernel<'_>, Vec<&Trial>> = BTreeMap::new();
        for (trial, row) in trials {
            let Some(trial) = trial.as_family::<Trial>().filter(|trial| trial.blocked.is_none()) else {
                continue;
            };
            let of = kernels.entry((row.configuration.clone(), &row.target, &row.device)).or_default();
            let case = &trial.case;
            let shows = matches!(case.regime, Regime::Equal | Regime::OneHot) || case.sinks;
            // Large data expose no more than small ones, and take long.
            if row.verdict() == Verdict::Pass && shows && case.most_keys() <= LARGE && case.cap.is_none() {
                of.push(trial);
            }
        }
        let row = |((configuration, target, device), trials): (&Kernel<'_>, &Vec<&Trial>)| {
            let counts =
                trials.iter().map(|trial| trial.counts(seed, kept)).collect::<Result<Vec<_>, _>>()?;
            let Count { exposed, total } = coverage::best(counts.into_iter());
            Ok(FaultCoverageRow {
                family: FAMILY.to_owned(),
                configuration: configuration.clone(),
                target: (*target).clone(),
                device: (*device).to_owned(),
                cases: trials.iter().map(|trial| trial.case.name.clone()).collect(),
                exposed,
                total,
            })
        };
        kernels.par_iter().map(row).collect()
    }

    fn faults(&self, count: u64) -> Result<Vec<FaultRow>, TrialError> {
        let (Some(case), Some(records)) = (find(EVERY_KEY), find(RECORDS)) else { return Ok(Vec::new()) };
        let of_cache = |types: Types, swizzled: bool| {
            let configuration = Configuration::plain(configuration::Kernel::Decode, 128, types);
            let scales = if swizzled { " with swizzled scales" } else { "" };
            let dimensions = format!("a cache of {}{scales}, heads of 128", types.word());
            (dimensions, Case { swizzled, ..case.clone() }, configuration)
        };
        let mut all: Vec<_> =
            configuration::PAGED_TYPES.iter().map(|types| of_cache(*types, false)).collect();
        all.extend([of_cache(Types::E5m2, false), of_cache(Types::Nvfp4, true)]);
        let of_records = Configuration::all().into_iter().filter(|of| of.record().is_some());
        all.extend(of_records.map(|of| (format!("records of {}", of.types.word()), records.clone(), of)));
        let of = |(dimensions, case, configuration): &(String, Case, Configuration)| {
            let case = Arc::new(case.clone());
            let data = Data::new(&case, *configuration, case.seed);
            let data = data.map_err(|error| TrialError::Data(Box::new(error)))?;
            let Count { exposed, total } =
                coverage::faults(&data, count, |n| numerics::random::at(case.seed, n));
            Ok(FaultRow {
                family: FAMILY.to_owned(),
                dimensions: dimensions.clone(),
                faults: total,
                exposed: vec![Exposed { by: "one_hot data".to_owned(), faults: exposed }],
            })
        };
        all.par_iter().map(of).collect()
    }

    fn table(&self, set: &[SharedTrial], question: &TableQuestion<'_>) -> Result<TileTable, CodeError> {
        let chosen: BTreeSet<ConfigurationName> = set.iter().map(|trial| trial.configuration()).collect();
        let row = |of: Configuration| {
            let mut row = question.row(FAMILY, of.name());
            let kernel = kernel(question.library, of.kernel.word())?;
            row.blocked = question.toolchain.and_then(|toolchain| toolchain.lacking(of.needs(kernel)));
            // No option of a case changes the code; its group changes the shared memory.
            let case = built_in().cases.iter().max_by_key(|case| case.group());
            let size = case.and_then(|case| size(kernel, case, of));
            if let (None, Some(assembler), Some(size)) = (&row.blocked, question.assembler, size)
                && chosen.contains(&of.name())
            {
                let source = KernelSource { kernel, defines: of.defines() };
                assembler.code(question.library, &source, size)?.enter(&mut row, size.dynamic_shared);
            }
            Ok(row)
        };
        let rows = Configuration::all().into_iter().map(row).collect::<Result<_, CodeError>>()?;
        Ok(TileTable { rows, ..TileTable::default() })
    }
}

/// What a CTA takes by the header; `None` if that has a mistake, which the trial itself reports with its stage.
fn size(kernel: &Kernel, case: &Case, of: Configuration) -> Option<LaunchSize> {
    launch::size(kernel, &stages::sizes(case, of)).ok()
}

/// Returns the trials of the layers of a model; `None` if there is no such model.
#[must_use]
pub fn trials_of_model(name: &str) -> Option<Vec<SharedTrial>> {
    let model = super::models::models().iter().find(|model| model.name.eq_ignore_ascii_case(name))?;
    Some(model.cases().iter().flat_map(|case| trials(case, own(case))).collect())
}

/// Why a dump cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The trial is one of another family, or did not end.
    #[error("the trial stored no results: run it without --dump to see why")]
    Results,
    /// Its data cannot be generated.
    #[error(transparent)]
    Data(#[from] AttentionError),
    /// Its kernel is missing.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The file cannot be written.
    #[error(transparent)]
    File(#[from] safetensors::SafeTensorError),
}

/// Writes the tensors of a trial that ran, with its results, as `judge` reads them.
///
/// # Errors
/// [`WriteError`].
pub fn write_dump(
    trial: &dyn family::Trial,
    library: &Library,
    seed: Option<u64>,
    target: &str,
    outcome: &family::Outcome,
    path: &Path,
) -> Result<(), WriteError> {
    let trial: &Trial = trial.as_family().ok_or(WriteError::Results)?;
    let stored: &Stored = outcome.stored.downcast_ref().ok_or(WriteError::Results)?;
    let data = trial.data(library, seed)?;
    Ok(export::write(&data, stored, target, path)?)
}

impl Trial {
    /// Its fault coverage, kept from run to run.
    fn counts(&self, seed: Option<u64>, kept: &Kept<'_>) -> Result<BTreeMap<Place, Count>, TrialError> {
        let key = kept.key(&[format!("{:?} {:?} {seed:?}", self.case, self.configuration)]);
        if let Some(known) = kept.get(KIND, key.as_ref()) {
            return Ok(known);
        }
        let data = Data::new(&self.case, self.configuration, seed.unwrap_or(self.case.seed));
        let data = data.map_err(|error| TrialError::Data(Box::new(error)))?;
        let counts = Exposure::new(&data).counts();
        kept.put(KIND, key.as_ref(), &counts);
        Ok(counts)
    }

    /// Its data, as its kernel of partial results declares to use it.
    fn data(&self, library: &Library, seed: Option<u64>) -> Result<Data, WriteError> {
        let declared = kernel(library, self.configuration.kernel.word())?.contract;
        let data = Data::new(&self.case, self.configuration, seed.unwrap_or(self.case.seed))?;
        Ok(data.declared_by(&declared))
    }

    /// What its kernels declare.
    fn contracts(&self, library: &Library) -> Result<Vec<KernelContract>, KernelError> {
        let of = |launched: Launched| kernel(library, launched.header).map(|kernel| kernel.contract);
        self.configuration.launches().into_iter().map(of).collect()
    }

    /// What it exercises, in phrases.
    fn met(&self) -> Vec<String> {
        let case = &self.case;
        let mut met = vec![format!("{} data", case.regime.word()), format!("{} pages", case.layout.word())];
        let also = [
            (case.splits().1 > 1, "several splits"),
            (case.requests.iter().any(|of| of.keys % case.page != 0), "a last page that is not full"),
            (case.requests.iter().any(|of| of.keys == 0), "a request without keys"),
            (case.pages == Pages::Spread, "pages beyond 2^31 elements"),
            (case.sinks, "sinks"),
            (case.sparse, "a table for each row"),
            (case.window.is_some(), "a window"),
            (case.cap.is_some(), "a soft cap"),
            (case.slopes, "slopes"),
            (case.swizzled && self.configuration.types == Types::Nvfp4, "swizzled scales"),
            (case.key_swizzled && self.configuration.types == Types::Nvfp4, "swizzled scales of keys"),
            (case.mask == super::semantics::Mask::Custom, "a custom mask"),
        ];
        met.extend(also.into_iter().filter(|(is, _)| *is).map(|(_, phrase)| phrase.to_owned()));
        met
    }
}

impl family::Trial for Trial {
    fn family(&self) -> &'static dyn Family {
        &ATTENTION
    }

    fn case(&self) -> &str {
        &self.case.name
    }

    fn configuration(&self) -> ConfigurationName {
        self.configuration.name()
    }

    fn choices(&self) -> Vec<Choice> {
        let Configuration { kernel, width, types, path } = self.configuration;
        let word = |axis, value: &str| Choice { axis, order: 0, value: value.to_owned() };
        let order = u32::try_from(width).unwrap_or(u32::MAX);
        let path = path.map(|path| word("MMA path", path.word()));
        let all = [
            word("kernel", kernel.word()),
            Choice { axis: "head", order, value: width.to_string() },
            word("types", types.word()),
        ];
        all.into_iter().chain(path).collect()
    }

    fn blocked(&self) -> Option<(StageName, &str)> {
        self.blocked.as_ref().map(|blocked| (PARTIALS.into(), blocked.0.as_str()))
    }

    fn too_large(&self, free: u64) -> Option<String> {
        if self.case.pages == Pages::Packed {
            return None;
        }
        // The trial itself reports data that cannot be generated.
        let data = Data::new(&self.case, self.configuration, self.case.seed).ok()?;
        let needed: u64 = stream::Problem::buffers(&data).iter().map(|(_, of)| of.size() as u64).sum();
        let says = || {
            format!(
                "a cache of spread pages needs {} MiB, but the GPU has {} MiB free",
                needed >> 20,
                free >> 20
            )
        };
        (needed > free).then(says)
    }

    fn is_swept(&self) -> bool {
        self.case.swept
    }

    fn cost(&self) -> u64 {
        let pairs: usize = self.case.requests.iter().map(|of| of.rows * of.keys).sum();
        (pairs * self.case.heads * self.configuration.width) as u64
    }

    fn schedules(&self) -> u64 {
        1
    }

    fn features(&self) -> Features {
        let of = self.configuration.kernel.word();
        let mut configured =
            BTreeSet::from([self.configuration.name().to_string(), format!("{of} page {}", self.case.page)]);
        configured.extend(self.met().into_iter().map(|met| format!("{of}: {met}")));
        Features { configured, ..Features::default() }
    }

    fn known_failures(&self) -> Vec<KnownFailure> {
        Vec::new()
    }

    fn sources<'l>(&self, library: &'l Library) -> Result<Vec<KernelSource<'l>>, KernelError> {
        if self.blocked.is_some() {
            return Ok(Vec::new());
        }
        let of = |launched: Launched| {
            Ok(KernelSource { kernel: kernel(library, launched.header)?, defines: launched.defines })
        };
        self.configuration.launches().into_iter().map(of).collect()
    }

    fn admitted(
        &self,
        library: &Library,
        toolchain: Option<Toolchain<'_>>,
        limits: Limits,
    ) -> Result<SharedTrial, KernelError> {
        let mut blocked = self.blocked.clone();
        for launched in self.configuration.launches() {
            let kernel = kernel(library, launched.header)?;
            let needs = self.configuration.needs(kernel);
            let lacking = toolchain.and_then(|toolchain| toolchain.lacking(needs)).map(Blocked);
            let exceeding = || size(kernel, &self.case, self.configuration)?.within(limits).err();
            blocked = blocked.or(lacking).or_else(exceeding);
        }
        Ok(Arc::new(Self { blocked, ..self.clone() }))
    }

    fn assembled(
        &self,
        library: &Library,
        assembler: &Assembler<'_>,
    ) -> Result<(SharedTrial, String), CodeError> {
        let mut trial = self.clone();
        let mut remark = String::new();
        for source in self.sources(library)? {
            let Some(size) = size(source.kernel, &self.case, self.configuration) else { continue };
            match assembler.code(library, &source, size) {
                // The trial itself reports a compilation failure, with its stage.
                Err(CodeError::Nvrtc(_)) => {}
                code => match code?.verdict {
                    Ok(cost) if remark.is_empty() => remark = cost,
                    Ok(_) => {}
                    Err(blocked) => trial.blocked = Some(blocked),
                },
            }
        }
        Ok((Arc::new(trial), remark))
    }

    fn key(&self, library: &Library, _: Option<Model>) -> Option<String> {
        let contracts = self.contracts(library).ok()?;
        Some(format!("{:?} {:?} {contracts:?}", self.case, self.configuration))
    }

    fn prepared(
        &self,
        library: &Library,
        seed: Option<u64>,
        _: Option<Model>,
        _: &Memo,
    ) -> Result<Box<dyn Prepared>, TrialError> {
        let seed = seed.unwrap_or(self.case.seed);
        let (case, configuration) = (Arc::clone(&self.case), self.configuration);
        let of_partials = kernel(library, configuration.kernel.word())?.contract;
        let data = move |n: u64| {
            let data = Data::new(&case, configuration, seed.wrapping_add(n << 32));
            let data = data.map_err(|error| TrialError::Data(Box::new(error)))?;
            Ok(stages::shared(data.declared_by(&of_partials)))
        };
        Ok(Box::new(PreparedStream {
            problem: data(0)?,
            variant: Box::new(data),
            deterministic: self.contracts(library)?.iter().all(|contract| contract.deterministic),
        }))
    }

    fn smaller(&self) -> Vec<SharedTrial> {
        self.case.smaller().iter().flat_map(|case| trials(case, [self.configuration])).collect()
    }

    fn case_text(&self) -> Option<String> {
        let case =
            Case { configurations: vec![self.configuration.name().to_string()], ..(*self.case).clone() };
        toolchain::header::file_text(&case)
    }

    fn explained(
        &self,
        library: &Library,
        outcome: &family::Outcome,
        seed: Option<u64>,
        target: Target,
    ) -> Option<Diagnosis> {
        let stored: &Stored = outcome.stored.downcast_ref()?;
        let data = self.data(library, seed).ok()?;
        let bytes = export::bytes(&data, stored, &target.to_string()).ok()?;
        let judgement = super::judge_contents(&super::dump::contents(&bytes).ok()?, Effort::Every).ok()?;
        judgement.diagnosis
    }

    fn more_telling(&self) -> Vec<(String, SharedTrial)> {
        let of = |(data, case): (String, Case)| {
            let trial = trials(&case, [self.configuration]).into_iter().next()?;
            trial.blocked().is_none().then_some((data, trial))
        };
        self.case.more_telling().into_iter().filter_map(of).collect()
    }
}
