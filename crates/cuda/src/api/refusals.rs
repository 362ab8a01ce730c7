//! Why functions are refused, and what works instead.

use crate::device::results::REPORTED;
use crate::device::state::device;
use crate::program::caller::called_function;
use crate::status::Status;

/// Why a launch of CUDA 3.2 and before is refused.
const OLD_LAUNCH: &str = "arguments belong to a launch, not to a kernel; use cuLaunchKernel";

/// Why a form of a function that a newer one has replaced is refused.
const OLD_FORM: &str = "an old form, mostly with sizes of 32 bits; use the form _v2";

/// Why the functions with such a part in their names are not supported, and what works instead; the first that fits.
const CAUSES: &[(&str, &str)] = &[
    ("Ipc", "memory and events belong to one process; run the ranks as threads of one process with --gpus N"),
    (
        "ShareableHandle",
        "memory belongs to one process; run the ranks as threads of one process with --gpus N",
    ),
    (
        "PoolImportPointer",
        "memory belongs to one process; run the ranks as threads of one process with --gpus N",
    ),
    ("GetHandleForAddressRange", "there is no DMA-BUF, as on GB10; copy through memory of cudaMallocHost"),
    ("ExternalMemory", "there is no other device that shares memory; use memory of cudaMalloc"),
    ("ExternalSemaphore", "there is no other device that signals; use events"),
    ("Graphics", "there is no graphics API; use memory of cudaMalloc"),
    ("cudaGL", "there is no graphics API; use memory of cudaMalloc"),
    ("EGL", "there is no graphics API; use memory of cudaMalloc"),
    ("VDPAU", "there is no graphics API; use memory of cudaMalloc"),
    ("Multicast", "there is no NVLink switch; use peer copies (cudaMemcpyPeer)"),
    ("LogicalEndpoint", "there is no fabric; use peer copies (cudaMemcpyPeer)"),
    ("Fabric", "there is no fabric; use peer copies (cudaMemcpyPeer)"),
    ("GreenCtx", "multiprocessors are not partitioned; use the primary context"),
    ("ExecutionCtx", "multiprocessors are not partitioned; use the primary context"),
    ("DevResource", "multiprocessors are not partitioned; use the primary context"),
    ("DevSmResource", "multiprocessors are not partitioned; use the primary context"),
    ("Coredump", "there are no core dumps of a GPU; the report names the kernel, the line and the thread"),
    ("Checkpoint", "the state of a process is not saved; --record writes each launch as a case"),
    ("TexRef", "texture references are not emulated; use texture objects (cudaCreateTextureObject)"),
    ("BatchMemOp", "a graph gets such nodes from a stream alone; capture cuStreamBatchMemOp"),
    ("AsyncNotification", "the GPU sends no notifications"),
    ("Sparse", "arrays are not sparse; use cudaMallocArray"),
    ("MapArray", "arrays are not sparse; use cudaMallocArray"),
    (
        "Symbol",
        "a graph's copies have addresses; ask cudaGetSymbolAddress, and use the form without a symbol",
    ),
    ("Discard", "pages keep their bytes; leave the call out, or fill the memory with cudaMemsetAsync"),
    (
        "PrefetchBatch",
        "pages are always where they are accessed; leave the call out, or use cudaMemPrefetchAsync",
    ),
    ("WithAttributes", "copies have no attributes; use the form without them"),
    ("3DBatch", "copies of boxes are made one by one; use cudaMemcpy3DAsync"),
    ("Decompress", "there is no engine that decompresses; decompress in a kernel or on the host"),
    ("ResourceDesc", "objects are not described; keep the descriptor from which the object was made"),
    ("ResourceViewDesc", "objects are not described; keep the descriptor from which the object was made"),
    ("TextureDesc", "objects are not described; keep the descriptor from which the object was made"),
    ("MemoryRequirements", "memory of arrays is not mapped; use cudaMallocArray"),
    ("GetPlane", "arrays have no planes; use one array for each"),
    ("DebugDotPrint", "graphs are not drawn; ask cudaGraphGetNodes and cudaGraphGetEdges"),
    ("GetId", "graphs have no numbers for tools; use their handles"),
    ("GetLocalId", "nodes have no numbers for tools; use their handles"),
    ("GetToolsId", "nodes have no numbers for tools; use their handles"),
    ("NodeGetParams", "use the function for the node's type (cudaGraphKernelNodeGetParams)"),
    ("Recapture", "graphs are captured anew; use cudaStreamBeginCapture"),
    ("Cig", "there is no graphics API; use cudaStreamBeginCapture"),
    ("UnifiedFunction", "the host and the GPU share no code; use a pointer to a device function"),
    ("Logs", "the driver keeps no log; what a call violates is in the report"),
    ("NvSci", "there are no other devices; use events"),
    ("GPUDirect", "there is no GPUDirect RDMA, as on GB10; leave the call out"),
    ("AtomicCapabilities", "ask cudaDeviceGetP2PAttribute, or cudaDevAttrHostNativeAtomicSupported"),
    ("ExportTable", "these functions are not documented; use those of the headers"),
    ("Clique", "there is no fabric; use cudaDeviceCanAccessPeer"),
    ("Luid", "a LUID exists on Windows alone; use cuDeviceGetUuid"),
    ("Affinity", "multiprocessors are not partitioned; use the primary context"),
    ("Subgrid", "multiprocessors are not partitioned; launch grids"),
    ("CtxRecordEvent", "events are recorded in streams; use cuEventRecord"),
    ("CtxWaitEvent", "streams wait for events; use cuStreamWaitEvent"),
    ("Im2colWide", "the mode im2col::w is not emulated; use cuTensorMapEncodeIm2col"),
    ("AllocationClass", "tensor maps have no classes; leave the call out"),
    ("SetMemPool", "pools are set for a device; use cudaDeviceSetMemPool"),
    ("GetLocationInfo", "memory has no nodes; ask cudaPointerGetAttributes"),
    ("1DLinearMaxWidth", "ask cudaDevAttrMaxTexture1DLinearWidth"),
    ("ArrayToArray", "use cudaMemcpy3D or cudaMemcpy2DArrayToArray"),
    ("SurfRef", "surface references are not emulated; use surface objects (cudaCreateSurfaceObject)"),
    ("MultiDevice", "a cooperative launch has one GPU; use cuLaunchCooperativeKernel"),
    ("cuLaunch", OLD_LAUNCH),
    ("cuParam", OLD_LAUNCH),
    ("cuFuncSetBlockShape", OLD_LAUNCH),
    ("cuFuncSetSharedSize", OLD_LAUNCH),
    ("cuCtxAttach", "contexts are not counted; use cuDevicePrimaryCtxRetain"),
    ("cuCtxDetach", "contexts are not counted; use cuDevicePrimaryCtxRelease_v2"),
    ("cuDeviceGetProperties", "use cuDeviceGetAttribute"),
    ("cuArray", OLD_FORM),
    ("cuDeviceTotalMem", OLD_FORM),
    ("cuMem", OLD_FORM),
    ("cuModuleGetGlobal", OLD_FORM),
];

/// Why a function is not supported, and what works instead.
#[must_use]
pub fn cause(name: &str) -> Option<&'static str> {
    CAUSES.iter().find(|(part, _)| name.contains(part)).map(|(_, cause)| *cause)
}

/// The name of an unserved function, with the cause and the remedy if there are any to tell.
pub(crate) fn refusal(name: &str) -> String {
    cause(name).map_or_else(|| name.to_owned(), |cause| format!("{name}: {cause}"))
}

/// The answer to a call that CUDA does not support, with a remark on why: that is no lack of this library.
pub(crate) fn refuse_as_cuda(why: &str) -> Status {
    if let Ok(mut device) = device() {
        REPORTED.set(true);
        device.results.remark(format!("{} is not supported by CUDA: {why}", called_function()));
    }
    Status::NOT_SUPPORTED
}
