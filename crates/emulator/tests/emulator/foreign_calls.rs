//! Functions that the driver links: assertions, printing, the heap; and registers that launches leave at zero.

use emulator::Rule;

use crate::foreign::{How, Said, breaks, gives, module, run_and_listen};

const DECLARED: &str = ".extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e) .noreturn;
.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
.extern .func (.param .b64 r) malloc (.param .b64 a);
.extern .func free (.param .b64 a);
.global .align 1 .b8 expression[6] = {120, 32, 62, 32, 48, 0};
.global .align 1 .b8 file[5] = {97, 46, 99, 117, 0};
.global .align 1 .b8 pattern[14] = {116, 37, 100, 32, 37, 46, 49, 102, 32, 37, 115, 10, 0, 0};
";

fn with_calls(body: &str) -> String {
    module("", body).replace(".visible .entry", &format!("{DECLARED}.visible .entry"))
}

const ASSERT: &str = "mov.u64 a, expression; cvta.global.u64 a, a; mov.u64 b, file; cvta.global.u64 b, b;
{ .param .b64 q0; .param .b64 q1; .param .b32 q2; .param .b64 q3; .param .b64 q4; st.param.b64 [q0], a; st.param.b64 [q1], b;
st.param.b32 [q2], 12; st.param.b64 [q3], b; st.param.b64 [q4], 1; call.uni __assertfail, (q0, q1, q2, q3, q4); }";

#[test]
fn a_failed_assertion_says_its_text_and_its_thread() {
    let body = |least: u32| {
        format!("setp.lt.u32 p, t, {least}; @p bra OK; {ASSERT} OK: @one st.global.u32 [out], 4;")
    };
    gives(&with_calls(&body(64)), &How::with_sizes(1, 64), &[4]);
    let says = "the assertion `x > 0` failed in thread 40 of its CTA: a.cu:12, in a.cu";
    breaks(&with_calls(&body(40)), &How::with_sizes(1, 64), Rule::Explicit, says);
}

#[test]
fn what_is_printed_comes_in_the_order_of_the_threads() {
    let body = ".local .align 8 .b8 values[24]; .reg .f64 f; setp.gt.u32 p, t, 1; @p bra END; mov.u64 b, values; cvta.local.u64 b, b;
st.local.u32 [values], t; cvt.rn.f64.u32 f, t; st.local.f64 [values+8], f; mov.u64 e, file; cvta.global.u64 e, e;
st.local.u64 [values+16], e; mov.u64 a, pattern; cvta.global.u64 a, a;
{ .param .b64 a0; .param .b64 a1; .param .b32 r0; st.param.b64 [a0], a; st.param.b64 [a1], b; call.uni (r0), vprintf, (a0, a1);
ld.param.b32 v, [r0]; } mul.wide.u32 b, t, 4; add.u64 b, out, b; st.global.u32 [b], v; END:";
    let mut said = Said::default();
    let words = run_and_listen(&with_calls(body), &How { seeds: 1, ..How::with_sizes(1, 32) }, &mut said);
    assert_eq!(words.map(|w| w[..3].to_vec()), Ok(vec![3, 3, 0]));
    assert_eq!(said.printed, ["t0 0.0 a.cu\n", "t1 1.0 a.cu\n"]);
    let unset = body.replace("st.local.u32 [values], t;", "");
    breaks(&with_calls(&unset), &How::with_sizes(1, 32), Rule::Uninitialised, "");
}

const MALLOC: &str = "{ .param .b64 a0; .param .b64 r0; st.param.b64 [a0], SIZE; call.uni (r0), malloc, (a0); ld.param.b64 a, [r0]; }";
const FREE: &str = "{ .param .b64 a0; st.param.b64 [a0], a; call.uni free, (a0); }";

#[test]
fn the_heap_gives_memory_and_takes_it_back() {
    let malloc = MALLOC.replace("SIZE", "8");
    let used =
        format!("@!one bra END; {malloc} st.u32 [a], 6; ld.u32 v, [a]; {FREE} st.global.u32 [out], v; END:");
    gives(&with_calls(&used), &How::with_sizes(1, 32), &[6]);
    let broken = |body: &str, rule, says| {
        breaks(&with_calls(&format!("@!one bra END; {body} END:")), &How::with_sizes(1, 32), rule, says)
    };
    broken(&format!("{malloc} ld.u32 v, [a]; setp.eq.u32 p, v, 0; @p bra END;"), Rule::Uninitialised, "");
    broken(&format!("{malloc} st.u32 [a+8], v;").replace("v;", "t;"), Rule::OutOfBounds, "");
    broken(&format!("{malloc} {FREE} st.u32 [a], t;"), Rule::UseAfterFree, "");
    broken(&format!("{malloc} {FREE} {FREE}"), Rule::UseAfterFree, "`malloc` did not return");
    broken(&format!("mov.u64 a, out; {FREE}"), Rule::UseAfterFree, "`malloc` did not return");
    // More than the heap has is null, and null may be freed.
    let large = MALLOC.replace("SIZE", "9000000");
    let null = format!(
        "@!one bra END; {large} setp.eq.u64 p, a, 0; selp.u32 v, 1, 0, p; st.global.u32 [out], v; {FREE} END:"
    );
    gives(&with_calls(&null), &How::with_sizes(1, 32), &[1]);
}

#[test]
fn environment_registers_are_read_as_zero() {
    let body = "mov.u32 v, %envreg1; mov.u32 w, %envreg2; or.b32 v, v, w; add.u32 v, v, 1; @one st.global.u32 [out], v;";
    gives(&module("", body), &How::with_sizes(1, 32), &[1]);
}
