//! The parts that every asking verb shares: snippets, toolkits, plan, run.

use std::path::Path;

use ptx::arch::Target;

use super::args::JobArgs;
use super::error::CliError;
use super::on_gpu::GpuArgs;
use super::progress::Progress;
use crate::event::{Event, Sink};
use crate::gpu::GpuDevice;
use crate::matrix::{self, Figures, Options, Plan, Selection};
use crate::record::{PIPELINE, Record, SkippedRow};
use crate::snippet::{Filter, Library};
use crate::store::{ENTRY_BYTES_KEPT, Store};
use crate::toolkit::{self, Discovery, Environment, InstallOptions, Nvrtc, Pins, Places, Toolkit};

/// What is fetched when a machine has no toolkit: the newest, and the first that knows sm_121.
const FIRST_TOOLKITS: [&str; 2] = ["latest", "12.9"];

/// Everything a run stands on.
pub(super) struct Job {
    pub(super) library: Library,
    pub(super) discovery: Discovery,
    store: Option<Store>,
    pub(super) sink: Progress,
}

impl Job {
    /// Loads snippets, finds toolkits, and fetches the first ones where there is none.
    pub(super) fn prepare(args: &JobArgs) -> Result<Self, CliError> {
        let sink = Progress::new();
        if let Some(jobs) = args.jobs {
            rayon::ThreadPoolBuilder::new().num_threads(jobs).build_global()?;
        }
        let mut library = snippets(args.snippets.as_deref())?;
        if let Some(shard) = args.shard {
            shard.of_snippets(&mut library);
        }
        let store = match Store::open(None) {
            Ok(store) => Some(store),
            Err(error) => {
                sink.emit(Event::Warning { text: format!("{error}; this run is not cached") });
                None
            }
        };
        let mut job = Self { library, discovery: Discovery::default(), store, sink };
        job.discover(args);
        if job.discovery.toolkits.is_empty() && args.toolkits.is_empty() {
            job.fetch_first(args)?;
        }
        Ok(job)
    }

    fn discover(&mut self, args: &JobArgs) {
        let mut places = Places::from_environment(self.store.as_ref().map(Store::root));
        places.add_named(&args.toolkits);
        self.discovery = toolkit::discover(self.store.as_ref(), &places);
    }

    fn fetch_first(&mut self, args: &JobArgs) -> Result<(), CliError> {
        for row in &self.discovery.unusable {
            let text = format!("{} is not usable as an assembler: {}", row.path.display(), row.reason);
            self.sink.emit(Event::Warning { text });
        }
        if args.offline {
            return Err(CliError::Offline);
        }
        let Some(store) = &self.store else {
            return Err(CliError::Store(crate::store::StoreError::NoFolder));
        };
        let pins = Pins::built_in()?;
        let names = FIRST_TOOLKITS.map(str::to_owned);
        let what: Vec<String> = pins.resolve(&names)?.iter().map(|pin| pin.what()).collect();
        let text = format!(
            "This machine has no toolkit. Fetching {} with pip, checked against pinned SHA-256 sums.",
            what.join(", ")
        );
        self.sink.emit(Event::Notice { text });
        toolkit::install(store, &pins, &names, &InstallOptions::for_host()?, &self.sink)?;
        self.discover(args);
        Ok(())
    }

    /// The cache; none where it cannot be used.
    pub(super) fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// Keeps the cache within its bounds.
    pub(super) fn trim(&self) {
        if let Some(store) = &self.store {
            store.trim(ENTRY_BYTES_KEPT);
        }
    }

    /// The toolkits of `--toolkit`.
    pub(super) fn toolkits(&self, args: &JobArgs) -> Result<Vec<&Toolkit>, CliError> {
        let toolkits = self.discovery.select(&args.toolkits)?;
        let target: Target = "sm_121a".parse()?;
        if !toolkits.iter().any(|t| t.knows(target)) {
            let text = "none of these toolkits knows sm_121; `sm121probe toolkit install latest 12.9` fetches two that do";
            self.sink.emit(Event::Warning { text: text.to_owned() });
        }
        Ok(toolkits)
    }

    /// The pipeline's default set on the emulator, and the tiles, into `record`; skipped there, with the reason, where no NVRTC
    /// can be had. The NVRTC.
    pub(super) fn pipeline(&self, args: &JobArgs, record: &mut Record) -> Result<Option<Nvrtc>, CliError> {
        let nvrtc = self.nvrtc(args, record)?;
        if let Some(nvrtc) = &nvrtc {
            super::trials::default_set(nvrtc, self.store.as_ref(), args, record)?;
        }
        Ok(nvrtc)
    }

    /// The NVRTC that compiles the pipeline's kernels, fetched where there is none; what needs it is skipped in `record`, with the
    /// reason, where none can be had.
    fn nvrtc(&self, args: &JobArgs, record: &mut Record) -> Result<Option<Nvrtc>, CliError> {
        let store = self.store.as_ref();
        if !args.offline && store.is_some() {
            return super::compiler::nvrtc(None, store, &self.sink).map(Some);
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
    pub(super) fn on_gpu(
        &self,
        args: &JobArgs,
        (gpu, device): (&GpuArgs, GpuDevice),
        nvrtc: Option<&Nvrtc>,
        record: &mut Record,
    ) -> Result<(), CliError> {
        let filters = selection(args)?.filters;
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
        let device = gpu.snippets(device, &runnable, record)?;
        match nvrtc {
            Some(nvrtc) => gpu.pipeline(device, nvrtc, self.store.as_ref(), record),
            None => Ok(()),
        }
    }

    /// Plans and runs.
    pub(super) fn run(&self, args: &JobArgs, isolated: bool) -> Result<(Record, Figures), CliError> {
        let toolkits = self.toolkits(args)?;
        let plan = Plan::new(&self.library, &toolkits, &selection(args)?)?;
        let options = Options { isolated, time_limit: args.time_limit };
        let disassembler = self.discovery.disassembler.as_ref().filter(|_| !args.no_sass);
        if disassembler.is_none() && !args.no_sass {
            let text = "no nvdisasm found: machine code is not examined; `sm121probe toolkit install nvdisasm` fetches it";
            self.sink.emit(Event::Warning { text: text.to_owned() });
        }
        let store = self.store.as_ref();
        let result = matrix::run(&self.library, &plan, &toolkits, disassembler, store, &options, &self.sink)?;
        self.trim();
        if args.figures {
            eprintln!("{}", figures(&result.1));
        }
        Ok(result)
    }
}

/// Targets and filters of the arguments.
pub(super) fn selection(args: &JobArgs) -> Result<Selection, CliError> {
    let mut targets: Vec<Target> = Vec::new();
    for name in &args.targets {
        if name == "all" { targets.extend(Target::all_set()) } else { targets.push(name.parse()?) }
    }
    if targets.is_empty() {
        targets = Target::default_set();
    }
    targets.sort();
    targets.dedup();
    let filters = args.filters.iter().map(|f| Filter::new(f)).collect::<Result<_, _>>()?;
    Ok(Selection { targets, filters })
}

/// The snippets of a folder, or the built-in ones; problems are told.
pub(super) fn snippets(folder: Option<&Path>) -> Result<Library, CliError> {
    let library = match folder {
        Some(folder) => Library::load(folder)?,
        None => Library::embedded(),
    };
    for problem in &library.problems {
        eprintln!("error: {problem}");
    }
    Ok(library)
}

/// The cost of a run, on one line.
pub(super) fn figures(f: &Figures) -> String {
    format!(
        "{} cells, {} from the cache, {} processes; verdicts {:.2} s, opcodes {:.2} s ({} instructions named)",
        f.cells,
        f.cached,
        f.processes,
        f.verdicts.as_secs_f64(),
        f.sass.as_secs_f64(),
        f.instructions
    )
}
