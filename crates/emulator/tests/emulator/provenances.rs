//! Where bytes of a result come from: the last write, its operands, and what computed them.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use emulator::trials::{Computed, Plan, Provenance, Step, provenance};
use emulator::{GlobalMemory, Launch, load};

/// Runs two launches of 64 threads on the words 0, 1, 2, … and returns where word `n` of the result comes from, and the address of
/// the first input.
fn of_word(body: &str, n: u64) -> (Option<Provenance>, u64) {
    let text = format!(
        ".version 8.8\n.target sm_120\n.address_size 64\n.visible .entry k(.param .u64 x, .param .u64 y) {{\n.reg .pred %p<4>;\n\
         .reg .b32 %r<9>;\n.reg .f32 %f<9>;\n.reg .b64 %x, %y, %a, %b;\n.shared .align 16 .b8 box[512];\nld.param.u64 %x, [x];\n\
         ld.param.u64 %y, [y];\nmov.u32 %r0, %tid.x;\nmul.wide.u32 %b, %r0, 4;\nadd.u64 %a, %b, %x;\nadd.u64 %b, %b, %y;\n\
         {body}\nret;\n}}"
    );
    let program = load(&text).unwrap();
    let mut memory = GlobalMemory::default();
    let x = memory.allocate_with((0..64u32).flat_map(|n| (n as f32).to_le_bytes()).collect());
    let y = memory.allocate(256);
    let params: Vec<u8> = [x, y].iter().flat_map(|at| at.to_le_bytes()).collect();
    let step = || {
        let launch = Launch { grid: [1; 3], block: [64, 1, 1], shared_bytes: 0, params: params.clone() };
        Step { program: &program, kernel: "k", launch, cluster: None, cooperative: false, shift_shared: true }
    };
    let plan = Plan::default();
    let at = y + 4 * n;
    let found = provenance(&[step(), step()], &memory, (&plan, &plan.first()), &(at..at + 4)).unwrap();
    (found, x)
}

/// The names and values of operands.
fn operands(of: &Computed) -> Vec<(&str, u64)> {
    of.operands.iter().map(|(name, bits)| (name.as_deref().unwrap_or("?"), *bits)).collect()
}

#[test]
fn a_wrong_element_is_followed_back_to_what_was_loaded() {
    let body = "ld.global.f32 %f1, [%a];\nmov.f32 %f2, 0f40000000;\nfma.rn.f32 %f3, %f1, %f2, %f1;\nst.global.f32 [%b], %f3;";
    let (found, x) = of_word(body, 40);
    let Provenance { step, write } = found.unwrap();
    assert_eq!((step, write.place.instruction.as_str()), (1, "st.global.f32 [%b], %f3;"));
    assert_eq!((write.place.warp, write.place.lane, write.place.launch), (1, Some(8), 1));
    assert_eq!(operands(&write), [("%f3", u64::from(120f32.to_bits()))]);
    let [fma] = write.inputs.as_slice() else { panic!("{write:?}") };
    assert_eq!(fma.place.instruction, "fma.rn.f32 %f3, %f1, %f2, %f1;");
    assert_eq!(operands(fma).iter().map(|o| o.0).collect::<Vec<_>>(), ["%f1", "%f2", "%f1"]);
    let load = &fma.inputs[0];
    assert_eq!((load.place.instruction.as_str(), load.address), ("ld.global.f32 %f1, [%a];", Some(x + 160)));
}

#[test]
fn the_last_of_several_writes_is_the_one() {
    // A loop stores to the element three times; then another thread stores to its neighbour.
    let body = "mov.u32 %r1, 0;\nNEXT:\nadd.u32 %r1, %r1, 1;\nst.global.u32 [%b], %r1;\nsetp.lt.u32 %p0, %r1, 3;\n@%p0 bra NEXT;";
    let (found, _) = of_word(body, 3);
    let write = found.unwrap().write;
    assert_eq!(operands(&write), [("%r1", 3)]);
    assert_eq!(write.inputs[0].place.instruction, "add.u32 %r1, %r1, 1;");
    // An element in the middle of a vector.
    let body =
        "setp.eq.u32 %p0, %r0, 2;\nmov.u32 %r1, 5;\nmov.u32 %r2, 6;\n@%p0 st.global.v2.u32 [%b], {%r1, %r2};";
    let (found, _) = of_word(body, 3);
    assert_eq!(operands(&found.unwrap().write), [("%r1", 5), ("%r2", 6)]);
    // An atomic, and nothing at all.
    let body = "setp.eq.u32 %p0, %r0, 7;\nst.global.u32 [%b], 0;\n@%p0 red.global.add.u32 [%b], 4;";
    let (found, _) = of_word(body, 7);
    assert_eq!(found.unwrap().write.place.instruction, "@%p0 red.global.add.u32 [%b], 4;");
    assert_eq!(of_word("", 60).0, None);
}

#[test]
fn a_bulk_copy_is_named_without_operands() {
    let body = "mov.u32 %r1, box;\nmad.lo.u32 %r2, %r0, 4, %r1;\nst.shared.u32 [%r2], %r0;\nfence.proxy.async;\nbar.sync 0;\n\
                setp.eq.u32 %p0, %r0, 0;\n@!%p0 bra END;\ncp.async.bulk.global.shared::cta.bulk_group [%y], [%r1], 256;\n\
                cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nEND:";
    let (found, _) = of_word(body, 33);
    let write = found.unwrap().write;
    assert!(write.place.instruction.starts_with("cp.async.bulk.global"), "{write:?}");
}

#[test]
fn registers_have_their_own_values_whatever_the_order_of_sources() {
    let sources = "mov.u32 %r1, 100;\nmov.u32 %r2, 7;\nmov.u32 %r3, 3;\nsetp.eq.u32 %p1, %r1, %r2;\nmov.f32 %f1, 0f40000000;\n\
                   mov.f32 %f2, 0f40400000;\nmov.f32 %f3, 0f40800000;\n";
    let value = |name: &str| match name {
        "%r1" => 100,
        "%r2" => 7,
        "%r3" => 3,
        "%p1" => 0,
        "%f1" => 0x4000_0000,
        "%f2" => 0x4040_0000,
        _ => 0x4080_0000,
    };
    for (text, count) in [
        ("sub.u32 %r4, %r1, %r2;", 2),
        ("sub.u32 %r4, %r2, %r1;", 2),
        ("mul.lo.u32 %r4, %r1, %r2;", 2),
        ("mad.lo.u32 %r4, %r1, %r2, %r3;", 3),
        ("mad.lo.u32 %r4, %r3, %r1, %r2;", 3),
        ("div.u32 %r4, %r1, %r2;", 2),
        ("rem.u32 %r4, %r1, %r2;", 2),
        ("min.u32 %r4, %r3, %r2;", 2),
        ("max.s32 %r4, %r3, %r2;", 2),
        ("xor.b32 %r4, %r2, %r3;", 2),
        ("shl.b32 %r4, %r1, 2;", 1),
        ("shr.u32 %r4, %r1, 1;", 1),
        ("neg.s32 %r4, %r2;", 1),
        ("not.b32 %r4, %r2;", 1),
        ("mov.u32 %r4, %r3;", 1),
        ("cvt.s32.s8 %r4, %r2;", 1),
        ("selp.b32 %r4, %r1, %r2, %p1;", 3),
        ("fma.rn.f32 %f4, %f1, %f2, %f3;", 3),
        ("fma.rn.f32 %f4, %f3, %f1, %f2;", 3),
        ("sub.f32 %f4, %f3, %f1;", 2),
        ("div.rn.f32 %f4, %f3, %f1;", 2),
    ] {
        let result = if text.contains("%f4") { "%f4" } else { "%r4" };
        let (found, _) = of_word(&format!("{sources}{text}\nst.global.b32 [%b], {result};"), 3);
        let write = found.unwrap().write;
        let of = &write.inputs[0];
        assert_eq!((of.place.instruction.as_str(), of.operands.len()), (text, count));
        for (name, bits) in operands(of) {
            assert_eq!(bits, value(name), "{name} of {text}");
        }
    }
}
