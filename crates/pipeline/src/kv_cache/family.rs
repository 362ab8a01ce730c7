//! The writer as a family: its words, its trials, and what runs one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use numerics::tensor_core::Model;
use record::{
    ConfigurationName, Count, ExerciseRow, FamilyRow, FaultCoverageRow, FaultRow, StageName, StageRow,
    TileTable, TrialRow, Verdict,
};

use super::case::{Case, Slots, built_in};
use super::configuration::{Configuration, Layout, Scales};
use super::problem::{self, Data, Side};
use crate::frame::admission::{Blocked, LaunchSize, Limits, Toolchain};
use crate::frame::code::{Assembler, CodeError};
use crate::frame::compile::KernelSource;
use crate::frame::family::{
    self, CaseName, Choice, Family, Features, Part, Prepared, SharedTrial, TableQuestion,
};
use crate::frame::kept::Kept;
use crate::frame::known::KnownFailure;
use crate::frame::launch;
use crate::frame::stream::{PreparedStream, Problem};
use crate::frame::{Memo, TrialError};
use crate::kernel::{Kernel, KernelError, Library};

/// The name of the family, and the one stage of its headers.
const FAMILY: &str = "kv_cache";
const STAGE: &str = "write";

/// The family.
pub static KV_CACHE: KvCache = KvCache;

/// The writer of an NVFP4 or FP8 KV cache.
#[derive(Debug)]
pub struct KvCache;

/// A case on a configuration.
#[derive(Debug, Clone)]
struct Trial {
    case: Arc<Case>,
    configuration: Configuration,
    blocked: Option<Blocked>,
}

/// Returns the kernel of a library.
fn kernel(library: &Library) -> Result<&Kernel, KernelError> {
    // The user's kernels come first.
    let found = library.kernels.iter().find(|kernel| kernel.family == FAMILY);
    found.ok_or_else(|| KernelError::Missing { what: "the KV-cache writer".to_owned(), there: String::new() })
}

fn find(name: &str) -> Option<&'static Case> {
    built_in().cases.iter().find(|case| case.name == name)
}

/// The trials of a case on these configurations.
fn trials(case: &Case, configurations: impl IntoIterator<Item = Configuration>) -> Vec<SharedTrial> {
    let case = Arc::new(case.clone());
    let of = |configuration: Configuration| {
        let blocked = configuration.blocked().map(|reason| Blocked(reason.to_owned()));
        Arc::new(Trial { case: Arc::clone(&case), configuration, blocked }) as SharedTrial
    };
    configurations.into_iter().map(of).collect()
}

/// The configurations of a case that is not swept: both layouts of a common head, and both sizes of elements.
fn own() -> [Configuration; 4] {
    let of = |layout, scales| Configuration { layout, head: 128, scales };
    [
        of(Layout::Nhd, Scales::Linear),
        of(Layout::Hnd, Scales::Linear),
        of(Layout::Hnd, Scales::Swizzled),
        of(Layout::Nhd, Scales::E4m3),
    ]
}

impl Family for KvCache {
    fn name(&self) -> &'static str {
        FAMILY
    }

    fn row(&self) -> FamilyRow {
        let stage = |side: Side| StageRow {
            name: side.stage().into(),
            about: format!("quantizes new {} into their slots", side.stage()),
        };
        FamilyRow {
            name: FAMILY.to_owned(),
            title: "NVFP4 and FP8 KV-cache writer".to_owned(),
            leading: "layout".to_owned(),
            stages: Side::ALL.map(stage).into(),
            all: String::new(),
        }
    }

    fn is_configured(&self, _: &Kernel) -> bool {
        true
    }

    fn check_kernel(&self, kernel: &Kernel) -> Result<(), (&'static str, String)> {
        match kernel.stage.as_str() {
            STAGE => kernel.declares_no_quantization(),
            other => Err(("stage", format!("unknown stage `{other}`; the stage of {FAMILY} is {STAGE}"))),
        }
    }

    fn kernel_of<'l>(
        &self,
        library: &'l Library,
        _: &ConfigurationName,
        _: &StageName,
    ) -> Option<&'l Kernel> {
        kernel(library).ok()
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
            true => trials(case, Configuration::all()),
            false => trials(case, own()),
        };
        cases.iter().filter_map(|name| find(name)).collect::<Vec<_>>().iter().flat_map(of).collect()
    }

    fn trials(&self, case: &str, part: Part<'_>) -> Vec<SharedTrial> {
        let Some(case) = find(case) else { return Vec::new() };
        match part {
            Part::Every => trials(case, Configuration::all()),
            Part::Own => trials(case, own()),
            Part::Named(words) => {
                trials(case, Configuration::all().into_iter().filter(|of| of.name().has(words)))
            }
        }
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
                counts: ["token", "head", "page"]
                    .map(|what| Count { what: what.to_owned(), count: 0 })
                    .into(),
                met: Vec::new(),
                missing: Vec::new(),
            });
            if row.verdict() != Verdict::Pass {
                continue;
            }
            let Case { tokens, heads, pages, .. } = *trial.case;
            for (count, most) in found.counts.iter_mut().zip([tokens, heads, pages]) {
                count.count = count.count.max(u32::try_from(most).unwrap_or(u32::MAX));
            }
            let mut met = vec![format!("{} data", trial.case.regime.word())];
            if trial.case.slots == Slots::Scattered {
                met.extend(["slots out of order", "a token without a slot"].map(str::to_owned));
            }
            found.met.extend(met);
        }
        for row in rows.values_mut() {
            let met: BTreeSet<String> = std::mem::take(&mut row.met).into_iter().collect();
            row.met = met.into_iter().collect();
            let wanted = ["exact data", "real data", "slots out of order", "a token without a slot"];
            let lacks = |phrase: &&str| !row.met.iter().any(|met| met == phrase);
            row.missing = wanted.into_iter().filter(lacks).map(str::to_owned).collect();
        }
        rows.into_values().collect()
    }

    fn fault_coverage(
        &self,
        _: &Library,
        _: &[(&dyn family::Trial, &TrialRow)],
        _: Option<u64>,
        _: &Kept<'_>,
    ) -> Result<Vec<FaultCoverageRow>, TrialError> {
        Ok(Vec::new())
    }

    fn faults(&self, _: u64) -> Result<Vec<FaultRow>, TrialError> {
        Ok(Vec::new())
    }

    fn table(&self, _: &[SharedTrial], question: &TableQuestion<'_>) -> Result<TileTable, CodeError> {
        let row = |of: Configuration| {
            let mut row = question.row(FAMILY, of.name());
            row.blocked = of.blocked().map(str::to_owned);
            let kernel = kernel(question.library)?;
            let needs = kernel.needs.iter().map(String::as_str);
            let lacking = question.toolchain.and_then(|toolchain| toolchain.lacking(needs));
            row.blocked = row.blocked.or(lacking);
            // No option of a case changes the code.
            let size = built_in().cases.first().and_then(|case| size(kernel, case, of));
            if let (None, Some(assembler), Some(size)) = (&row.blocked, question.assembler, size) {
                let source = KernelSource { kernel, defines: of.defines() };
                assembler.code(question.library, &source, size)?.enter(&mut row, size.dynamic_shared);
            }
            Ok(row)
        };
        let rows = Configuration::all().into_iter().map(row).collect::<Result<_, CodeError>>()?;
        Ok(TileTable { rows, ..TileTable::default() })
    }
}

/// The most that a CTA takes by the header; `None` if that has a mistake, which the trial itself reports with its stage.
fn size(kernel: &Kernel, case: &Case, of: Configuration) -> Option<LaunchSize> {
    let [keys, values] = Side::ALL.map(|side| launch::size(kernel, &problem::names(case, of, side)).ok());
    let (keys, values) = (keys?, values?);
    Some(LaunchSize {
        threads: keys.threads.max(values.threads),
        dynamic_shared: keys.dynamic_shared.max(values.dynamic_shared),
    })
}

impl family::Trial for Trial {
    fn family(&self) -> &'static dyn Family {
        &KV_CACHE
    }

    fn case(&self) -> &str {
        &self.case.name
    }

    fn configuration(&self) -> ConfigurationName {
        self.configuration.name()
    }

    fn choices(&self) -> Vec<Choice> {
        let Configuration { layout, head, scales } = self.configuration;
        let word = |axis, value: &str| Choice { axis, order: 0, value: value.to_owned() };
        let order = u32::try_from(head).unwrap_or(u32::MAX);
        vec![
            word("layout", layout.word()),
            Choice { axis: "head", order, value: head.to_string() },
            word("scales", scales.word()),
        ]
    }

    fn blocked(&self) -> Option<(StageName, &str)> {
        self.blocked.as_ref().map(|blocked| (Side::Keys.stage().into(), blocked.0.as_str()))
    }

    fn is_swept(&self) -> bool {
        self.case.swept
    }

    fn cost(&self) -> u64 {
        (self.case.tokens * self.case.heads * self.configuration.head) as u64
    }

    fn schedules(&self) -> u64 {
        1
    }

    fn features(&self) -> Features {
        let Case { heads, page, pages, slots, regime, .. } = &*self.case;
        let Configuration { layout, head, scales } = self.configuration;
        let (layout, scales) = (layout.word(), scales.word());
        let configured = BTreeSet::from([
            format!("layout {layout}"),
            format!("head {head}"),
            format!("scales {scales}"),
            format!("{} of {layout}", regime.word()),
            format!("{} of {scales}", regime.word()),
            format!("slots {} of {layout}", slots.word()),
            format!("head {head} of {layout}"),
            format!("page {page}"),
            format!("several heads of {layout}: {}", *heads > 1),
            format!("several pages: {}", *pages > 1),
        ]);
        Features { configured, ..Features::default() }
    }

    fn known_failures(&self) -> Vec<KnownFailure> {
        Vec::new()
    }

    fn sources<'l>(&self, library: &'l Library) -> Result<Vec<KernelSource<'l>>, KernelError> {
        if self.blocked.is_some() {
            return Ok(Vec::new());
        }
        Ok(vec![KernelSource { kernel: kernel(library)?, defines: self.configuration.defines() }])
    }

    fn admitted(
        &self,
        library: &Library,
        toolchain: Option<Toolchain<'_>>,
        limits: Limits,
    ) -> Result<SharedTrial, KernelError> {
        let kernel = kernel(library)?;
        let needs = kernel.needs.iter().map(String::as_str);
        let lacking = toolchain.and_then(|toolchain| toolchain.lacking(needs)).map(Blocked);
        let exceeding = || size(kernel, &self.case, self.configuration)?.within(limits).err();
        let blocked = self.blocked.clone().or(lacking).or_else(exceeding);
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
                    Ok(cost) => remark = cost,
                    Err(blocked) => trial.blocked = Some(blocked),
                },
            }
        }
        Ok((Arc::new(trial), remark))
    }

    fn key(&self, library: &Library, _: Option<Model>) -> Option<String> {
        let deterministic = kernel(library).ok()?.contract.deterministic;
        Some(format!("{:?} {:?} {deterministic}", self.case, self.configuration))
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
        let data = move |n: u64| {
            let seed = seed.wrapping_add(n << 32);
            Ok(Arc::new(Data::new(&case, configuration, seed)) as Arc<dyn Problem>)
        };
        Ok(Box::new(PreparedStream {
            problem: data(0)?,
            variant: Box::new(data),
            deterministic: kernel(library)?.contract.deterministic,
        }))
    }
}
