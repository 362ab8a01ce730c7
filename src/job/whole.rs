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
use crate::matrix::{self, Figures, Plan, Selection};
use crate::record::{GPU, PIPELINE, Record, SkippedRow};
use crate::snippet::{Filter, Library};
use crate::store::{ENTRY_BYTES_KEPT, Store};
use crate::toolkit::{self, Discovery, Environment, InstallOptions, Nvrtc, Pins, Places, Toolkit};

/// What is fetched when a machine has no toolkit: the newest, and the first that knows sm_121.
const FIRST_TOOLKITS: [&str; 2] = ["latest", "12.9"];

/// What is queried, and how.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// A folder of snippets instead of the built-in ones.
    pub snippets: Option<PathBuf>,
    /// Toolkits by name or path; the newest and 12.9 where there is none.
    pub toolkits: Vec<String>,
    /// Targets by name; the six SM12x targets where there is none.
    pub targets: Vec<String>,
    /// Globs over ids of variants.
    pub filters: Vec<String>,
    /// Whether nothing may be fetched.
    pub offline: bool,
    /// How long ptxas may take for one variant.
    pub time_limit: Duration,
    /// Threads; as many as there are cores where left out.
    pub jobs: Option<usize>,
    /// The part of the job that is done.
    pub shard: Option<Shard>,
    /// Whether machine code is not disassembled.
    pub no_sass: bool,
}

impl Options {
    /// Whether nothing narrows the job to snippets or variants.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.snippets.is_none() && self.filters.is_empty()
    }

    /// Targets and filters, parsed.
    ///
    /// # Errors
    /// [`JobError::Target`] and [`JobError::Filter`] where a word is none.
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

/// Snippets, toolkits and cache of a run.
pub struct Job<'a> {
    /// The snippets.
    pub library: Library,
    /// The toolkits of this machine.
    pub discovery: Discovery,
    store: Option<Store>,
    context: &'a Context<'a>,
}

impl<'a> Job<'a> {
    /// Loads snippets, finds toolkits, and fetches the first ones where there is none.
    ///
    /// # Errors
    /// Snippets that cannot be read, and what fetching meets.
    pub fn prepare(options: &Options, context: &'a Context<'a>) -> Result<Self, JobError> {
        if let Some(jobs) = options.jobs {
            rayon::ThreadPoolBuilder::new().num_threads(jobs).build_global()?;
        }
        let mut library = snippets(options.snippets.as_deref(), context.sink)?;
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

    /// Fetches, at once, what the job needs and the machine has none of: toolkits, and an NVRTC for the pipeline.
    fn fetch_first(&mut self, options: &Options) -> Result<(), JobError> {
        let no_toolkit = self.discovery.toolkits.is_empty() && options.toolkits.is_empty();
        let compiles = options.is_whole() && !options.offline && self.store.is_some();
        let no_nvrtc =
            compiles && toolkit::nvrtcs(self.store.as_ref(), &Environment::of_process()).is_empty();
        if !no_toolkit {
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
        if no_nvrtc {
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

    /// The cache; none where it cannot be used.
    #[must_use]
    pub fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// Keeps the cache within its bounds.
    pub fn trim(&self) {
        if let Some(store) = &self.store {
            store.trim(ENTRY_BYTES_KEPT);
        }
    }

    /// The toolkits that the options name.
    ///
    /// # Errors
    /// [`JobError::Select`] where one is not here.
    pub fn toolkits(&self, options: &Options) -> Result<Vec<&Toolkit>, JobError> {
        let toolkits = self.discovery.select(&options.toolkits)?;
        let target: Target = "sm_121a".parse()?;
        if !toolkits.iter().any(|t| t.knows(target)) {
            let text = "none of these toolkits knows sm_121; `sm121probe toolkit install latest 12.9` fetches two that do";
            self.context.sink.emit(Event::Warning { text: text.to_owned() });
        }
        Ok(toolkits)
    }

    /// The pipeline's default set on the emulator, and the tiles, into `record`; skipped there, with the reason, where no NVRTC
    /// can be had. The NVRTC.
    ///
    /// # Errors
    /// What compiling and running meets that is no verdict.
    pub fn pipeline(&self, options: &Options, record: &mut Record) -> Result<Option<Nvrtc>, JobError> {
        let nvrtc = self.nvrtc(options, record)?;
        if let Some(nvrtc) = &nvrtc {
            trials::default_set(nvrtc, self.store.as_ref(), (options, self.context), record)?;
        }
        Ok(nvrtc)
    }

    /// The NVRTC that compiles the pipeline's kernels, fetched where there is none; what needs it is skipped in `record`, with the
    /// reason, where none can be had.
    fn nvrtc(&self, options: &Options, record: &mut Record) -> Result<Option<Nvrtc>, JobError> {
        let store = self.store.as_ref();
        if !options.offline && store.is_some() {
            return compiler::nvrtc(None, store, self.context.sink).map(Some);
        }
        let found = toolkit::nvrtcs(store, &Environment::of_process());
        let Ok(nvrtc) = toolkit::select_nvrtc(&found, None) else {
            let reason =
                "no NVRTC on this machine; `sm121probe toolkit install nvrtc` fetches one".to_owned();
            record.skipped.push(SkippedRow { part: PIPELINE.to_owned(), reason });
            return Ok(None);
        };
        Ok(Some(nvrtc.clone()))
    }

    /// The selected variants that say how they are run, and with an NVRTC the pipeline, on this GPU, into `record`.
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

    /// The matrix, and where nothing narrows the job the pipeline; both on the GPU, too, which starts trials for `time`. A reason
    /// in its place becomes a skipped part. `matrix_done` sees the record as soon as it holds the matrix.
    ///
    /// # Errors
    /// What cannot be fetched, planned or run.
    pub fn whole(
        &self,
        options: &Options,
        device: Option<Result<GpuDevice, String>>,
        time: Duration,
        matrix_done: impl FnOnce(&Record),
    ) -> Result<(Record, Figures), JobError> {
        let (mut record, figures) = self.run(options, false)?;
        matrix_done(&record);
        let nvrtc = if options.is_whole() { self.pipeline(options, &mut record)? } else { None };
        match device {
            Some(Ok(device)) => self.on_gpu(options, (device, time), nvrtc.as_ref(), &mut record)?,
            Some(Err(reason)) => record.skipped.push(SkippedRow { part: GPU.to_owned(), reason }),
            None => {}
        }
        Ok((record, figures))
    }

    /// The matrix.
    ///
    /// # Errors
    /// What cannot be planned or run.
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
        let result =
            matrix::run(&self.library, &plan, &toolkits, disassembler, store, &how, self.context.sink)?;
        self.trim();
        Ok(result)
    }
}

/// The snippets of a folder, or the built-in ones; problems are told.
///
/// # Errors
/// [`JobError::Snippet`] where the folder cannot be read.
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
