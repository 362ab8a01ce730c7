//! llama.cpp's own `test-backend-ops`: MUL_MAT and MUL_MAT_ID of MXFP4 and NVFP4 on its CUDA backend under `exec`, against its CPU backend.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rayon::prelude::*;
use sm121probe::store::{self, Store};

use super::build::{failed, missing, succeed};
use super::{exec, expect};
use crate::cuda::CUDA_13_0;
use crate::judge::Why;
use crate::packages::{self, LLAMA};

/// The folder of ggml in the sdist.
const GGML: &str = "llama_cpp_python-0.3.36/vendor/llama.cpp/ggml";

/// The sources of ggml and its two backends that these products need, the slowest to compile first. No other operation is linked.
const SOURCES: [&str; 36] = [
    "src/ggml-cuda/template-instances/mmq-instance-mxfp4.cu",
    "../tests/test-backend-ops.cpp",
    "src/ggml-cuda/ggml-cuda.cu",
    "src/ggml-cuda/mmvq.cu",
    "src/ggml-cuda/template-instances/mmq-instance-nvfp4.cu",
    "src/ggml-cuda/mmvf.cu",
    "src/ggml-cuda/quantize.cu",
    "src/ggml-cuda/mmid.cu",
    "src/ggml-cuda/fwht.cu",
    "src/ggml-cuda/getrows.cu",
    "src/ggml-cuda/cpy.cu",
    "src/ggml-cuda/topk-moe.cu",
    "src/ggml-cuda/convert.cu",
    "src/ggml-cuda/unary.cu",
    "src/ggml-cuda/mmf.cu",
    "src/ggml-cpu/ops.cpp",
    "src/ggml-cpu/repack.cpp",
    "src/ggml-cpu/unary-ops.cpp",
    "src/ggml-cpu/binary-ops.cpp",
    "src/ggml-cpu/vec.cpp",
    "src/ggml-cpu/traits.cpp",
    "src/ggml-cpu/ggml-cpu.c",
    "src/ggml-cpu/ggml-cpu.cpp",
    "src/ggml-cpu/quants.c",
    "src/ggml-cpu/tiled/tiled.cpp",
    "src/ggml-cpu/tiled/tiled-kernel.cpp",
    "src/ggml-cpu/arch/x86/quants.c",
    "src/ggml-cpu/arch/x86/repack.cpp",
    "src/ggml.c",
    "src/ggml-alloc.c",
    "src/ggml-backend.cpp",
    "src/ggml-backend-reg.cpp",
    "src/ggml-backend-dl.cpp",
    "src/ggml-backend-meta.cpp",
    "src/ggml-quants.c",
    "src/ggml-threading.cpp",
];

/// The host code of the products, which allocates the buffers of their kernels.
const HOST: &str = "src/ggml-cuda/mmq.cu";

/// The allocations that are too short: `mul_mat_q` reads the columns of a whole tile from the quantized activations and from `ids_dst`,
/// but the allocations end with the last column. The widest tile is 128.
const CORRECTIONS: [(&str, &str); 2] = [
    ("ggml_cuda_mmq_get_J_max(src0->type, fallback, cc, ne11) * sizeof", "128 * sizeof"),
    ("ids_dst(ctx.pool(), ne_get_rows)", "ids_dst(ctx.pool(), ne_get_rows + 128)"),
];

/// Corrected, every test passes without a violation; unchanged, `exec` reports the first read beyond an allocation.
pub(super) fn run(store: &Store) -> Result<(), Why> {
    let [as_it_is, corrected] = programs(store)?;
    for operation in ["MUL_MAT", "MUL_MAT_ID"] {
        for format in ["mxfp4", "nvfp4"] {
            let command = &mut test(&corrected, operation, format);
            let printed = expect(command, true, &["tests passed", "mul_mat_q", "no violation"])?;
            if printed.contains("0/0 tests passed") {
                return Err(failed(format!("no test of {operation} in {format}: {printed}")));
            }
        }
    }
    let violation = ["out_of_bounds", "kernel mul_mat_q", "does not conform"];
    expect(&mut test(&as_it_is, "MUL_MAT", "mxfp4"), false, &violation)?;
    expect(&mut test(&as_it_is, "MUL_MAT_ID", "nvfp4"), false, &violation).map(|_| ())
}

fn test(program: &Path, operation: &str, format: &str) -> Command {
    let mut command = exec("gb10");
    command.arg(program).args(["test", "-b", "CUDA0", "-o", operation, "-p"]);
    command.arg(format!("type_a={format},type_b=f32"));
    command
}

/// The program with the original and with the corrected host code. Objects are cached, so that an interrupted build resumes.
fn programs(store: &Store) -> Result<[PathBuf; 2], Why> {
    let ggml = packages::unpacked(store, "llama", &[&LLAMA]).map_err(missing)?.join(GGML);
    let cuda = CUDA_13_0.unpacked(store).map_err(missing)?;
    let key = CUDA_13_0.packages.iter().chain([&&LLAMA]).map(|package| package.sha256).collect::<String>();
    let key = store::sha256((key + include_str!("backend_ops.rs")).as_bytes());
    let name = format!("test-backend-ops-{}", &key[..16]);
    let folder = packages::folder(store).join("built").join(&name);
    let _lock = store.lock(&format!("upstream-{name}")).map_err(missing)?;
    let of = |program: &str| folder.join(program);
    let made = [of("as-it-is"), of("corrected")];
    if made.iter().all(|program| program.is_file()) {
        return Ok(made);
    }
    fs::create_dir_all(folder.join("include")).map_err(missing)?;
    // CMake generates it from a template.
    fs::write(
        of("include/ggml-version.h"),
        "#pragma once\n#define GGML_VERSION \"0\"\n#define GGML_COMMIT \"0\"\n",
    )
    .map_err(missing)?;
    let host = fs::read_to_string(ggml.join(HOST)).map_err(missing)?;
    let mut changed = host.clone();
    for (short, enough) in CORRECTIONS {
        if !host.contains(short) {
            return Err(failed(format!("{HOST} has no `{short}`")));
        }
        changed = changed.replace(short, enough);
    }
    fs::write(of("corrected.cu"), changed).map_err(missing)?;
    let hosts = [ggml.join(HOST), of("corrected.cu")];
    let sources: Vec<PathBuf> =
        SOURCES.iter().map(|source| ggml.join(source)).chain(hosts.iter().cloned()).collect();
    let nvcc = Nvcc { cuda: &cuda, ggml: &ggml, folder: &folder };
    sources.par_iter().with_max_len(1).try_for_each(|source| nvcc.object(source))?;
    // The wheel has no file with the name that the linker looks for.
    let linked = of("libcudart.so");
    if !linked.exists() {
        std::os::unix::fs::symlink(cuda.join("lib/libcudart.so.13"), linked).map_err(missing)?;
    }
    for (program, host) in made.iter().zip(&hosts) {
        let others = sources.iter().filter(|source| !hosts.contains(source) || *source == host);
        nvcc.link(others, program)?;
    }
    Ok(made)
}

struct Nvcc<'a> {
    cuda: &'a Path,
    ggml: &'a Path,
    folder: &'a Path,
}

impl Nvcc<'_> {
    fn command(&self) -> Command {
        let mut command = Command::new(self.cuda.join("bin/nvcc"));
        command.args(["-w", "-O1", "-cudart", "shared", "-gencode", "arch=compute_121a,code=compute_121a"]);
        command
    }

    /// The path of an object. Two folders of ggml have files of the same name.
    fn place(&self, source: &Path) -> PathBuf {
        let path = source.strip_prefix(self.ggml).unwrap_or(source).to_string_lossy();
        let name = path.rsplit('/').take(3).collect::<Vec<_>>().join("_");
        self.folder.join(format!("{name}.o"))
    }

    fn object(&self, source: &Path) -> Result<(), Why> {
        let object = self.place(source);
        if object.is_file() {
            return Ok(());
        }
        let mut command = self.command();
        match source.extension().is_some_and(|extension| extension == "c") {
            true => command.args(["-Xcompiler", "-std=gnu11"]),
            false => command.args(["-std=c++17", "--expt-relaxed-constexpr", "-extended-lambda"]),
        };
        // As CMake sets them; without virtual memory, which would require linking the driver.
        command.args([
            "-use_fast_math",
            "-lineinfo",
            "-Xcompiler",
            "-mavx2,-mfma,-mf16c",
            "-DGGML_SCHED_MAX_COPIES=4",
            "-DGGML_CUDA_PEER_MAX_BATCH_SIZE=128",
            "-DGGML_CUDA_NO_VMM",
            "-DGGML_USE_CPU",
            "-DGGML_USE_CUDA",
            "-D_GNU_SOURCE",
            "-D_XOPEN_SOURCE=600",
        ]);
        let absent = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstream/host/absent");
        let folders =
            ["include", "src", "src/ggml-cuda", "src/ggml-cpu"].map(|folder| self.ggml.join(folder));
        let own = ["include", "include/cccl"].map(|folder| self.cuda.join(folder));
        for folder in folders.iter().chain(&own).chain([&self.folder.join("include"), &absent]) {
            command.arg("-I").arg(folder);
        }
        let part = object.with_extension("part");
        succeed(command.arg("-c").arg(source).arg("-o").arg(&part))?;
        fs::rename(part, object).map_err(missing)
    }

    fn link<'s>(&self, sources: impl Iterator<Item = &'s PathBuf>, program: &Path) -> Result<(), Why> {
        let part = program.with_extension("part");
        let mut command = self.command();
        for folder in [self.folder, &self.cuda.join("lib")] {
            command.arg("-L").arg(folder);
        }
        // Functions that no test calls may be missing. Only a program at a fixed address may have such gaps.
        command.args(["-Xlinker", "--unresolved-symbols=ignore-all", "-Xlinker", "-no-pie", "-lpthread"]);
        succeed(command.args(sources.map(|source| self.place(source))).arg("-o").arg(&part))?;
        fs::rename(part, program).map_err(missing)
    }
}
