//! `audit` of a fabricated Python environment: packages, compilers, backends, bad input and exit codes.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that panics has failed")]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

struct Desk {
    dir: TempDir,
}

const SITE: &str = ".venv/lib/python3.12/site-packages";

impl Desk {
    fn new() -> Self {
        Self { dir: TempDir::new().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Installs a distribution with these files.
    fn package(&self, name: &str, version: &str, files: &[(&str, &[u8])]) {
        let info = format!("{SITE}/{}-{version}.dist-info", name.replace('-', "_"));
        let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
        self.write(&format!("{info}/METADATA"), metadata.as_bytes());
        let record: String = files.iter().map(|(path, _)| format!("{path},sha256=x,1\n")).collect();
        self.write(&format!("{info}/RECORD"), record.as_bytes());
        for (path, bytes) in files {
            self.write(&format!("{SITE}/{path}"), bytes);
        }
    }

    fn run(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_sm121probe"))
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.dir.path())
            .env("SM121PROBE_CACHE", self.path("cache"))
            .env("CUDA_VISIBLE_DEVICES", "")
            .env("RUST_BACKTRACE", "0")
            .current_dir(self.dir.path())
            .arg("audit")
            .args(args)
            .output()
            .unwrap()
    }
}

/// In the syntax of PTX 8.7, except for the operands.
const SCALED: &str =
    "mma.sync.aligned.kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e4m3.e2m1.f32.ue8m0 {a};";

fn ptx(target: &str, kernel: &str) -> Vec<u8> {
    format!(".version 8.8\n.target {target}\n.address_size 64\n.visible .entry {kernel}()\n{{\n{SCALED}\nret;\n}}\n")
        .into_bytes()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// An environment for vLLM on SM12x, as on an owner's machine.
fn environment() -> Desk {
    let desk = Desk::new();
    desk.package(
        "vllm",
        "0.33.0",
        &[
            ("vllm/_moe_C.ptx", &ptx("sm_80", "marlin_moe_wna16")),
            ("vllm/_C.ptx", &ptx("sm_100a", "mxfp4_grouped_mm")),
            ("vllm/third_party/triton_kernels/__init__.py", b""),
        ],
    );
    let ptxas = b"\x7fELF?Cuda compilation tools, release 12.8, V12.8.93\nBuild\0";
    desk.package("triton", "3.5.0", &[("triton/backends/nvidia/bin/ptxas", ptxas)]);
    let source = "flashinfer/data/csrc/fused_moe/cutlass_backend/cutlass_fused_moe_kernels.cuh";
    desk.package("flashinfer-python", "0.7.2", &[(source, b"// source")]);
    let cubin = "flashinfer_cubin/cubins/1/batched_gemm-1/bmm.ptx";
    desk.package("flashinfer-cubin", "0.7.2", &[(cubin, &ptx("sm_100f", "bmm_Bfloat16_MxE2m1Bfloat16_t8"))]);
    desk.package("requests", "2.0", &[("requests/__init__.py", b"import os")]);
    desk
}

/// The table row that begins with `name`, in one line.
fn row(text: &str, section: &str, name: &str) -> String {
    let lines = text.lines().skip_while(|line| !line.starts_with(&format!("## {section}")));
    let row = lines
        .take_while(|l| !l.is_empty() || !l.starts_with("## "))
        .find(|l| l.starts_with(&format!("|{name}")));
    row.unwrap_or_else(|| panic!("no {name} in {section}:\n{text}")).to_owned()
}

#[test]
fn an_owner_learns_which_packages_run_how_and_what_to_do() {
    let desk = environment();
    let output = desk.run(&[".venv", "--for", "sm_121", "--format", "md"]);
    // Markdown escapes a leading underscore.
    let text = stdout(&output).replace("\\_", "_");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let packages = "Packages with device code";
    assert!(row(&text, packages, "vllm 0.33.0").contains("|2|1 run, 1 by JIT|PTX 80 100a|"), "{text}");
    assert!(row(&text, packages, "flashinfer-cubin 0.7.2").contains("|1|none runs|PTX 100f|"), "{text}");
    assert!(!text.contains("requests"), "{text}");

    let compilers = "Packages that compile";
    assert!(
        row(&text, compilers, "triton 3.5.0").contains("|no|its own ptxas: ptxas 12.8.93; SM12x needs 12.9|"),
        "{text}"
    );
    assert!(
        row(&text, compilers, "flashinfer-python 0.7.2").contains("|compiles|nvcc of CUDA 12.9 or later")
    );

    let backends = "MoE backends of vLLM";
    for (name, words) in [
        ("MARLIN", "|works|_moe_C.ptx: 1 of its kernels, such as marlin_moe_wna16: runs by JIT (sm_80)|"),
        ("CUTLASS (FlashInfer)", "|compiles|flashinfer/data/csrc/fused_moe"),
        (
            "CUTLASS_MXFP4 (vLLM)",
            "|no|_C.ptx: 1 of its kernels, such as mxfp4_grouped_mm: has no code for it (sm_100a)|",
        ),
        ("TRITON", "|no|vllm/third_party/triton_kernels/__init__.py; compiled when used, by triton 3.5.0"),
        ("TRTLLM (FlashInfer)", "|no|vLLM uses it only on 10.x; bmm.ptx: 1 of its kernels"),
        ("B12X", "|not installed|b12x is not installed|"),
    ] {
        assert!(row(&text, backends, name).contains(words), "{name}: {words}\n{text}");
    }
    for words in [
        "flashinfer-cubin: none of the kernels runs on sm_121.",
        "nvcc -gencode arch=compute_120f,code=sm_120f; CMAKE_CUDA_ARCHITECTURES=\"120f-real\"; TORCH_CUDA_ARCH_LIST=\"12.1a\"",
        "a driver of CUDA 12.9 or later (as nvidia-smi shows it) accepts their PTX, 8.8",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    // On data-centre Blackwell the same files have other verdicts.
    let text = stdout(&desk.run(&[".venv", "--for", "sm_100", "--format", "md"]));
    assert!(row(&text, packages, "flashinfer-cubin 0.7.2").contains("|1|all run by JIT|"), "{text}");
    assert!(row(&text, backends, "TRTLLM (FlashInfer)").contains("|works|"), "{text}");
}

#[test]
fn packages_that_only_compile_at_run_time_are_described() {
    let release =
        |version: &str| format!("ELF\0Cuda compilation tools, release 1, V{version}\nBuild\0").into_bytes();
    let libs =
        |python: &str, name: &str| format!("nvidia_cutlass_dsl/{python}/cutlass/_mlir/_mlir_libs/{name}");
    let old = libs("python_packages", "_cutlass_ir.cpython-311-x86_64-linux-gnu.so");
    let new =
        |cuda: &str| libs("dsl_packages", &format!("_cutlass_ir.{cuda}.cpython-311-x86_64-linux-gnu.so"));
    let (cu12, cu13) = (new("cu12"), new("cu13"));
    let both = [release("12.9.83"), release("13.4.59")].concat();
    /// A package, its files, and the words of its row.
    type Case<'a> = (&'a str, &'a [(&'a str, &'a [u8])], &'a str);
    let cases: &[Case<'_>] = &[
        (
            "nvidia-cutlass-dsl 4.5.0",
            &[(&old, &release("12.9.83"))],
            "|compiles|the compiler inside its packages nvidia-cutlass-dsl-libs-…: \\_cutlass_ir.cpython-311-x86_64-linux-gnu.so 12.9.83|",
        ),
        (
            "nvidia-cutlass-dsl 4.8.1",
            &[(&cu12, &both), (&cu13, &release("13.4.59"))],
            ".so 12.9.83 and 13.4.59|",
        ),
        (
            "nvidia-cutlass-dsl 4.2.0",
            &[(&old, &release("12.8.93"))],
            "|no|the compiler inside its packages nvidia-cutlass-dsl-libs-…: \\_cutlass_ir.cpython-311-x86_64-linux-gnu.so 12.8.93; SM12x needs 12.9|",
        ),
        (
            "nvidia-cutlass-dsl 4.2.1",
            &[(&cu12, &[release("12.8.93"), release("13.4.59")].concat())],
            "|not known|",
        ),
        (
            "nvidia-cutlass-dsl 4.3.0",
            &[("nvidia_cutlass_dsl/a.py", b"")],
            "|not known|the compiler inside its packages nvidia-cutlass-dsl-libs-…, which is not there|",
        ),
        (
            "triton 3.5.0",
            &[("triton/backends/nvidia/bin/ptxas", &release("12.8.93"))],
            "|no|its own ptxas: ptxas 12.8.93; SM12x needs 12.9|",
        ),
        ("flashinfer-python 0.7.2", &[("flashinfer/a.cu", b"")], "|compiles|nvcc of CUDA 12.9 or later"),
        ("tilelang 0.1.15", &[("tilelang/a.py", b"")], "|compiles|nvcc of CUDA 12.9 or later"),
        (
            "numba-cuda 0.30.4",
            &[("numba_cuda/a.py", b"")],
            "|compiles|the libNVVM and NVRTC of the CUDA in use",
        ),
        ("cupy-cuda13x 14.2.0", &[("cupy/a.py", b"")], "|compiles|the NVRTC of the CUDA in use|"),
        ("deep_gemm 1.0.0", &[("deep_gemm/a.py", b"")], "|no|nvcc of the machine"),
    ];
    for (package, files, words) in cases {
        let desk = Desk::new();
        let (name, version) = package.split_once(' ').unwrap();
        desk.package(name, version, files);
        let output = desk.run(&[".venv", "--for", "sm_121", "--format", "md"]);
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{package}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("No file has device code"), "{package}: {text}");
        let row = row(&text, "Packages that compile", package);
        assert!(row.contains(words), "{package}: {words}\n{row}");
        // Nothing shows that its kernels run.
        assert_eq!(desk.run(&[".venv", "--require", "runs"]).status.code(), Some(100), "{package}");
    }
    // An engine without its libraries: no backend can work, and the table says why.
    let desk = Desk::new();
    desk.package("vllm", "0.33.0", &[("vllm/a.py", b"")]);
    let output = desk.run(&[".venv", "--for", "sm_121", "--format", "md"]);
    assert!(output.status.success());
    assert!(row(&stdout(&output), "MoE backends of vLLM", "MARLIN").contains("|not installed|"));
    let desk = Desk::new();
    desk.package("requests", "2.0", &[("requests/a.py", b"")]);
    assert_eq!(desk.run(&[".venv"]).status.code(), Some(4));
}

/// The texts that the rules quote, by file.
fn quoted() -> Vec<(String, String)> {
    let rules = include_str!("../../src/audit/attention_backends.yaml");
    let quote = |line: &str| {
        let (_, rest) = line.strip_prefix("  - { shows: ")?.split_once("file: ")?;
        let (file, text) = rest.split_once(", text: ")?;
        let text = text.strip_suffix(" }")?;
        Some((file.to_owned(), text.trim_matches(['\'', '"']).to_owned()))
    };
    rules.lines().filter_map(quote).collect()
}

/// An environment with vLLM and FlashInfer whose files have the quoted texts, `without` the one that contains this.
fn attention_environment(without: &str) -> Desk {
    let desk = Desk::new();
    let mut files: Vec<(String, String)> = Vec::new();
    for (file, text) in quoted() {
        let text =
            if !without.is_empty() && text.contains(without) { "other\n".to_owned() } else { text + "\n" };
        match files.iter_mut().find(|(name, _)| *name == file) {
            Some((_, all)) => all.push_str(&text),
            None => files.push((file, text)),
        }
    }
    for (package, version) in [("vllm", "0.33.0"), ("flashinfer-python", "0.7.2")] {
        let folder = format!("{}/", package.split('-').next().unwrap());
        let of: Vec<(&str, &[u8])> = files
            .iter()
            .filter(|(file, _)| file.starts_with(&folder))
            .map(|(file, text)| (file.as_str(), text.as_bytes()))
            .collect();
        assert!(!of.is_empty(), "{package}");
        desk.package(package, version, &of);
    }
    desk.write(&format!("{SITE}/vllm/vllm_flash_attn/_vllm_fa2_C.ptx"), &ptx("sm_80", "flash_fwd_kernel"));
    desk
}

#[test]
fn attention_backends_are_listed_with_the_texts_that_show_their_gates() {
    let desk = attention_environment("");
    let output = desk.run(&[".venv", "--format", "md"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = stdout(&output).replace('\\', "");
    let all = "Attention backends of vLLM";
    for (name, words) in [
        ("vLLM FLASH_ATTN|", "|works|works|takes heads of 8 to 256 by 8; windows, soft cap, without sinks"),
        (
            "vLLM FLASH_ATTN|",
            "_vllm_fa2_C.ptx: 1 of its kernels, such as flash_fwd_kernel: runs by JIT (sm_80)",
        ),
        ("vLLM FLASHINFER|", "|compiles|compiles|"),
        ("vLLM FLASHINFER|", "compiled when used, by flashinfer-python 0.7.2"),
        ("vLLM TRITON_ATTN|", "triton is not installed"),
        ("vLLM B12X|", "|not installed|not installed|"),
        ("vLLM FLASHMLA|", "|no|no|"),
        ("FlashInfer cute-dsl-prims|", "|not installed|no|"),
        ("FlashInfer cute-dsl-prims|", "sm_121: FlashInfer uses it only on exactly 12.0 (gate: "),
    ] {
        assert!(row(&text, all, name).contains(words), "{name}: {words}\n{text}");
    }
    assert!(!text.contains("|SGLang "), "{text}");
    // For a model: the same, or what it lacks.
    let output = desk.run(&[".venv", "--layers-of", "gpt-oss-20b", "--format", "md"]);
    let text = stdout(&output).replace('\\', "");
    assert!(text.contains("gpt-oss-20b: 64 query heads, 8 of keys, 64 elements, sinks; "), "{text}");
    let of_model = "Attention backends for the layers of gpt-oss-20b";
    for (name, words) in [
        ("vLLM FLASH_ATTN|", "|no|no|"),
        ("vLLM FLASH_ATTN|", "gpt-oss-20b has sinks, which it lacks"),
        ("vLLM FLASHINFER|", "with a cache of bf16, fp16, e4m3, e5m2; "),
    ] {
        assert!(row(&text, of_model, name).contains(words), "{name}: {words}\n{text}");
    }
    let terminal = stdout(&desk.run(&[".venv", "--layers-of", "gpt-oss-20b"]));
    assert!(terminal.contains("vLLM FLASHINFER ") && !terminal.contains("TRITON_MLA"), "{terminal}");
    assert!(terminal.contains("backends; --format md shows all"), "{terminal}");
}

#[test]
fn a_rule_whose_text_is_not_installed_answers_nothing() {
    for (without, name) in
        [("[64, 128, 256, 512]", "vLLM FLASHINFER|"), ("DeviceCapability(8, 0)", "vLLM FLASH_ATTN|")]
    {
        let desk = attention_environment(without);
        let text = stdout(&desk.run(&[".venv", "--format", "md"])).replace('\\', "");
        let row = row(&text, "Attention backends of vLLM", name);
        assert!(row.contains("|not known|not known|"), "{row}");
        assert!(row.contains("not in the installed files: ") && row.contains(without), "{row}");
        assert!(row.contains("vllm 0.33.0, the rule was read in 0.33.0"), "{row}");
    }
    // Files that are not there at all.
    let desk = Desk::new();
    desk.package("vllm", "0.20.0", &[("vllm/a.py", b"")]);
    let text =
        stdout(&desk.run(&[".venv", "--layers-of", "llama-3.1-8b", "--format", "md"])).replace('\\', "");
    let row = row(&text, "Attention backends for the layers of llama-3.1-8b", "vLLM FLASH_ATTN|");
    assert!(row.contains("|not known|") && row.contains("vllm 0.20.0, the rule was read in 0.33.0"), "{row}");
}

#[test]
fn a_model_is_answered_without_an_environment_in_every_form() {
    let desk = Desk::new();
    let output = desk.run(&["--layers-of", "qwen3.8-flash-next", "--format", "md"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = stdout(&output).replace('\\', "");
    let section = "Attention backends for the layers of qwen3.8-flash-next";
    assert!(row(&text, section, "SGLang qsa (FlashInfer, paged)|").contains("|by source|no|"), "{text}");
    assert!(row(&text, section, "SGLang qsa (packed, SM121)|").contains("|no|by source|"), "{text}");
    assert!(text.contains("what the sources of the packages say"), "{text}");
    let record = desk.path("audit.json");
    let output = desk.run(&["--layers-of", "gpt-oss-20b", "--format", "json", "-o", "audit.json"]);
    assert!(output.status.success());
    let record = sm121probe::record::Record::read(&record).unwrap();
    assert_eq!(record.audit.models[0].name, "gpt-oss-20b");
    assert!(record.audit.backends.iter().all(|b| b.takes.is_some() && b.layers_of == "gpt-oss-20b"));
    assert!(record.audit.backends.iter().any(|b| b.engine == "SGLang" && b.backend == "triton"));
    for form in ["csv", "sarif", "text"] {
        assert!(desk.run(&["--layers-of", "gpt-oss-20b", "--format", form]).status.success(), "{form}");
    }
    let output = desk.run(&["--layers-of", "gpt-oss-21b"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(error.contains("gpt-oss-21b") && error.contains("deepseek-v4-flash"), "{error}");
}

#[test]
fn exit_codes_say_what_was_found() {
    let desk = environment();
    let code = |args: &[&str]| desk.run(args).status.code();
    assert_eq!(code(&[".venv", "--require", "runs"]), Some(100));
    assert_eq!(code(&[".venv", "--require", "runs", "--kernel", "marlin*"]), Some(0));
    // The driver compiles it: the file contains no machine code.
    assert_eq!(code(&[".venv", "--require", "native", "--kernel", "marlin*"]), Some(100));
    assert_eq!(code(&[".venv", "--kernel", "nobody*"]), Some(4));
    desk.write("empty/readme.txt", b"nothing");
    assert_eq!(code(&["empty"]), Some(4));
    assert_eq!(code(&["absent"]), Some(2));
    assert_eq!(code(&[]), Some(2));
    assert_eq!(code(&[".venv", "--for", "sm_999"]), Some(2));
    // A missing name hides none that exists.
    let output = desk.run(&["absent", ".venv", "--format", "csv"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stdout(&output).contains("marlin_moe_wna16"));
}

#[test]
fn what_cannot_be_read_is_said_and_the_rest_is_answered() {
    let desk = environment();
    // A fatbin that ends where its first entry begins; a package without a RECORD; a folder that links to itself.
    let mut cut = 0xBA55_ED50_u32.to_le_bytes().to_vec();
    cut.extend([1, 0, 16, 0, 0xff, 0, 0, 0, 0, 0, 0, 0]);
    desk.write("more/cut.fatbin", &cut);
    desk.write("more/k.ptx", &ptx("sm_120f", "fine"));
    fs::remove_file(desk.path(&format!("{SITE}/vllm-0.33.0.dist-info/RECORD"))).unwrap();
    std::os::unix::fs::symlink(desk.path("more"), desk.path("more/again")).unwrap();
    let output = desk.run(&["more", ".venv", "--format", "md"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(4), "{text}");
    assert!(text.contains("more/cut.fatbin") && text.contains("vllm-0.33.0.dist-info/RECORD"), "{text}");
    assert!(text.contains("|more/k.ptx|1|all run by JIT|all run by JIT|PTX 120f|"), "{text}");
    assert!(text.contains("|of no package|"), "{text}");
}

#[test]
fn every_form_holds_the_answers_and_the_record_can_be_read() {
    let desk = environment();
    let csv = stdout(&desk.run(&[".venv", "--format", "csv"]));
    assert!(csv.starts_with("path,entry,kind,target,kernel,for,verdict,native,reason\n"), "{csv}");
    let line = format!("{SITE}/vllm/_C.ptx,0,ptx,sm_100a,mxfp4_grouped_mm,sm_121,no_code,unknown,");
    assert!(csv.contains(&line), "{csv}");
    let output = desk.run(&[".venv", "--format", "json", "-o", "audit.json"]);
    assert!(output.status.success());
    let record = sm121probe::record::Record::read(&desk.path("audit.json")).unwrap();
    assert_eq!(record.audit.kernels.len(), 3);
    let sarif = stdout(&desk.run(&[".venv", "--format", "sarif", "--for", "sm_121"]));
    assert!(sarif.contains("\"ruleId\": \"no_code\"") && sarif.contains(&format!("{SITE}/vllm/_C.ptx")));
}

/// Cubins and fatbins of real toolkits.
#[test]
fn real_files_have_their_answers() {
    let desk = Desk::new();
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/devcode/tests/data");
    let csv = stdout(&desk.run(&[data, "--format", "csv"]));
    let verdicts = |file: &str, device: &str| -> Vec<String> {
        let rows = csv.lines().filter(|l| l.starts_with(&format!("{data}/{file},")));
        let of = rows.map(|l| l.split(',').collect::<Vec<_>>()).filter(|cells| cells[5] == device);
        of.map(|cells| format!("{} {}", cells[3], cells[6])).collect()
    };
    for (file, on_120, on_121) in [
        ("sm_121a-13.5.cubin", "sm_121a no_code", "sm_121a native"),
        ("sm_121f-13.5.cubin", "sm_121f no_code", "sm_121f native"),
        ("sm_90a-12.9.cubin", "sm_90a no_code", "sm_90a no_code"),
    ] {
        assert_eq!(verdicts(file, "sm_120").first().map(String::as_str), Some(on_120), "{csv}");
        assert_eq!(verdicts(file, "sm_121").first().map(String::as_str), Some(on_121), "{csv}");
    }
    assert!(!verdicts("zstd.fatbin", "sm_121").is_empty() && !verdicts("lz4.fatbin", "sm_121").is_empty());
    let code = |args: &[&str]| desk.run(args).status.code();
    let cubin = format!("{data}/sm_121a-13.5.cubin");
    assert_eq!(code(&[&cubin, "--for", "sm_121", "--require", "native"]), Some(0));
    assert_eq!(code(&[&cubin, "--for", "sm_120", "--require", "runs"]), Some(100));
    // A kernel without machine code may be one on purpose. An exception that nothing needs is an error, and so are exceptions alone.
    desk.write("mixed/a.cubin", &std::fs::read(&cubin).unwrap());
    desk.write("mixed/stub.ptx", &ptx("sm_121a", "stub"));
    for (names, exit_code, words) in [
        (&["stub"][..], 0, ""),
        (&[], 100, "such as stub"),
        (&["stub", "gamma"], 100, "`gamma` is not needed"),
        (&["stub", "alpha"], 100, "`alpha` is not needed"),
        (&["*"], 100, "every kernel is excepted"),
    ] {
        let exceptions = names.iter().flat_map(|name| ["--except", name]);
        let args: Vec<&str> =
            ["mixed", "--for", "sm_121", "--require", "native"].into_iter().chain(exceptions).collect();
        let output = desk.run(&args);
        assert_eq!(output.status.code(), Some(exit_code), "{names:?}: {output:?}");
        let said = String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(words), "{names:?}: {said}");
    }
    // Files that could not be read never count as running, neither alone nor beside others.
    let bytes = std::fs::read(&cubin).unwrap();
    desk.write("half/b.cubin", &bytes[..900]);
    assert_eq!(code(&["half", "--for", "sm_121"]), Some(4));
    assert_eq!(code(&["half", "--for", "sm_121", "--require", "native"]), Some(100));
    desk.write("half/a.cubin", &bytes);
    assert_eq!(code(&["half", "--for", "sm_121", "--require", "runs"]), Some(100));
}

#[test]
fn kept_kernels_of_jit_compilers_are_audited() {
    let desk = Desk::new();
    desk.write(".triton/cache/abc/k.ptx", &ptx("sm_121a", "kept"));
    let text = stdout(&desk.run(&["--jit-caches", "--format", "md"]));
    assert!(text.contains("|cache of Triton|1|none runs|all run by JIT|PTX 121a|"), "{text}");
}

/// The products of PTX are read from its text: no disassembler runs.
#[test]
fn ptx_that_does_not_do_what_its_name_says_is_told() {
    let desk = Desk::new();
    let plain = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {a};";
    let entry = |name: &str, body: &str| format!(".entry {name}()\n{{\n{body}\nret;\n}}\n");
    let text = [
        ".version 8.8\n.target sm_120a\n".to_owned(),
        entry("moe_gemm_mxfp4", SCALED),
        entry("slow_gemm_mxfp4", plain),
        entry("empty_gemm_mxfp4", "trap;"),
        entry("plain_gemm", plain),
    ];
    desk.write("k.ptx", text.concat().as_bytes());
    let csv = stdout(&desk.run(&["k.ptx", "--for", "sm_120", "--format", "csv", "--opcodes", "none"]));
    let found: Vec<String> =
        csv.lines().skip(1).map(|l| l.split(',').skip(4).take(4).collect::<Vec<_>>().join(" ")).collect();
    let want = [
        "moe_gemm_mxfp4 sm_120 jit native",
        "slow_gemm_mxfp4 sm_120 fallback emulated",
        "empty_gemm_mxfp4 sm_120 stub none",
        "plain_gemm sm_120 jit unknown",
    ];
    assert_eq!(found, want, "{csv}");
    assert!(csv.contains("its PTX multiplies with mma: no `.block_scale`; the driver compiles it"), "{csv}");
}

#[test]
fn a_package_version_with_a_known_problem_is_named() {
    let desk = Desk::new();
    desk.package("nvidia-cutlass-dsl", "4.5.0", &[]);
    let out = desk.run(&[".venv"]);
    let said = stdout(&out) + &String::from_utf8_lossy(&out.stderr);
    let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("nvidia-cutlass-dsl 4.5.0: Block-scaled mma"), "{said}");
    assert!(flat.contains("NVIDIA/cutlass#3227"), "{said}");
    assert_eq!(out.status.code(), Some(0), "{said}");
    let json = stdout(&desk.run(&[".venv", "--format", "json"]));
    assert!(json.contains("known_bad") && json.contains("4.5.1 or later"), "{json}");
    // On a GPU that is not affected there is nothing to say.
    assert!(!stdout(&desk.run(&[".venv", "--for", "sm_90", "--format", "json"])).contains("known_bad"));
}
