//! Every directive of the PTX ISA is obeyed, known to change nothing, or refused by its name.

use crate::foreign::{How, gives, module, refused};

/// The directives that stand behind the parameters of an entry (PTX ISA 11), in chapters' order, and what is refused of them.
const OF_ENTRIES: &[(&str, Option<&str>)] = &[
    (".maxnreg 64", None),
    (".maxntid 32, 1, 1", None),
    (".reqntid 32", None),
    (".minnctapersm 2", None),
    (".maxnctapersm 2", None),
    (".reqnctapercluster 1", None),
    (".explicitcluster .reqnctapercluster 1", None),
    (".maxclusterrank 8", None),
    (
        ".reqntid 32 .reqnctapercluster 1 .blocksareclusters",
        Some("`.blocksareclusters` is known but not emulated"),
    ),
    (".abi_preserve 4", None),
    (".abi_preserve_control 4", None),
    (".pragma \"nounroll\";", None),
    (".pragma \"enable_smem_spilling\";", None),
    (".pragma \"something_new 3\";", None),
    (".something_new 3", Some("the directive `.something_new` is unknown")),
];

#[test]
fn directives_of_entries_are_obeyed_or_named() {
    for (directive, refusal) in OF_ENTRIES {
        let text = module(directive, "@one st.global.u32 [out], 5;");
        match refusal {
            None => gives(&text, &How::with_sizes(1, 32), &[5]),
            Some(says) => refused(&text, &How::with_sizes(1, 32), says),
        }
    }
    refused(&module(".maxntid 32", ""), &How::with_sizes(1, 64), ".maxntid 32");
    refused(&module(".reqntid 32", ""), &How::with_sizes(1, 64), ".reqntid");
}

/// What is legal at the top of a module or in a body, with a kernel `k` behind it that uses nothing of it.
const OF_MODULES: &[(&str, Option<&str>)] = &[
    (".file 1 \"a.cu\"", None),
    (".section .debug_str { .b8 0 }", None),
    (".pragma \"frequency 2\";", Some("ptxas refuses the pragma `frequency 2` outside of functions")),
    (".pragma \"other\";", Some("ptxas refuses the pragma `other` outside of functions")),
    (".global .attribute(.managed) .u32 m;", None),
    (".global .attribute(.unified(1,2)) .u32 m;", None),
    (".global .attribute(.managed) .attribute(.unified(1,2)) .u32 m;", None),
    (".global .attribute(.remote) .u32 m;", Some("the attribute `.remote` is unknown")),
    (".visible .global .align 16 .v4 .f32 m[4];", None),
    (".extern .global .u32 m;", None),
    (".weak .const .u32 m = 4;", None),
    (".common .global .u32 m;", None),
    (".extern .shared .align 16 .b8 m[];", None),
    (".extern .func f (.param .u32 x) .noreturn;", None),
    (".func .attribute(.unified(1,2)) f() { ret; }", None),
    (".func g() { ret; } .func f(); .alias f, g;", None),
];

#[test]
fn directives_of_modules_are_obeyed_or_named() {
    let kernel = module("", "@one st.global.u32 [out], 5;");
    for (item, refusal) in OF_MODULES {
        let text = kernel.replace(".visible .entry", &format!("{item}\n.visible .entry"));
        match refusal {
            None => gives(&text, &How::with_sizes(1, 32), &[5]),
            Some(says) => refused(&text, &How::with_sizes(1, 32), says),
        }
    }
    for (option, refusal) in [
        ("debug", None),
        ("texmode_independent", None),
        ("map_f64_to_f32", None),
        ("something", Some("`something` is unknown")),
    ] {
        let text = kernel.replace("sm_121a", &format!("sm_121a, {option}"));
        match refusal {
            None => gives(&text, &How::with_sizes(1, 32), &[5]),
            Some(says) => refused(&text, &How::with_sizes(1, 32), says),
        }
    }
    // It matters where there are doubles.
    let doubles = module("", ".reg .f64 f; mov.f64 f, 0d3FF0000000000000; @one st.global.u32 [out], 5;");
    let says = "`map_f64_to_f32` is known but not emulated";
    refused(&doubles.replace("sm_121a", "sm_121a, map_f64_to_f32"), &How::with_sizes(1, 32), says);
}

#[test]
fn what_another_module_defines_is_refused_where_it_is_used() {
    let uses = |what: &str| {
        module("", what).replace(
            ".visible .entry",
            ".extern .global .u32 there; .extern .func f (.param .u32 x);\n.visible .entry",
        )
    };
    refused(&uses("ld.global.u32 v, [there];"), &How::with_sizes(1, 32), "`there` is declared `.extern`");
    refused(
        &uses("{ .param .u32 x; call f, (x); }"),
        &How::with_sizes(1, 32),
        "`f` is declared but has no body",
    );
    gives(&uses("@one st.global.u32 [out], 5;"), &How::with_sizes(1, 32), &[5]);
    // Of an entry that is not asked for, nothing matters.
    let other = ".visible .entry other() { .reg .u32 x; ld.global.u32 x, [there]; tcgen05.nothing x; ret; }\n.visible .entry k";
    let text = uses("@one st.global.u32 [out], 5;").replace(".visible .entry k", other);
    gives(&text, &How::with_sizes(1, 32), &[5]);
}

#[test]
fn pointers_keep_the_alignment_that_parameters_promise() {
    let promise = |align: u32| {
        module("", "@one st.global.u32 [out], 5;")
            .replace("(.param .u64 p_out)", &format!("(.param .u64 .ptr .global .align {align} p_out)"))
    };
    gives(&promise(128), &How::with_sizes(1, 32), &[5]);
    refused(&promise(1 << 20), &How::with_sizes(1, 32), "is declared as a multiple of");
}

#[test]
fn copies_of_a_function_share_its_shared_variables() {
    let function = ".func (.reg .u32 was) swap(.reg .u32 now) { .shared .u32 kept; ld.shared.u32 was, [kept]; \
                    st.shared.u32 [kept], now; ret; }\n.func set(.reg .u32 now) { ret; }\n";
    let body = "@!one bra END; call (v), swap, (t); setp.eq.u32 p, v, 0; @p bra END; END:";
    // The first copy would find what nobody wrote: the second finds what the first stored.
    let text =
        |body: &str| module("", body).replace(".visible .entry", &format!("{function}.visible .entry"));
    crate::foreign::breaks(&text(body), &How::with_sizes(1, 32), emulator::Rule::Uninitialised, "");
    let first = ".func (.reg .u32 was) swap(.reg .u32 now) { .shared .u32 kept; .reg .pred p; mov.u32 was, 0; setp.eq.u32 p, now, 7; \
                 @!p ld.shared.u32 was, [kept]; st.shared.u32 [kept], now; ret; }\n";
    let twice = "@!one bra END; mov.u32 x, 7; call (v), swap, (x); mov.u32 x, 8; call (v), swap, (x); st.global.u32 [out], v; END:";
    let text = module("", twice).replace(".visible .entry", &format!("{first}.visible .entry"));
    gives(&text, &How::with_sizes(1, 32), &[7]);
}

#[test]
fn what_the_target_lacks_is_refused() {
    let how = How::with_sizes(1, 32);
    let on = |target: &str, body: &str| module("", body).replace("sm_121a", target);
    // A cache operator beside an eviction priority, on no target.
    refused(&on("sm_121a", "ld.global.cg.L1::evict_last.b32 v, [out];"), &how, "PTX has no such form");
    gives(&on("sm_121a", "ld.global.L1::evict_last.b32 v, [out]; @one st.global.u32 [out], 3;"), &how, &[3]);
    gives(&on("sm_121a", "ld.global.cg.b32 v, [out]; @one st.global.u32 [out], 3;"), &how, &[3]);
    let narrow = ".reg .b16 h; .reg .f32 f; mov.f32 f, 0f3F800000; cvt.rn.satfinite.e5m2x2.f32 h, f, f; cvt.u32.u16 v, h;
@one st.global.u32 [out], v;";
    refused(&on("sm_80", narrow), &how, "sm_80 does not have it: it requires sm_89 or later");
    gives(&on("sm_89", narrow), &how, &[0x3C3C]);
    let scatter =
        "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [out, {v, v, v, v, v}], [s];";
    refused(&on("sm_121a", scatter), &how, "it requires sm_100, sm_103 or sm_110");
    // Only the target's own version knows it.
    let old = on("sm_121a", "").replace(".version 9.0", ".version 8.7");
    refused(&old, &how, "`.version 8.7` does not know sm_121a; it requires `.version 8.8`");
    gives(&old.replace("sm_121a", "sm_120a"), &how, &[]);
}

#[test]
fn shared_memory_is_that_of_the_target() {
    let with = |bytes: u32| How { shared_bytes: bytes, ..How::with_sizes(1, 32) };
    // The module has 1036 bytes of its own.
    gives(&module("", ""), &with(100_000), &[]);
    refused(&module("", ""), &with(120_000), "the limit of sm_121 is 101376");
    gives(&module("", "").replace("sm_121a", "sm_90a"), &with(120_000), &[]);
}

#[test]
fn a_half_becomes_a_bf16_without_a_rounding_as_ptxas_takes_it() {
    // 1 + 2^-8 + 2^-10 is above half a unit of bf16.
    let body = |form: &str| {
        format!(".reg .b16 h; mov.b16 h, 0x3C05; {form} h, h; cvt.u32.u16 v, h; @one st.global.u32 [out], v;")
    };
    gives(&module("", &body("cvt.bf16.f16")), &How::with_sizes(1, 32), &[0x3F81]);
    gives(&module("", &body("cvt.rn.bf16.f16")), &How::with_sizes(1, 32), &[0x3F81]);
    refused(&module("", &body("cvt.f16.bf16")), &How::with_sizes(1, 32), "PTX has no such form");
}
