//! Tests of the runner itself: mistakes in a test file are errors, wrong expectations fail, right ones pass.

use std::path::Path;

use libtest_mimic::{Failed, Trial};

use super::{bless, header, verdict};

/// A kernel whose threads store their number.
const KERNEL: &str = ".version 9.0
.target sm_121a
.address_size 64
.visible .entry k(.param .u64 py)
{
    .reg .b64 y; .reg .b32 t;
    ld.param.u64 y, [py];
    mov.u32 t, %tid.x;
    mad.wide.u32 y, t, 4, y;
    st.global.u32 [y], t;
    ret;
}
";

/// The launch of most cases: four threads on four words.
const LAUNCH: &str = "//@ run: --block 4\n//@ arg: out:y=u32[4]\n";

/// Five threads on four words.
const OVERRUN: &str = "//@ run: --block 5\n//@ arg: out:y=u32[4]\n";

/// Name, launch, further header lines, and the expected error; `None` for a test that passes.
const CASES: &[(&str, &str, &str, Option<&str>)] = &[
    ("right_values", LAUNCH, "//@ expect: y = 0..4", None),
    ("right_values_by_parts", LAUNCH, "//@ expect: y[1] = 1, 0x2\n//@ expect: y[3] = 3 x 1", None),
    (
        "wrong_values",
        LAUNCH,
        "//@ expect: y = 0, 1, 7, 3",
        Some("schedule 0, registers Shared: line 3: y[2] is 2, expected 7\nif the new"),
    ),
    ("a_failure_names_the_bless_variable", LAUNCH, "//@ expect: y = 7 x 4", Some("`SNAPSHOTS=overwrite`")),
    ("too_many_values", LAUNCH, "//@ expect: y = 0 x 5", Some("t.ptx:3: `y` has 4 elements, not 5")),
    ("an_empty_list", LAUNCH, "//@ expect: y =", Some("y[0] is 0, expected no value")),
    ("unknown_buffer", LAUNCH, "//@ expect: z = 0", Some("t.ptx:3: there is no buffer `z`")),
    (
        "unknown_buffer_of_an_argument",
        LAUNCH,
        "//@ variant: v\n//@ arg: buf:z\n//@ expect: no violation",
        Some("t.ptx:3: there is no buffer `z`"),
    ),
    ("nothing_expected", LAUNCH, "//@ schedules: 2", Some("t.ptx:1: nothing is expected")),
    (
        "nothing_expected_of_a_variant",
        LAUNCH,
        "//@ variant: v: ], t; => ], 7;",
        Some("t.ptx:3: nothing is expected"),
    ),
    ("two_ends", LAUNCH, "//@ expect: y = 0\n//@ violation: race @ st.", Some("a test ends in one way")),
    ("unknown_key", LAUNCH, "//@ expects: y = 0", Some("t.ptx:3: `expects` is not a key")),
    ("no_key", LAUNCH, "//@ expect", Some("t.ptx:3: a header line is `//@ KEY: VALUE`")),
    (
        "unknown_rule",
        LAUNCH,
        "//@ violation: laziness",
        Some("t.ptx:3: `laziness` is not a rule; the rules are out_of_bounds"),
    ),
    ("unknown_flag", LAUNCH, "//@ run: --grit 4", Some("t.ptx:3: `--grit` is not one of --entry")),
    ("unknown_check", LAUNCH, "//@ checks: all", Some("t.ptx:3: `all` is not one of initialisation")),
    ("bad_argument", LAUNCH, "//@ arg: out:z=q32[4]", Some("t.ptx:3: `out:z=q32[4]` is not an argument")),
    ("a_buffer_twice", LAUNCH, "//@ buf: y=zeros:u32[4]", Some("t.ptx:3: two buffers are named `y`")),
    (
        "a_key_twice",
        LAUNCH,
        "//@ schedules: 2\n//@ schedules: 3",
        Some("t.ptx:4: `schedules` is given twice"),
    ),
    ("no_schedule", LAUNCH, "//@ schedules: 0", Some("t.ptx:3: at least one schedule runs")),
    (
        "missing_violation",
        LAUNCH,
        "//@ violation: race @ st.global",
        Some("0 of 2 runs find what is expected, 2 must"),
    ),
    ("missing_refusal", LAUNCH, "//@ unsupported: st.global", Some("registers Shared: it passes")),
    ("missing_error", LAUNCH, "//@ error: registers", Some("registers Shared: it passes")),
    (
        "an_expected_violation",
        OVERRUN,
        "//@ violation: out_of_bounds @ st.global\n//@ message: 4 bytes at global address",
        None,
    ),
    (
        "an_unexpected_violation",
        OVERRUN,
        "//@ expect: y = 0..4",
        Some("`//@ violation: out_of_bounds @ st.global.u32 [y], t;`"),
    ),
    ("another_violation", OVERRUN, "//@ violation: race @ st.global", Some("out_of_bounds: 4 bytes")),
    ("another_line", OVERRUN, "//@ violation: out_of_bounds @ mad.wide", Some("PTX line 13")),
    ("no_line", OVERRUN, "//@ violation: out_of_bounds", Some("`//@ violation: out_of_bounds @ st.global")),
    (
        "an_ambiguous_line",
        OVERRUN,
        "//@ violation: out_of_bounds @ u32",
        Some("`u32` names 3 lines of the PTX"),
    ),
    ("the_header_is_no_line", OVERRUN, "//@ violation: out_of_bounds @ block", Some("`block` names 0 lines")),
    (
        "another_message",
        OVERRUN,
        "//@ violation: out_of_bounds @ st.global\n//@ message: full moon",
        Some("the message does not contain `full moon`"),
    ),
    (
        "an_edit_of_nothing",
        LAUNCH,
        "//@ variant: v: sub => add\n//@ expect: no violation",
        Some("t.ptx:3: `sub` occurs 0 times"),
    ),
    (
        "an_edit_of_two_places",
        LAUNCH,
        "//@ replace: mov => add\n//@ replace: u32 => b32\n//@ expect: no violation",
        Some("t.ptx:4: `u32` occurs 3 times"),
    ),
    (
        "an_edit_to_the_same",
        LAUNCH,
        "//@ variant: v: t => t\n//@ expect: no violation",
        Some("replaces nothing"),
    ),
    (
        "edits",
        LAUNCH,
        "//@ replace 2: u32 => b32\n//@ replace all: t, 4 => t, 4\n//@ expect: no violation",
        Some("replaces nothing"),
    ),
    (
        "a_variant_twice",
        LAUNCH,
        "//@ expect: no violation\n//@ variant: v\n//@ variant: w",
        Some("t.ptx:5: variant `w` is the same as `v`"),
    ),
    ("a_variant_without_name", LAUNCH, "//@ variant: A b", Some("t.ptx:3: `A b` is not a name")),
    (
        "variants",
        LAUNCH,
        "//@ expect: y = 0..4\n//@ variant: plain\n//@ variant: five\n//@ run: --block 5\n//@ violation: out_of_bounds @ st.global\n//@ variant: odd: [y], => [y+2],\n//@ violation: misaligned @ st.global",
        None,
    ),
    (
        "a_planted_fault_that_is_not_caught",
        LAUNCH,
        "//@ variant: v: [y], t; => [y], 4;\n//@ violation: misaligned @ st.global",
        Some("0 of 2 runs"),
    ),
    (
        "a_form_that_is_not_emulated",
        LAUNCH,
        "//@ replace: mov.u32 => mov.u33\n//@ unsupported: mov.u33\n//@ message: PTX has no such form",
        None,
    ),
    (
        "a_refusal_of_the_test_itself",
        LAUNCH,
        "//@ replace: ], t; => ], what;\n//@ unsupported: what",
        Some("what"),
    ),
    ("an_error", LAUNCH, "//@ variant: v\n//@ run: --block 2000\n//@ error: 2000", None),
    (
        "another_error",
        LAUNCH,
        "//@ variant: v\n//@ run: --block 2000\n//@ error: full moon",
        Some("does not contain `full moon`"),
    ),
    ("too_few_arguments", "", "//@ expect: no violation", Some("k takes 1 arguments, not 0")),
    (
        "several_launches",
        LAUNCH,
        "//@ run: --block 2 --arg buf:y\n//@ schedules: 3\n//@ expect: y = 0..4",
        None,
    ),
];

/// The trials of this module.
pub(crate) fn trials() -> Vec<Trial> {
    let cases = CASES.iter().map(|(name, launch, lines, want)| {
        Trial::test(format!("runner/{name}"), move || {
            let text = format!("{launch}{lines}\n{KERNEL}");
            match (outcome(&text), want) {
                (Ok(()), None) => Ok(()),
                (Ok(()), Some(want)) => Err(Failed::from(format!("it passes, but must say `{want}`"))),
                (Err(what), Some(want)) if what.contains(want) => Ok(()),
                (Err(what), _) => Err(Failed::from(what)),
            }
        })
    });
    let blessing = Trial::test("runner/blessing_rewrites_the_values_and_nothing_else", || {
        let line = |list: &str| format!("//@ expect: y[0] = {list}");
        let text = |list: &str| {
            let stored = "    st.global.u32 [y], t; //@ expect: y[3] =";
            let kernel = KERNEL.replace("    st.global.u32 [y], t;", &format!("{stored} {list}"));
            format!("{LAUNCH}// A test.\n{}\n{kernel}", line("0x0000"))
        };
        let (old, new) = (text("9"), text("3"));
        let tests = header::read(Path::new("t.ptx"), &old).map_err(|problem| problem.to_string())?;
        let got = tests.iter().fold(old, |text, test| bless::blessed(&text, test));
        if got != new {
            return Err(Failed::from(got));
        }
        Ok(outcome(&new)?)
    });
    cases.chain([blessing]).collect()
}

/// The error of the file, or of its first test that fails.
fn outcome(text: &str) -> Result<(), String> {
    let tests = header::read(Path::new("t.ptx"), text).map_err(|problem| problem.to_string())?;
    tests.iter().try_for_each(verdict::check)
}
