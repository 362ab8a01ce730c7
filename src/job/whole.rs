//! The whole job: snippets and toolkits, the matrix, the pipeline, a GPU.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ptx::arch::Target;

use super::context::Context;
use super::error::JobError;
use super::{compiler, gpu, trials};
use crate::event::{Event, Sink};
use crate::gate::Shard;
use crate::gpu::GpuDevice;
use crate::matrix::{self, Figures, Plan, PlanError, Selection};
use crate::record::{GPU, Record, SkippedRow};
use crate::snippet::{Filter, Library};
use crate::store::{ENTRY_BYTES_KEPT, Store};
use crate::toolkit::{self, Discovery, Environment, InstallOptions, Nvrtc, Pins, Places, Toolkit};

/// The toolkits that are fetched if the machine has none: the newest, and the first that supports `sm_121`.
const FIRST_TOOLKITS: [&str; 2] = ["latest", "12.9"];

/// The options of the whole job: snippets, toolkits, targets and limits.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// A folder of snippets instead of the built-in ones.
    pub snippets: Option<PathBuf>,
    /// Toolkits by name or path; if empty, the newest and the newest 12.9.
    pub toolkits: Vec<String>,
    /// Targets by name; the six SM12x targets if empty.
    pub targets: Vec<String>,
    /// Globs that select variants by ID.
    pub filters: Vec<String>,
    /// Whether no kernel is compiled, so that no NVRTC is needed.
    pub only_assembles: bool,
    /// Whether nothing may be fetched.
    pub offline: bool,
    /// The time limit of ptxas for one variant.
    pub time_limit: Duration,
    /// The number of threads; one per core if `None`.
    pub jobs: Option<usize>,
    /// The shard of the job to run; the whole job if `None`.
    pub shard: Option<Shard>,
    /// Whether disassembly of machine code is skipped.
    pub no_sass: bool,
}

impl Options {
    /// Whether neither a snippet folder nor a filter narrows the job.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.snippets.is_none() && self.filters.is_empty()
    }

    /// Parses targets and filters.
    ///
    /// # Errors
    /// [`JobError::Target`] if a word is not a target, [`JobError::Filter`] if a filter is not a glob.
    pub fn selection(&self) -> Result<Selection, JobError> {
        let mut targets: Vec<Target> = Vec::new();
        for name in &self.targets {
            if name == "all" { targets.extend(Target::all_set()) } else { targets.push(name.parse()?) }
        }
        if targets.is_empty() {
            targets = Target::default_set();
        }
        targets.sort();
        targets.dedup();
        let filters = self.filters.iter().map(|f| Filter::new(f)).collect::<Result<_, _>>()?;
        Ok(Selection { targets, filters })
    }
}

/// A prepared run: its snippets, toolkits and cache.
pub struct Job<'a> {
    /// The snippets.
    pub library: Library,
    /// The toolkits of this machine.
    pub discovery: Discovery,
    store: Option<Store>,
    context: &'a Context<'a>,
}

impl<'a> Job<'a> {
    /// Loads snippets and finds toolkits; fetches toolkits if the machine has none.
    ///
    /// # Errors
    /// Snippets that cannot be read; any error of the download.
    pub fn prepare(options: &Options, context: &'a Context<'a>) -> Result<Self, JobError> {
        if let Some(jobs) = options.jobs {
            rayon::ThreadPoolBuilder::new().num_threads(jobs).build_global()?;
        }
        let mut library = snippets(options.snippets.as_deref(), context.sink)?;
        // Before a download.
        check_filters(&library, &options.filters)?;
        options.selection()?;
        if let Some(shard) = options.shard {
            shard.of_snippets(&mut library);
        }
        let store = match Store::open(None) {
            Ok(store) => Some(store),
            Err(error) => {
                context.sink.emit(Event::Warning { text: format!("{error}; this run is not cached") });
                None
            }
        };
        let mut job = Self { library, discovery: Discovery::default(), store, context };
        job.discover(options);
        job.fetch_first(options)?;
        Ok(job)
    }

    fn discover(&mut self, options: &Options) {
        let mut places = Places::from_environment(self.store.as_ref().map(Store::root));
        places.add_named(&options.toolkits);
        self.discovery = toolkit::discover(self.store.as_ref(), &places);
    }

    /// If the machine has no toolkit, fetches toolkits and, if also missing, an NVRTC for the pipeline in one installation.
    fn fetch_first(&mut self, options: &Options) -> Result<(), JobError> {
        if !self.discovery.toolkits.is_empty() || !options.toolkits.is_empty() {
            // The pipeline fetches the NVRTC itself.
            return Ok(());
        }
        for row in &self.discovery.unusable {
            let text = format!("{} is not usable as an assembler: {}", row.path.display(), row.reason);
            self.context.sink.emit(Event::Warning { text });
        }
        if options.offline {
            return Err(JobError::Offline);
        }
        let Some(store) = &self.store else {
            return Err(JobError::Store(crate::store::StoreError::NoFolder));
        };
        let pins = Pins::built_in()?;
        let mut names = FIRST_TOOLKITS.map(str::to_owned).to_vec();
        if options.is_whole()
            && !options.only_assembles
            && toolkit::nvrtcs(Some(store), &Environment::of_process()).is_empty()
        {
            names.push(compiler::NEWEST.to_owned());
        }
        let what: Vec<String> = pins.resolve(&names)?.iter().map(|pin| pin.what()).collect();
        let text = format!(
            "This machine has no toolkit. Fetching {} with pip, checked against pinned SHA-256 sums.",
            what.join(", ")
        );
        self.context.sink.emit(Event::Notice { text });
        toolkit::install(store, &pins, &names, &InstallOptions::for_host()?, self.context.sink)?;
        self.discover(options);
        Ok(())
    }

    /// Returns the cache, or `None` if it cannot be used.
    #[must_use]
    pub fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// Trims the cache to its size limit.
    pub fn trim(&self) {
        if let Some(store) = &self.store {
            store.trim(ENTRY_BYTES_KEPT);
        }
    }

    /// Returns the toolkits that the options name.
    ///
    /// # Errors
    /// [`JobError::Select`] if one is not found.
    pub fn toolkits(&self, options: &Options) -> Result<Vec<&Toolkit>, JobError> {
        let toolkits = self.discovery.select(&options.toolkits)?;
        let target: Target = "sm_121a".parse()?;
        if !toolkits.iter().any(|t| t.knows(target)) {
            let text = "none of these toolkits knows sm_121; `sm121probe toolkit install latest 12.9` fetches two that do";
            self.context.sink.emit(Event::Warning { text: text.to_owned() });
        }
        Ok(toolkits)
    }

    /// Runs the default sets of all families on the emulator and adds their rows and the table of configurations to `record`. Without an
    /// NVRTC the parts are recorded as skipped, with the reason. Returns the NVRTC.
    ///
    /// # Errors
    /// Errors of compilation and execution that are not a verdict.
    pub fn trials(&self, options: &Options, record: &mut Record) -> Result<Option<Nvrtc>, JobError> {
        if self.record_missing_nvrtc(options, record) {
            return Ok(None);
        }
        let store = self.store.as_ref();
        let nvrtc = match self.may_fetch(options) {
            true => compiler::nvrtc(None, store, self.context.sink)?,
            false => {
                toolkit::select_nvrtc(&toolkit::nvrtcs(store, &Environment::of_process()), None)?.clone()
            }
        };
        trials::default_sets(&nvrtc, store, (options, self.context), record)?;
        Ok(Some(nvrtc))
    }

    const fn may_fetch(&self, options: &Options) -> bool {
        !options.offline && self.store.is_some()
    }

    /// Whether the machine has no NVRTC, which compiles the pipeline's kernels, and none may be fetched; the pipeline is then recorded
    /// as skipped, with the reason.
    fn record_missing_nvrtc(&self, options: &Options, record: &mut Record) -> bool {
        if self.may_fetch(options) {
            return false;
        }
        let found = toolkit::nvrtcs(self.store.as_ref(), &Environment::of_process());
        let missing = toolkit::select_nvrtc(&found, None).is_err();
        if missing {
            let reason =
                "no NVRTC on this machine; `sm121probe toolkit install nvrtc` fetches one".to_owned();
            trials::skip_all(&reason, true, record);
        }
        missing
    }

    /// Runs the selected executable variants on this GPU and, with an NVRTC, the pipeline; adds the results to `record`.
    fn on_gpu(
        &self,
        options: &Options,
        (device, time): (GpuDevice, Duration),
        nvrtc: Option<&Nvrtc>,
        record: &mut Record,
    ) -> Result<(), JobError> {
        let filters = options.selection()?.filters;
        let runnable: Vec<_> = self
            .library
            .variants
            .iter()
            .filter(|v| v.execute.is_some())
            .filter(|v| {
                let family = &self.library.snippets[v.snippet].family;
                filters.is_empty() || filters.iter().any(|f| f.matches(family, &v.id))
            })
            .collect();
        let device = gpu::snippets(device, &runnable, record)?;
        match nvrtc {
            Some(nvrtc) => gpu::pipeline((device, time), nvrtc, (self.store.as_ref(), self.context), record),
            None => Ok(()),
        }
    }

    /// Runs the matrix and, if nothing narrows the job, the pipeline. With a GPU, also runs executable variants and the pipeline on
    /// it, where trials start for at most `time`. An `Err` for `device` is the reason why the GPU part is recorded as skipped.
    /// `matrix_done` receives the record as soon as it contains the matrix.
    ///
    /// # Errors
    /// Anything that cannot be fetched, planned or run.
    pub fn whole(
        &self,
        options: &Options,
        device: Option<Result<GpuDevice, String>>,
        time: Duration,
        matrix_done: impl FnOnce(&Record),
    ) -> Result<(Record, Figures), JobError> {
        let (mut record, figures) = self.run(options, false)?;
        // The report begins with what the run lacks, so this is known before its first part is shown.
        let lacks_nvrtc = options.is_whole() && self.record_missing_nvrtc(options, &mut record);
        matrix_done(&record);
        let nvrtc = match options.is_whole() && !lacks_nvrtc {
            true => self.trials(options, &mut record)?,
            false => None,
        };
        match device {
            Some(Ok(device)) => self.on_gpu(options, (device, time), nvrtc.as_ref(), &mut record)?,
            // Nobody asked for a GPU by name: an error of one that is named ends the command.
            Some(Err(reason)) => {
                record.skipped.push(SkippedRow { part: GPU.to_owned(), reason, needed: false });
            }
            None => {}
        }
        Ok((record, figures))
    }

    /// Runs the matrix.
    ///
    /// # Errors
    /// Anything that cannot be planned or run.
    pub fn run(&self, options: &Options, isolated: bool) -> Result<(Record, Figures), JobError> {
        let toolkits = self.toolkits(options)?;
        let plan = Plan::new(&self.library, &toolkits, &options.selection()?)?;
        let how = matrix::Options { isolated, time_limit: options.time_limit };
        let disassembler = self.discovery.disassembler.as_ref().filter(|_| !options.no_sass);
        if disassembler.is_none() && !options.no_sass {
            let text = "no nvdisasm found: machine code is not examined; `sm121probe toolkit install nvdisasm` fetches it";
            self.context.sink.emit(Event::Warning { text: text.to_owned() });
        }
        let store = self.store.as_ref();
        let (mut record, figures) =
            matrix::run(&self.library, &plan, &toolkits, disassembler, store, &how, self.context.sink)?;
        record.filters.clone_from(&options.filters);
        self.trim();
        Ok((record, figures))
    }
}

/// Checks that each glob matches a variant; a shard may have none of them.
///
/// # Errors
/// [`JobError::Plan`] if one does not, [`JobError::Filter`] if it is not a glob.
pub fn check_filters(library: &Library, globs: &[String]) -> Result<(), JobError> {
    for glob in globs {
        let filter = Filter::new(glob)?;
        let matches =
            |v: &crate::snippet::Variant| filter.matches(&library.snippets[v.snippet].family, &v.id);
        if !library.variants.iter().any(matches) {
            let (filter, available) = (glob.clone(), library.variants.len());
            return Err(PlanError::UselessFilter { filter, available }.into());
        }
    }
    Ok(())
}

/// Loads the snippets of a folder, or the built-in ones, and reports problems to the sink.
///
/// # Errors
/// [`JobError::Snippet`] if the folder cannot be read.
pub fn snippets(folder: Option<&Path>, sink: &dyn Sink) -> Result<Library, JobError> {
    let library = match folder {
        Some(folder) => Library::load(folder)?,
        None => Library::embedded(),
    };
    for problem in &library.problems {
        sink.emit(Event::Problem { text: problem.to_string() });
    }
    Ok(library)
}
