//! What the table of rules says of messages: each of its kinds of message has a row here, and ordinary lines have none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::rules::{Weight, table};
use super::{Flag, general_messages, known_messages};

/// What `explain` says of a message.
fn explanations(message: &str) -> Vec<Flag> {
    let known = known_messages(message).unwrap();
    if known.is_empty() { general_messages(message).unwrap() } else { known }
}

/// Messages, and words of what is said of them.
const REMEDIES: &[(&str, &str)] = &[
    (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.48 GiB. GPU 0 has a total capacity of 95.59 GiB of which 50.40 GiB is free. \
         Including non-PyTorch memory, this process has 17179869184.00 GiB memory in use.",
        "a later Windows driver",
    ),
    ("cache_kernels.cu:866, pe_dim must be 64 for fp8_ds_mla", "53969"),
    (
        "\"undefined symbol\" error here usually means you are attempting to load a prebuilt extension wheel that was compiled against a different \
         version of PyTorch than the one you are you using.",
        "exllama",
    ),
    ("BatchPrefillWithPagedKVCache failed with error invalid resource handle", "TRITON_ATTN"),
    ("AttributeError: 'NoneType' object has no attribute '_trait'", "flash-attn-4"),
    (
        "gsplat/cuda/csrc/Utils.cpp:39:39: error: too many arguments to function 'cudaError_t cudaEventCreate(CUevent_st**)'",
        "cudaEventCreateWithFlags",
    ),
    ("i915 0000:00:02.0: [drm] *ERROR* GT0: timed out waiting for forcewake ack to clear", "Xid"),
    ("ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'", "TRITON_PTXAS_PATH"),
    (
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "sm121probe audit",
    ),
    ("'sm_120' is not a recognized processor for this target (ignoring processor)", "later Triton"),
    (
        "NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch installation.",
        "CUDA 12.8 or later",
    ),
    ("nvcc fatal : Unsupported gpu architecture 'compute_120a'", "CMAKE_CUDA_COMPILER"),
    ("No supported CUDA architectures found for major versions [12].", "CUDA_HOME"),
    (
        "OutOfResources: out of resource: shared memory, Required: 106496, Hardware limit: 101376.",
        "smaller tiles",
    ),
    ("CUDA error: the provided PTX was compiled with an unsupported toolchain.", "Update the driver"),
    (
        "ERROR : Arch conditional MMA instruction used without targeting appropriate compute capability. Aborting.",
        "compute_120f",
    ),
    (
        "Error in function 'TllmGenFmhaRunner' at fmhaRunner.cuh:30: Unsupported architecture",
        "another backend",
    ),
    ("AssertionError: Only SM 10.x and 11.x are supported", "another backend"),
    (
        "OpError: expects arch to be one of [Arch.sm_100a, Arch.sm_100f], but got Arch.sm_121a",
        "another backend",
    ),
    ("OpError: expects arch to be one of ['sm_120a'], but got Arch.sm_121a", "is_family_of"),
    ("This kernel only supports sm120.", "lint --gates"),
    ("Assertion error (/deepgemm/csrc/apis/hyperconnection.hpp:56): Unsupported architecture", "DeepGEMM"),
    ("Assertion error (/x/csrc/utils/layout.hpp:76): Unknown recipe", "DeepGEMM"),
    ("Assertion failed: The attention sinks is only supported on SM90", "another backend"),
    (
        "No compiled get_cutlass_moe_mm_data: no cutlass_scaled_mm kernel for CUDA device capability: 120",
        "12.0f",
    ),
    ("ImportError: _C.abi3.so: undefined symbol: _Z20cutlass_moe_mm_sm100RN2at6TensorE", "10.0a"),
    ("[FP4 gemm Runner] Failed to run cutlass FP4 gemm on sm120. Error: Error Internal", "update FlashInfer"),
    ("BackendSupportedError: gemm_fp8 does not support backend 'trtllm' with capability 120", "cutlass"),
    ("NotImplementedError: No NvFp4 MoE backend supports the deployment configuration.", "Update vLLM"),
    ("cutlass_gemm_caller, x/cutlass_gemm_caller.cuh:61, Error Internal", "lint --gates"),
    ("requires device with capability <= (9, 0) but your GPU has capability (12, 0) (too new)", "0.0.33"),
    ("status != CUBLAS_STATUS_NOT_SUPPORTED. Unable to find suitable cuBLAS GEMM algorithm", "per tensor"),
    ("MXFP8 (for all gemm layouts) is not supported on 12.0+ architectures yet.", "DelayedScaling"),
    ("x/row_cast_col_hadamard_transform_cast_fusion.cu:1200: invalid argument", "disable_rht"),
    ("cudnnGraphNotSupportedError: No execution plans support the graph.", "Update cuDNN"),
    ("FP4 Gemm not supported before Blackwell, nor GeForce Blackwell", "0.20"),
    ("Attention sinks are only supported for TRTLLM backend", "audit --layers-of"),
    ("None of the CUDA architectures in `TORCH_CUDA_ARCH_LIST` env variable (12.0) is supported", "12.0"),
    ("Configured CUDA binary not found at /x/libbitsandbytes_cuda129.so", "bitsandbytes"),
    ("cuda driver library init failure: 3", "nvidia_uvm"),
    ("msg=\"inference compute\" id=cpu library=cpu compute=\"\"", "Update ollama"),
    ("CUDA error: invalid argument, in function ggml_cuda_mul_mat_q at /src/mmq.cu:145", "driver"),
    ("Assertion `false && \"computeCapability not supported\"' failed.", "later Triton"),
    ("Minimum and Maximum cuda capability supported by this version of PyTorch is (8.0) - (12.0)", "Nothing"),
    ("static assertion failed with \"Could not build a collective for given parameters.\"", "1x1x1"),
    ("pynvml.NVMLError_NotSupported: Not Supported", "mem_get_info"),
    ("unhandled cuda error, NCCL version 2.25.1", "nvidia-nccl"),
    ("[209] Call to cuLinkAddData results in CUDA_ERROR_NO_BINARY_FOR_GPU", "nvJitLink"),
    ("/x/cpy.cu:400: ggml_cuda_cpy: unsupported type combination (q4_K to f32)", "OLLAMA_KV_CACHE_TYPE"),
    ("RuntimeError: CUDA call failed: CUDA_ERROR_INVALID_VALUE (invalid argument)", "modular/modular#5859"),
    ("RuntimeError: Invalid thread config: thread_m_blocks = 1, thread_k = -1", "--tensor-parallel-size"),
    ("RuntimeError: FlashInfer requires GPUs with sm75 or higher", "CUDA 12.9"),
    ("FA3 is only supported on devices with compute capability >= 8", "FlashAttention 2"),
    ("ptxas error: Instruction 'wgmma.fence' not supported on .target 'sm_120'", "TORCH_CUDA_ARCH_LIST"),
    (
        "out of resource: triton_per_fused Required: 131072 Hardware limit:101376 Reducing block sizes",
        "num_stages",
    ),
    ("FATAL: kernel `fmha_cutlassF_f32` is for sm80-sm100, but was built for sm121", "sdpa_kernel"),
    ("FlashInfer kernels unavailable for ModelOptNvFp4FusedMoE on current platform.", "--moe-backend"),
    ("Failed to launch the CUTLASS kernel. Last CUDA error is: no error", "fa2"),
    ("RuntimeError: FlashAttention only supports Ampere GPUs or newer.", "SDPA"),
    ("ValueError: attention_config.use_fp4_indexer_cache requires Blackwell", "fp8"),
    ("attention sinks not supported", "TRITON_ATTN"),
    ("NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051)", "page cache"),
    ("ModuleNotFoundError: No module named 'triton_kernels.tensor'", "triton_kernels that vLLM brings"),
    ("tvm.error.InternalError: Check failed: (false) is false: Invalid activation type.", "relu2"),
    ("CUDA Exception: Illegal barrier arrive operation", "mbarrier"),
    ("Value 'compute_120' is not defined for option 'gpu-architecture'", "CUDA_HOME"),
    ("C:\\x\\ggml-cuda\\template-instances\\../mmq.cuh:4135: fatal error", "driver"),
    ("RuntimeError: Got cutlass error: Error Internal at: 146", "fewer stages"),
    (
        "x/jit/handle.hpp:141): 200 (CUDA_ERROR_INVALID_IMAGE, device kernel image is invalid)",
        "VLLM_USE_DEEP_GEMM=0",
    ),
    ("Sparse Attention Forward Kernel is only supported on SM90a and SM100f", "43477"),
    ("RuntimeError: cuBLAS failed with status CUBLAS_STATUS_NOT_SUPPORTED", "float16"),
    ("The installed version of bitsandbytes was compiled without GPU support.", "0.45.3"),
    (
        "Custom allreduce is disabled because it's not supported on more than two PCIe-only GPUs.",
        "NCCL_P2P_DISABLE",
    ),
    ("x/jit/compiler.hpp:147): runtime != nullptr", "CCCL"),
    ("Failed to open: deep_gemm/impls/sm121_fp8_mqa_logits.cuh", "another image"),
    ("ImportError: libnvrtc.so.12: cannot open shared object file", "cu130"),
    ("smVerHex2Dig: Assertion major >= 0 && major < 10 failed.", "10.8 or later"),
    ("nvrtc: error: invalid value for --gpu-architecture (-arch)", "Update the CUDA toolkit"),
    ("NCCL WARN Cuda failure 500 'named symbol not found'", "PyTorch 2.7"),
    ("ncclMaxSharedMem 82240 exceeds device/fn maxSharedMem 79856", "Update NCCL"),
    ("ncclCommInitAll(info.comms, info.device_count, dev_ids)", "without NCCL"),
    ("LLVM ERROR: Cannot select: intrinsic %llvm.nvvm.tcgen05.wait.st", "another kernel"),
    ("TensorFlow was not built with CUDA kernel binaries compatible with compute capability 12.0.", "NGC"),
    ("NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.", "Reboot"),
    ("NVRM: GSP-FMC reported an error while attempting to boot GSP", "PCIe"),
    ("NVRM: unexpected WPR2 already up, cannot proceed with booting GSP", "Reset the GPU"),
    ("nvcc fatal   : Unsupported gpu architecture 'compute_70'", "out of the list"),
    ("Failed: Cuda error custom_all_reduce.cuh:455 'invalid argument'", "--disable-custom-all-reduce"),
    ("Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)", "libnccl2"),
    ("CUDA error: shared object initialization failed", "--no-mmap"),
    ("Please use \"fp4\" quantization for Blackwell GPUs", "svdq-fp4"),
    (
        "ptxas x.ptx, line 5; fatal   : Unsupported .version 8.7; current version is '8.4'",
        "TRITON_PTXAS_PATH",
    ),
    ("LLVM ERROR: Cannot select: intrinsic %llvm.nvvm.shfl.sync.bfly.i32", "later Triton"),
    ("UserWarning: Found GPU0 NVIDIA GB10 which is of cuda capability 12.1.", "Nothing"),
    (
        "Found GPU0 X which is of compute capability (CC) 12.0. The following list shows the CCs this version",
        "sm121probe audit",
    ),
    (
        "CUDA error (_deps/repo-flash-attention-src/hopper/flash_fwd_launch_template.h:166): no kernel image",
        "backend flashinfer",
    ),
    ("Failed to get driver entry point 'cuDeviceGetUuid' (CUDA error 1)", "Update Warp"),
    ("LLVM ERROR: PTX version 8.5 does not support target 'sm_120'.", "built for sm_120"),
    ("CUDA error cudaErrorInvalidPtx:a PTX JIT compilation failed", "29711"),
    ("error getting memory info for device 0: Not Supported", "0.17.4"),
    ("vmmCreate failed: cuMemCreate: CUDA_ERROR_INVALID_DEVICE", "fault is in MAX"),
    ("ValueError: Unknown CUDA arch (10.1) or GPU not supported", "without 10.1"),
    ("NVRM: Xid (PCI:0000:c2:00): 8, pid=1, name=llama-server", "GGML_CUDA_DISABLE_GRAPHS"),
    ("error: Pipeline failed while executing [`TritonGPUAccelerateMatmul` on 'builtin.module']", "3.6.0"),
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "drop the page cache"),
    ("torch.AcceleratorError: CUDA error: an illegal memory access was encountered", "compute-sanitizer"),
    ("CUDA_ERROR_MISALIGNED_ADDRESS (716) at first sync batch", "compute-sanitizer"),
    ("CUDA error: an illegal instruction was encountered", "autotuner"),
    ("ImportError: _C.abi3.so: undefined symbol: _ZN3c1013MessageLoggerC1EPKciib", "--no-build-isolation"),
    ("libcuda.so.1: undefined symbol: cuCtxCreate_v4", "LD_LIBRARY_PATH"),
    (
        "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory",
        "nvidia-cuda-runtime-cu12",
    ),
    ("No module named 'sgl_kernel.infllm_ops'", "pyproject.toml"),
    ("ImportError: cannot import name 'LMCacheEngineMetadata' from 'lmcache.config'", "pip check"),
    ("ModuleNotFoundError: No module named 'xformers'", "SDPA"),
    ("ERROR: No matching distribution found for decord==0.6.0", "uname -m"),
    (
        "WARNING: image platform (linux/amd64) does not match the expected platform (linux/arm64)",
        "docker manifest",
    ),
    (
        "ImportError: libtorch_cuda.so: cannot open shared object file: No such file or directory",
        "cu130 index of PyTorch",
    ),
    ("Selected backend AttentionBackendEnum.FLASHINFER is not valid for this configuration.", "TRITON_ATTN"),
    ("error: csrc/x.cuh: No such file or directory", "Dockerfile"),
    ("Waiting for creating a placement group of specs for 10 seconds.", "ray status"),
    ("RuntimeError: [SymmDeviceMemory] Device does not support multicasting.", "fuse_allreduce_rms"),
    ("AllReduce fusion pass is disabled: no multicast support", "it is a warning"),
    ("Kernel: cudnn_generated_fort_native_sm120_matMul_knob_3", "9.23.1"),
    ("DeepGEMM only supports Hopper (SM90) architectures, but current device is 120.", "block FP8"),
    ("Assertion error (kernel_runtime.hpp:45): exit_code == 0", "Turn DeepGEMM off"),
    ("DeepGEMM backend is not available or outdated.", "52035"),
    ("fatal error: curand_kernel.h: No such file or directory", "libcurand-dev"),
    ("identifier \"__nv_fp8_e8m0\" is undefined", "12.9 for GB10"),
    ("cuda_utils.c:14: error: include file 'Python.h' not found", "python3-dev"),
    ("RuntimeError: Failed to find C compiler. Please specify via CC", "build-essential"),
    (
        "Command '['D:\\\\python_embeded\\\\triton\\\\runtime\\\\tcc\\\\tcc.exe', 'cuda_utils.c'",
        "python_embeded",
    ),
    ("Worker failed with error 'Could not find nvcc'", "CUDA_HOME"),
    ("Killed", "MAX_JOBS"),
    ("ninja: build stopped: subcommand failed.", "doctor --log"),
    ("forward compatibility was attempted on non supported HW", "compat"),
    ("CUDA driver version is insufficient for CUDA runtime version", "580"),
    ("ImportError: libcuda.so.1: cannot open shared object file", "--gpus all"),
    (
        "WARNING: Detected NVIDIA GB10 GPU, which is not yet supported in this version of the container",
        "later tag",
    ),
    ("docker: Error response from daemon: unknown or invalid runtime name: nvidia", "nvidia-ctk"),
    ("Failed to initialize NVML: Unknown Error", "Restart the container"),
    ("TRTLLMGenFusedMoE does not support SM120 and above.", "backend: CUTLASS"),
    ("in get_shuffle_matrix_sf_a_row_indices", "triton_kernel"),
    ("FP8 FMHA cannot be enabled except on Ada or Hopper or Blackwell Arch.", "0.20.0"),
    ("FMHA Kernel doesn't exist for mFixedParams:", "17911"),
    ("Could not find valid config when calculating workspace size", "5823"),
    ("Unexpected instruction types specified for '_mma'", "nvidia-cutlass-dsl-libs-cu13"),
    ("No supported CUDA architectures found for major versions [9, 10].", "all-reduce fusion"),
    ("Feature '.tile::scatter4' not supported on .target 'sm_121a'", "29339"),
    ("AssertionError: Unsupported compute capability. Supported: 9.x, 10.x, 11.x", "later flash-attn-4"),
    ("ValueError: --kv-cache-dtype nvfp4 requires sm100f", "fp8_e4m3"),
    ("Check failed: num_tokens > 64 (5 vs. 64)", "33986"),
    ("flashinfer top_k_page_table_transform failed: cudaErrorNotSupported", "--dsa-topk-backend"),
    ("top-K kernel launch failed: cudaErrorInvalidValue", "47164"),
    ("No implemented fp8_blockwise_scaled_grouped_mm for current compute capability: 120", "9403"),
    ("Int8 not supported on SM120. Use FP8 quantization instead.", "W4A16"),
    ("'NoneType' object has no attribute 'num_bits'", "ModelOpt"),
    ("FP4 cvt PTX instructions are architecture-specific.", "NVTE_CUDA_ARCHS"),
    ("Unsupported target for gemm: cuda -keys=cuda,gpu -arch=sm_120", "later TileLang"),
    (
        "Attempting to use SM89_16x8x32_F32E4M3E4M3F32_TN without CUTE_ARCH_MMA_F16_SM89_ENABLED",
        "NVCC_APPEND_FLAGS",
    ),
    ("Not building NVFP4 as no compatible archs were found.", "38126"),
    ("Could not match a profile in manifest", "list-model-profiles"),
    ("Your current GPU is not compatible with NIM functionality.", "later installer"),
    ("Not enough memory. Please try to increase --mem-fraction-static.", "--context-length"),
    (
        "To serve at least one request with the models's max seq len (32768), (1.75 GiB KV cache is needed",
        "--max-model-len",
    ),
    ("Tensor parallel size (2) cannot be larger than the number of available GPUs (1).", "ray status"),
    (
        "vLLM multi-node: --tensor-parallel-size 2 cannot divide worker[0] 1 GPUs",
        "--pipeline-parallel-size 2",
    ),
    ("error: argument --speculative-config/-sc: Value {{\"a\": 1}} cannot be converted to", "format v2"),
    (
        "The output_size of gate's and up's weight = 192 is not divisible by weight quantization block_n = 128.",
        "--enable-expert-parallel",
    ),
    ("No available shared memory broadcast block found in 60 seconds.", "At a first start wait"),
    ("AssertionError: auto_functionalized was not removed", "43477"),
    ("AmbiguousGlobalPerLayerAttributeError", "5.8.1"),
    ("but Transformers does not recognize this architecture.", "transformers 5"),
    ("wait_io: fix misalignment, src=0xe1e980000000, misaligned_bytes=8", "nogds"),
    ("SafetensorError: Error while deserializing header: invalid JSON in header", "sizes of the shards"),
    (
        "flashinfer-cubin version (0.6.13) does not match flashinfer version (0.6.16.post3).",
        "FLASHINFER_DISABLE_VERSION_CHECK",
    ),
    ("buffer = torch.empty(size, dtype=torch.uint8, pin_memory=True)", "LMCACHE_MAX_LOCAL_CPU_SIZE"),
    ("NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory", "kho=off"),
    ("NCCL WARN Call to ibv_modify_qp failed with error Connection timed out (110)", "NCCL_IB_HCA"),
    ("NCCL WARN Call to ibv_reg_dmabuf_mr failed with error Operation not supported", "NCCL_DMABUF_ENABLE"),
    ("returned while running Mul node. Status Message: CUDA error cudaErrorNoKernelImageForDevice", "1.22.0"),
    ("GPU device discovery failed: device_discovery.cc:89 ReadFileContents", "Nothing"),
    ("CUDA error cudaErrorSymbolNotFound:named symbol not found", "pykeio/ort"),
    ("CUDA error: an unsupported value or parameter was passed to the function", "--quantkv"),
    ("current device: 0, in function ggml_cuda_flash_attn_ext_mma_f16_case", "-fa off"),
    ("ggml_cuda_compute_forward: SCALE failed", "120f"),
    ("Error: llama runner process has terminated: exit status 0xc0000409", "server.log"),
    ("ggml-cuda/fattn.cu:110: fatal error", "draft model"),
    ("MXFP4 quantization requires `triton >= 3.4.0` and kernels installed", "pip install -U kernels"),
    ("RuntimeError: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH", "LD_DEBUG=libs"),
    ("Feature '.scale_vec::2X' not supported on .target 'sm_120'", "12.0f"),
    ("Instruction ‘mma with block scale’ not supported on .target ‘sm_121’", "12.0f"),
    ("Instruction 'redux.f32' not supported on .target 'sm_120a'", "Mojo"),
    (
        "ptxas x-6_sm90_q64n32.ptx, line 1; error   : Instruction 'tensormap.replace' not supported on .target 'sm_120'",
        "compute_90a",
    ),
    ("RuntimeError: ptxas failed with error code 4294967295", "Triton 3.3"),
    ("CUDA call failed: CUDA_ERROR_INVALID_PTX (a PTX JIT compilation failed)", "6049"),
    ("Program with .target 'sm_90a' cannot be compiled to future architecture", "jaxlib 0.6.2"),
    ("Falling back to the CUDA driver for PTX compilation; ptxas does not support CC 12.0", "0.6.1"),
    ("CUDA_ERROR_INVALID_HANDLE", "first CUDA error"),
    ("RuntimeError: CUDA error: invalid argument", "--disable-pinned-memory"),
    ("nvcc fatal   : Unsupported gpu architecture 'compute_No CUDA devices found.'", "GGML_NATIVE"),
    ("Unknown CUDA Architecture Name 12.1(2.0) in CUDA_SELECT_NVCC_ARCH_FLAGS", "TORCH_CUDA_ARCH_LIST"),
    ("ValueError: Unknown CUDA arch (12.0) or GPU not supported", "PyTorch 2.7"),
    (
        "The detected CUDA version (13.0) mismatches the version that was used to compile PyTorch (12.8).",
        "torch.version.cuda",
    ),
    ("nvlink fatal   : Input file 'libcudadevrt.a:x.o' newer than toolkit (129 vs 120)", "CUDACXX"),
    ("Compiling the CUDA compiler identification source file \"CMakeCUDACompilerId.cu\" failed.", "CUDACXX"),
    ("error: class \"cudaDeviceProp\" has no member \"memoryClockRate\"", "cudaDeviceGetAttribute"),
    ("mathcalls.h(206): error: exception specification is incompatible", "noexcept(true)"),
    ("error: identifier \"__assert_fail\" is undefined", "-include cassert"),
    ("error C2872: “std”: ambiguous symbol", "-DUSE_CUDA"),
    ("fatal error C1189: #error:  -- unsupported Microsoft Visual Studio version!", "vcvarsall"),
    ("Unsupported cuda toolkit version: `13.2`.", "0.19.8"),
    ("MapSMtoCores for SM 12.0 is undefined; default to use 64 cores/SM", "0xC0"),
    ("OPTIX_ERROR_UNSUPPORTED_ABI_VERSION", "8.1"),
    ("==ERROR== ERR_NVGPUCTRPERM", "NVreg_RestrictProfilingToAdminUsers"),
    ("CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED", "one of them"),
    (
        "NVRM: Xid (PCI:0000:01:00): 119, pid=1, Timeout after 45s of waiting for RPC response from GPU0 GSP!",
        "off and on",
    ),
    ("NVRM: Xid (PCI:0000:01:00): 109, errorString CTX SWITCH TIMEOUT", "570.153"),
    ("NVRM: Xid (PCI:0000:01:00): 31, pid=1, name=python", "compute-sanitizer"),
    ("NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed", "first Xid"),
    ("NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:884)", "Resizable BAR"),
    ("NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x62:0x40:2014)", "dmesg"),
    ("No devices were found", "Dual MIT/GPL"),
    ("NVRM: installed in this system requires use of the NVIDIA open kernel modules.", "nvidia-open"),
    ("modprobe: ERROR: could not insert 'nvidia': Key was rejected by service", "mokutil"),
    ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "dkms"),
    ("Failed to initialize NVML: Driver/library version mismatch", "Reboot"),
    ("CUDA error 46: all CUDA-capable devices are busy or unavailable", "nvidia-smi -c 0"),
    ("cudaErrorUnknown: unknown error", "wsl --update"),
    ("cudaErrorStreamCaptureUnsupported - operation not permitted when stream is capturing", "first error"),
    ("cuInit() returns error 100 (`CUDA_ERROR_NO_DEVICE`)", "CUDA_VISIBLE_DEVICES"),
    (
        "code=205(cudaErrorMapBufferObjectFailed) \"cudaDeviceEnablePeerAccess(gpuid[1], 0)\"",
        "NCCL_P2P_DISABLE",
    ),
    ("CUDA error: too many resources requested for launch", "__launch_bounds__"),
    ("RuntimeError: CUDA driver error: device not ready", "TdrDelay"),
    ("Unable to determine the device handle for GPU0: GPU is lost. Reboot the system", "power supply"),
];

/// Messages, and the rule that alone explains them.
const RULES: &[(&str, &str)] = &[
    (
        "RuntimeError: sageattention is not new enough version or could not determine CUDA architecture",
        "sageattention_too_old",
    ),
    ("MoE grouped GEMM requires 102400 bytes shared memory but device supports 101376", "shared_memory"),
    (
        "tvm.error.InternalError: Failed to set the allowed dynamic shared memory size to 168128",
        "shared_memory",
    ),
    (
        "ptxas error   : Entry function '_Z1kv' uses too much shared data (0x1a000 bytes, 0x18c00 max)",
        "shared_memory",
    ),
    ("RuntimeError: smem_size = 131072 exceeds the device limit", "shared_memory"),
    ("CUDA error: cudaFuncSetAttribute failed with error invalid argument", "shared_memory_attribute"),
    (
        "ptxas /tmp/x.ptx, line 6; error   : PTX .version 8.4 does not support .target sm_120a",
        "ptx_version_before_target",
    ),
    (
        "RuntimeError: Assertion error (csrc/apis/layout.hpp:59): Unknown SF transformation",
        "deep_gemm_scale_layout",
    ),
    ("get_paged_mqa_logits_metadata (csrc/apis/attention.hpp:211) : Unsupported architecture", "deep_gemm"),
    (
        "  current device: 0, in function ggml_backend_cuda_buffer_init_tensor at ggml-cuda.cu:768",
        "llama_cpp_tensor_padding",
    ),
    ("RuntimeError: UVA is not available", "vllm_without_uva"),
    (
        "ValueError: You should provide exactly one of `layers` or `layer_class_to_replicate` to initialize a Cache.",
        "transformers_cache_changed",
    ),
    ("OpError: expects arch to be one of ['sm_120a'], but got Arch.sm_121a", "cute_dsl_sm120a_only"),
    ("NotImplementedError: No compressed-tensors compatible scheme was found.", "compressed_tensors_scheme"),
    (
        "RuntimeError: Sparse Attention Indexer CUDA op requires DeepGEMM to be installed.",
        "deep_gemm_missing",
    ),
    (
        "RuntimeError: Sparse Attention Forward Kernel is only supported on SM90a and SM100f architectures.",
        "sparse_attention_kernel",
    ),
    (
        "ValueError: SM120 sparse-MLA has no decode kernel for this shape: num_tokens=16, num_heads=64, topk=1152",
        "sparse_mla_decode_table",
    ),
    ("NVFP4: kernels unavailable; using fallback", "nvfp4_kernels_not_installed"),
    (
        "ValueError: No processor registered for architecture: ['Phi4MMForCausalLM'].",
        "sglang_without_processor",
    ),
    (
        "error: unknown: expects `coord` and shape of view are weakly congruent, but got '!cute.layout'",
        "cute_dsl_coordinate",
    ),
    ("vllm: error: unrecognized arguments: --nnodes 2", "option_unknown"),
    ("error: invalid argument: --n-cpu-moe", "option_unknown"),
    (
        "RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes.",
        "sglang_memory_unbalanced",
    ),
    ("RuntimeError: Int8 not supported for this architecture", "int8_product_of_vllm"),
    ("assert compute_capability in [9, 10, 11]", "fa4_without_sm12x"),
    (
        "RuntimeError: FA4 flash_attention forward unsupported: FA4 requires compute capability 9.0 or 10.0",
        "fa4_without_sm12x",
    ),
    ("The given huggingface model architecture X_V3 is not supported in TRT-LLM yet", "trtllm_model_map"),
    ("rasterizer_impl.h(24): error: namespace \"std\" has no member \"uintptr_t\"", "cstdint_missing"),
    ("nvcc error : 'cudafe++' died with status 0xC0000005 (ACCESS_VIOLATION)", "nvcc_part_crashed"),
    (
        "ValueError: No valid attention backend found for cuda with AttentionSelectorConfig(head_size=576, use_sparse=True). Reasons: {FLASHMLA: [only supported on Hopper and Blackwell devices.]}",
        "sparse_mla_refused",
    ),
    (
        "ValueError: No valid attention backend found for cuda with AttentionSelectorConfig(head_size=80)",
        "no_attention_backend",
    ),
    ("AssertionError: expected sm90 or sm100", "mxfp8_moe_of_sglang"),
    ("CUDA Exception: Warp Misaligned Register", "misaligned_register"),
    ("cudaErrorCooperativeLaunchTooLarge: too many blocks in cooperative launch", "cooperative_launch"),
    (
        "Indexing.cu:1515: indexSelectSmallIndex: block: [16,0,0], thread: [64,0,0] Assertion `srcIndex < srcSelectDimSize` failed.",
        "index_out_of_range",
    ),
    ("torch.AcceleratorError: CUDA error: device-side assert triggered", "device_side_assert"),
    ("RuntimeError: Rowwise scaling is not currently supported on your device", "rowwise_scaling"),
    ("AssertionError: Unsupported compute capability: 120", "capability_not_listed"),
    ("NotImplementedError: Unsupported architecture: sm_121", "capability_not_listed"),
    (
        "Using default W8A8 Block FP8 kernel config. Performance might be sub-optimal! Config file not found at",
        "untuned_block_fp8",
    ),
    (
        "[ONNXRuntimeError] : 1 : FAIL : CUDA error cudaErrorNoKernelImageForDevice:no kernel image is available",
        "onnxruntime_no_image",
    ),
    (
        "Error no kernel image is available for execution on the device at line 73 in file /src/csrc/ops.cu",
        "no_image_by_bitsandbytes",
    ),
    (
        "assert SM89_ENABLED, \"SM89 kernel is not available. Make sure you GPUs with compute capability 8.9.\"",
        "sage_attention_build",
    ),
    (
        "IBuilder::buildSerializedNetwork: Error Code 9: API Usage Error (Target GPU SM 120 is not supported by this TensorRT release.)",
        "tensorrt_too_old",
    ),
    (
        "NVRM: Xid (PCI:0000:c1:00): 31, pid=12345, name=VLLM::EngineCor, channel 0x00000002",
        "driver_xid_of_vllm",
    ),
    (
        "NVRM: GPU0 _issueRpcAndWait: rpcSendMessage failed with status 0x0000000f for fn 10 sequence 12303!",
        "driver_rpc_to_gsp_failed",
    ),
    ("Error 803: system has unsupported display driver / cuda driver combination", "driver_mismatch_803"),
    ("CUDA error: driver shutting down", "driver_shutting_down"),
    (
        "Value error, torch.bfloat16 is not supported for quantization method awq. Supported dtypes: [torch.float16]",
        "dtype_of_quantisation",
    ),
    ("WARNING Unknown vLLM environment variable: VLLM_MXFP4_BACKEND", "vllm_variable_unknown"),
    (
        "UserWarning: GDS is not supported in this platform but nogds is False. use nogds=True",
        "no_gpudirect_storage",
    ),
    (
        "(Exit code: 18446744072635812000). Unknown error. Try a different model and/or config.",
        "lmstudio_runtime_ended",
    ),
    ("llama-mmap.cpp:565: GGML_ASSERT(addr) failed", "llama_cpp_mlock"),
    (
        "RuntimeError: Failed to compile the model. Please file an issue, all models should be correct",
        "max_does_not_compile",
    ),
    (
        "Could not locate cudnn_ops_infer64_8.dll. Please make sure it is in your library path!",
        "cudnn_8_missing",
    ),
    (
        "Unable to load any of {libcudnn_ops.so.9.1.0, libcudnn_ops.so.9.1, libcudnn_ops.so.9, libcudnn_ops.so}",
        "cudnn_9_not_found",
    ),
    (
        "Expected symbol in library: DlSym { desc: \"libnvrtc.so: undefined symbol: nvrtcGetNVVM\" }",
        "nvrtc_function_dropped",
    ),
    (
        "ERROR: Could not find a version that satisfies the requirement onnxruntime-gpu==1.21",
        "onnxruntime_gpu_on_aarch64",
    ),
    (
        "UNAVAILABLE: No PTX compilation provider is available. Neither ptxas/nvlink nor nvjtlink is available.",
        "no_ptx_compiler_for_xla",
    ),
    ("XlaRuntimeError: INTERNAL: ptxas exited with non-zero error code 65280", "xla_ptxas_failed"),
    (
        "Warning: NVIDIA GeForce RTX 5070 Ti GPU (compute capability 12.0) is not fully supported by CUDA 12.8.0.",
        "julia_cuda_capability",
    ),
    ("Windows fatal exception: access violation", "windows_access_violation"),
    ("-gencode arch=compute_20,code=sm_121", "cmake_arch_12_1"),
    (
        "ptxas error   : Value of threads per SM for entry _Z1kv is out of range. .minnctapersm will be ignored",
        "threads_of_sm_out_of_range",
    ),
    ("error: unsupported GNU version! gcc versions later than 13 are not supported!", "gcc_too_new"),
    (
        "error: could not create 'build\\x\\fused_moe\\configs\\E=128.json': No such file or directory",
        "windows_path_too_long",
    ),
    ("Addon gpu was not found in any repository", "microk8s_gpu_addon"),
    ("clang: error: unsupported CUDA gpu architecture: sm_120", "clang_without_sm12x"),
    ("CUDA error: CUDA driver is a stub library", "cuda_stub_library"),
    ("CUDA error: PTX JIT compiler library was not found", "ptx_compiler_missing"),
    ("RuntimeError: Cannot re-initialize CUDA in forked subprocess.", "cuda_in_forked_process"),
    ("NVRM: Xid (PCI:0000:01:00): 48, pid=1, Double Bit ECC Error", "uncorrectable_ecc"),
    ("NVRM: Xid (PCI:0000:01:00): 56, CMDre 00000000 00000a40", "driver_xid_of_display"),
    ("NVRM: Xid (PCI:0000:01:00): 32, pid=1234, name=python3, Channel ID 00000008", "driver_xid_of_commands"),
    ("NVRM: Xid (PCI:000f:01:00): 121, pid=1, C2C", "driver_xid_of_links"),
    ("NVRM: Xid (PCI:0000:01:00): 61, pid=1, 0cec(3098)", "driver_xid_of_firmware"),
    ("NVRM: Xid (PCI:0000:01:00): 68, pid=1, name=mpv, NVDEC0", "driver_xid_of_video"),
    ("NVRM: Xid (PCI:0000:01:00): 69, pid=1234, Class Error", "driver_xid_of_graphics"),
    ("NVRM: Xid (PCI:0000:01:00): 166, pid=1", "driver_xid_other"),
    ("pynvml.NVMLError_LibraryNotFound: NVML Shared Library Not Found", "nvml_library_missing"),
    ("pynvml.NVMLError_FunctionNotFound: Function Not Found", "nvml_too_old"),
    (
        "Error while creating shared memory segment /dev/shm/nccl-AbCdEf (size 9637888), error: No space left on device",
        "nccl_shm",
    ),
    ("NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device f000", "nccl_duplicate_gpu"),
    ("NCCL WARN Bootstrap : no socket interface found", "nccl_no_interface"),
    ("CUDA error: CUBLAS_STATUS_ARCH_MISMATCH when calling `cublasLtMatmul`", "cuda_library_arch_mismatch"),
    ("nvrtc: error: failed to open libnvrtc-builtins.so.13.0.", "nvrtc_builtins_missing"),
    ("Error 802: system not yet initialized", "cuda_system_not_ready"),
    ("CUDA error: invalid device ordinal", "cuda_invalid_device"),
    ("OSError: [Errno 28] No space left on device", "disk_full"),
    ("OSError: [Errno 98] Address already in use", "address_in_use"),
    ("huggingface_hub.errors.GatedRepoError: 401 Client Error.", "model_not_accessible"),
    ("docker: manifest for vllm/vllm-openai:cu131 not found: manifest unknown", "registry_access"),
    (
        "ImportError: libGL.so.1: cannot open shared object file: No such file or directory",
        "system_library_missing",
    ),
    ("OSError: libmpi.so.40: cannot open shared object file: No such file or directory", "mpi_missing"),
    ("libstdc++.so.6: version `GLIBCXX_3.4.32' not found", "glibc_too_old"),
    ("RuntimeError: Could not load libtorchcodec.", "torchcodec_library"),
    (
        "libnvinfer.so.8: cannot open shared object file: No such file or directory",
        "tensorrt_library_missing",
    ),
    (
        "ImportError: libc10.so: cannot open shared object file: No such file or directory",
        "torch_library_missing",
    ),
    (
        "ImportError: libcusparseLt.so.0: cannot open shared object file: No such file or directory",
        "nvidia_library_missing",
    ),
    ("No CMAKE_CUDA_COMPILER could be found.", "cmake_without_cuda"),
    ("The link interface of target \"torch::nvtoolsext\" contains: CUDA::nvToolsExt", "nvtoolsext_removed"),
    ("RuntimeError: operator torchvision::nms does not exist", "torchvision_of_other_torch"),
    ("ValueError: type fp8e4nv not supported in this architecture.", "fp8_of_triton"),
    ("Failed to initialize NVML: GPU access blocked by the operating system", "wsl_gpu_blocked"),
    (
        "The current PyTorch install supports CUDA capabilities sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90.",
        "torch_list_of_capabilities",
    ),
    ("AssertionError: DeepGEMM requires compute capability 9.0 or 10.0", "other_architecture_only"),
    ("RuntimeError: Expected sm_90a or sm_100a, got sm_120", "other_architecture_only"),
    ("Bfloat16 is only supported on GPUs with compute capability of at least 8.0.", "at_least_capability"),
    ("RuntimeError: fp8_gemm is not implemented for sm_120", "architecture_unknown"),
    ("Error: unknown CUDA arch 12.0", "architecture_unknown"),
    ("nvcc fatal   : Unsupported gpu architecture 'compute_103a'", "architecture_of_build_unknown"),
    ("ValueError: The quantization method mxfp4 is not supported for the current GPU.", "not_on_this_device"),
    ("RuntimeError: No suitable kernel found for the given configuration", "no_kernel_found"),
    ("RuntimeError: No available kernel. Aborting execution.", "no_kernel_found"),
    ("ValueError: The size of tensor a (3072) must match the size of tensor b (6144)", "weights_do_not_fit"),
    ("error loading model: unknown model architecture: 'qwen3next'", "model_unknown_to_program"),
    ("AssertionError: head_dim must be one of [64, 128, 256]", "unsupported_shape"),
    ("terminate called after throwing an instance of 'std::bad_alloc'", "host_out_of_memory"),
    ("failed to initialize the context: failed to allocate buffer for kv cache", "llama_cpp_no_buffer"),
    ("TimeoutError: Timed out waiting for engine core processes to start.", "collective_timeout"),
    (
        "torch.distributed.DistNetworkError: The client socket has failed to connect to 10.0.0.1: connection refused",
        "connection_between_machines",
    ),
    ("RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)", "nccl_error"),
    ("nvmlDeviceGetPowerManagementLimit failed: NVML_ERROR_NOT_SUPPORTED", "nvml_not_supported"),
    (
        "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "cublas_not_initialized",
    ),
    ("RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", "cuda_library_execution_failed"),
    (
        "RuntimeError: CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling `cublasSgemm`",
        "cuda_library_bad_argument",
    ),
    ("RuntimeError: GET was unable to find an engine to execute this computation", "cudnn_no_engine"),
    ("cudaErrorCallRequiresNewerDriver", "cuda_driver_call_too_new"),
    ("CUDA error: operation not permitted", "cuda_not_permitted"),
    ("RuntimeError: CUDA error: operation not supported", "cuda_not_supported"),
    ("RuntimeError: CUDA error: invalid configuration argument", "cuda_invalid_configuration"),
    ("CUDA driver error: 201", "cuda_invalid_resource"),
    ("cudaErrorHostMemoryAlreadyRegistered", "cuda_pinned_memory"),
    ("OS call failed or operation not supported on this OS", "cuda_os_call"),
    ("cudaErrorSharedObjectInitFailed", "cuda_shared_object"),
    ("CUDA_ERROR_FILE_NOT_FOUND", "cuda_file_not_found"),
    ("Triton Error [CUDA]: invalid argument", "cuda_invalid_value"),
    ("RuntimeError: CUDA error: initialization error", "cuda_initialization_error"),
    ("Failed to initialize the TMA descriptor 1", "tensor_map_refused"),
    ("CUDA error 209 at file.cu:33", "no_machine_code"),
    ("OSError: [WinError 126] The specified module could not be found.", "windows_dll_missing"),
    ("libfoo.so.3: cannot open shared object file: No such file or directory", "shared_library_missing"),
    ("symbol lookup error: ./a: undefined symbol: foo_v2", "undefined_symbol"),
    ("ModuleNotFoundError: No module named 'deep_ep'", "python_module_missing"),
    ("AttributeError: module 'torch' has no attribute 'float8_e8m0fnu'", "python_versions_differ"),
    ("error: argument --attention-backend: invalid choice: 'FLASHINFER_MLA'", "choice_unknown"),
    ("gcc: error: unrecognized command-line option '-mavx2'", "nvcc_option_unknown"),
    ("CMAKE_CUDA_ARCHITECTURES must be non-empty if set.", "cmake_architecture_list"),
    ("fatal error: cutlass/cutlass.h: No such file or directory", "header_missing"),
    ("/usr/bin/ld: cannot find -lfoo", "library_not_found_by_linker"),
    ("error: namespace \"thrust\" has no member \"device\"", "nvcc_refuses_source"),
    ("ptxas fatal   : Ptx assembly aborted due to errors", "ptxas_failed"),
    ("nvlink error   : entry function has no code", "nvlink_failed"),
    ("error: failed to legalize operation 'cute_nvgpu.atom.tma_store'", "compiler_crashed"),
    ("RuntimeError: cutlass cannot implement", "cutlass_refuses"),
    ("RuntimeError: FlashAttention only support fp16 and bf16 data type", "dtype_not_supported"),
    ("OCI runtime create failed: unable to start container process", "docker_gpu_start"),
    ("InductorError: RuntimeError: Cannot find a working triton installation", "no_working_triton"),
    ("torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised", "torch_compile_failed"),
    (
        "ImportError: FlashAttention2 has been toggled on: the package flash_attn seems to be not installed.",
        "package_said_missing",
    ),
    ("RuntimeError: probability tensor contains either `inf`, `nan` or element < 0", "numbers_are_wrong"),
    ("It answers !!!!!!!!!!!!!!!!!!!! only", "numbers_are_wrong"),
    ("Segmentation fault (core dumped)", "process_crashed"),
    ("error: command '/usr/local/cuda/bin/nvcc' failed with exit code 255", "build_command_failed"),
    ("RuntimeError: Engine core initialization failed. See root cause above.", "worker_ended"),
    ("Failed to create CUDAExecutionProvider. Require cuDNN 9.* and CUDA 12.*", "no_cuda_in_torch"),
    (
        "CUDA kernel flash_attn_ext has no device code compatible with CUDA arch 1200. ggml-cuda.cu was compiled for: 890",
        "ggml_no_device_code",
    ),
    (
        "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2b85) installed in this system is not supported by the NVIDIA 550.120 driver release.",
        "driver_older_than_gpu",
    ),
    ("bash: nvidia-smi: command not found", "nvidia_smi_missing"),
    (
        "NCCL WARN Missing \"iommu=pt\" from kernel command line which can lead to system instablity or hang!",
        "nccl_iommu",
    ),
    ("A module that was compiled using NumPy 1.x cannot be run in NumPy 2.0", "numpy_2"),
    ("FileNotFoundError: [Errno 2] No such file or directory: 'ninja'", "no_ninja"),
    ("AssertionError: NVFP4 is only supported on Blackwell", "only_blackwell"),
    ("RuntimeError: Only Hopper or newer GPUs are supported", "at_least_capability"),
    ("PermissionError: [Errno 13] Permission denied: '~/.cache/flashinfer'", "permission_denied"),
    ("GGML_ASSERT(n_tokens_all <= cparams.n_batch) failed", "llama_cpp_ended"),
    ("ERROR: Unable to find the kernel source tree for the currently running kernel.", "driver_build_failed"),
    ("x No solution found when resolving dependencies:", "resolver_conflict"),
    ("RuntimeError: Unsupported architecture", "not_on_this_device"),
    ("[Fatal] crash in librtx.scenedb.plugin.so!carbOnPluginStartup+0x3b4de", "isaac_sim_renderer"),
    (
        "/usr/bin/ld: warning: libcuda.so.1, needed by ../../bin/libggml-cuda.so.0.9.4, not found",
        "libcuda_at_link",
    ),
    (
        "AttributeError: Cannot set attribute 'src' directly. Use '_unsafe_update_src()",
        "triton_source_attribute",
    ),
    ("E: Unable to locate package libcurl4-openssl-dev", "apt_package_unknown"),
    ("cudaErrorTextureFetchFailed", "cuda_error_general"),
];

/// Lines of programs that run well.
const ORDINARY: &[&str] = &[
    "Detected quantization_config.scale_fmt=ue8m0; enabling UE8M0 for DeepGEMM.",
    "RuntimeWarning: Failed to read commit hash: No module named 'vllm._version'",
    "[0] NCCL INFO NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or directory",
    "SM12x detected - using native FlashInfer CUTLASS attention instead of TRT-LLM attention (cubins not available)",
    "  Device 0: NVIDIA GeForce RTX 5090, compute capability 12.0, VMM: yes",
    "memory_efficient_attention.fa3F@0.0.0:             unavailable",
    "ptxas info    : Compiling entry function '_ZN5flash15compute_attn_ws' for 'sm_120a'",
    "flashinfer.jit: Prebuilt kernels not found, using JIT backend",
    "CustomAllreduce is disabled because this process group spans across nodes.",
    "[33/34] /usr/local/cuda/bin/nvcc --generate-dependencies-with-compile -isystem /usr/local/cuda/include/cccl",
    "Detected 1 compatible profile(s).",
    "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  595.71.05  Release Build  (root@)",
    "NCCL INFO NVLS multicast support is not available on dev 5",
    "nvcc warning : Support for offline compilation for architectures prior to '<compute/sm/lto>_75' will be removed",
    "Peer access from NVIDIA GeForce RTX 5090 (GPU0) -> NVIDIA GeForce RTX 5090 (GPU1) : No",
    "Ignoring error getting device memory: Not Supported",
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.",
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
    "[AutoTuner]: Skipping tactic due to shared memory, which exceeds the limit",
    "INFO [flash_attn.py:52] Flash Attention 2 is used for head size 128",
    "-- The CUDA compiler identification is NVIDIA 12.9.41",
    "INFO [__init__.py:216] Automatically detected platform cuda.",
    "(EngineCore_DP0 pid=77352) INFO Loading weights took 41.22 seconds",
    "NCCL INFO Using network Socket",
    "torch.cuda.is_available() = True, capability (12, 0)",
    "FlashInfer is not available. Falling back to the PyTorch-native implementation of top-p & top-k sampling.",
    "ninja: no work to do.",
    "[1/8] Building CUDA object ggml/src/ggml-cuda/CMakeFiles/ggml-cuda.dir/acc.cu.o",
    "INFO: Uvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)",
    "Device 0: NVIDIA GB10, compute capability 12.1, VMM: yes",
    "llama_kv_cache: CUDA0 KV buffer size = 1024.00 MiB",
    "Successfully installed triton-3.5.0 torch-2.9.0+cu130",
    "WARNING No tuned config found, using the default one: performance may be lower",
    "[notice] To update, run: pip install --upgrade pip",
    "GPU garbage collection took 3 ms",
    "[2026-09-12 00:22:10] Use flashinfer_cutlass as MoE runner backend on SM120 for modelopt_fp4 (trtllm-gen MoE kernels are SM100-only)",
    "The model has 36 layers and 64 experts; 8 experts are chosen for a token",
];

#[test]
fn messages_have_their_cause_and_remedy() {
    for (message, words) in REMEDIES {
        let said = explanations(message);
        let is_said =
            |flag: &Flag| [&flag.meaning, &flag.remedy, &flag.source].iter().any(|text| text.contains(words));
        assert!(said.iter().any(is_said), "{message}: {said:?}");
    }
}

#[test]
fn messages_have_one_rule() {
    for (message, rule) in RULES {
        let said = explanations(message);
        let names: Vec<&str> = said.iter().map(|flag| flag.name.as_str()).collect();
        assert_eq!(names.first(), Some(rule), "{message}");
        // A second one is said in general, too.
        assert!(
            said.iter().skip(1).all(|flag| flag.meaning.starts_with("In general: ")),
            "{message}: {names:?}"
        );
    }
}

/// Messages by the name of a sign that they show.
fn examples() -> BTreeMap<String, Vec<String>> {
    crate::header::parse_file(Path::new("src/doctor/log/examples.yaml"), super::near::EXAMPLES).unwrap()
}

#[test]
fn each_example_shows_its_sign() {
    let all = examples();
    assert!(all.len() > 100);
    let wrong: Vec<String> = all
        .iter()
        .flat_map(|(name, messages)| messages.iter().map(move |message| (name, message)))
        .filter_map(|(name, message)| {
            let said: Vec<String> = explanations(message).into_iter().map(|flag| flag.name).collect();
            (!said.contains(name)).then(|| format!("{name}: {message}: {said:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_general_rule_says_so_and_has_a_row() {
    let examples = examples();
    for sign in table().unwrap().signs.iter().filter(|sign| sign.weight == Weight::General) {
        assert!(sign.meaning.starts_with("In general: "), "{}", sign.name);
        let has_row = RULES.iter().any(|(_, rule)| *rule == sign.name) || examples.contains_key(&sign.name);
        assert!(has_row, "{}", sign.name);
    }
}

#[test]
fn signs_have_names_of_their_own() {
    let mut names = BTreeSet::new();
    for sign in &table().unwrap().signs {
        assert!(names.insert(sign.name.as_str()), "{} is there twice", sign.name);
    }
    for name in examples().keys() {
        assert!(names.contains(name.as_str()), "{name} is no sign");
    }
}

#[test]
fn a_specific_rule_silences_the_general_ones() {
    let names =
        |text: &str| -> Vec<String> { explanations(text).into_iter().map(|flag| flag.name).collect() };
    assert_eq!(names("CUDA error: operation not supported"), ["cuda_not_supported"]);
    assert_eq!(
        names("RuntimeError: UVA is not available\nCUDA error: operation not supported"),
        ["vllm_without_uva"]
    );
}

#[test]
fn ordinary_lines_show_no_sign() {
    for line in ORDINARY {
        let shown: Vec<String> = explanations(line).into_iter().map(|flag| flag.name).collect();
        assert!(shown.is_empty(), "{line}: {shown:?}");
    }
}

#[test]
fn what_only_looks_like_a_gate_is_none() {
    for harmless in [
        "Python 3.12.1 is not supported",
        "The installed CUDA version 12.1 is not supported",
        "Dual boot is disabled because it's not supported on this laptop",
    ] {
        let turned_away = |flag: &Flag| flag.meaning.contains("turned away") || flag.meaning.contains("12.x");
        assert!(!explanations(harmless).iter().any(turned_away), "{harmless}");
    }
}

#[test]
fn what_is_about_one_product_is_not_said_of_another() {
    let message = "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051)";
    let gpus = |text: String| explanations(&text).into_iter().map(|flag| flag.gpus).collect::<Vec<_>>();
    assert!(gpus(message.to_owned()).contains(&vec![121]));
    assert!(gpus(format!("DGX Spark: {message}")).contains(&vec![121]));
    assert!(!gpus(format!("RTX 5070 Ti: {message}")).contains(&vec![121]));
    // Both are named.
    assert!(gpus(format!("RTX 5070 Ti and GB10: {message}")).contains(&vec![121]));
}

#[test]
fn few_causes_are_named_of_one_message() {
    let all = RULES.iter().map(|(message, _)| *message).collect::<Vec<_>>().join("\n");
    assert_eq!(explanations(&all).len(), 3);
}

#[test]
fn no_message_names_the_home_of_its_author() {
    let homes = regex::Regex::new(r"/(?:root|home|Users)/|\\Users\\").unwrap();
    let examples = examples();
    let all =
        examples.values().flatten().map(String::as_str).chain(RULES.iter().map(|(message, _)| *message));
    let named: Vec<&str> = all.filter(|message| homes.is_match(message)).collect();
    assert!(named.is_empty(), "{named:#?}");
    let known = ["root", "home", "Users"].map(|parent| format!("/{parent}/x"));
    assert!(known.iter().all(|home| homes.is_match(home)) && homes.is_match("C:\\Users\\x"));
}
