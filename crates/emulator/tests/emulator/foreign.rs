//! Runs small kernels in the manner of compilers that are not ours, under several schedules that must agree.

#![expect(clippy::panic, reason = "a test that panics has failed")]

use emulator::{
    Executed, GlobalMemory, InStream, Judge, Launch, Observer, Options, Rule, Stop, launch_with, load_only,
};

/// How a kernel is launched on one buffer of zeros, `out`, of 4096 words.
#[derive(Debug, Clone)]
pub(crate) struct How {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) cluster: Option<[u32; 3]>,
    pub(crate) shared_bytes: u32,
    pub(crate) seeds: u64,
    pub(crate) fuel: u64,
    pub(crate) judge: Judge,
}

impl How {
    pub(crate) fn with_sizes(ctas: u32, threads: u32) -> Self {
        Self {
            grid: [ctas, 1, 1],
            block: [threads, 1, 1],
            cluster: None,
            shared_bytes: 0,
            seeds: 8,
            fuel: 2_000_000,
            judge: Judge::Strict,
        }
    }

    pub(crate) fn in_clusters(self, ctas: u32) -> Self {
        Self { cluster: Some([ctas, 1, 1]), ..self }
    }
}

/// What a launch said while it ran.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) printed: Vec<String>,
    pub(crate) remarks: Vec<String>,
    pub(crate) violations: Vec<String>,
}

impl Observer for Said {
    const WATCHES: bool = false;

    fn row(&mut self, _: &Executed<'_>) {}

    fn printed(&mut self, text: &str) {
        self.printed.push(text.to_owned());
    }

    fn violation(&mut self, violation: &emulator::Violation) {
        self.violations.push(format!("{violation:?}"));
    }

    fn remark(&mut self, remark: &emulator::Remark) {
        self.remarks.push(format!("{}; {}; {} times", remark.what, remark.place, remark.times));
    }
}

/// Words of `out`.
const WORDS: usize = 4096;

/// A module for sm_121a with one kernel that takes `out` and has some registers and shared variables.
pub(crate) fn module(directives: &str, body: &str) -> String {
    format!(
        ".version 9.0\n.target sm_121a\n.address_size 64\n.visible .entry k(.param .u64 p_out) {directives}\n{{
.reg .b64 out, a, b, e; .reg .b32 t, c, v, w, x, y, z, r, n, s, u, bar; .reg .pred p, q, one;
.shared .align 128 .b8 tile[1024]; .shared .align 8 .b64 object; .shared .u32 word;
ld.param.u64 out, [p_out]; mov.u32 t, %tid.x; mov.u32 c, %ctaid.x; mov.u32 s, tile; mov.u32 bar, object;
setp.eq.u32 one, t, 0;\n{body}\nret;\n}}\n"
    )
}

/// What `out` holds after the kernel, the same under all schedules; or why it stopped under the first that stops.
pub(crate) fn run(text: &str, how: &How) -> Result<Vec<u32>, Stop> {
    run_and_listen(text, how, &mut Said::default())
}

/// The same, with what all the launches said.
pub(crate) fn run_and_listen(text: &str, how: &How, said: &mut Said) -> Result<Vec<u32>, Stop> {
    let program = load_only(text, &["k"])?;
    let Some(kernel) = program.kernel("k") else { return Err(Stop::Launch("no kernel k".to_owned())) };
    let mut first: Option<Vec<u32>> = None;
    for seed in 0..how.seeds {
        let mut memory = GlobalMemory::default();
        // So that the address is a multiple of 4096 and of no more.
        memory.allocate_with(vec![0; 4096]);
        let out = memory.allocate_with(vec![0; 4 * WORDS]);
        let params = if kernel.param_bytes == 0 { Vec::new() } else { out.to_le_bytes().to_vec() };
        let launch = Launch { grid: how.grid, block: how.block, shared_bytes: how.shared_bytes, params };
        let step = InStream { cluster: how.cluster, ..InStream::new(&program, kernel, &launch) };
        let options =
            Options { seed, fuel: how.fuel, judge: how.judge, check_widths: true, ..Options::default() };
        launch_with(&step, &mut memory, &options, said)?;
        let bytes = memory.bytes(out).unwrap_or_default();
        let words = bytes.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
        let wanted = first.get_or_insert(words);
        let same = bytes.chunks_exact(4).zip(wanted.iter()).all(|(w, x)| w == x.to_le_bytes());
        assert!(same, "seed {seed} gives another result than seed 0\n{text}");
    }
    Ok(first.unwrap_or_default())
}

/// The kernel runs, and `out` begins with these words.
#[track_caller]
pub(crate) fn gives(text: &str, how: &How, wanted: &[u32]) {
    match run(text, how) {
        Ok(words) => assert_eq!(&words[..wanted.len()], wanted, "{text}"),
        Err(stop) => panic!("{stop}\n{text}"),
    }
}

/// The kernel breaks this rule, and the message has these words.
#[track_caller]
pub(crate) fn breaks(text: &str, how: &How, rule: Rule, says: &str) {
    match run(text, how) {
        Err(Stop::Trap(trap)) if trap.rule == rule => {
            assert!(trap.to_string().contains(says), "{trap}\n{text}")
        }
        Err(stop) => panic!("{stop} instead of {rule:?}\n{text}"),
        Ok(words) => panic!("{:?} instead of {rule:?}\n{text}", &words[..8]),
    }
}

/// The launch is refused, or the form is, with these words.
#[track_caller]
pub(crate) fn refused(text: &str, how: &How, says: &str) {
    match run(text, how) {
        Err(stop @ (Stop::Launch(_) | Stop::Unsupported(_))) => {
            assert!(stop.to_string().contains(says), "{stop}\n{text}");
        }
        Err(stop) => panic!("{stop} instead of a refusal\n{text}"),
        Ok(words) => panic!("{:?} instead of a refusal\n{text}", &words[..8]),
    }
}
