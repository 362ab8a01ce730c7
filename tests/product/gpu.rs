//! The GPU's worker, without a GPU: how a worker that hangs, dies, gives wrong answers or breaks its device is reported, and that a new one
//! is started. The GPU of the worker is simulated in host memory; only builds with debug assertions contain it.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::sync::Mutex;
use std::time::{Duration, Instant};

use emulator::device::{Argument, Buffer, Device, Failure, Launch, LaunchFailure, Module, Timer};
use sm121probe::gpu::{Chain, GpuDevice, Launcher, Turn};

fn launcher(plan: &str, seconds: f32) -> Launcher {
    Launcher {
        program: env!("CARGO_BIN_EXE_sm121probe").into(),
        ordinal: plan.to_owned(),
        limit: Duration::from_secs_f32(seconds),
    }
}

fn gpu() -> GpuDevice {
    GpuDevice::open(launcher("fake:gpu", 60.0), Chain::default()).unwrap()
}

fn launch(module: Module, entry: &str, buffer: Buffer) -> Launch {
    Launch {
        module,
        entry: entry.to_owned(),
        grid: [1; 3],
        block: [32, 1, 1],
        shared_bytes: 0,
        arguments: vec![Argument::Address(buffer)],
        programmatic: false,
        cluster: [1; 3],
        cooperative: false,
    }
}

/// A device with one buffer of 64 bytes and a module.
fn ready(gpu: &mut GpuDevice) -> (Module, Buffer) {
    let buffer = gpu.allocate((0..64).collect()).unwrap();
    (gpu.load(".version 9.0").unwrap(), buffer)
}

#[test]
fn memory_launches_and_graphs_go_through_the_worker() {
    let mut gpu = gpu();
    let (module, buffer) = ready(&mut gpu);
    assert_eq!(gpu.about().architecture(), "sm_90");
    let step = launch(module, "increment", buffer);
    gpu.run(&[step.clone(), step.clone()]).unwrap();
    assert_eq!(gpu.read(buffer).unwrap()[..3], [2, 1, 2]);
    let graph = gpu.capture(&[step.clone(), step]).unwrap();
    assert_eq!(gpu.read(buffer).unwrap()[0], 2, "a capture runs nothing");
    gpu.replay(graph).unwrap();
    assert_eq!(gpu.read(buffer).unwrap()[0], 4);
    gpu.write(buffer, &[9, 9]).unwrap();
    assert_eq!(gpu.read(buffer).unwrap()[..3], [9, 9, 2]);
    gpu.forget(buffer).unwrap();
    assert_eq!(gpu.read(buffer).unwrap(), [0xFF; 64]);
    let fresh = gpu.allocate_unwritten(7).unwrap();
    assert_eq!(gpu.read(fresh).unwrap(), [0xFF; 7]);
    assert!(matches!(gpu.write(fresh, &[0; 8]), Err(Failure::Launch(what)) if what.contains("7 bytes")));
    assert_eq!(gpu.workers(), 1);
}

#[test]
fn a_large_buffer_comes_back_whole() {
    let mut gpu = gpu();
    let bytes: Vec<u8> = (0..100_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let buffer = gpu.allocate(bytes.clone()).unwrap();
    assert!(gpu.read(buffer).unwrap() == bytes);
}

#[test]
fn a_launch_that_cannot_be_made_costs_nothing() {
    let mut gpu = gpu();
    let (module, buffer) = ready(&mut gpu);
    let good = launch(module, "increment", buffer);
    for (bad, words) in [
        (Launch { entry: "nobody".to_owned(), ..good.clone() }, "no entry `nobody`"),
        (Launch { module: Module(7), ..good.clone() }, "no module 7"),
        (Launch { arguments: Vec::new(), ..good.clone() }, "1 parameters, not 0"),
        (Launch { arguments: vec![Argument::Value(vec![0; 4])], ..good.clone() }, "8 bytes, its argument 4"),
        (Launch { arguments: vec![Argument::Address(Buffer(9))], ..good.clone() }, "no buffer 9"),
    ] {
        let LaunchFailure { launch: n, failure } = gpu.run(&[good.clone(), bad]).unwrap_err();
        assert!(matches!(&failure, Failure::Launch(what) if what.contains(words)), "{failure:?}");
        assert_eq!(n, 1);
    }
    let error = gpu.allocate_unwritten(2 << 30).unwrap_err();
    let Failure::Launch(what) = error else { panic!("{error:?}") };
    assert!(what.contains("CUDA_ERROR_OUT_OF_MEMORY") && what.contains("2147483648 bytes"), "{what}");
    let error = gpu.load("too new").unwrap_err();
    let Failure::Unsupported(what) = error else { panic!("{error:?}") };
    assert!(what.contains("CUDA_ERROR_UNSUPPORTED_PTX_VERSION"), "{what}");
    gpu.run(&[good]).unwrap();
    assert_eq!(gpu.workers(), 1);
}

#[test]
fn a_byte_beside_a_buffer_is_found_with_its_address() {
    let mut gpu = gpu();
    let (module, buffer) = ready(&mut gpu);
    let LaunchFailure { failure, .. } = gpu.run(&[launch(module, "overrun", buffer)]).unwrap_err();
    let Failure::Trap { rule, what } = failure else { panic!("{failure:?}") };
    assert_eq!(rule, "out_of_bounds");
    assert!(
        what.contains("0x00 at address 0x7") && what.contains("offset 64 of a buffer of 64 bytes"),
        "{what}"
    );
    let graph = gpu.capture(&[launch(module, "overrun", buffer)]).unwrap();
    assert!(matches!(gpu.replay(graph), Err(LaunchFailure { failure: Failure::Trap { .. }, .. })));
    gpu.run(&[launch(module, "increment", buffer)]).unwrap();
    assert_eq!(gpu.workers(), 1);
}

/// The kernel ends its worker as `expected` says; later requests fail the same way, and after a reset a new worker serves them.
fn ends(kernel: &str, limit: f32, expected: impl Fn(&Failure) -> bool) {
    let mut gpu = GpuDevice::open(launcher("fake:gpu", limit), Chain::default()).unwrap();
    let (module, buffer) = ready(&mut gpu);
    let began = Instant::now();
    let steps = [launch(module, "increment", buffer), launch(module, kernel, buffer)];
    let LaunchFailure { failure, .. } = gpu.run(&steps).unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(60), "it hung");
    assert!(expected(&failure), "{failure:?}");
    assert_eq!(gpu.read(buffer).unwrap_err(), failure, "the worker is gone");
    gpu.reset().unwrap();
    let (module, buffer) = ready(&mut gpu);
    gpu.run(&[launch(module, "increment", buffer)]).unwrap();
    assert_eq!((gpu.read(buffer).unwrap()[0], gpu.workers()), (1, 2));
}

#[test]
fn a_hung_kernel_times_out() {
    ends("hang", 2.0, |f| matches!(f, Failure::TimedOut(what) if what.contains("2 s")));
}

#[test]
fn a_worker_that_dies_has_crashed() {
    ends("die", 60.0, |f| matches!(f, Failure::Crashed(what) if what.contains("killed by signal 6")));
}

#[test]
fn a_broken_context_has_crashed_with_the_name_of_the_result() {
    ends(
        "illegal_address",
        60.0,
        |f| matches!(f, Failure::Crashed(what) if what.contains("CUDA_ERROR_ILLEGAL_ADDRESS")),
    );
}

#[test]
fn a_gpu_with_an_uncorrectable_error_is_lost() {
    ends(
        "ecc",
        60.0,
        |f| matches!(f, Failure::DeviceLost(what) if what.contains("CUDA_ERROR_ECC_UNCORRECTABLE")),
    );
}

fn refused(plan: &str, limit: f32) -> Failure {
    GpuDevice::open(launcher(plan, limit), Chain::default()).err().unwrap()
}

#[test]
fn a_worker_that_does_not_serve_is_no_device() {
    assert!(matches!(refused("fake:garbage", 60.0), Failure::Broken(what) if what.contains("invalid reply")));
    assert!(matches!(refused("fake:mute", 1.0), Failure::TimedOut(_)));
    let gave_up = refused("fake:exit", 60.0);
    assert!(
        matches!(&gave_up, Failure::Crashed(what) if what.contains("status 1") && what.contains("it gives up")),
        "{gave_up:?}"
    );
    assert!(matches!(refused("no number", 60.0), Failure::Crashed(what) if what.contains("status 2")));
    let none = Launcher { program: "/nonexistent/tool".into(), ..launcher("0", 1.0) };
    assert!(matches!(GpuDevice::open(none, Chain::default()), Err(Failure::Broken(_))));
}

/// Process ids of the workers that this process has started with `plan`.
fn children(plan: &str) -> Vec<i32> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else { continue };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&line).contains(plan) {
            out.push(pid);
        }
    }
    out
}

#[test]
fn a_worker_killed_from_outside_has_crashed() {
    let plan = format!("fake:killed-{}", std::process::id());
    let mut gpu = GpuDevice::open(launcher(&plan, 60.0), Chain::default()).unwrap();
    let (module, buffer) = ready(&mut gpu);
    let pids = children(&plan);
    assert_eq!(pids.len(), 1, "{pids:?}");
    let killer = std::thread::spawn(move || {
        // In the middle of the request, while its kernel sleeps.
        std::thread::sleep(Duration::from_millis(300));
        std::process::Command::new("kill").args(["-9", &pids[0].to_string()]).status().unwrap()
    });
    let LaunchFailure { failure, .. } = gpu.run(&[launch(module, "hang", buffer)]).unwrap_err();
    assert!(killer.join().unwrap().success());
    assert!(matches!(&failure, Failure::Crashed(what) if what.contains("signal 9")), "{failure:?}");
    gpu.reset().unwrap();
    ready(&mut gpu);
    drop(gpu);
    assert!(children(&plan).is_empty(), "a worker outlives its device");
}

#[test]
fn a_gpu_that_cannot_be_opened_hides_no_other() {
    let plans = ["fake:busy:3", "fake:gpu", "fake:exit"];
    let seen: Vec<_> = GpuDevice::each(|n| launcher(plans[n], 60.0)).map(|(n, gpu)| (n, gpu.err())).collect();
    let [(0, Some(busy)), (1, None), (2, Some(Failure::Crashed(_)))] = seen.as_slice() else {
        panic!("{seen:?}")
    };
    assert!(matches!(busy, Failure::DeviceLost(what) if what.contains("exclusive mode")), "{busy:?}");
    // Without a driver, the number is unknown.
    assert_eq!(GpuDevice::each(|_| launcher("fake:busy:0", 60.0)).count(), 1);
}

#[test]
fn replays_by_the_hundred_are_one_question_and_name_the_first_that_differs() {
    let mut gpu = gpu();
    let (module, buffer) = ready(&mut gpu);
    let other = gpu.allocate(vec![7; 8]).unwrap();
    let graph = gpu.capture(&[launch(module, "increment", buffer)]).unwrap();
    // Unwritten before each launch: the first byte is the poison plus one, every time.
    assert_eq!(gpu.replay_often(graph, 100, &[buffer]).unwrap(), None);
    assert_eq!(gpu.read(buffer).unwrap()[..2], [0x00, 0xFF]);
    // Buffers that are not named are neither marked as unwritten nor compared.
    let graph = gpu.capture(&[launch(module, "increment", other)]).unwrap();
    let same = gpu.replay_often(graph, 100, &[buffer]).unwrap();
    assert_eq!((same, gpu.read(other).unwrap()[0]), (None, 107));
    // A kernel that stores 0 three times, then 1.
    let graph = gpu.capture(&[launch(module, "drift", buffer)]).unwrap();
    assert_eq!(gpu.replay_often(graph, 100, &[buffer]).unwrap(), Some(4));
    let graph = gpu.capture(&[launch(module, "overrun", buffer)]).unwrap();
    let error = gpu.replay_often(graph, 3, &[buffer]).unwrap_err();
    assert!(matches!(&error.failure, Failure::Trap { what, .. } if what.contains("guard")), "{error:?}");
}

#[test]
fn random_bytes_are_made_where_the_memory_is() {
    use numerics::random;
    let mut gpu = gpu();
    for len in [0, 5, random::PERIOD + 9, 3 * random::PERIOD - 1] {
        let buffer = gpu.allocate_random(len, 3, 118, 122).unwrap();
        assert!(gpu.read(buffer).unwrap() == random::bytes(3, 118, 122, len), "{len}");
    }
}

#[test]
fn launches_are_timed_behind_another() {
    let mut gpu = gpu();
    let (module, buffer) = ready(&mut gpu);
    let other = gpu.allocate(vec![0; 64]).unwrap();
    let [step, before] = [buffer, other].map(|buffer| launch(module, "increment", buffer));
    let times = gpu.time(&[step.clone(), step], &before, 2, 5).unwrap();
    assert_eq!(times.iter().map(Vec::len).collect::<Vec<_>>(), [5, 5]);
    // Two launches in seven rounds, and a preceding launch for each.
    assert_eq!((gpu.read(buffer).unwrap()[0], gpu.read(other).unwrap()[0]), (14, 14));
    let broken = launch(module, "illegal_address", buffer);
    assert!(matches!(
        gpu.time(&[broken], &before, 0, 1),
        Err(LaunchFailure { launch: 0, failure: Failure::Crashed(_) })
    ));
}

#[test]
fn a_worker_outlives_the_thread_that_asked_first() {
    let mut gpu = std::thread::spawn(gpu).join().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let (_, buffer) = ready(&mut gpu);
    assert_eq!((gpu.read(buffer).unwrap()[3], gpu.workers()), (3, 1));
}

#[test]
fn memory_that_comes_back_is_as_new() {
    let mut gpu = gpu();
    let (module, first) = ready(&mut gpu);
    gpu.run(&[launch(module, "increment", first)]).unwrap();
    gpu.reset().unwrap();
    let again = gpu.allocate_unwritten(64).unwrap();
    assert_eq!(gpu.read(again).unwrap(), [0xFF; 64]);
    let module = gpu.load(".version 9.0").unwrap();
    assert!(matches!(
        gpu.run(&[launch(module, "overrun", again)]),
        Err(LaunchFailure { failure: Failure::Trap { .. }, .. })
    ));
    // Memory that is kept for reuse is freed if a new buffer would not fit beside it.
    gpu.reset().unwrap();
    let large = 700 << 20;
    gpu.allocate_unwritten(large).unwrap();
    gpu.reset().unwrap();
    let other = gpu.allocate_unwritten(large + 1).unwrap();
    assert_eq!(gpu.read(other).unwrap().len(), large + 1);
}

#[test]
fn each_has_the_gpu_from_a_reset_until_it_rests() {
    let (shared, chain) = (Mutex::new(gpu()), Chain::default());
    let rounds = |first: u8| {
        let mut turn = Turn::on_gpu(&shared, "gpu:0", &chain);
        for round in 0..50 {
            turn.reset().unwrap();
            let module = turn.load(".version 9.0").unwrap();
            let buffer = turn.allocate(vec![first; 64]).unwrap();
            assert_eq!(buffer, Buffer(0), "what others made is gone");
            for _ in 0..=round {
                turn.run(&[launch(module, "increment", buffer)]).unwrap();
            }
            assert_eq!(turn.read(buffer).unwrap()[..2], [first + round + 1, first]);
            turn.rest();
            assert!(matches!(turn.read(buffer), Err(Failure::Broken(_))));
            assert!(matches!(turn.allocate(vec![0]), Err(Failure::Broken(_))));
        }
    };
    std::thread::scope(|scope| {
        for first in [0, 100, 200] {
            scope.spawn(move || rounds(first));
        }
    });
    // A worker that one user breaks is replaced for the next.
    let mut one = Turn::on_gpu(&shared, "gpu:0", &chain);
    one.reset().unwrap();
    let (module, buffer) = (one.load(".version 9.0").unwrap(), one.allocate(vec![0; 64]).unwrap());
    let failed = one.run(&[launch(module, "illegal_address", buffer)]);
    assert!(matches!(failed, Err(LaunchFailure { launch: 0, failure: Failure::Crashed(_) })), "{failed:?}");
    one.rest();
    rounds(7);
}
