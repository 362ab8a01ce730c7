//! Cluster launch control: blocks that take the work of others, as kernels with a dynamic scheduler do.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use emulator::{GlobalMemory, Launch, Law, Options, Stop, launch, load};

/// One warp a block adds 1 to the counter of its block's place, and goes on with the blocks it cancels. `seen` stands where
/// the answer has been seen to be no; `space` and `cast` choose among the forms.
fn kernel(space: &str, cast: &str, seen: &str, expect: &str) -> String {
    let (to, bar) = if space.is_empty() { ("g", "gb") } else { ("at", "b") };
    format!(
        ".version 9.0\n.target sm_121a\n.address_size 64\n.visible .entry k(.param .u64 pout)\n{{
.reg .b64 out, o, g, gb, lo, hi; .reg .b32 t, x, y, z, w, n, ph, at, b; .reg .pred p, q; .reg .b128 resp;
.shared .align 16 .b8 answer[16]; .shared .align 8 .b64 bar;
ld.param.u64 out, [pout]; mov.u32 at, answer; mov.u32 b, bar; cvta.shared.u64 g, answer; cvta.shared.u64 gb, bar;
mov.u32 t, %tid.x; mov.u32 x, %ctaid.x; mov.u32 y, %ctaid.y; mov.u32 z, %ctaid.z; mov.u32 ph, 0;
setp.ne.u32 q, t, 0; @q ret;
mbarrier.init.shared.b64 [b], 1; fence.mbarrier_init.release.cluster;
AGAIN:
mad.lo.u32 n, z, 3, y; mad.lo.u32 n, n, 5, x; mul.wide.u32 o, n, 4; add.u64 o, o, out;
red.global.add.u32 [o], 1;
mbarrier.arrive.expect_tx.shared.b64 _, [b], {expect};
clusterlaunchcontrol.try_cancel.async{space}.mbarrier::complete_tx::bytes{cast}.b128 [{to}], [{bar}];
WAIT: mbarrier.try_wait.parity.shared.b64 p, [b], ph; @!p bra WAIT;
xor.b32 ph, ph, 1;
ld.shared.v2.b64 {{lo, hi}}, [at]; mov.b128 resp, {{lo, hi}};
fence.proxy.async.shared::cta;
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, resp;
@!p bra DONE;
clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {{x, y, z, w}}, resp;
clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 y, resp;
bra AGAIN;
DONE: {seen}
ret;
}}"
    )
}

fn run(text: &str, grid: [u32; 3], seed: u64) -> Result<Vec<u32>, Stop> {
    let program = load(text)?;
    let mut memory = GlobalMemory::default();
    let out = memory.allocate_with(vec![0; 4 * 30]);
    let step = Launch { grid, block: [32, 1, 1], shared_bytes: 0, params: out.to_le_bytes().to_vec() };
    let options = Options { seed, fuel: 1_000_000, ..Options::default() };
    launch(&program, program.kernel("k").unwrap(), &step, &mut memory, &options)?;
    Ok(memory.bytes(out).unwrap().chunks(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect())
}

fn law(result: Result<Vec<u32>, Stop>) -> Option<Law> {
    match result {
        Err(Stop::Trap(trap)) => Some(trap.law),
        _ => None,
    }
}

#[test]
fn every_block_is_done_once_by_itself_or_by_who_cancelled_it() {
    for space in [".shared::cta", ""] {
        for cast in ["", ".multicast::cluster::all"] {
            let text = kernel(space, cast, "", "16");
            for seed in 0..64 {
                let got = run(&text, [5, 3, 2], seed).unwrap_or_else(|stop| panic!("{stop}"));
                assert_eq!(got, [1; 30], "seed {seed}");
            }
            assert_eq!(run(&text, [1; 3], 0).unwrap()[..2], [1, 0]);
        }
    }
}

#[test]
fn a_request_after_a_refusal_and_wrong_bytes_are_named() {
    let again = "mbarrier.arrive.expect_tx.shared.b64 _, [b], 16;\n\
                 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [at], [b];";
    let text = kernel(".shared::cta", "", again, "16");
    let more = kernel(".shared::cta", "", "", "32");
    let odd = kernel(".shared::cta", "", "", "16").replace("mov.u32 at, answer;", "mov.u32 at, answer+8;");
    for seed in 0..8 {
        assert_eq!(law(run(&text, [5, 3, 2], seed)), Some(Law::Operand));
        assert_eq!(law(run(&more, [5, 3, 2], seed)), Some(Law::Deadlock));
        assert_eq!(law(run(&odd, [5, 3, 2], seed)), Some(Law::Misaligned));
    }
}
