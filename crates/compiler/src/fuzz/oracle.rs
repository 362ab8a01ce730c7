//! Runs a kernel in several ways that must agree.

use emulator::{GlobalMemory, Launch, Options, Stop, launch, load};
use numerics::Path;

use super::kernel::{BULK, CTAS, ENTRY, INPUT, OUTPUT, PARTS, SCRATCH, THREADS};
use super::random::Random;

/// The limit on executed warp instructions: random kernels have thousands.
const FUEL: u64 = 2_000_000;

/// What a kernel leaves in global memory: its results, its own bytes, those of bulk copies.
pub type Outputs = Vec<u8>;

/// A way that disagrees.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Difference {
    /// The emulator refuses the kernel, finds a violation, or fails.
    #[error("{way}: {why}")]
    Stopped {
        /// The way it was run.
        way: &'static str,
        /// The reason.
        why: String,
    },
    /// The printed tree is refused or has another tree.
    #[error("the printed syntax tree parses to another one: {0}")]
    Text(String),
    /// A way gives other results than the first.
    #[error(
        "{way}: byte {at} of the results is {got:#04x}, and {wanted:#04x} with every rule and schedule 0"
    )]
    Results {
        /// The way it was run.
        way: &'static str,
        /// The first byte that differs.
        at: usize,
        /// Its value.
        got: u8,
        /// Its value in the first way.
        wanted: u8,
    },
}

/// Runs a kernel with every rule and schedule 0.
///
/// # Errors
/// [`Stop`] if the emulator refuses it or finds a violation.
pub fn outputs(text: &str, seed: u64) -> Result<Outputs, Stop> {
    run(text, seed, &base())
}

fn base() -> Options {
    Options { fuel: FUEL, threads: 1, ..Options::default() }
}

/// Checks a kernel in every way that needs no GPU.
///
/// # Errors
/// [`Difference`]: the first way that disagrees.
pub fn check(text: &str, seed: u64) -> Result<Outputs, Difference> {
    let stopped = |way: &'static str| move |stop: Stop| Difference::Stopped { way, why: stop.to_string() };
    let first = run(text, seed, &base()).map_err(stopped("every rule, schedule 0"))?;
    let tree = ptx::parse(text).map_err(|error| Difference::Text(error.to_string()))?;
    let printed = tree.to_string();
    let again = ptx::parse(&printed).map_err(|error| Difference::Text(error.to_string()))?;
    if !ptx::same_meaning(&tree, &again) {
        return Err(Difference::Text("the trees differ".to_owned()));
    }
    let lax = Options { check_init: false, check_races: false, ..base() };
    let agree = |way: &'static str, got: Result<Outputs, Stop>| {
        let got = got.map_err(stopped(way))?;
        match emulator::device::first_difference(&got, &first) {
            None => Ok(()),
            Some(at) => Err(Difference::Results { way, at, got: got[at], wanted: first[at] }),
        }
    };
    agree("the printed text", run(&printed, seed, &lax))?;
    agree("schedule 1", run(text, seed, &Options { seed: 1, ..base() }))?;
    agree(
        "no rules, schedule 2, four threads",
        run(text, seed, &Options { seed: 2, threads: 4, ..lax.clone() }),
    )?;
    agree("other contents of unwritten memory", run(text, seed, &Options { poison: 0, ..base() }))?;
    if let Some(scalar) = Path::available().first() {
        agree("scalar rows", scalar.force(|| run(text, seed, &lax)))?;
    }
    Ok(first)
}

fn run(text: &str, seed: u64, options: &Options) -> Result<Outputs, Stop> {
    let program = load(text)?;
    let kernel = program.kernel(ENTRY).ok_or_else(|| Stop::Launch(format!("there is no entry {ENTRY}")))?;
    let mut memory = GlobalMemory::default();
    let addresses: Vec<u64> = before(seed).into_iter().map(|bytes| memory.allocate_with(bytes)).collect();
    let params = addresses.iter().flat_map(|a| a.to_le_bytes()).collect();
    let how = Launch { grid: [CTAS, 1, 1], block: [THREADS, 1, 1], shared_bytes: 0, params };
    launch(&program, kernel, &how, &mut memory, options)?;
    // What depends on a register that nothing has written is no result.
    if let Some(trap) = memory.any_undefined().filter(|_| options.check_init) {
        return Err(Stop::Trap(Box::new(trap.clone())));
    }
    let of = |address: &u64| memory.bytes(*address).unwrap_or_default().to_vec();
    Ok(addresses[1..].iter().flat_map(of).collect())
}

/// The buffers of a kernel before it runs, one for each of its parameters: input, results, its own bytes, those of bulk copies. [`Outputs`]
/// are all but the first.
#[must_use]
pub fn before(seed: u64) -> [Vec<u8>; 4] {
    let all = THREADS * CTAS;
    [
        input(seed, (all * INPUT) as usize),
        vec![0; (all * OUTPUT) as usize],
        input(seed ^ 0xA5, (all * SCRATCH) as usize),
        input(seed ^ 0xA5, (CTAS * BULK) as usize),
    ]
}

/// What a byte of [`Outputs`] is, in words: `r4 of thread 7 of CTA 0`.
#[must_use]
pub fn place(at: usize) -> String {
    let of_thread = |thread: usize| {
        format!("of thread {} of CTA {}", thread % THREADS as usize, thread / THREADS as usize)
    };
    let all = (THREADS * CTAS) as usize;
    let (results, own) = (all * OUTPUT as usize, all * SCRATCH as usize);
    if at >= results + own {
        return format!("byte {} of bulk copies", at - results - own);
    }
    if at >= results {
        let (thread, byte) = ((at - results) / SCRATCH as usize, (at - results) % SCRATCH as usize);
        return format!("byte {byte} of global memory {}", of_thread(thread));
    }
    let (thread, byte) = (at / OUTPUT as usize, at % OUTPUT as usize);
    let part = PARTS.iter().rev().find(|(first, ..)| byte >= *first);
    let (what, number) = part.map_or(("byte ", byte), |(first, size, what)| (*what, (byte - first) / size));
    format!("{what}{number} {}", of_thread(thread))
}

/// The kernel without what PTX leaves open: products and sums round by themselves, for ptxas may contract what PTX lets it, and a NaN is the same one
/// wherever PTX does not say which, or compilers differ: where two of f64 may meet, and after what gives a number of f32 back or only changes its sign.
#[must_use]
pub fn without_choice(text: &str) -> String {
    let rounded = without_contraction(text);
    let Ok(tree) = ptx::parse(&rounded) else { return rounded };
    let mut instructions = Vec::new();
    super::each_instruction(&tree, &mut |i| instructions.push(i));
    let (mut out, mut end) = (String::with_capacity(rounded.len() + 64), 0);
    for i in instructions {
        let (start, stop) = (i.span.start as usize, i.span.end as usize);
        if let Some(copy) = copy_of_half(i).or_else(|| nan_of_constant(i)) {
            let form = rounded[start..].find(&i.form()).map(|at| start + at);
            let Some((form, length)) = form.and_then(|form| Some((form, rounded[form..].find(';')?))) else {
                continue;
            };
            out.push_str(&rounded[end..form]);
            out.push_str(&copy);
            end = form + length;
            continue;
        }
        if let Some(numbers) = numbers_for_sign(i) {
            let at = rounded[..start].rfind('\n').unwrap_or_default();
            out.push_str(&rounded[end..at]);
            out.push_str(&numbers);
            end = at;
            continue;
        }
        let Some((after, ty, nan)) = open_nan(i) else { continue };
        let at = if after {
            let Some(semicolon) = rounded[stop - 1..].find(';') else { continue };
            stop + semicolon
        } else {
            rounded[..start].rfind('\n').unwrap_or_default()
        };
        let registers = if after { i.operands.first() } else { i.operands.last() };
        out.push_str(&rounded[end..at]);
        for name in registers.map(names).unwrap_or_default() {
            let bits = if ty == "f64" { 64 } else { 32 };
            out.push_str(&format!(
                "\n{{ .reg .pred nan; testp.notanumber.{ty} nan, {name}; @nan mov.b{bits} {name}, {nan}; }}"
            ));
        }
        end = at;
    }
    out.push_str(&rounded[end..]);
    out
}

/// Where an instruction leaves a NaN open: whether its results or, before it, its last operand get a certain one, their type, and which.
fn open_nan(i: &ptx::Instruction) -> Option<(bool, &'static str, &'static str)> {
    match i.opcode.as_str() {
        "add" | "sub" | "mul" | "fma" | "mad" | "div" | "mma" | "min" | "max" if i.has("f64") => {
            Some((true, "f64", "0x7FF8000000000000"))
        }
        // The number in memory may be a NaN: the other one is none.
        "atom" | "red" if i.has("f64") => Some((false, "f64", "0")),
        "neg" | "abs" if i.has("f32") => Some((true, "f32", "0x7FFFFFFF")),
        "neg" | "abs" if i.has("f64") => Some((true, "f64", "0x7FF8000000000000")),
        // A NaN of which only low bits of the payload are set becomes an infinity (an H200 with every ptxas).
        "cvt" if i.has("tf32") && i.has("rna") => Some((false, "f32", "0x7FFFFFFF")),
        // What changes no number is left out above -O0, and then keeps the NaN that it reads.
        "cvt" if i.modifiers.iter().filter(|m| *m == "f32").count() == 2 => Some((true, "f32", "0x7FFFFFFF")),
        "min" | "max" if i.has("f32") && i.operands.get(1) == i.operands.get(2) => {
            Some((true, "f32", "0x7FFFFFFF"))
        }
        _ => None,
    }
}

/// A move in the place of a conversion of a constant that is a NaN: compilers and GPUs choose other signs of the result.
fn nan_of_constant(i: &ptx::Instruction) -> Option<String> {
    let [ptx::Operand::Name(to), ptx::Operand::Immediate(of)] = i.operands.as_slice() else { return None };
    let is_nan = match of {
        ptx::Immediate::F32(x) => x.is_nan(),
        ptx::Immediate::F64(x) => x.is_nan(),
        ptx::Immediate::Integer { .. } => false,
    };
    let (bits, nan) = match i.modifiers.iter().rev().nth(1)?.as_str() {
        "f16" | "bf16" => (16, "0x7FFF"),
        "f32" => (32, "0x7FFFFFFF"),
        "f64" => (64, "0x7FF8000000000000"),
        _ => return None,
    };
    (i.opcode == "cvt" && is_nan).then(|| format!("mov.b{bits} {to}, {nan}"))
}

/// What comes before an instruction that only changes the sign of numbers of 16 bits, so that it reads no NaN: of a number that is negated twice, compilers
/// leave the NaN that was read.
fn numbers_for_sign(i: &ptx::Instruction) -> Option<String> {
    let ty = ["f16", "bf16", "f16x2", "bf16x2"].into_iter().find(|ty| i.has(ty))?;
    let [_, ptx::Operand::Name(of)] = i.operands.as_slice() else { return None };
    if !matches!(i.opcode.as_str(), "neg" | "abs") {
        return None;
    }
    let number = |ty: &str, x: &str| format!("setp.nan.{ty} nan, {x}, {x}; @nan mov.b16 {x}, 0;");
    Some(match ty.strip_suffix("x2") {
        None => format!("\n{{ .reg .pred nan; {} }}", number(ty, of)),
        Some(ty) => format!(
            "\n{{ .reg .pred nan; .reg .b16 low, high; mov.b32 {{low, high}}, {of}; {} {} mov.b32 {of}, {{low, high}}; }}",
            number(ty, "low"),
            number(ty, "high")
        ),
    })
}

/// A copy in the place of `min` or `max` of a number of 16 bits and itself, which compilers may leave out: it then keeps the NaN that it reads.
fn copy_of_half(i: &ptx::Instruction) -> Option<String> {
    let bits = match ["f16", "bf16", "f16x2", "bf16x2"].into_iter().find(|ty| i.has(ty))? {
        "f16" | "bf16" => 16,
        _ => 32,
    };
    let is_same = matches!(i.opcode.as_str(), "min" | "max") && i.operands.get(1) == i.operands.get(2);
    match i.operands.as_slice() {
        [ptx::Operand::Name(to), ptx::Operand::Name(from), _] if is_same && !i.has("xorsign") => {
            Some(format!("mov.b{bits} {to}, {from}"))
        }
        _ => None,
    }
}

/// The kernel in which no compiler knows the operands of approximations: each passes through memory of its thread (`st.volatile`, `ld.volatile`)
/// first. `None` if it has no approximation.
///
/// PTX bounds the error of an approximation and fixes no bits, and ptxas computes those of constants by other means than the GPU computes the others: a
/// kernel whose results differ, and agree in this form, differs by what PTX leaves open.
#[must_use]
pub fn with_opaque_approximations(text: &str) -> Option<String> {
    let tree = ptx::parse(text).ok()?;
    let mut out = String::with_capacity(text.len() + 256);
    let mut end = 0;
    super::each_instruction(&tree, &mut |i| {
        let Some(bits) = approximated_bits(i) else { return };
        let mut opaque = i.clone();
        let mut before = String::new();
        for (n, operand) in opaque.operands.iter_mut().enumerate().skip(1) {
            before.push_str(&format!(
                "st.volatile.shared.b{bits} [opaque], {operand}; ld.volatile.shared.b{bits} opaque{n}, [opaque]; "
            ));
            *operand = ptx::Operand::Name(format!("opaque{n}"));
        }
        let (start, stop) = (i.span.start as usize, i.span.end as usize);
        let ends =
            if text[..stop].ends_with(';') { 0 } else { text[stop..].find(';').map_or(0, |at| at + 1) };
        let of = ptx::Statement::Instruction(opaque).to_string();
        out.push_str(&text[end..start]);
        out.push_str(&format!(
            "{{ .shared .align 8 .b8 passed[{}]; .reg .b32 opaque, slot; .reg .b{bits} opaque<3>; \
             mov.u32 opaque, passed; mov.u32 slot, %tid.x; mad.lo.u32 opaque, slot, 8, opaque; {before}{} }}",
            8 * THREADS,
            of.trim()
        ));
        end = stop + ends;
    });
    out.push_str(&text[end..]);
    (end > 0).then_some(out)
}

/// The width of what an approximation reads; `None` of other instructions.
fn approximated_bits(i: &ptx::Instruction) -> Option<u32> {
    let is_approximation = match i.opcode.as_str() {
        "sin" | "cos" | "ex2" | "lg2" | "tanh" | "rsqrt" => true,
        "rcp" | "sqrt" | "div" => i.has("approx") || i.has("full"),
        _ => false,
    };
    let width = |ty: &str| match ty {
        "f16" | "bf16" => Some(16),
        "f32" | "f16x2" | "bf16x2" => Some(32),
        "f64" => Some(64),
        _ => None,
    };
    if is_approximation { i.modifiers.last().and_then(|ty| width(ty)) } else { None }
}

/// The registers of an operand.
fn names(operand: &ptx::Operand) -> Vec<&str> {
    match operand {
        ptx::Operand::Name(name) => vec![name],
        ptx::Operand::Vector(list) => list.iter().flat_map(names).collect(),
        _ => Vec::new(),
    }
}

/// The kernel with products and sums that round by themselves. Kernels without that choice keep their text.
fn without_contraction(text: &str) -> String {
    let Ok(tree) = ptx::parse(text) else { return text.to_owned() };
    if !ptx::contraction::may_contract(&tree, ENTRY) {
        return text.to_owned();
    }
    let explicit = ptx::contraction::explicit(&tree, &[]);
    let (mut before, mut after) = (Vec::new(), Vec::new());
    super::each_instruction(&tree, &mut |i| before.push(i));
    super::each_instruction(&explicit, &mut |i| after.push(i));
    // Only forms change; the rest of the text stays as other kernels have it, so that they fit into one module.
    let (mut out, mut end) = (String::with_capacity(text.len() + 64), 0);
    for (old, new) in before.iter().zip(after).filter(|(old, new)| old.form() != new.form()) {
        let (start, after) = (old.span.start as usize, old.span.end as usize);
        out.push_str(&text[end..start]);
        out.push_str(&text[start..after].replacen(&old.form(), &new.form(), 1));
        end = after;
    }
    out.push_str(&text[end..]);
    out
}

/// The input of a seed: numbers at which instructions change, small ones and random ones.
fn input(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random::new(!seed);
    let mut out = Vec::with_capacity(bytes + 8);
    while out.len() < bytes {
        let x = random.number();
        match random.below(3) {
            0 => out.extend(x.to_le_bytes()),
            1 => out.extend([x as u32, random.number() as u32].into_iter().flat_map(u32::to_le_bytes)),
            _ => out.extend((0..4).flat_map(|_| (random.number() as u16).to_le_bytes())),
        }
    }
    out.truncate(bytes);
    out
}
