//! `doctor --log`: what servers write leads to the paths that they chose, to red flags and to exit codes; so does bad input.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn log(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/product/doctor_log").join(name)
}

fn doctor(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sm121probe")).arg("doctor").args(args).output().unwrap()
}

/// The exit code, the choices as `path:judgement`, and the names of the flags.
fn read(file: &Path, more: &[&str]) -> (Option<i32>, Vec<String>, Vec<String>) {
    let path = file.display().to_string();
    let out = doctor(&[&["--log", &path, "--json"], more].concat());
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let of = |list: &str, name: &dyn Fn(&serde_json::Value) -> String| {
        json[list].as_array().unwrap().iter().map(name).collect::<Vec<_>>()
    };
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let choices = of("choices", &|c| format!("{}:{}", text(&c["path"]), text(&c["judgement"])));
    (out.status.code(), choices, of("flags", &|flag| text(&flag["name"])))
}

#[test]
fn each_server_leads_to_its_paths_and_flags() {
    for (name, code, choices, flags) in [
        (
            "vllm_gb10_mxfp4_marlin.log",
            100,
            &["attention:fits", "moe:fall_back"][..],
            &["eager_mode", "bf16_fall_back"][..],
        ),
        (
            "vllm_gb10_wrong_paths.log",
            100,
            &["attention:fits", "moe:wrong", "moe:wrong"],
            &["nvfp4_path_for_mxfp4", "kernels_of_other_gpus", "sm100_only", "cute_dsl_sm120a_only"],
        ),
        ("vllm_rtx5090_nvfp4.log", 0, &["moe:fits", "attention:fits"], &[]),
        ("sglang_rtx5090_nvfp4.log", 0, &["moe:fits", "attention:fits"], &[]),
        (
            "sglang_gb10_trtllm.log",
            100,
            &["attention:fits", "moe:wrong"],
            &["kernels_of_other_gpus", "eager_mode", "untuned_moe"],
        ),
        ("llama_gb10_mxfp4.log", 0, &["moe:fits", "attention:fits"], &[]),
        (
            "llama_gb10_old_build.log",
            100,
            &["moe:fall_back", "attention:fits"],
            &["bf16_fall_back", "built_for_older_gpus", "layers_on_cpu"],
        ),
    ] {
        let (got_code, got_choices, mut got_flags) = read(&log(name), &[]);
        got_flags.sort();
        got_flags.dedup();
        let mut flags = flags.to_vec();
        flags.sort_unstable();
        assert_eq!(
            (got_code, got_choices.iter().map(String::as_str).collect::<Vec<_>>()),
            (Some(code), choices.to_vec()),
            "{name}"
        );
        assert_eq!(got_flags, flags, "{name}");
    }
}

#[test]
fn the_gpu_can_be_named_and_the_text_explains() {
    let dir = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(log("vllm_rtx5090_nvfp4.log")).unwrap();
    let without: String =
        text.lines().filter(|l| !l.contains("RTX 5090")).flat_map(|line| [line, "\n"]).collect();
    let file = dir.path().join("x.log");
    fs::write(&file, without).unwrap();
    assert_eq!(read(&file, &[]).0, Some(4));
    assert_eq!(read(&file, &["--gpu", "rtx5090"]).0, Some(0));
    let path = log("vllm_gb10_wrong_paths.log").display().to_string();
    let out = doctor(&["--log", &path]);
    let said = String::from_utf8(out.stdout).unwrap();
    for words in [
        "vLLM 0.30.1",
        "weights MXFP4",
        "(sm_121)",
        "MoE: FLASHINFER_CUTLASS: WRONG",
        "unified memory:",
        ".log:7: cute_dsl_sm120a_only",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn a_server_that_dies_does_not_pass() {
    let dir = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(log("vllm_rtx5090_nvfp4.log")).unwrap();
    let file = dir.path().join("x.log");
    for (more, flag) in [
        ("(EngineCore pid=9) ERROR 11-28 RuntimeError: nobody has seen this one\n", "unknown_error"),
        (
            "Traceback (most recent call last):\nValueError: of no row\nRuntimeError: Engine core initialization failed. See root cause above.\n",
            "unknown_error",
        ),
        ("RuntimeError: x/cutlass_gemm_caller.cuh:61, Error Internal\n", "cutlass_internal_error"),
        // What messages of a kind mean counts in a line with which a program ends, and where nothing else is known.
        ("RuntimeError: No suitable kernel found for the given configuration\n", "no_kernel_found"),
        ("RuntimeError: No suitable kernel found\nRuntimeError: UVA is not available\n", "vllm_without_uva"),
        (
            "RuntimeError: CUDA error: operation not supported\nRuntimeError: No suitable kernel found for it\n",
            "no_kernel_found",
        ),
        (
            "RuntimeError: CUDA error: no kernel image is available for execution on the device\n",
            "no_machine_code",
        ),
    ] {
        fs::write(&file, format!("{text}{more}")).unwrap();
        let (code, _, flags) = read(&file, &[]);
        assert_eq!((code, flags), (Some(100), vec![flag.to_owned()]), "{more}");
    }
    let out = doctor(&["--log", &file.display().to_string()]);
    assert!(String::from_utf8(out.stdout).unwrap().contains("no kernel image"));
    // The cause, not the line that points back to it.
    fs::write(
        &file,
        format!("{text}ValueError: of no row\nRuntimeError: Engine core initialization failed.\n"),
    )
    .unwrap();
    let out = doctor(&["--log", &file.display().to_string()]);
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(said.contains("ValueError: of no row"), "{said}");
    // What is said of kernels that are skipped is no error.
    fs::write(
        &file,
        format!("{text}INFO autotuning kernels for SM100 is skipped\nWARNING no kernel found for x\n"),
    )
    .unwrap();
    assert_eq!(read(&file, &[]).0, Some(0));
}

#[test]
fn bad_input_has_a_clear_answer() {
    let dir = tempfile::tempdir().unwrap();
    let run = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        let out = doctor(&["--log", &path.display().to_string()]);
        (
            out.status.code(),
            String::from_utf8(out.stderr).unwrap().split_whitespace().collect::<Vec<_>>().join(" "),
        )
    };
    for (name, bytes, code, words) in [
        ("empty.log", &b" \n"[..], 2, "empty"),
        ("binary.log", b"a\nb\x00c", 2, "not text"),
        ("other.log", b"GET /index.html 200\nINFO started\n", 4, "nothing was recognised"),
        ("cut.log", b"(APIServer pid=1) INFO vLLM API server version 0.33.0\n", 4, "nothing was recognised"),
    ] {
        let (got, said) = run(name, bytes);
        assert_eq!(got, Some(code), "{name}: {said}");
        assert!(said.contains(words), "{name}: {said}");
    }
    assert_eq!(doctor(&["--log", "/nowhere.log"]).status.code(), Some(2));
    let huge = dir.path().join("huge.log");
    fs::File::create(&huge).unwrap().set_len(1 << 30).unwrap();
    let out = doctor(&["--log", &huge.display().to_string()]);
    assert_eq!(out.status.code(), Some(2));
    // Colours, carriage returns and other servers' bytes do not hide a line.
    let text = fs::read_to_string(log("vllm_gb10_mxfp4_marlin.log")).unwrap();
    let coloured = dir.path().join("coloured.log");
    fs::write(&coloured, text.replace("INFO", "\u{1b}[32mINFO\u{1b}[0m").replace('\n', "\r\n")).unwrap();
    assert_eq!(read(&coloured, &[]).0, Some(100));
}

/// Scripts, tests and other servers end with known messages, too.
#[test]
fn a_log_of_no_known_server_shows_what_is_known_of_its_messages() {
    let folder = tempfile::tempdir().unwrap();
    let said = |name: &str, last: &str| {
        let file = folder.path().join(name);
        fs::write(&file, format!("INFO start\nTraceback (most recent call last):\n{last}\n")).unwrap();
        let out = doctor(&["--log", &file.display().to_string()]);
        (out.status.code(), String::from_utf8(out.stdout).unwrap())
    };
    let known = "RuntimeError: CUDA error: no kernel image is available for execution on the device";
    let (code, text) = said("known.log", known);
    assert!(
        code == Some(100) && text.contains("no_machine_code") && !text.contains("nearest"),
        "{code:?} {text}"
    );
    // One that is not known is not a finding, whatever is near it.
    let (code, text) = said(
        "near.log",
        "RuntimeError: the scheduler of NCCL ring buffers wedges while graphs replay on two nodes",
    );
    assert!(
        code == Some(4) && text.contains("unknown_error") && text.contains("nearest by its words"),
        "{code:?} {text}"
    );
}

#[test]
fn an_absent_gpu_is_described() {
    let out = doctor(&["--gpu", "gb10", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(json["asked"]["architecture"], "sm_121");
    let loads = json["asked"]["loads"].to_string();
    assert!(loads.contains("sm_120f") && loads.contains("sm_121a") && !loads.contains("sm_120a"), "{loads}");
    assert!(json["asked"]["unified_memory"].as_array().unwrap().len() > 2);
    let other = doctor(&["--gpu", "rtx5090", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&other.stdout).unwrap();
    assert!(json["asked"]["unified_memory"].as_array().unwrap().is_empty());
}

#[test]
fn a_warning_with_which_a_log_ends_again_and_again_is_a_hang() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hang.log");
    let start = fs::read_to_string(log("vllm_rtx5090_nvfp4.log")).unwrap();
    let waits = "INFO 01-26 10:05:05 [shm_broadcast.py:501] No available shared memory broadcast block found in 60 seconds.\n";
    // Loading may take long; then the log goes on.
    for (text, code, flags) in [
        (format!("{start}{}", waits.repeat(3)), 100, &["worker_does_not_answer"][..]),
        (format!("{start}{}", waits.repeat(2)), 0, &[]),
        (format!("{}{start}", waits.repeat(5)), 0, &[]),
    ] {
        fs::write(&file, text).unwrap();
        let (exit, _, found) = read(&file, &[]);
        assert_eq!((exit, found), (Some(code), flags.iter().map(|f| (*f).to_owned()).collect::<Vec<_>>()));
    }
}

#[test]
fn what_follows_from_a_cause_and_what_good_logs_have_is_no_flag() {
    let dir = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(log("vllm_rtx5090_nvfp4.log")).unwrap();
    let file = dir.path().join("x.log");
    let flags = |more: &str| {
        fs::write(&file, format!("{text}{more}\n")).unwrap();
        let (code, _, flags) = read(&file, &[]);
        (code, flags.join(" "))
    };
    let built = "ninja: build stopped: subcommand failed.";
    let computed = "ggml_cuda_compute_forward: SCALE failed";
    let image = "CUDA error: no kernel image is available for execution on the device";
    for (more, flag) in [
        (format!("nvcc fatal   : Unsupported gpu architecture 'compute_120a'\n{built}"), "old_ptxas"),
        (format!("{built}\nRuntimeError: Error compiling objects for extension"), "extension_build_failed"),
        (format!("{computed}\n{image}"), "no_machine_code"),
        (computed.to_owned(), "ggml_operation_failed"),
        ("Xid (PCI:0000:01:00): 45, pid=7\nXid (PCI:0000:01:00): 79, GPU has fallen".to_owned(), "driver_xid_79"),
        ("ModuleNotFoundError: No module named 'xformers'".to_owned(), "package_missing"),
        (
            "ptxas x.ptx, line 9; error : Instruction \u{2018}mma with block scale\u{2019} not supported on .target \u{2018}sm_121\u{2019}"
                .to_owned(),
            "ptxas_target_without_suffix",
        ),
        (format!("{computed}\nCUDA error: of no row"), "ggml_operation_failed unknown_error"),
    ] {
        assert_eq!(flags(&more), (Some(100), flag.to_owned()), "{more}");
    }
    for more in [
        "WARNING sageattention is not used: No module named 'sageattention'",
        "[W:onnxruntime:Default] GPU device discovery failed: device_discovery.cc:89 ReadFileContents",
        "Not building FP8 kernels of SM90 as no compatible archs were found.",
        "INFO No available shared memory broadcast block found in 60 seconds.",
        "W1204 18:29:54.725748 Ignoring error getting device memory: Not Supported",
        "NCCL INFO NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or directory",
    ] {
        assert_eq!(flags(more), (Some(0), String::new()), "{more}");
    }
}
