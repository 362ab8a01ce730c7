//! `emulate`: runs a kernel of a PTX or CUDA C++ file on the CPU.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use emulator::argument::{self, Argument, Content, MapOf, Shape};
use emulator::{
    self, GlobalMemory, InStream, Judge, Kernel, Launch, Options, Parameter, Profile, Program, Remark, Stop,
    TENSOR_MAP_BYTES, TensorMap, Violation,
};
use ptx::Type;
use ptx::arch::Target;
use safetensors::tensor::{SafeTensors, TensorView};

use super::available_memory::available_memory;
use super::dtypes::{dtype, element};
use super::emulate_trials::{JudgeBy, POISONS, Trial, gather, listed, trials};
use super::error::CliError;
use super::output;
use super::ptx_error::PtxError;
use super::watch::{Heard, Trace, Watcher, show_profile};
use crate::job::{self, Context};
use crate::record::write_atomic;
use crate::store::{self, Store};
use crate::toolkit;

/// What a CUDA C++ file is compiled for when nothing is said.
const TARGET: &str = "sm_121a";

/// How long NVRTC may take.
const COMPILE_LIMIT: Duration = Duration::from_secs(120);

/// Threads of a CTA when neither the call nor the kernel says so.
const WARP: u32 = 32;

/// Elements of an output that are printed.
const SHOWN: usize = 8;

/// Arguments of `emulate`.
#[derive(Debug, Args)]
pub(super) struct EmulateArgs {
    /// A .ptx file, or a .cu file, which NVRTC compiles first
    file: PathBuf,
    /// Name of the kernel; optional if the file has only one
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// CTAs of the grid: X, X,Y or X,Y,Z
    #[arg(long, value_name = "X,Y,Z", default_value = "1", value_parser = three)]
    grid: [u32; 3],
    /// Threads of a CTA: X, X,Y or X,Y,Z [default: the kernel's .reqntid, or 32]
    #[arg(long, value_name = "X,Y,Z", value_parser = three)]
    block: Option<[u32; 3]>,
    /// CTAs of a cluster: X, X,Y or X,Y,Z [default: the kernel's .reqnctapercluster, or none]
    #[arg(long, value_name = "X,Y,Z", value_parser = three)]
    cluster: Option<[u32; 3]>,
    /// Keep all CTAs of the grid resident together, as a cooperative launch does
    #[arg(long)]
    cooperative: bool,
    /// Dynamic shared memory in bytes.
    #[arg(long, value_name = "BYTES", default_value = "0")]
    smem: u32,
    /// An argument, in the kernel's order: `u32:7`, `f32:1.5`, `buf:x=zeros:f32[64,64]`, `buf:x=iota:u32[64]`, `buf:x=random:7:bf16[128]`,
    /// `buf:x=@in.safetensors#x`, `out:y=f32[64]`, `tmap:m=of:x,type:bf16,dims:64x8,strides:128,box:64x8,swizzle:128B`.
    #[arg(long = "arg", value_name = "ARG", allow_hyphen_values = true)]
    args: Vec<String>,
    /// A buffer that is not itself an argument, for tensor maps: `x=random:7:bf16[8,64]`, `x=out:f32[64]`.
    #[arg(long = "buf", value_name = "NAME=CONTENT")]
    bufs: Vec<String>,
    /// Schedule: 0 runs warps in turn, any other number interleaves them at random
    #[arg(long, value_name = "N", default_value = "0")]
    seed: u64,
    /// Run the schedules 0 to N-1 and require equal outputs
    #[arg(long, value_name = "N", conflicts_with = "seed", value_parser = clap::value_parser!(u64).range(1..))]
    schedules: Option<u64>,
    /// Run N times, each with other contents of memory and registers that nobody wrote, and require equal outputs [default: 1; 2 with
    /// --judge values]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    poison: Option<u8>,
    /// strict: the first violation ends it. values: go on behind races and undefined values, list them, and fail where the outputs of 4
    /// schedules and 2 contents of unwritten memory differ
    #[arg(long, value_enum, default_value_t = JudgeBy::Strict)]
    judge: JudgeBy,
    /// Maximum number of warp instructions per launch
    #[arg(long, value_name = "N", default_value_t = Options::default().fuel)]
    fuel: u64,
    /// Target of a .cu file [default: sm_121a]
    #[arg(long, value_name = "T")]
    target: Option<String>,
    /// NVRTC for a .cu file: 13.5 or 13.5.37 [default: the newest]
    #[arg(long, value_name = "V")]
    toolkit: Option<String>,
    /// Print remarks: what breaks no rule and deserves a look, such as one value stored by two warps without order
    #[arg(long)]
    strict: bool,
    /// Print the address of every buffer
    #[arg(long)]
    addresses: bool,
    /// Print every executed instruction with its CTA, warp and lanes
    #[arg(long)]
    trace: bool,
    /// Print instruction counts, sectors of global memory and bank conflicts of shared memory
    #[arg(long)]
    profile: bool,
    /// Write all buffers to FILE after the launch
    #[arg(long, value_name = "FILE.safetensors")]
    dump: Option<PathBuf>,
}

fn three(text: &str) -> Result<[u32; 3], String> {
    let mut out = [1; 3];
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 3 {
        return Err("one to three numbers, as in 4,2,1".to_owned());
    }
    for (slot, part) in out.iter_mut().zip(parts) {
        *slot = part.trim().parse().map_err(|_| format!("`{part}` is not a number"))?;
    }
    Ok(out)
}

/// A mistake in the call.
#[derive(Debug, thiserror::Error)]
pub(super) enum EmulateError {
    #[error("{} cannot be read: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} is neither .ptx nor .cu", .0.display())]
    Kind(PathBuf),
    #[error("{what} is for .cu files; a .ptx file names its own target", what = .0)]
    OnlyCuda(&'static str),
    #[error("{file} has no entry{wanted}; its entries: {there}")]
    Entry { file: String, wanted: String, there: String },
    #[error(transparent)]
    Argument(#[from] argument::BadArgument),
    #[error("{kernel} takes {wanted} arguments, not {given}: {list}")]
    Count { kernel: String, wanted: usize, given: usize, list: String },
    /// In words, for the parts would make every result large.
    #[error("{0}")]
    Fit(String),
    #[error("two buffers are named `{0}`")]
    Twice(String),
    #[error("the buffers need {wanted} bytes in total; this machine has {there} free")]
    Memory { wanted: usize, there: usize },
    #[error("{} has no usable tensor: {why}", path.display())]
    Tensor { path: PathBuf, why: String },
    #[error("{} cannot be written: {why}", path.display())]
    Dump { path: PathBuf, why: String },
    #[error(
        "schedules disagree: buffer `{buffer}` differs between seed 0 and seed {seed}, first at byte {byte}; the \
        result depends on the order of warps, on a GPU too"
    )]
    Schedules { buffer: String, seed: u64, byte: usize },
    #[error(
        "buffer `{buffer}` depends on memory or registers that nobody wrote: byte {byte} differs where they hold {first:#04x} and \
        where they hold {other:#04x}"
    )]
    Poison { buffer: String, byte: usize, first: u8, other: u8 },
}

/// A buffer of the call.
struct Buffer {
    name: String,
    shape: Shape,
    /// Its first bytes; `None` for memory that nobody has written.
    bytes: Option<Vec<u8>>,
}

enum Given {
    Value(Vec<u8>),
    Buffer(usize),
    Map(MapOf),
}

/// The call, read and checked against the kernel.
struct Call {
    given: Vec<Given>,
    buffers: Vec<Buffer>,
}

/// What a launch left.
struct Outcome {
    instructions: u64,
    buffers: Vec<Vec<u8>>,
    /// Bytes that nobody has written, by buffer.
    unwritten: Vec<usize>,
    /// Where the buffers lie.
    addresses: Vec<u64>,
    remarks: Vec<Remark>,
    violations: Vec<Violation>,
    trial: Trial,
}

/// `emulate`.
pub(super) fn emulate(args: &EmulateArgs, context: &Context<'_>) -> Result<(), CliError> {
    let (name, text) = ptx_of(args, context)?;
    let stopped = |stop: Stop| CliError::from(PtxError::new(&name, &text, stop));
    let wanted: Vec<&str> = args.entry.as_deref().into_iter().collect();
    let program = emulator::load_only(&text, &wanted).map_err(stopped)?;
    let kernel = entry(&program, args)?;
    let call = Call::read(&args.args, &args.bufs, kernel)?;
    let mut first: Option<Outcome> = None;
    let mut violations = Vec::new();
    let trials = trials(args.judge, args.seed, args.schedules, args.poison);
    for trial in &trials {
        let mut outcome = call.launch(&program, kernel, args, *trial).map_err(|error| match error {
            Failed::Stop(stop) => stopped(stop),
            Failed::Cli(error) => *error,
        })?;
        gather(&mut violations, std::mem::take(&mut outcome.violations));
        let compared = first.as_ref().map_or(Ok(()), |first| call.compare(first, &outcome));
        if let Err(error) = compared {
            // What was found on the way may say why.
            output::print(&listed(&violations))?;
            return Err(error.into());
        }
        first.get_or_insert(outcome);
    }
    let Some(outcome) = first else { return Ok(()) };
    if let Some(path) = &args.dump {
        call.dump(&outcome, path)?;
    }
    output::print(&(call.report(kernel, &outcome, args, trials.len()) + &listed(&violations)))
}

/// The PTX to run and the name that messages give it.
fn ptx_of(args: &EmulateArgs, context: &Context<'_>) -> Result<(String, String), CliError> {
    let text = fs::read_to_string(&args.file)
        .map_err(|source| EmulateError::Read { path: args.file.clone(), source })?;
    let name = args.file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    match args.file.extension().and_then(|e| e.to_str()) {
        Some("ptx") => {
            if args.target.is_some() {
                return Err(EmulateError::OnlyCuda("--target").into());
            }
            if args.toolkit.is_some() {
                return Err(EmulateError::OnlyCuda("--toolkit").into());
            }
            Ok((args.file.display().to_string(), text))
        }
        Some("cu") => {
            let target: Target = args.target.as_deref().unwrap_or(TARGET).parse()?;
            let store = Store::open(None).ok();
            let nvrtc = job::nvrtc(args.toolkit.as_deref(), store.as_ref(), context.sink)?;
            let source = toolkit::Source {
                text: &text,
                name: &name,
                options: toolkit::options_for(target),
                headers: Vec::new(),
            };
            let compiled =
                toolkit::compile(&nvrtc, &source, store.as_ref(), &context.program, COMPILE_LIMIT)?;
            if !compiled.log.trim().is_empty() {
                eprintln!("{}", compiled.log.trim());
            }
            Ok((format!("PTX of {} by NVRTC {}", args.file.display(), nvrtc.version), compiled.ptx))
        }
        _ => Err(EmulateError::Kind(args.file.clone()).into()),
    }
}

fn entry<'a>(program: &'a Program, args: &EmulateArgs) -> Result<&'a Kernel, EmulateError> {
    let found = match (&args.entry, program.entries.as_slice()) {
        (Some(name), _) => program.kernel(name),
        (None, [only]) => program.kernel(only),
        (None, _) => None,
    };
    found.ok_or_else(|| {
        let names: Vec<&str> = program.entries.iter().map(String::as_str).collect();
        EmulateError::Entry {
            file: args.file.display().to_string(),
            wanted: args
                .entry
                .as_ref()
                .map_or_else(|| " chosen by --entry".to_owned(), |n| format!(" `{n}`")),
            there: if names.is_empty() { "none".to_owned() } else { names.join(", ") },
        }
    })
}

/// Why a launch gave nothing.
enum Failed {
    Stop(Stop),
    Cli(Box<CliError>),
}

impl Call {
    fn read(texts: &[String], bufs: &[String], kernel: &Kernel) -> Result<Self, EmulateError> {
        if texts.len() != kernel.params.len() {
            let list: Vec<String> =
                kernel.params.iter().map(|p| format!("{} ({})", p.name, wanted(p))).collect();
            return Err(EmulateError::Count {
                kernel: kernel.name.clone(),
                wanted: kernel.params.len(),
                given: texts.len(),
                list: if list.is_empty() { "none".to_owned() } else { list.join(", ") },
            });
        }
        let mut call = Self { given: Vec::new(), buffers: Vec::new() };
        let mut files = HashMap::new();
        for (n, (text, param)) in texts.iter().zip(&kernel.params).enumerate() {
            let fit = |given: String| {
                EmulateError::Fit(format!(
                    "argument {} of {}, `{text}`, is {given}, but parameter `{}` is {}",
                    n + 1,
                    kernel.name,
                    param.name,
                    wanted(param)
                ))
            };
            match argument::parse(text)? {
                Argument::Value { element, bytes } => {
                    let float = matches!(param.ty, Type::F32 | Type::F64);
                    let integer = matches!(param.ty, Type::U32 | Type::S32 | Type::U64 | Type::S64);
                    let same_kind = if element.is_float() { !integer } else { !float };
                    if bytes.len() != param.size || !same_kind {
                        return Err(fit(format!("{} bytes of {}", bytes.len(), element.name())));
                    }
                    call.given.push(Given::Value(bytes));
                }
                Argument::Buffer { name, content } => {
                    if param.size != 8 || matches!(param.ty, Type::F64) {
                        return Err(fit("the 8-byte address of a buffer".to_owned()));
                    }
                    call.given.push(Given::Buffer(call.buffers.len()));
                    call.add(name, content, &mut files)?;
                }
                Argument::Map(map) => {
                    if param.size != TENSOR_MAP_BYTES {
                        return Err(fit(format!("the {TENSOR_MAP_BYTES} bytes of a tensor map")));
                    }
                    call.given.push(Given::Map(map));
                }
            }
        }
        for text in bufs {
            let (name, content) = argument::parse_buffer(text)?;
            call.add(name, content, &mut files)?;
        }
        for given in &call.given {
            let Given::Map(map) = given else { continue };
            let buffer = call.buffers.iter().find(|b| b.name == map.of).ok_or_else(|| {
                EmulateError::Fit(format!(
                    "a tensor map refers to buffer `{}`, which no --arg or --buf defines",
                    map.of
                ))
            })?;
            if map.span() > buffer.shape.bytes as u64 {
                return Err(EmulateError::Fit(format!(
                    "a tensor map spans {} bytes of buffer `{}`, which has only {}",
                    map.span(),
                    map.of,
                    buffer.shape.bytes
                )));
            }
        }
        for buffer in &mut call.buffers {
            // Made only now, when everything is known to fit.
            if let Some(bytes) = &mut buffer.bytes
                && bytes.is_empty()
            {
                bytes.resize(buffer.shape.bytes, 0);
            }
        }
        Ok(call)
    }

    /// One more buffer.
    fn add(
        &mut self,
        name: String,
        content: Content,
        files: &mut HashMap<PathBuf, Vec<u8>>,
    ) -> Result<(), EmulateError> {
        if self.buffers.iter().any(|b| b.name == name) {
            return Err(EmulateError::Twice(name));
        }
        self.buffers.push(buffer(name, content, files)?);
        self.check_memory()
    }

    /// Refuses buffers that this machine cannot hold, before they are made.
    fn check_memory(&self) -> Result<(), EmulateError> {
        let all = self.buffers.iter().try_fold(0usize, |all, b| all.checked_add(b.shape.bytes));
        // The bytes, a copy of them, and the bit that says whether each was written.
        let wanted = all.and_then(|all| all.checked_mul(3)).unwrap_or(usize::MAX);
        let there = available_memory();
        if wanted > there { Err(EmulateError::Memory { wanted, there }) } else { Ok(()) }
    }

    fn launch(
        &self,
        program: &Program,
        kernel: &Kernel,
        args: &EmulateArgs,
        trial: Trial,
    ) -> Result<Outcome, Failed> {
        let Trial { seed, poison } = trial;
        let judge = match args.judge {
            JudgeBy::Strict => Judge::Strict,
            JudgeBy::Values => Judge::Values,
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let options = Options { seed, poison, judge, threads, fuel: args.fuel, ..Options::default() };
        let mut memory = GlobalMemory::default();
        let place = |buffer: &Buffer| match &buffer.bytes {
            Some(bytes) => memory.allocate_with(bytes.clone()),
            None => memory.allocate(buffer.shape.bytes),
        };
        let addresses: Vec<u64> = self.buffers.iter().map(place).collect();
        let mut params = vec![0; kernel.param_bytes];
        for (given, param) in self.given.iter().zip(&kernel.params) {
            let bytes = match given {
                Given::Value(bytes) => bytes.clone(),
                Given::Buffer(n) => addresses[*n].to_le_bytes().to_vec(),
                Given::Map(MapOf { of, map }) => {
                    let n = self.buffers.iter().position(|b| b.name == *of).unwrap_or_default();
                    let map = TensorMap { address: addresses[n], ..*map };
                    let bytes =
                        map.encode().map_err(|error| Failed::Stop(Stop::Launch(error.to_string())))?;
                    bytes.to_vec()
                }
            };
            params[param.offset..param.offset + param.size].copy_from_slice(&bytes);
        }
        let block = args.block.or(kernel.required_threads).unwrap_or([WARP, 1, 1]);
        let launch = Launch { grid: args.grid, block, shared_bytes: args.smem, params };
        let step = InStream {
            cluster: args.cluster,
            cooperative: args.cooperative,
            ..InStream::new(program, kernel, &launch)
        };
        let watched = args.trace || args.profile;
        // What threads print is the same in all schedules but for its order.
        let mut heard = Heard {
            prints: trials(args.judge, args.seed, args.schedules, args.poison).first() == Some(&trial),
            ..Heard::default()
        };
        let counts = if watched {
            let listing = program.listing(kernel);
            let mut watcher = Watcher {
                trace: args.trace.then(|| Trace { listing: listing.clone(), problem: None }),
                profile: args.profile.then(|| Profile::new(listing)),
                heard: std::mem::take(&mut heard),
            };
            let counts = emulator::launch_with(&step, &mut memory, &options, &mut watcher);
            heard = watcher.heard;
            let problem = watcher.trace.and_then(|t| t.problem);
            if let Some(error) = problem.filter(|e| e.kind() != std::io::ErrorKind::BrokenPipe) {
                return Err(Failed::Cli(Box::new(CliError::Output(error))));
            }
            if let Some(profile) = &watcher.profile {
                output::print(&show_profile(profile)).map_err(|error| Failed::Cli(Box::new(error)))?;
            }
            counts
        } else {
            emulator::launch_with(&step, &mut memory, &options, &mut heard)
        };
        if let Some(error) = heard.problem.filter(|e| e.kind() != std::io::ErrorKind::BrokenPipe) {
            return Err(Failed::Cli(Box::new(CliError::Output(error))));
        }
        let counts = counts.map_err(Failed::Stop)?;
        for trap in addresses.iter().filter_map(|at| memory.undefined(*at)) {
            if judge == Judge::Strict {
                return Err(Failed::Stop(Stop::Trap(Box::new(trap.clone()))));
            }
            gather(&mut heard.violations, vec![Violation { trap: trap.clone(), times: 1 }]);
        }
        Ok(Outcome {
            remarks: heard.remarks,
            violations: heard.violations,
            trial,
            instructions: counts.warp_instructions,
            buffers: addresses.iter().map(|a| memory.bytes(*a).unwrap_or_default().to_vec()).collect(),
            unwritten: addresses.iter().map(|a| memory.unwritten(*a)).collect(),
            addresses,
        })
    }

    fn compare(&self, first: &Outcome, other: &Outcome) -> Result<(), EmulateError> {
        let (x, y) = (first.trial.poison, other.trial.poison);
        // What nobody wrote differs from one content to another by itself.
        let differ = |(a, b): (&u8, &u8)| a != b && (x == y || (*a, *b) != (x, y));
        for ((buffer, a), b) in self.buffers.iter().zip(&first.buffers).zip(&other.buffers) {
            if let Some(byte) = a.iter().zip(b).position(differ) {
                let buffer = buffer.name.clone();
                return Err(match x == y {
                    true => EmulateError::Schedules { buffer, seed: other.trial.seed, byte },
                    false => EmulateError::Poison { buffer, byte, first: x, other: y },
                });
            }
        }
        Ok(())
    }

    fn report(&self, kernel: &Kernel, outcome: &Outcome, args: &EmulateArgs, tried: usize) -> String {
        let mut text = format!("{}: {} instructions of warps", kernel.name, outcome.instructions);
        if tried > 1 {
            let poisons = args.poison.unwrap_or(if args.judge == JudgeBy::Values { POISONS } else { 1 });
            let schedules = tried / usize::from(poisons.max(1));
            let with = if poisons > 1 {
                format!(" with {poisons} contents of unwritten memory")
            } else {
                String::new()
            };
            let _ = write!(text, " in schedule {}; {schedules} schedules{with}, equal outputs", args.seed);
        }
        text.push('\n');
        for (buffer, address) in self.buffers.iter().zip(&outcome.addresses).filter(|_| args.addresses) {
            let _ = writeln!(text, "{} at {address:#x}, {} bytes", buffer.name, buffer.shape.bytes);
        }
        for remark in outcome.remarks.iter().filter(|_| args.strict) {
            let _ = writeln!(text, "remark: {}; {}; {} times", remark.what, remark.place, remark.times);
        }
        for ((buffer, bytes), unwritten) in self.buffers.iter().zip(&outcome.buffers).zip(&outcome.unwritten)
        {
            if buffer.bytes.as_ref() == Some(bytes) {
                continue;
            }
            let element = buffer.shape.element;
            let dims: Vec<String> = buffer.shape.dims.iter().map(ToString::to_string).collect();
            let values: Vec<String> =
                bytes.chunks(element.bytes()).take(SHOWN).map(|b| element.show(b)).collect();
            let more = if bytes.len() / element.bytes() > SHOWN { " …" } else { "" };
            let _ = writeln!(text, "{} {}[{}]", buffer.name, element.name(), dims.join(","));
            let _ = writeln!(text, "  {}{more}", values.join(" "));
            let _ = writeln!(text, "  sha256 {}", store::sha256(bytes));
            if *unwritten > 0 {
                let _ = writeln!(text, "  {unwritten} of {} bytes were never written", bytes.len());
            }
        }
        text
    }

    fn dump(&self, outcome: &Outcome, path: &Path) -> Result<(), EmulateError> {
        let failed = |why: String| EmulateError::Dump { path: path.to_owned(), why };
        let mut views = Vec::new();
        for (buffer, bytes) in self.buffers.iter().zip(&outcome.buffers) {
            let view = TensorView::new(dtype(buffer.shape.element), buffer.shape.dims.clone(), bytes);
            views.push((buffer.name.clone(), view.map_err(|error| failed(error.to_string()))?));
        }
        let bytes = safetensors::serialize(views, None).map_err(|error| failed(error.to_string()))?;
        write_atomic(path, &bytes).map_err(|error| failed(error.to_string()))
    }
}

/// A parameter in words.
fn wanted(param: &Parameter) -> String {
    let one = param.ty.bytes();
    let ty = format!("{:?}", param.ty).to_lowercase();
    if param.size == one { format!(".{ty}, {one} bytes") } else { format!("{} bytes of .{ty}", param.size) }
}

fn buffer(
    name: String,
    content: Content,
    files: &mut HashMap<PathBuf, Vec<u8>>,
) -> Result<Buffer, EmulateError> {
    Ok(match content {
        Content::Unwritten(shape) => Buffer { name, shape, bytes: None },
        // Filled when all is known to fit.
        Content::Zeros(shape) => Buffer { name, shape, bytes: Some(Vec::new()) },
        Content::Iota(ref shape) | Content::Random(_, ref shape) => {
            let there = available_memory();
            if shape.bytes.saturating_mul(3) > there {
                return Err(EmulateError::Memory { wanted: shape.bytes.saturating_mul(3), there });
            }
            let bytes = match content {
                Content::Random(seed, _) => argument::random(seed, shape),
                _ => argument::iota(shape),
            };
            Buffer { name, shape: shape.clone(), bytes: Some(bytes) }
        }
        Content::File { path, tensor } => {
            if !files.contains_key(&path) {
                let bytes =
                    fs::read(&path).map_err(|source| EmulateError::Read { path: path.clone(), source })?;
                files.insert(path.clone(), bytes);
            }
            let failed = |why: String| EmulateError::Tensor { path: path.clone(), why };
            let bytes = files.get(&path).map(Vec::as_slice).unwrap_or_default();
            let file = SafeTensors::deserialize(bytes).map_err(|error| failed(error.to_string()))?;
            let view = file.tensor(&tensor).map_err(|_| {
                let mut names = file.names();
                names.sort_unstable();
                failed(format!("there is no tensor `{tensor}`; the tensors are: {}", names.join(", ")))
            })?;
            let element = element(view.dtype())
                .ok_or_else(|| failed(format!("`{tensor}` has elements of {:?}", view.dtype())))?;
            let data = view.data().to_vec();
            if data.is_empty() {
                return Err(failed(format!("`{tensor}` is empty")));
            }
            let shape = Shape { element, dims: view.shape().to_vec(), bytes: data.len() };
            Buffer { name, shape, bytes: Some(data) }
        }
    })
}
