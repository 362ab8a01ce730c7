//! The kernel that runs one recorded instruction on all recorded warps, one warp per CTA.

use std::fmt::Write as _;

use ptx::arch::PtxIsa;
use vectors::WarpOp;

/// The PTX version of the kernels for the emulator.
pub(super) const ISA: PtxIsa = PtxIsa { major: 9, minor: 2 };

/// The name of the kernel.
pub(super) const NAME: &str = "vectors";

/// Returns the target with the instructions and accumulation model of this compute capability.
pub(super) fn target(capability: &str) -> String {
    let digits: String = capability.chars().filter(char::is_ascii_digit).collect();
    let suffix = if digits.parse::<u32>().is_ok_and(|n| n >= 90) { "a" } else { "" };
    format!("sm_{digits}{suffix}")
}

/// Generates the kernel: it loads `i0…`, runs the instruction and stores `o0…`.
pub(super) fn text(op: &WarpOp, target: &str, isa: PtxIsa) -> String {
    let mut text = format!(
        ".version {isa}\n.target {target}\n.address_size 64\n\
         .visible .entry {NAME}(.param .u64 vectors_in, .param .u64 vectors_out)\n.reqntid 32, 1, 1\n{{\n\
         .reg .b64 from_in, to_out, at_in, at_out;\n.reg .b32 case_n, lane_n;\n\
         .reg .b32 i<{}>, o<{}>;\n.reg .b32 t0, t1, m0, sb, sa;\n.reg .b16 h0, h1, z;\n\
         .reg .b64 a0, b0, c0, c1;\n.reg .pred p0;\n.shared .align 16 .b8 buffer[512];\n\
         ld.param.u64 from_in, [vectors_in];\nld.param.u64 to_out, [vectors_out];\n\
         mov.u32 case_n, %ctaid.x;\nmov.u32 lane_n, %laneid;\n\
         mul.wide.u32 at_in, case_n, {};\nmul.wide.u32 at_out, case_n, {};\n\
         add.u64 from_in, from_in, at_in;\nadd.u64 to_out, to_out, at_out;\n\
         mul.wide.u32 at_in, lane_n, 4;\nadd.u64 from_in, from_in, at_in;\nadd.u64 to_out, to_out, at_in;\n\
         mov.u32 sb, buffer;\nshl.b32 sa, lane_n, 4;\nadd.u32 sa, sa, sb;\nmov.b16 z, 0;\n",
        op.n_in,
        op.n_out,
        op.n_in * 128,
        op.n_out * 128,
    );
    for n in 0..op.n_in {
        let _ = writeln!(text, "ld.global.b32 i{n}, [from_in+{}];", n * 128);
    }
    let _ = writeln!(text, "{{\n{}\n}}", op.ptx);
    for n in 0..op.n_out {
        let _ = writeln!(text, "st.global.b32 [to_out+{}], o{n};", n * 128);
    }
    text.push_str("ret;\n}\n");
    text
}
