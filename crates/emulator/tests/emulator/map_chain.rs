//! Tensor maps that a kernel changes: lanes draft them together, a release and an acquire bring them to the tensormap proxy.
//! Each rule has a fault that is caught and a legal twin that is not.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that panics has failed")]

use emulator::{GlobalMemory, Launch, Law, Options, Stop, TensorMap, TensorType, launch, load};

/// Where the first allocation lies.
const FIRST: u64 = 0x10_0000_0000;

/// Runs a body with a tensor map at `out`; what is said of the law it breaks under any of some schedules.
fn breaks(body: &str, ctas: u32, threads: u32) -> Option<String> {
    let text = format!(
        ".version 9.0\n.target sm_121a\n.address_size 64\n.visible .entry k(.param .u64 p_out)\n{{
.reg .b64 out, a, b; .reg .b32 t, c, v, w, x, f; .reg .pred p, q, first, one; .shared .align 128 .b8 map[128];
ld.param.u64 out, [p_out]; add.u64 b, out, 1024; mov.u32 t, %tid.x; mov.u32 c, %ctaid.x; mov.u32 x, 0; mov.u32 v, 0; mov.u32 w, map;
setp.eq.u32 one, t, 0; setp.eq.u32 first, c, 0;\n{body}\nret;\n}}\n"
    );
    let program = load(&text).unwrap_or_else(|stop| panic!("{stop}\n{body}"));
    (0..8).find_map(|seed| {
        let mut memory = GlobalMemory::default();
        let map = TensorMap::dense(TensorType::U8, FIRST + 4096, &[64, 8], &[64, 4]);
        let mut bytes = vec![0; 1 << 16];
        bytes[..128].copy_from_slice(&map.encode().unwrap());
        let out = memory.allocate_with(bytes);
        assert_eq!(out, FIRST);
        let how = Launch {
            grid: [ctas, 1, 1],
            block: [threads, 1, 1],
            shared_bytes: 0,
            params: out.to_le_bytes().to_vec(),
        };
        let options = Options { seed, ..Options::default() };
        match launch(&program, program.kernel("k").unwrap(), &how, &mut memory, &options) {
            Ok(_) => None,
            Err(Stop::Trap(trap)) if trap.law == Law::Race => Some(trap.to_string()),
            Err(other) => panic!("seed {seed}: {other}\n{body}"),
        }
    })
}

const USE: &str = "@one cp.async.bulk.prefetch.tensor.2d.L2.global.tile [b, {x, x}];";
const MEET: &str = "bar.warp.sync -1;";

/// One warp drafts a map, lane 0 changes it, all publish it, lane 0 uses it.
fn draft(before: &str, between: &str, acquire: &str) -> String {
    format!(
        "shl.b32 v, t, 2; cvt.u64.u32 a, v; add.u64 a, a, out; ld.global.u32 f, [a]; add.u32 v, v, w; st.shared.u32 [v], f;
{before} @one tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [w], 1, 4; {between}
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [b], [w], 128;
{acquire} {USE}"
    )
}

#[test]
fn lanes_meet_around_a_replacement() {
    let acquire = "@one fence.proxy.tensormap::generic.acquire.gpu [b], 128;";
    assert_eq!(breaks(&draft(MEET, MEET, acquire), 1, 32), None);
    // A barrier of the CTA does as well.
    assert_eq!(breaks(&draft("bar.sync 0;", "bar.sync 0;", acquire), 1, 32), None);
    let said = |body: &str| breaks(body, 1, 32).unwrap_or_else(|| panic!("no race:\n{body}"));
    let what = said(&draft("", MEET, acquire));
    assert!(
        what.contains("lane 0 reads the tensor map") && what.contains("lane 1 of the same warp"),
        "{what}"
    );
    let what = said(&draft(MEET, "", acquire));
    assert!(what.contains("lane 0 of the same warp"), "{what}");
    assert!(said(&draft(MEET, MEET, "")).contains("no thread has acquired it"));
}

/// One thread changes a map in global memory, `to` brings it to the thread that acquires and uses it.
fn change(release: &str, to: &str, acquire: &str) -> String {
    format!(
        "mov.u64 b, out; and.pred q, first, one; @q tensormap.replace.tile.global_dim.global.b1024.b32 [out], 1, 4; @q {release} {to}
{acquire} {USE} END:"
    )
}

#[test]
fn a_map_is_released_and_acquired() {
    let release = |scope: &str| format!("fence.proxy.tensormap::generic.release.{scope};");
    let acquire = |scope: &str| format!("@one fence.proxy.tensormap::generic.acquire.{scope} [b], 128;");
    // By the same thread.
    assert_eq!(breaks(&change(&release("cta"), "", &acquire("cta")), 1, 32), None);
    let what = breaks(&change("mov.u32 v, v;", "", &acquire("gpu")), 1, 32).unwrap();
    assert!(what.contains("was not released to the tensormap proxy"), "{what}");
    // By another warp, behind a barrier.
    let warp = "bar.sync 0; setp.eq.u32 one, t, 32;";
    assert_eq!(breaks(&change(&release("cta"), warp, &acquire("cta")), 1, 64), None);
    assert!(breaks(&change(&release("cta"), "setp.eq.u32 one, t, 32;", &acquire("cta")), 1, 64).is_some());
    // By another CTA, behind a flag.
    let flag = |sem: &str| {
        format!(
            "@!one bra END; @!first bra READER; st.{sem}.gpu.global.u32 [out+512], 1; bra END;
READER: ld.acquire.gpu.global.u32 f, [out+512]; setp.eq.u32 p, f, 0; @p bra READER;"
        )
    };
    assert_eq!(breaks(&change(&release("gpu"), &flag("release"), &acquire("gpu")), 2, 32), None);
    // The release is a fence, too.
    assert_eq!(breaks(&change(&release("gpu"), &flag("relaxed"), &acquire("gpu")), 2, 32), None);
    let what = breaks(&change(&release("cta"), &flag("release"), &acquire("gpu")), 2, 32).unwrap();
    assert!(what.contains("do not include each other's thread"), "{what}");
    let what = breaks(&change(&release("gpu"), &flag("release"), &acquire("cta")), 2, 32).unwrap();
    assert!(what.contains("do not include each other's thread"), "{what}");
}
