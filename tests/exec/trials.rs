//! Trials of `exec`: results that differ between schedules, and results that PTX leaves open.

use super::api::Api;
use super::{exec, told};

/// `ticket`: each thread stores the number that it draws; `lanes`: all lanes store to one word; `racy`: the first lanes of two warps store to one
/// word of shared memory that nobody reads; `read`: lanes read what others wrote to shared memory without `bar.warp.sync`, for nothing.
const KERNELS: &str = "
.version 8.7
.target sm_120
.address_size 64
.visible .entry ticket(.param .u64 words)
{
    .reg .b64 p, q; .reg .b32 t, n;
    ld.param.u64 p, [words];
    mov.u32 t, %tid.x;
    mad.wide.u32 q, t, 4, p;
    atom.global.add.u32 n, [p], 1;
    st.global.u32 [q+4], n;
    ret;
}
.visible .entry lanes(.param .u64 words)
{
    .reg .b64 p; .reg .b32 t;
    ld.param.u64 p, [words];
    mov.u32 t, %tid.x;
    st.global.u32 [p], t;
    ret;
}
.visible .entry racy(.param .u64 words)
{
    .reg .b64 p; .reg .b32 t, w; .reg .pred first;
    .shared .b32 box;
    ld.param.u64 p, [words];
    mov.u32 t, %tid.x;
    and.b32 w, t, 31;
    setp.eq.u32 first, w, 0;
    @first st.shared.u32 [box], t;
    mad.wide.u32 p, t, 4, p;
    st.global.u32 [p], t;
    ret;
}
.visible .entry read(.param .u64 words)
{
    .reg .b64 p; .reg .b32 t, at; .reg .pred first;
    .shared .b32 boxes[32];
    ld.param.u64 p, [words];
    mov.u32 t, %tid.x;
    mov.u32 at, boxes;
    mad.lo.u32 at, t, 4, at;
    st.shared.u32 [at], t;
    setp.lt.u32 first, t, 31;
    @first ld.shared.u32 at, [at+4];
    mad.wide.u32 p, t, 4, p;
    st.global.u32 [p], t;
    ret;
}";

/// Launches a kernel of `threads` threads on zeros and returns the first words.
fn words(name: &str, threads: u32) -> Vec<u32> {
    let cuda = Api::open("libcuda.so.1");
    let kernel = cuda.kernel(cuda.module(KERNELS), name);
    let at = cuda.allocate(4 * 256);
    assert_eq!(super::api::call!(cuda, "cuMemsetD32_v2", at => u64, 0 => u32, 256 => usize), 0);
    assert_eq!(cuda.launch(kernel, threads, 0, &[(&raw const at).cast()]), 0);
    cuda.words(at, 3)
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_draws_tickets() {
    assert_eq!(words("ticket", 128), [128, 0, 1]);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_whose_lanes_store_to_one_word() {
    assert_eq!(words("lanes", 32)[0], 31);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_races_for_nothing() {
    assert_eq!(words("racy", 64), [0, 1, 2]);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_whose_lanes_read_for_nothing() {
    assert_eq!(words("read", 32), [0, 1, 2]);
}

/// The output of a program of this file, which must end with this code.
fn run(options: &[&str], program: &str, code: i32) -> String {
    let output = exec(options, &format!("trials::{program}"));
    assert_eq!(output.status.code(), Some(code), "{options:?}: {}", told(&output));
    told(&output)
}

#[test]
fn tickets_are_nondeterministic_and_fail_only_where_equality_is_required() {
    let tickets = "program_that_draws_tickets";
    assert!(!run(&[], tickets, 0).contains("nondeterministic"));
    for options in
        [&["--schedules", "6"][..], &["--rules", "values"], &["--rules", "none", "--schedules", "6"]]
    {
        let text = run(options, tickets, 0);
        assert!(
            text.contains("ticket: nondeterministic: buffer `0x") && text.contains("no violation"),
            "{text}"
        );
        let text = run(&[options, &["--require-equal"]].concat(), tickets, 100);
        assert!(text.contains("nondeterministic") && text.contains("does not conform"), "{text}");
    }
}

#[test]
fn lanes_that_store_to_one_word_are_left_open() {
    let lanes = "program_whose_lanes_store_to_one_word";
    let text = run(&[], lanes, 0);
    assert!(text.contains("undetermined by PTX: 1 of 256 elements of 0x"), "{text}");
    assert!(text.contains("31 of the highest lane, 0 of the lowest"), "{text}");
    assert!(run(&["--strict"], lanes, 100).contains("does not conform"));
    assert!(!run(&["--rules", "none"], lanes, 0).contains("undetermined"));
}

#[test]
fn a_race_that_decides_nothing_is_listed_where_results_decide() {
    let racy = "program_that_races_for_nothing";
    let text = run(&[], racy, 100);
    assert!(text.contains("violation: race: warp 1 writes shared address"), "{text}");
    let other = "; the other access: kernel racy, PTX line ";
    assert!(text.contains(other), "{text}");
    let text = run(&["--rules", "values"], racy, 0);
    assert!(text.contains(other), "{text}");
    assert!(text.contains("listed, the results decide: race: warp 1 writes shared address"), "{text}");
    // The library says so while the program runs.
    assert!(text.contains("sm121probe exec: race: warp 1 writes shared address"), "{text}");
    assert!(!run(&["--rules", "none"], racy, 0).contains("race"));
}

#[test]
fn lanes_that_conflict_for_nothing_are_a_remark_of_strict() {
    let lanes = "program_whose_lanes_read_for_nothing";
    assert!(!run(&[], lanes, 0).contains("its warp"));
    let text = run(&["--strict"], lanes, 0);
    assert!(text.contains("lane 0 reads shared address 0x404, which lane 1 of its warp wrote"), "{text}");
}
