//! Compares special functions for all inputs: digests of a device's answers with those of the emulator's model.

use emulator::device::{Argument, Device, Failure, Launch};
use numerics::{float, special};
use ptx::arch::{PtxIsa, Target};
use rayon::prelude::*;
use vectors::digests::{Digests, FunctionDigests, term};

use crate::event::{Event, Sink};

/// A function of one operand.
pub struct Function {
    /// The instruction.
    pub name: &'static str,
    /// The type of its operand.
    operand: Operand,
    /// The emulator's model: maps the bits of the operand to those of the answer.
    model: fn(u32) -> u32,
}

/// The mapping of 32-bit inputs to operands, and of results to answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operand {
    /// All 32 bits.
    Single,
    /// The upper word of a double, whose lower word is zero.
    Upper,
    /// The lower 16 bits.
    Half,
}

/// Inputs per block, for functions with 2^32 inputs.
const BLOCK: u64 = 1 << 22;

const fn function(name: &'static str, operand: Operand, model: fn(u32) -> u32) -> Function {
    Function { name, operand, model }
}

/// The functions that `--exhaustive` compares.
pub const FUNCTIONS: [Function; 21] = [
    function("ex2.approx.f32", Operand::Single, |a| float::ex2_approx_f32(a, false)),
    function("ex2.approx.ftz.f32", Operand::Single, |a| float::ex2_approx_f32(a, true)),
    function("lg2.approx.f32", Operand::Single, |a| float::lg2_approx_f32(a, false)),
    function("lg2.approx.ftz.f32", Operand::Single, |a| float::lg2_approx_f32(a, true)),
    function("rcp.approx.f32", Operand::Single, |a| float::rcp_approx_f32(a, false)),
    function("rcp.approx.ftz.f32", Operand::Single, |a| float::rcp_approx_f32(a, true)),
    function("rsqrt.approx.f32", Operand::Single, |a| float::rsqrt_approx_f32(a, false)),
    function("rsqrt.approx.ftz.f32", Operand::Single, |a| float::rsqrt_approx_f32(a, true)),
    function("sqrt.approx.f32", Operand::Single, |a| float::sqrt_approx_f32(a, false)),
    function("sqrt.approx.ftz.f32", Operand::Single, |a| float::sqrt_approx_f32(a, true)),
    function("sin.approx.f32", Operand::Single, float::sin_approx_f32),
    function("sin.approx.ftz.f32", Operand::Single, float::sin_approx_f32),
    function("cos.approx.f32", Operand::Single, float::cos_approx_f32),
    function("cos.approx.ftz.f32", Operand::Single, float::cos_approx_f32),
    function("tanh.approx.f32", Operand::Single, float::tanh_approx_f32),
    function("rcp.approx.ftz.f64", Operand::Upper, special::rcp64h),
    function("rsqrt.approx.ftz.f64", Operand::Upper, special::rsq64h),
    function("ex2.approx.f16", Operand::Half, |a| float::ex2_approx_f16(a as u16).into()),
    function("ex2.approx.ftz.bf16", Operand::Half, |a| float::ex2_approx_bf16(a as u16).into()),
    function("tanh.approx.f16", Operand::Half, |a| float::tanh_approx_f16(a as u16).into()),
    function("tanh.approx.bf16", Operand::Half, |a| float::tanh_approx_bf16(a as u16).into()),
];

impl Function {
    /// Returns the inputs per block and the number of blocks.
    #[must_use]
    pub const fn blocks(&self) -> (u64, u32) {
        match self.operand {
            Operand::Half => (1 << 16, 1),
            Operand::Single | Operand::Upper => (BLOCK, ((1 << 32) / BLOCK) as u32),
        }
    }

    /// Returns the emulator's digest of a range of inputs.
    #[must_use]
    pub fn digest(&self, inputs: std::ops::Range<u64>) -> u64 {
        let one = |input: u64| term(input as u32, (self.model)(input as u32));
        inputs.map(one).fold(0, u64::wrapping_add)
    }

    /// Runs PTX of version `isa` for `target` on a device and returns the digests of the first `blocks` blocks of `block`
    /// inputs.
    ///
    /// # Errors
    /// [`Failure`]; [`Failure::Unsupported`] if the device lacks the instruction.
    pub fn answers(
        &self,
        device: &mut dyn Device,
        (target, isa): (Target, PtxIsa),
        (block, blocks): (u64, u32),
    ) -> Result<Vec<u64>, Failure> {
        device.reset()?;
        let module = device.load(&self.text(target, isa, block))?;
        let out = device.allocate(vec![0; 8 * blocks as usize])?;
        device.run(&[Launch {
            module,
            entry: "digests".to_owned(),
            grid: [blocks, 1, 1],
            block: [THREADS, 1, 1],
            shared_bytes: 0,
            arguments: vec![Argument::Address(out)],
            programmatic: false,
            cluster: [1; 3],
            cooperative: false,
        }])?;
        let bytes = device.read(out)?;
        let (digests, _) = bytes.as_chunks::<8>();
        Ok(digests.iter().map(|d| u64::from_le_bytes(*d)).collect())
    }

    /// Generates the kernel: a CTA per block, in which each thread computes every [`THREADS`]th input.
    fn text(&self, target: Target, isa: PtxIsa, block: u64) -> String {
        let name = self.name;
        let compute = match self.operand {
            Operand::Single => format!("mov.b32 single, x;\n{name} single, single;\nmov.b32 y, single;"),
            Operand::Upper => {
                format!("mov.b64 double, {{zero, x}};\n{name} double, double;\nmov.b64 {{lower, y}}, double;")
            }
            Operand::Half => format!("cvt.u16.u32 half, x;\n{name} half, half;\ncvt.u32.u16 y, half;"),
        };
        format!(
            ".version {isa}\n.target {target}\n.address_size 64\n\
             .visible .entry digests(.param .u64 out)\n.reqntid {THREADS}, 1, 1\n{{\n\
             .reg .b32 cta, first, n, x, y, zero, lower;\n.reg .b64 to, at, sum, z, t;\n\
             .reg .f32 single;\n.reg .f64 double;\n.reg .b16 half;\n.reg .pred more;\n\
             ld.param.u64 to, [out];\nmov.u32 cta, %ctaid.x;\nmul.wide.u32 at, cta, 8;\nadd.u64 to, to, at;\n\
             mul.lo.u32 first, cta, {block};\nmov.u32 n, %tid.x;\nmov.u64 sum, 0;\nmov.u32 zero, 0;\n\
             again:\nadd.u32 x, first, n;\n{compute}\nmov.b64 z, {{y, x}};\n\
             add.u64 z, z, 0x9E3779B97F4A7C15;\nshr.u64 t, z, 30;\nxor.b64 z, z, t;\n\
             mul.lo.u64 z, z, 0xBF58476D1CE4E5B9;\nshr.u64 t, z, 27;\nxor.b64 z, z, t;\n\
             mul.lo.u64 z, z, 0x94D049BB133111EB;\nshr.u64 t, z, 31;\nxor.b64 z, z, t;\n\
             add.u64 sum, sum, z;\nadd.u32 n, n, {THREADS};\nsetp.lt.u32 more, n, {block};\n@more bra again;\n\
             red.global.add.u64 [to], sum;\nret;\n}}\n"
        )
    }
}

/// Threads of a CTA.
const THREADS: u32 = 256;

/// Records a device's digests of every function that it supports.
///
/// # Errors
/// The function that failed, and the failure.
pub fn record_digests(
    device: &mut dyn Device,
    code: (Target, PtxIsa),
    sink: &dyn Sink,
) -> Result<Vec<FunctionDigests>, (String, Failure)> {
    let mut functions = Vec::new();
    sink.emit(Event::FunctionsStarted { functions: FUNCTIONS.len() });
    for function in &FUNCTIONS {
        let (block, blocks) = function.blocks();
        match function.answers(device, code, (block, blocks)) {
            Ok(digests) => {
                functions.push(FunctionDigests { name: function.name.to_owned(), block, digests });
            }
            Err(Failure::Unsupported(_)) => {}
            Err(failure) => return Err((function.name.to_owned(), failure)),
        }
        sink.emit(Event::FunctionFinished);
    }
    sink.emit(Event::FunctionsFinished);
    Ok(functions)
}

/// The comparison of a recorded function with the emulator's model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// The device that was recorded.
    pub device: String,
    /// The instruction.
    pub name: String,
    /// The number of inputs.
    pub inputs: u64,
    /// The number of blocks.
    pub blocks: usize,
    /// The first input of each block in which answers differ.
    pub differ: Vec<u32>,
}

/// Compares every recorded function with the emulator's model, block by block. Functions that the emulator lacks, or that were
/// recorded only in part, are skipped.
#[must_use]
pub fn compare(recorded: &Digests, sink: &dyn Sink) -> Vec<Compared> {
    let of = |function: &'static Function| Some((function, recorded.function(function.name)?));
    let whole = |(function, digests): &(&Function, &FunctionDigests)| {
        let (block, blocks) = function.blocks();
        digests.digests.len() as u64 * digests.block == block * u64::from(blocks)
    };
    let compared = |(function, digests): (&'static Function, &FunctionDigests)| {
        let starts = digests.digests.par_iter().enumerate().filter_map(|(n, digest)| {
            let first = n as u64 * digests.block;
            (function.digest(first..first + digests.block) != *digest).then_some(first as u32)
        });
        let differ = starts.collect();
        sink.emit(Event::FunctionFinished);
        Compared {
            device: recorded.device.clone(),
            name: function.name.to_owned(),
            inputs: digests.block * digests.digests.len() as u64,
            blocks: digests.digests.len(),
            differ,
        }
    };
    let functions: Vec<_> = FUNCTIONS.iter().filter_map(of).filter(whole).collect();
    sink.emit(Event::FunctionsStarted { functions: functions.len() });
    let results = functions.into_iter().map(compared).collect();
    sink.emit(Event::FunctionsFinished);
    results
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use emulator::{EmulatorDevice, Options, Programs};

    use super::*;
    use crate::event::Silent;

    #[test]
    fn the_kernel_computes_the_digests_of_the_model() {
        let mut device = EmulatorDevice::new(Arc::new(Programs::default()), Options::default());
        let code = ("sm_90".parse().unwrap(), PtxIsa { major: 7, minor: 8 });
        for function in &FUNCTIONS {
            let answers = function.answers(&mut device, code, (512, 2)).unwrap();
            assert_eq!(answers, [function.digest(0..512), function.digest(512..1024)], "{}", function.name);
        }
    }

    #[test]
    fn the_model_gives_the_digests_of_the_h200() {
        let mut recorded = Digests::builtin().unwrap();
        assert_eq!(recorded.functions.len(), FUNCTIONS.len());
        for function in &FUNCTIONS {
            let digests = recorded.function(function.name).unwrap();
            assert_eq!((digests.block, digests.digests.len() as u32), function.blocks(), "{}", function.name);
            // Zeros and subnormals, both halves of [1, 2), a negative number, NaNs.
            for first in [0, 0x3F80_0000, 0x3FC0_0000, 0xC1C0_0000, 0xFFC0_0000_u64] {
                let block = first / digests.block;
                let Some(digest) = digests.digests.get(block as usize) else { continue };
                let at = block * digests.block;
                assert_eq!(function.digest(at..at + digests.block), *digest, "{} {at:#x}", function.name);
            }
        }
        // One wrong answer in a block of many is found.
        recorded.functions.retain(|f| f.name == "tanh.approx.f16");
        assert!(compare(&recorded, &Silent)[0].differ.is_empty());
        let function = FUNCTIONS.iter().find(|f| f.name == "tanh.approx.f16").unwrap();
        let right = (function.model)(7);
        let digest = &mut recorded.functions[0].digests[0];
        *digest = digest.wrapping_sub(term(7, right)).wrapping_add(term(7, right ^ 1));
        assert_eq!(compare(&recorded, &Silent)[0].differ, [0]);
    }
}
