//! The same verdict through every door: each file test of the emulator that all doors can run is judged as `emulate` does, through the C
//! interface, and by `exec`. (`crates/python/tests/test_doors.py` does the same through the Python module.)

#![expect(clippy::panic, reason = "a test that panics has failed")]

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::Arc;

use emulator::argument::{self, Content, Shape};
use emulator::trials::{ContractedPrograms, Outcome, Plan};
use emulator::{GlobalMemory, Kernel, Program, Stop, TensorMap, load_only};
use serde_json::Value;
use sm121probe::job::launch::{Buffer, Initial, LaunchError, Module, Session, Step, Value as Argument};

use super::api::{Api, call};
use super::exec_with;
use super::filetests::header::{self, Expected, Test};
use super::filetests::section::Given;

/// The schedules of every test: enough for results that differ to show.
const SCHEDULES: u64 = 3;

/// Environment variable: the numbers of the tests that the program below launches.
const NUMBERS: &str = "DOORS_NUMBERS";

/// The outcome of a launch that leaves undefined bytes in an output. Memory of a device persists, and so this is a violation only where the
/// host reads them.
const UNDEFINED: &str = "undefined result";

/// The verdict of a door: the outcome, and the rules that are violated.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DoorVerdict {
    outcome: &'static str,
    rules: Vec<String>,
}

/// Every file test with one launch, in order; the kernel of test `n` has a name of its own.
fn tests() -> Vec<(String, Test)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/emulator/tests/filetests");
    let mut files = Vec::new();
    find(&root, &mut files);
    files.sort();
    let mut tests = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        let read = header::read(&path, &text).unwrap_or_else(|problem| panic!("{problem}"));
        tests.extend(read.into_iter().map(|test| (format!("{name}/{}", test.name), test)));
    }
    for (n, (_, test)) in tests.iter_mut().enumerate() {
        if let Some(old) = entry(test) {
            let (from, to) = (format!(".entry {old}"), format!(".entry {old}__{n}"));
            test.ptx = test.ptx.replacen(&from, &to, 1);
            test.runs[0].entry = Some(format!("{old}__{n}"));
        }
    }
    tests
}

fn find(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find(&path, out);
        } else if path.extension().is_some_and(|e| e == "ptx") {
            out.push(path);
        }
    }
}

/// The name of the kernel to launch: the one that the test names, or the only one.
fn entry(test: &Test) -> Option<String> {
    let names: Vec<&str> = test.ptx.split(".entry ").skip(1).collect();
    let name = |text: &str| text.split(|c: char| c == '(' || c.is_whitespace()).next().map(str::to_owned);
    match (&test.runs[0].entry, names.as_slice()) {
        (Some(name), _) => Some(name.clone()),
        (None, [only]) => name(only),
        _ => None,
    }
}

/// Why a test is not for all doors; `None` if it is.
fn unfit(test: &Test) -> Option<&'static str> {
    let target = test.ptx.split(".target").nth(1).unwrap_or_default().trim_start();
    let target = target.strip_prefix("sm_").unwrap_or_default();
    let digits: String = target.chars().take_while(char::is_ascii_digit).collect();
    let suffix = target[digits.len()..].chars().next();
    let number: u32 = digits.parse().unwrap_or_default();
    let runs = match suffix {
        Some('a') => number == 121,
        Some('f') => (120..=121).contains(&number),
        _ => number <= 121,
    };
    let (run, checks) = (&test.runs[0], &test.checks);
    [
        (test.runs.len() > 1 || run.programmatic, "a stream of several launches"),
        (run.cooperative, "a cooperative launch, which the C interface lacks"),
        (!checks.initialisation || !checks.races || checks.fences, "other checks than those of every door"),
        (test.contract, "contracted products"),
        (!runs, "a target that the simulated GPU does not run"),
        (run.entry.is_none(), "a kernel that cannot be named"),
        (run.grid.contains(&0), "no CTA, which the C interface takes for one"),
        (
            test.ptx.contains("__cudaCDP2"),
            "kernels that a kernel launches, whose violations carry their own names",
        ),
        // In a program, dynamic shared memory begins where it does on a GPU; elsewhere a schedule may shift it.
        (
            run.shared_bytes > 0 && !matches!(test.expected, Expected::Values(_)),
            "a base of dynamic shared memory",
        ),
        (
            test.ptx.contains(".global .") || test.ptx.contains(".const ."),
            "variables, which the modules share",
        ),
    ]
    .into_iter()
    .find_map(|(unfit, why)| unfit.then_some(why))
}

fn content(content: &Content) -> (Option<Vec<u8>>, &Shape) {
    match content {
        Content::Zeros(shape) => (Some(vec![0; shape.bytes]), shape),
        Content::Iota(shape) => (Some(argument::iota(shape)), shape),
        Content::Random(seed, shape) => (Some(argument::random(*seed, shape)), shape),
        Content::Unwritten(shape) => (None, shape),
        Content::File { .. } => panic!("a test reads no safetensors file"),
    }
}

/// The parameters, with the buffers at these addresses; `None` if they do not fit the kernel.
fn params(test: &Test, kernel: &Kernel, addresses: &[u64]) -> Option<Vec<u8>> {
    let run = &test.runs[0];
    let address =
        |name: &str| test.buffers.iter().position(|(known, _)| known == name).map_or(0, |n| addresses[n]);
    let mut params = vec![0; kernel.param_bytes];
    if run.args.len() != kernel.params.len() {
        return None;
    }
    for (given, param) in run.args.iter().zip(&kernel.params) {
        let bytes = match given {
            Given::Value(bytes) => bytes.clone(),
            Given::Buffer(name) => address(name).to_le_bytes().to_vec(),
            Given::Map(map) => TensorMap { address: address(&map.of), ..map.map }.encode().ok()?.to_vec(),
        };
        params.get_mut(param.offset..param.offset + param.size)?.copy_from_slice(bytes.get(..param.size)?);
    }
    Some(params)
}

fn decoded(test: &Test) -> Result<Program, Stop> {
    load_only(&test.ptx, &[test.runs[0].entry.as_deref().unwrap()])
}

/// The verdict of `emulate`; `None` if the launch cannot be described.
fn by_emulate(test: &Test) -> Option<DoorVerdict> {
    let program = match decoded(test) {
        Ok(program) => program,
        Err(stop) => return Some(verdict_of_stop(&stop)),
    };
    let run = &test.runs[0];
    let name = run.entry.clone().unwrap();
    let kernel = program.kernel(&name)?;
    params(test, kernel, &vec![1 << 36; test.buffers.len()])?;
    let index = |name: &str| test.buffers.iter().position(|(known, _)| known == name).unwrap();
    let args = run.args.iter().map(|given| match given {
        Given::Value(bytes) => Argument::Bytes(bytes.clone()),
        Given::Buffer(name) => Argument::Address { buffer: index(name), offset: 0 },
        Given::Map(map) => Argument::Map { buffer: index(&map.of), offset: 0, map: map.map },
    });
    let step = Step {
        module: 0,
        entry: name,
        grid: run.grid,
        block: run.block,
        cluster: None,
        cooperative: false,
        shared_bytes: run.shared_bytes,
        shift_shared: true,
        args: args.collect(),
    };
    let buffers = test.buffers.iter().map(|(name, given)| {
        let (bytes, shape) = content(given);
        let initial = bytes.map_or(Initial::Unwritten, Initial::Bytes);
        let shape = shape.clone();
        Buffer { name: name.clone(), shape, initial, address: None, unwritten: Vec::new(), scratch: false }
    });
    let module = Module {
        name: "test".to_owned(),
        text: test.ptx.clone(),
        program: Arc::new(program),
        variables: None,
    };
    let mut session = Session {
        modules: vec![module],
        base: GlobalMemory::default(),
        buffers: buffers.collect(),
        variables: Vec::new(),
        steps: vec![step],
        expectations: Vec::new(),
        contracted: ContractedPrograms::default(),
    };
    let plan = Plan { schedules: Some(SCHEDULES), fuel: test.fuel, ..Plan::default() };
    let judged = session.judge(&plan, |launching, memory| Ok::<_, LaunchError>(launching.collect(memory).0));
    let verdict = judged.ok()?.verdict;
    if let Some(stopped) = &verdict.stopped {
        return Some(verdict_of_stop(&stopped.stop));
    }
    let rules = verdict.violations.first().map(|violation| violation.trap.rule.word().to_owned());
    Some(DoorVerdict { outcome: verdict.outcome().word(), rules: rules.into_iter().collect() })
}

fn verdict_of_stop(stop: &Stop) -> DoorVerdict {
    match stop {
        Stop::Trap(trap) if trap.what.contains("remain after the launch") => {
            DoorVerdict { outcome: UNDEFINED, rules: Vec::new() }
        }
        Stop::Trap(trap) => {
            DoorVerdict { outcome: Outcome::Violation.word(), rules: vec![trap.rule.word().to_owned()] }
        }
        _ => DoorVerdict { outcome: "refused", rules: Vec::new() },
    }
}

/// `sm121probe_launch` of the header.
#[repr(C)]
struct Launch {
    kernel: *const c_char,
    dims: [[u32; 3]; 3],
    shared_bytes: u32,
    params: *const c_void,
    param_bytes: usize,
    schedules: u32,
    fuel: u64,
    model: u32,
    contract: u32,
    rules: u32,
    fillings: u32,
    require_equal: u32,
    strict: u32,
    reserved: [u64; 5],
}

/// The verdict through the C interface.
fn by_c(test: &Test) -> DoorVerdict {
    let refused = DoorVerdict { outcome: "refused", rules: Vec::new() };
    // SAFETY: the arguments are as the header requires.
    unsafe {
        let module = c::sm121probe_load(test.ptx.as_ptr().cast(), test.ptx.len(), null_mut());
        if module.is_null() {
            return refused;
        }
        let device = c::sm121probe_device_new();
        let addresses: Vec<u64> = test
            .buffers
            .iter()
            .map(|(_, given)| {
                let (bytes, shape) = content(given);
                let from = bytes.as_ref().map_or(null_mut(), |bytes| bytes.as_ptr().cast_mut().cast());
                c::sm121probe_alloc(device, from, shape.bytes)
            })
            .collect();
        let params = decoded(test)
            .ok()
            .and_then(|program| {
                params(test, program.kernel(test.runs[0].entry.as_deref().unwrap())?, &addresses)
            })
            .unwrap_or_default();
        let run = &test.runs[0];
        let kernel = CString::new(run.entry.clone().unwrap()).unwrap();
        let launch = Launch {
            kernel: kernel.as_ptr(),
            dims: [run.grid, run.block, [0; 3]],
            shared_bytes: run.shared_bytes,
            params: params.as_ptr().cast(),
            param_bytes: params.len(),
            schedules: SCHEDULES as u32,
            fuel: test.fuel,
            model: 0,
            contract: 0,
            rules: 0,
            fillings: 0,
            require_equal: 0,
            strict: 0,
            reserved: [0; 5],
        };
        let mut report = null_mut();
        c::sm121probe_run(device, module, (&raw const launch).cast(), &raw mut report);
        let text = std::ffi::CStr::from_ptr(report).to_str().unwrap().to_owned();
        c::sm121probe_text_free(report);
        c::sm121probe_device_free(device);
        c::sm121probe_module_free(module);
        let report: Value = serde_json::from_str(&text).unwrap();
        let outcome = |word: &Outcome| report["verdict"] == word.word();
        let all = [Outcome::Equal, Outcome::Undetermined, Outcome::Nondeterministic, Outcome::Violation];
        let Some(outcome) = all.into_iter().find(outcome) else { return refused };
        let rule = report["violation"]["rule"].as_str();
        DoorVerdict { outcome: outcome.word(), rules: rule.iter().map(|rule| (*rule).to_owned()).collect() }
    }
}

/// The program that `exec` runs: it launches every test that the environment names.
#[test]
#[ignore = "a program for `exec`"]
fn program_that_launches_the_file_tests() {
    let cuda = Api::open("libcuda.so.1");
    cuda.enter();
    let numbers = std::fs::read_to_string(std::env::var(NUMBERS).unwrap()).unwrap();
    let tests = tests();
    for number in numbers.lines() {
        let (_, test) = &tests[number.parse::<usize>().unwrap()];
        launch(&cuda, test);
    }
}

fn launch(cuda: &Api, test: &Test) {
    let run = &test.runs[0];
    let (text, name) =
        (CString::new(test.ptx.as_str()).unwrap(), CString::new(run.entry.clone().unwrap()).unwrap());
    let (mut module, mut kernel) = (0u64, 0u64);
    if call!(cuda, "cuModuleLoadData", &raw mut module => *mut u64, text.as_ptr().cast() => *const c_void)
        != 0
    {
        return;
    }
    let found = call!(
        cuda, "cuModuleGetFunction", &raw mut kernel => *mut u64, module => u64, name.as_ptr() => *const i8,
    );
    let mut addresses = Vec::new();
    for (_, given) in &test.buffers {
        let ((bytes, shape), mut at) = (content(given), 0u64);
        assert_eq!(call!(cuda, "cuMemAlloc_v2", &raw mut at => *mut u64, shape.bytes => usize), 0);
        if let Some(bytes) = bytes {
            let copied = call!(
                cuda, "cuMemcpyHtoD_v2", at => u64, bytes.as_ptr().cast() => *const c_void, bytes.len() => usize,
            );
            assert_eq!(copied, 0);
        }
        addresses.push(at);
    }
    if found == 0 {
        let program = decoded(test).ok();
        let decoded = program.as_ref().and_then(|program| program.kernel(run.entry.as_deref().unwrap()));
        let mut bytes = decoded.and_then(|kernel| params(test, kernel, &addresses)).unwrap_or_default();
        let offsets =
            decoded.map(|kernel| kernel.params.iter().map(|param| param.offset).collect::<Vec<_>>());
        let base: *mut u8 = bytes.as_mut_ptr();
        let mut pointers: Vec<*mut u8> = offsets.iter().flatten().map(|at| base.wrapping_add(*at)).collect();
        let ([gx, gy, gz], [bx, by, bz]) = (run.grid, run.block);
        if run.shared_bytes > 0 {
            // The maximum dynamic shared memory: beyond 48 KiB, static and dynamic, a program must ask for it.
            let set = call!(
                cuda, "cuFuncSetAttribute", kernel => u64, 8 => c_int, run.shared_bytes as c_int => c_int,
            );
            assert_eq!(set, 0);
        }
        let _: c_int = call!(
            cuda, "cuLaunchKernel", kernel => u64, gx => u32, gy => u32, gz => u32, bx => u32, by => u32, bz => u32,
            run.shared_bytes => u32, 0 => u64, pointers.as_mut_ptr() => *mut *mut u8, null_mut() => *mut c_void,
        );
    }
    addresses.iter().for_each(|at| assert_eq!(call!(cuda, "cuMemFree_v2", *at => u64), 0));
    assert_eq!(call!(cuda, "cuModuleUnload", module => u64), 0);
}

/// Whether a test that may end with several violations may end with one of this rule.
fn is_expected(test: &Test, rule: &str) -> bool {
    match &test.expected {
        Expected::Violation(all) => {
            all.len() > 1 && all.iter().any(|violation| violation.rule.word() == rule)
        }
        _ => false,
    }
}

/// The verdict of `exec` on a kernel, from its report.
fn by_exec(report: &Value, kernel: &str) -> DoorVerdict {
    let of_kernel = |list: &str| -> Vec<&Value> {
        report[list].as_array().into_iter().flatten().filter(|found| found["kernel"] == kernel).collect()
    };
    let rules: Vec<String> =
        of_kernel("violations").iter().map(|v| v["rule"].as_str().unwrap().to_owned()).collect();
    let differs =
        |word: &str| of_kernel("differing").iter().any(|d| d["what"].as_str().unwrap().starts_with(word));
    let outcome = if !rules.is_empty() {
        Outcome::Violation.word()
    } else if report["refused"].get(kernel).is_some() || report["kernels"].get(kernel).is_none() {
        "refused"
    } else if differs("nondeterministic") {
        Outcome::Nondeterministic.word()
    } else if differs("undetermined") {
        Outcome::Undetermined.word()
    } else {
        Outcome::Equal.word()
    };
    DoorVerdict { outcome, rules }
}

#[test]
fn every_door_has_the_same_verdict_on_every_file_test() {
    let tests = tests();
    let mut wanted: BTreeMap<usize, DoorVerdict> = BTreeMap::new();
    let mut left_out: BTreeMap<&str, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (n, (name, test)) in tests.iter().enumerate() {
        let verdict = match unfit(test) {
            Some(why) => Err(why),
            None => by_emulate(test).ok_or("arguments that do not fit"),
        };
        match verdict {
            Ok(verdict) if verdict.rules == ["fuel"] => *left_out.entry("an endless loop").or_default() += 1,
            Ok(verdict) => {
                let there = by_c(test);
                if there != verdict && verdict.outcome != UNDEFINED {
                    wrong.push(format!("{name}: emulate {verdict:?}, C {there:?}"));
                }
                wanted.insert(n, verdict);
            }
            Err(why) => *left_out.entry(why).or_default() += 1,
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let (numbers, file) = (folder.path().join("numbers"), folder.path().join("report.json"));
    let lines: Vec<String> = wanted.keys().map(ToString::to_string).collect();
    std::fs::write(&numbers, lines.join("\n")).unwrap();
    let options = [
        "--keep-going",
        "--schedules",
        &SCHEDULES.to_string(),
        // More than any test needs that ends.
        "--fuel",
        "10000000",
        "--format",
        "json",
        "-o",
        file.to_str().unwrap(),
    ];
    let output = exec_with(&options, "doors::program_that_launches_the_file_tests", &[(NUMBERS, &numbers)]);
    let text = std::fs::read_to_string(&file).unwrap_or_else(|_| panic!("{output:?}"));
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["code"], 0, "{}", String::from_utf8_lossy(&output.stdout));
    for (n, verdict) in &wanted {
        let there = by_exec(&report, tests[*n].1.runs[0].entry.as_deref().unwrap());
        // `exec` lists every race and undefined value of a launch, `emulate` stops at the first violation. Where the schedule decides
        // which of several rules that is, both may be right.
        let same = there.outcome == verdict.outcome
            && (verdict.rules.iter().all(|rule| there.rules.contains(rule))
                || there.rules.iter().all(|rule| is_expected(&tests[*n].1, rule)));
        if !same && verdict.outcome != UNDEFINED {
            wrong.push(format!("{}: emulate {verdict:?}, exec {there:?}", tests[*n].0));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), wanted.len(), wrong.join("\n"));
    assert!(wanted.len() > 500, "{} of {} tests; left out: {left_out:?}", wanted.len(), tests.len());
}
