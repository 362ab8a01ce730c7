//! The other access of a race: a replay finds its instruction, its thread and its line of the source.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use emulator::device::{Argument, Device as _, Failure, Launch};
use emulator::trials::{Plan, Rules, Verdict};
use emulator::{EmulatorDevice, Options, OtherAccess, Programs, Stop, Trap};

use crate::trials::Case;

/// Runs with 64 threads: `%p0` holds in the first warp and `%p1` in the second.
fn body(text: &str) -> String {
    format!("setp.lt.u32 %p0, %r0, 32;\nnot.pred %p1, %p0;\nand.b32 %r7, %r0, 31;\n{text}")
}

fn stopped(verdict: &Verdict) -> &Trap {
    let trap = verdict.stopped.as_ref().and_then(|stopped| match &stopped.stop {
        Stop::Trap(trap) => Some(&**trap),
        _ => None,
    });
    trap.unwrap()
}

/// The instruction, the warp, the lane and the kind of an access.
fn about(other: &OtherAccess) -> (&str, u32, Option<u32>, bool) {
    let place = other.place.as_ref().unwrap();
    (&place.instruction, place.warp, place.lane, other.wrote)
}

#[test]
fn a_race_names_both_instructions() {
    let both = "@%p0 st.global.u32 [%c], %r0;\n@%p1 ld.global.u32 %r1, [%c];\nst.global.u32 [%a], %r1;";
    let shared = "setp.eq.u32 %p2, %r0, 5;\n@%p2 st.shared.u32 [box+8], %r0;\n@%p1 ld.shared.u32 %r1, [box+8];\n\
                  st.global.u32 [%a], %r1;";
    let read_first = "@%p0 ld.global.u32 %r1, [%c];\n@%p1 st.global.u32 [%c], %r0;\nst.global.u32 [%a], %r1;";
    // The first store to the byte is not the one that the read follows.
    let twice = "setp.eq.u32 %p2, %r0, 3;\n@%p2 st.shared.u32 [box], 1;\n@%p2 st.shared.u8 [box+1], 2;\n\
                 @%p1 ld.shared.u32 %r1, [box];\nst.global.u32 [%a], %r1;";
    let copied = "setp.eq.u32 %p2, %r0, 7;\n@%p2 cp.async.ca.shared.global [box], [%c], 4;\ncp.async.wait_all;\n\
                  @%p1 ld.shared.u32 %r1, [box];\nst.global.u32 [%a], %r1;";
    let atomic = "@%p0 red.relaxed.gpu.global.add.u32 [%c], 1;\n@%p1 ld.global.u32 %r1, [%c];\nst.global.u32 [%a], %r1;";
    for (text, earlier, later, lane, wrote) in [
        (both, "@%p0 st.global.u32 [%c], %r0;", "@%p1 ld.global.u32 %r1, [%c];", 31, true),
        (shared, "@%p2 st.shared.u32 [box+8], %r0;", "@%p1 ld.shared.u32 %r1, [box+8];", 5, true),
        (read_first, "@%p0 ld.global.u32 %r1, [%c];", "@%p1 st.global.u32 [%c], %r0;", 0, false),
        (twice, "@%p2 st.shared.u32 [box], 1;", "@%p1 ld.shared.u32 %r1, [box];", 3, true),
        (copied, "@%p2 cp.async.ca.shared.global [box], [%c], 4;", "@%p1 ld.shared.u32 %r1, [box];", 7, true),
        (atomic, "@%p0 red.relaxed.gpu.global.add.u32 [%c], 1;", "@%p1 ld.global.u32 %r1, [%c];", 31, true),
    ] {
        let verdict = Case::new(64, &body(text)).judge(&Plan::default());
        let trap = stopped(&verdict);
        assert_eq!(trap.place.instruction, later, "{trap}");
        assert_eq!(about(trap.other.as_ref().unwrap()), (earlier, 0, Some(lane), wrote), "{trap}");
        assert!(trap.to_string().contains("; the other access: kernel k, PTX line "), "{trap}");
        // Where the results decide, the race is listed with both.
        let plan = Plan { rules: Rules::Values, ..Plan::default() };
        let verdict = Case::new(64, &body(text)).judge(&plan);
        let listed = verdict.races().find(|race| race.trap.place.instruction == later).unwrap();
        assert_eq!(about(listed.trap.other.as_ref().unwrap()).0, earlier);
    }
}

#[test]
fn a_race_of_lanes_names_both_instructions_without_a_replay() {
    let text =
        "st.global.u32 [%c], %r0;\nld.global.u32 %r1, [%c];\nadd.u32 %r1, %r1, 1;\nst.global.u32 [%c], %r1;";
    let mut case = Case::new(32, text);
    let verdict = case.judge(&Plan::default());
    let remark = verdict
        .violations
        .first()
        .map(|found| found.trap.other.clone())
        .or_else(|| verdict.remarks.first().map(|remark| remark.other.clone()));
    let other = remark.flatten().unwrap();
    assert_eq!(about(&other).0, "st.global.u32 [%c], %r0;");
}

#[test]
fn both_lines_of_the_source_are_quoted_where_the_file_is_there() {
    let path = std::env::temp_dir().join(format!("sm121probe-other-{}.cu", std::process::id()));
    std::fs::write(&path, "// a kernel\n  c[0] =  1;\n\n  y[i] = c[0];\n").unwrap();
    let file = format!(".file 1 \"{}\"\n", path.display());
    let text = body(
        ".loc 1 2 3\n@%p0 st.global.u32 [%c], %r0;\n.loc 1 4 3\n@%p1 ld.global.u32 %r1, [%c];\nst.global.u32 [%a], %r1;",
    );
    let verdict = Case::with_functions(64, &file, &text).judge(&Plan::default());
    std::fs::remove_file(&path).unwrap();
    let trap = stopped(&verdict);
    assert_eq!(trap.place.source_text.as_deref(), Some("y[i] = c[0];"));
    let other = trap.other.as_ref().unwrap().place.as_ref().unwrap();
    assert_eq!(other.source_text.as_deref(), Some("c[0] = 1;"));
    let quoted = format!("{}:2 `c[0] = 1;`, CTA (0,0,0), warp 0, lane 31", path.display());
    assert!(trap.to_string().ends_with(&quoted), "{trap}");
    // Without the file, the lines stand alone.
    let verdict = Case::with_functions(64, &file, &text).judge(&Plan::default());
    assert_eq!(stopped(&verdict).place.source_text, None);
}

#[test]
fn a_device_names_both_accesses_of_a_race() {
    let ptx = ".version 8.8\n.target sm_120\n.address_size 64\n.visible .entry k(.param .u64 c) {\n.reg .b32 %r<3>;\n\
               .reg .b64 %c;\nld.param.u64 %c, [c];\nmov.u32 %r0, %ctaid.x;\nld.global.u32 %r1, [%c];\n\
               st.global.u32 [%c], %r0;\nret;\n}";
    let mut device = EmulatorDevice::new(std::sync::Arc::new(Programs::default()), Options::default());
    let buffer = device.allocate(vec![0; 4]).unwrap();
    let module = device.load(ptx).unwrap();
    let launch = Launch {
        module,
        entry: "k".to_owned(),
        grid: [2, 1, 1],
        block: [1, 1, 1],
        shared_bytes: 0,
        arguments: vec![Argument::Address(buffer)],
        programmatic: false,
        cluster: [1; 3],
        cooperative: false,
    };
    let failed = device.run(&[launch]).unwrap_err();
    let Failure::Trap { what, .. } = failed.failure else { panic!("{failed:?}") };
    let (first, other) = what.split_once("; the other access: ").unwrap();
    assert!(first.starts_with("race: ") && first.contains("CTA (1,0,0)"), "{what}");
    assert!(other.contains("CTA (0,0,0), warp 0, lane 0") && other.contains("st.global.u32"), "{what}");
}
