//! How a GPU is handled when kernels hang, corrupt their context or write past a buffer, and when launches of every kind run.
//! The driver compiles the kernels, so no toolkit is needed.

use std::time::Duration;

use emulator::device::{Argument, Buffer, Device, Failure, Launch};
use libtest_mimic::{Failed, Trial};
use sm121probe::gpu::{Chain, GpuDevice, Launcher};

use super::tool;

/// Size of the buffer in bytes.
const BYTES: usize = 64;

/// A kernel with these statements and the buffer's address in `p`.
fn ptx(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out)\n{{\n\
         .reg .b64 p;\n.reg .b32 r<4>;\n.reg .pred q;\nld.param.u64 p, [out];\ncvta.to.global.u64 p, p;\n{body}\nret;\n}}\n"
    )
}

fn open(ordinal: &str, seconds: u64) -> Result<GpuDevice, Failure> {
    let limit = Duration::from_secs(seconds);
    let launcher = Launcher { program: tool().to_owned(), ordinal: ordinal.to_owned(), limit };
    GpuDevice::open(launcher, Chain::default())
}

/// Runs a body and returns the buffer.
fn run(gpu: &mut GpuDevice, body: &str, change: impl Fn(Launch) -> Launch) -> Result<Vec<u8>, Failure> {
    let out = gpu.allocate(vec![0; BYTES])?;
    let module = gpu.load(&ptx(body))?;
    let launch = Launch {
        module,
        entry: "k".to_owned(),
        grid: [1; 3],
        block: [1, 1, 1],
        shared_bytes: 0,
        arguments: vec![Argument::Address(Buffer(out.0))],
        programmatic: false,
        cluster: [1; 3],
        cooperative: false,
    };
    gpu.run(&[change(launch)])?;
    gpu.read(out)
}

const STORE: &str = "mov.u32 r0, %nctaid.x;\nst.global.u32 [p], r0;";
const HANG: &str = "L:\nld.volatile.global.u32 r0, [p];\nsetp.eq.u32 q, r0, 0;\n@q bra L;";

/// Runs a kernel that must fail as `expected`; afterwards the device works again.
fn fails(
    name: &str,
    body: &'static str,
    workers: u64,
    expected: impl Fn(&Failure) -> bool + Send + 'static,
) -> Trial {
    Trial::test(format!("gpu.{name}/gpu:0"), move || {
        let mut gpu = open("0", 5).map_err(|f| f.to_string())?;
        let failure = match run(&mut gpu, body, |l| l) {
            Ok(_) => return Err(Failed::from("nothing failed")),
            Err(failure) => failure,
        };
        if !expected(&failure) {
            return Err(format!("{failure:?}").into());
        }
        gpu.reset().map_err(|f| f.to_string())?;
        let stored = run(&mut gpu, STORE, |l| Launch { grid: [3, 1, 1], ..l }).map_err(|f| f.to_string())?;
        if stored[0] == 3 && gpu.workers() == workers {
            return Ok(());
        }
        Err(format!("after it {stored:?}, {} workers", gpu.workers()).into())
    })
}

fn works(name: &str, body: &'static str, change: fn(Launch) -> Launch, first: u8) -> Trial {
    Trial::test(format!("gpu.{name}/gpu:0"), move || {
        let mut gpu = open("0", 60).map_err(|f| f.to_string())?;
        let stored = run(&mut gpu, body, change).map_err(|f| f.to_string())?;
        if stored[0] == first { Ok(()) } else { Err(format!("{stored:?}").into()) }
    })
}

pub(super) fn trials() -> Vec<Trial> {
    let crashed =
        |word: &'static str| move |f: &Failure| matches!(f, Failure::Crashed(w) if w.contains(word));
    vec![
        fails(
            "illegal_address",
            "mov.u64 p, 16;\nst.global.u32 [p], 1;",
            2,
            crashed("CUDA_ERROR_ILLEGAL_ADDRESS"),
        ),
        fails("misaligned_address", "st.global.u32 [p+1], 1;", 2, crashed("CUDA_ERROR_MISALIGNED_ADDRESS")),
        fails("trap", "trap;", 2, |f| matches!(f, Failure::Crashed(w) if w.contains("CUDA_ERROR_"))),
        fails("hang", HANG, 2, |f| matches!(f, Failure::TimedOut(w) if w.contains("5 s"))),
        fails(
            "a_byte_behind_a_buffer",
            "st.global.u8 [p+64], 7;",
            1,
            |f| matches!(f, Failure::Trap { what, .. } if what.contains("0x07") && what.contains("offset 64")),
        ),
        fails(
            "a_byte_before_a_buffer",
            "st.global.u8 [p+-1], 7;",
            1,
            |f| matches!(f, Failure::Trap { what, .. } if what.contains("offset -1")),
        ),
        works(
            "cluster",
            "mov.u32 r0, %cluster_nctaid.x;\nst.global.u32 [p], r0;",
            |l| Launch { grid: [4, 1, 1], cluster: [2, 1, 1], ..l },
            2,
        ),
        works("cooperative", STORE, |l| Launch { grid: [5, 1, 1], cooperative: true, ..l }, 5),
        Trial::test("gpu.cooperative_too_large/gpu:0", || {
            let mut gpu = open("0", 60).map_err(|f| f.to_string())?;
            let large = |l| Launch { grid: [1 << 20, 1, 1], cooperative: true, ..l };
            match run(&mut gpu, STORE, large) {
                Err(Failure::Launch(w)) if w.contains("COOPERATIVE_LAUNCH_TOO_LARGE") => Ok(()),
                other => Err(format!("{other:?}").into()),
            }
        }),
        Trial::test("gpu.out_of_memory/gpu:0", || {
            let mut gpu = open("0", 60).map_err(|f| f.to_string())?;
            match gpu.allocate_unwritten(1 << 44) {
                Err(Failure::Launch(w)) if w.contains("CUDA_ERROR_OUT_OF_MEMORY") => {}
                other => return Err(format!("{other:?}").into()),
            }
            run(&mut gpu, STORE, |l| l).map(|_| ()).map_err(|f| f.to_string().into())
        }),
        Trial::test("gpu.no_such_number/gpu:0", || match open("99", 60) {
            Err(Failure::DeviceLost(w)) if w.contains("there is no gpu:99") => Ok(()),
            Err(other) => Err(format!("{other:?}").into()),
            Ok(_) => Err("it opened".into()),
        }),
    ]
}
