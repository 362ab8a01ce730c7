//! Trials: one verdict on a launch under several schedules, fillings and readings.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::convert::Infallible;

use emulator::trials::{
    Cause, ContractedPrograms, Door, Failure, Launched, Launching, Open, Outcome, Plan, ResultBuffer, Rules,
    Step, Verdict, judge,
};
use emulator::{GlobalMemory, Launch, Rule, load};

/// A kernel with the pointers `c` (one word) and `y` (`threads` words), whose words are zeros.
pub(crate) struct Case {
    program: emulator::Program,
    memory: GlobalMemory,
    addresses: [u64; 2],
    threads: u32,
    /// Launches so far.
    pub(crate) launches: usize,
}

impl Case {
    pub(crate) fn new(threads: u32, body: &str) -> Self {
        Self::with_functions(threads, "", body)
    }

    /// The same, in a module that has these functions.
    pub(crate) fn with_functions(threads: u32, functions: &str, body: &str) -> Self {
        let text = format!(
            ".version 8.8\n.target sm_120\n.address_size 64\n{functions}.visible .entry k(.param .u64 c, .param .u64 y) {{\n\
             .reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .f32 %f<8>;\n.reg .b64 %c, %y, %a;\n.shared .align 4 .b8 box[512];\n\
             ld.param.u64 %c, [c];\nld.param.u64 %y, [y];\nmov.u32 %r0, %tid.x;\nmul.wide.u32 %a, %r0, 4;\nadd.u64 %a, %a, %y;\n\
             {body}\nret;\n}}"
        );
        let mut memory = GlobalMemory::default();
        let addresses =
            [memory.allocate_with(vec![0; 4]), memory.allocate_with(vec![0; 4 * threads as usize])];
        Self { program: load(&text).unwrap(), memory, addresses, threads, launches: 0 }
    }

    pub(crate) fn judge(&mut self, plan: &Plan) -> Verdict {
        let params = self.addresses.iter().flat_map(|at| at.to_le_bytes()).collect();
        let launch = Launch { grid: [1; 3], block: [self.threads, 1, 1], shared_bytes: 0, params };
        let step = Step {
            program: &self.program,
            kernel: "k",
            launch,
            cluster: None,
            cooperative: false,
            shift_shared: true,
        };
        let mut counter = Counter { addresses: self.addresses, threads: self.threads, launches: 0 };
        let mut contracted = ContractedPrograms::default();
        let Ok(verdict) = judge(&mut counter, &[step], &mut self.memory, plan, &mut contracted);
        self.launches = counter.launches;
        verdict
    }

    pub(crate) fn words(&self) -> Vec<u32> {
        let bytes = self.memory.bytes(self.addresses[1]).unwrap();
        bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
    }
}

struct Counter {
    addresses: [u64; 2],
    threads: u32,
    launches: usize,
}

impl Door for Counter {
    type Error = Infallible;

    fn results(&self) -> Vec<ResultBuffer> {
        let [c, y] = self.addresses;
        vec![
            ResultBuffer::untyped("c".to_owned(), c, 4),
            ResultBuffer::untyped("y".to_owned(), y, 4 * self.threads as usize),
        ]
    }

    fn launch(
        &mut self,
        launching: &Launching<'_>,
        memory: &mut GlobalMemory,
    ) -> Result<Launched, Infallible> {
        self.launches += 1;
        Ok(launching.collect(memory).0)
    }
}

const TICKET: &str = "atom.global.add.u32 %r1, [%c], 1;\nst.global.u32 [%a], %r1;";

fn several() -> Plan {
    Plan { schedules: Some(6), ..Plan::default() }
}

#[test]
fn tickets_are_nondeterministic_and_no_race() {
    for rules in Rules::ALL {
        let mut case = Case::new(128, TICKET);
        let plan = Plan { rules, fillings: Some(1), ..several() };
        let verdict = case.judge(&plan);
        assert_eq!(
            (verdict.outcome(), verdict.failure(&plan)),
            (Outcome::Nondeterministic, None),
            "{rules:?}"
        );
        let first = verdict.nondeterministic().unwrap();
        assert_eq!((first.buffer.as_str(), first.index.len()), ("y", 1));
        assert_ne!(first.values[0], first.values[1]);
        // Memory has the results of the first schedule, which runs warps in turn.
        assert_eq!(case.words(), (0..128).collect::<Vec<_>>());
        let plan = Plan { require_equal: true, ..plan };
        let verdict = Case::new(128, TICKET).judge(&plan);
        assert!(matches!(verdict.failure(&plan), Some(Failure::Differs(d)) if d.cause == Cause::Schedule));
    }
}

#[test]
fn a_race_is_a_violation_or_is_decided_by_results() {
    // The first lane of each warp stores to one word, which holds what the last one stored, and the other word what none reads.
    let racy = "and.b32 %r1, %r0, 31;\nsetp.eq.u32 %p0, %r1, 0;\n@%p0 st.shared.u32 [box], %r0;\n";
    let body = format!("{racy}@%p0 st.global.u32 [%c], %r0;");
    let lost = format!("{racy}st.global.u32 [%a], %r0;");
    let race = |verdict: &Verdict| verdict.races().next().is_some();
    let plan = Plan::default();
    let verdict = Case::new(64, &body).judge(&plan);
    assert_eq!(verdict.outcome(), Outcome::Violation);
    assert!(!verdict.finished && verdict.stopped.is_some());
    // Listed instead, it is a violation all the same.
    let plan = Plan { keep_going: true, ..Plan::default() };
    let verdict = Case::new(64, &body).judge(&plan);
    assert!(verdict.finished && race(&verdict) && verdict.outcome() == Outcome::Violation);
    assert!(matches!(verdict.failure(&plan), Some(Failure::Violated(trap)) if trap.rule == Rule::Race));
    let plan = Plan { rules: Rules::Values, schedules: Some(16), ..Plan::default() };
    let verdict = Case::new(64, &body).judge(&plan);
    assert!(race(&verdict) && verdict.difference(Cause::Race).is_some(), "{verdict:?}");
    assert_eq!((verdict.outcome(), verdict.failure(&plan).is_some()), (Outcome::Violation, true));
    let verdict = Case::new(64, &lost).judge(&plan);
    assert!(race(&verdict) && verdict.failure(&plan).is_none() && verdict.outcome() == Outcome::Equal);
    // Nobody looks for it.
    let plan = Plan { rules: Rules::None, ..Plan::default() };
    let mut case = Case::new(64, &body);
    assert_eq!((case.judge(&plan).outcome(), case.launches), (Outcome::Equal, 1));
}

#[test]
fn the_lane_whose_value_remains_is_left_open() {
    for (store, words) in [("st.global.u32 [%y], %r0;", [31, 0]), ("st.global.u32 [%y], 7;", [7, 7])] {
        let mut case = Case::new(32, store);
        let verdict = case.judge(&Plan::default());
        let differs = words[0] != words[1];
        assert_eq!(
            (verdict.violations.len(), case.words()[0], case.launches),
            (0, words[0], 1 + usize::from(differs))
        );
        assert_eq!(verdict.undetermined_stores.len(), usize::from(differs));
        assert_eq!(verdict.outcome(), if differs { Outcome::Undetermined } else { Outcome::Equal });
        let strict = Plan { strict: true, ..Plan::default() };
        assert_eq!(
            (verdict.failure(&Plan::default()).is_some(), verdict.failure(&strict).is_some()),
            (false, differs)
        );
        let open = verdict.undetermined.iter().flatten().next();
        let values = open.map(|u| (u.open, u.chosen.as_str(), u.other.as_str(), u.differing, u.largest));
        assert_eq!(values, differs.then_some((Open::StoreLane, "31", "0", 1, 31.0)));
    }
    // No result depends on it.
    let unread = "st.shared.u32 [box], %r0;";
    let verdict = Case::new(32, unread).judge(&Plan::default());
    assert_eq!((verdict.outcome(), verdict.undetermined_stores.len()), (Outcome::Equal, 1));
    // The store happens in some schedules only: the lanes are compared in one of them.
    let later = "atom.global.add.u32 %r1, [%c], 1;\nsetp.eq.u32 %p0, %r0, 0;\nsetp.ge.u32 %p1, %r0, 32;\nbar.sync 0;\n\
                 @%p1 ret;\nshfl.sync.idx.b32 %r2, %r1, 0, 31, 0xffffffff;\nsetp.eq.u32 %p2, %r2, 0;\nmov.u32 %r3, 5;\n\
                 @!%p2 mov.u32 %r3, %r0;\nst.global.u32 [%y], %r3;";
    let verdict = Case::new(64, later).judge(&Plan { schedules: Some(16), ..Plan::default() });
    assert!(
        verdict.undetermined.iter().flatten().any(|u| (u.chosen.as_str(), u.other.as_str()) == ("31", "0"))
    );
}

#[test]
fn contraction_is_left_open_where_results_decide() {
    let body = "cvt.rn.f32.u32 %f0, %r0;\nadd.rn.f32 %f0, %f0, 0f3DCCCCCD;\nmul.f32 %f1, %f0, %f0;\nadd.f32 %f2, %f1, %f0;\n\
                st.global.f32 [%a], %f2;";
    assert_eq!(Case::new(32, body).judge(&Plan::default()).undetermined, None);
    for plan in [Plan { rules: Rules::Values, ..Plan::default() }, Plan { strict: true, ..Plan::default() }] {
        let verdict = Case::new(32, body).judge(&plan);
        let open = verdict.undetermined.clone().unwrap();
        assert!(open.iter().all(|u| u.open == Open::Contraction && u.buffer == "y" && u.differing > 0));
        assert_eq!((open.len(), verdict.failure(&plan).is_some()), (1, plan.strict));
    }
}

#[test]
fn what_unwritten_memory_holds_is_told_from_the_schedule() {
    let unwritten = "ld.shared.u32 %r2, [box];\n";
    let plan = Plan { rules: Rules::Values, ..several() };
    let both = format!("{unwritten}{TICKET}\nadd.u32 %r1, %r1, %r2;\nst.global.u32 [%a], %r1;");
    let verdict = Case::new(128, &both).judge(&plan);
    assert!(verdict.difference(Cause::Filling).is_some() && verdict.nondeterministic().is_some());
    assert_eq!(verdict.outcome(), Outcome::Violation);
    let verdict = Case::new(128, TICKET).judge(&plan);
    assert!(verdict.difference(Cause::Filling).is_none() && verdict.failure(&plan).is_none());
}

#[test]
fn sums_of_float_atomics_are_equal_within_their_bound() {
    let body = "cvt.rn.f32.u32 %f0, %r0;\nadd.rn.f32 %f0, %f0, 0f3DCCCCCD;\nrcp.approx.f32 %f1, %f0;\n\
                red.global.add.f32 [%c], %f1;";
    let plan = Plan { require_equal: true, ..several() };
    let verdict = Case::new(256, body).judge(&plan);
    assert_eq!((verdict.outcome(), verdict.failure(&plan)), (Outcome::Equal, None));
    assert!(verdict.sums.elements == 1 && verdict.sums.differences > 0 && verdict.sums.worst < 1.0);
}

#[test]
fn a_variable_of_the_module_is_a_result() {
    let text = ".version 8.8\n.target sm_120\n.address_size 64\n.global .u32 last;\n.visible .entry k(.param .u64 c, .param .u64 y) {\n\
                .reg .b32 %r;\nmov.u32 %r, %tid.x;\natom.global.exch.b32 %r, [last], %r;\nret;\n}";
    let mut case = Case::new(128, "");
    case.program = load(text).unwrap();
    let verdict = case.judge(&several());
    assert_eq!(verdict.nondeterministic().map(|d| d.buffer.as_str()), Some("last"));
}
