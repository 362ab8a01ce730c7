//! Tensor maps that a kernel builds from zeros, field by field, and maps that it changes while copies use them.

use emulator::Rule;

use crate::foreign::{How, breaks, gives, module};

/// All fields of a map of 16 x 8 words with boxes of 16 x 4, of which one is left out.
fn fields(left_out: &str) -> String {
    let set = |field: &str, value: &str, bits: u32| {
        let line = format!("tensormap.replace.tile.{field}.shared::cta.b1024.b{bits} [s], {value};");
        if line.contains(left_out) && !left_out.is_empty() { String::new() } else { line }
    };
    [
        set("global_address", "b", 64),
        set("rank", "1", 32),
        set("box_dim", "0, 16", 32),
        set("box_dim", "1, 4", 32),
        set("global_dim", "0, 16", 32),
        set("global_dim", "1, 8", 32),
        set("global_stride", "0, 64", 64),
        set("element_stride", "0, 1", 32),
        set("element_stride", "1, 1", 32),
        set("elemtype", "2", 32),
        set("interleave_layout", "0", 32),
        set("swizzle_mode", "0", 32),
        set("fill_mode", "0", 32),
    ]
    .concat()
}

/// Words 1024 and on are the tensor, in which every word is its number plus 5; the map goes to byte 8192.
fn built(left_out: &str, then: &str) -> String {
    let body = format!(
        "add.u64 b, out, 4096; add.u64 e, out, 8192; mov.u32 n, 0;
FILL: shl.b32 x, n, 5; add.u32 x, x, t; mul.wide.u32 a, x, 4; add.u64 a, b, a; add.u32 y, x, 5; st.global.u32 [a], y;
add.u32 n, n, 1; setp.lt.u32 p, n, 4; @p bra FILL; fence.proxy.async;
shl.b32 x, t, 2; add.u32 x, x, s; st.shared.u32 [x], 0; bar.warp.sync -1; @one bra SET; bra SENT; SET: {} SENT: bar.warp.sync -1;
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [e], [s], 128;
fence.proxy.tensormap::generic.acquire.gpu [e], 128; @!one bra END; mbarrier.init.shared.b64 [bar], 1;
fence.proxy.async.shared::cta; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256; add.u32 x, s, 256; mov.u32 y, 0; mov.u32 z, 4;
cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [x], [e, {{y, z}}], [bar]; {then}
WAIT: mbarrier.try_wait.parity.shared.b64 q, [bar], 0; @!q bra WAIT; ld.shared.u32 v, [s+256]; st.global.u32 [out], v; END:",
        fields(left_out)
    );
    module("", &body)
}

fn one_warp() -> How {
    How::with_sizes(1, 32)
}

#[test]
fn a_map_built_from_zeros_is_complete_when_it_is_used() {
    gives(&built("", ""), &one_warp(), &[5 + 64]);
    for (left_out, says) in [
        ("global_address", "`.global_address` was never set"),
        ("rank", "a copy of 2 dimensions by a map of 1"),
        ("box_dim.shared::cta.b1024.b32 [s], 1", "`.box_dim 1` was never set"),
        ("global_dim.shared::cta.b1024.b32 [s], 0", "`.global_dim 0` was never set"),
        ("global_stride", "`.global_stride 0` was never set"),
        ("element_stride.shared::cta.b1024.b32 [s], 1", "`.element_stride 1` was never set"),
    ] {
        breaks(&built(left_out, ""), &one_warp(), Rule::TensorMap, says);
    }
    // Zero is a type, `.u8`, of which a box has a quarter of the bytes.
    breaks(&built("elemtype", ""), &one_warp(), Rule::Deadlock, "192 bytes missing");
    let bytes = built("elemtype", "").replace("_, [bar], 256", "_, [bar], 64");
    gives(&bytes, &one_warp(), &[5 + 64]);
    // Zeros say that there is no swizzle, no interleaving and no NaN.
    for left_out in ["interleave_layout", "swizzle_mode", "fill_mode"] {
        gives(&built(left_out, ""), &one_warp(), &[5 + 64]);
    }
}

#[test]
fn a_map_is_not_changed_while_copies_use_it() {
    let change = "tensormap.replace.tile.global_dim.global.b1024.b32 [e], 1, 4;";
    breaks(&built("", change), &one_warp(), Rule::Race, "that the copy of line");
    breaks(&built("", "st.global.u32 [e+64], t;"), &one_warp(), Rule::Race, "to the tensor map");
    gives(&built("", "st.global.u32 [e+128], t;"), &one_warp(), &[5 + 64]);
    let waited = built("", "").replace(" END:", &format!(" {change} END:"));
    gives(&waited, &one_warp(), &[5 + 64]);
}

/// Stores through the map, then a wait and a change.
fn stored(wait: &str) -> String {
    let store = "mov.u32 v, 1; st.shared.u32 [x], v; fence.proxy.async.shared::cta;
cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [e, {y, y}], [x]; cp.async.bulk.commit_group;";
    let change = "tensormap.replace.tile.global_dim.global.b1024.b32 [e], 1, 4; cp.async.bulk.wait_group 0;";
    let text = built("", "");
    text.replace(" END:", &format!(" {store} {wait} {change} END:"))
}

#[test]
fn a_wait_for_the_sources_of_stores_gives_the_map_back() {
    gives(&stored("cp.async.bulk.wait_group 0;"), &one_warp(), &[5 + 64]);
    gives(&stored("cp.async.bulk.wait_group.read 0;"), &one_warp(), &[5 + 64]);
    breaks(&stored(""), &one_warp(), Rule::Race, "to the tensor map");
}

#[test]
fn lanes_of_one_instruction_set_a_field_to_one_value() {
    let together = |value: &str| {
        module(
            "",
            &format!(
                "shl.b32 x, t, 2; add.u32 x, x, s; st.shared.u32 [x], 0; bar.warp.sync -1; {value}
tensormap.replace.tile.global_address.shared::cta.b1024.b64 [s], a; @one st.global.u32 [out], 1;"
            ),
        )
    };
    gives(&together("mov.u64 a, out;"), &one_warp(), &[1]);
    breaks(&together("mul.wide.u32 a, t, 128;"), &one_warp(), Rule::Race, "reads the tensor map");
}
