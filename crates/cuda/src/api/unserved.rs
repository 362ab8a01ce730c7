//! Functions of the headers that are not supported: each reports its name once and returns `CUDA_ERROR_NOT_SUPPORTED`, so that a program that
//! links them can start.
#![expect(unsafe_code, reason = "exported names")]

use std::ffi::c_int;

use crate::api::call::answer;
use crate::api::table::{Call, EntryPoint, call, row};
use crate::device::contexts::Needs;
use crate::status::Status;

macro_rules! unserved {
    ($rows:ident, $calls:ident, $needs:ident; $($name:ident,)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name() -> c_int {
                // SAFETY: the body uses no address.
                unsafe { answer(stringify!($name), Needs::$needs, None, || Err(Status::NOT_SUPPORTED)) }
            }
        )*

        /// The rows of these functions.
        pub(crate) static $rows: &[EntryPoint] = &[$(EntryPoint {
            is_served: false,
            ..row! { $name ($needs, zeros NOT_SUPPORTED, valid NOT_SUPPORTED) () }
        },)*];

        /// How to call the function of each row.
        pub(crate) static $calls: &[Call] = &[$(call! { $name () },)*];
    };
}

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
    (
        "Conditional",
        "a graph's conditional nodes are not emulated; decide on the host between launches of two graphs",
    ),
    ("UserObject", "a graph keeps no object of the program; keep it until the graph is destroyed"),
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
    ("WaitValue", "streams do not wait for words in memory; use events"),
    ("WriteValue", "streams do not write words; use cudaMemsetAsync"),
    ("BatchMemOp", "streams neither wait for words in memory nor write them; use events and cudaMemsetAsync"),
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
    ("StreamGetAttribute", "attributes of streams change nothing; keep what was set"),
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
    ("cuArray", "a form of CUDA 3.1, with sizes of 32 bits; use the form _v2"),
    ("cuMemcpy", "a form of CUDA 3.1, with sizes of 32 bits; use the form _v2"),
    ("cuMemset", "a form of CUDA 3.1, with sizes of 32 bits; use the form _v2"),
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

#[rustfmt::skip]
unserved! {
    DRIVER, DRIVER_CALLS, Init;
    cuArray3DCreate, cuArray3DGetDescriptor, cuArrayCreate, 
    cuArrayGetDescriptor, cuArrayGetMemoryRequirements, cuArrayGetPlane, cuArrayGetSparseProperties,
    cuCheckpointOperationComplete, cuCheckpointProcessCheckpoint, cuCheckpointProcessGetRestoreThreadId, cuCheckpointProcessGetState,
    cuCheckpointProcessLock, cuCheckpointProcessRestore, cuCheckpointProcessUnlock, cuCoredumpDeregisterCompleteCallback,
    cuCoredumpDeregisterStartCallback, cuCoredumpGetAttribute, cuCoredumpGetAttributeGlobal, cuCoredumpRegisterCompleteCallback,
    cuCoredumpRegisterStartCallback, cuCoredumpSetAttribute, cuCoredumpSetAttributeGlobal, cuCtxFromGreenCtx, cuCtxGetDevResource,
    cuCtxGetExecAffinity, cuCtxRecordEvent, cuCtxWaitEvent, cuDestroyExternalMemory,
    cuDestroyExternalSemaphore, cuDevResourceGenerateDesc, cuDevSmResourceSplit, cuDevSmResourceSplitByCount, cuDeviceGetCliqueCount,
    cuDeviceGetCliqueInfo, cuDeviceGetDevResource, cuDeviceGetExecAffinitySupport, 
    cuDeviceGetHostAtomicCapabilities, cuDeviceGetLuid, cuDeviceGetNvSciSyncAttributes, cuDeviceGetP2PAtomicCapabilities,
    cuDeviceGetTexture1DLinearMaxWidth, cuDeviceRegisterAsyncNotification, 
    cuDeviceUnregisterAsyncNotification, cuExternalMemoryGetMappedBuffer, cuExternalMemoryGetMappedMipmappedArray, cuFabricCpyBatchAsync,
    cuFlushGPUDirectRDMAWrites, cuGraphAddBatchMemOpNode, cuGraphAddExternalSemaphoresSignalNode, cuGraphAddExternalSemaphoresWaitNode,
    cuGraphBatchMemOpNodeGetParams, cuGraphBatchMemOpNodeSetParams, cuGraphConditionalHandleCreate, cuGraphDebugDotPrint,
    cuGraphExecBatchMemOpNodeSetParams, cuGraphExecExternalSemaphoresSignalNodeSetParams, cuGraphExecExternalSemaphoresWaitNodeSetParams,
    cuGraphExecGetId, cuGraphExternalSemaphoresSignalNodeGetParams, cuGraphExternalSemaphoresSignalNodeSetParams,
    cuGraphExternalSemaphoresWaitNodeGetParams, cuGraphExternalSemaphoresWaitNodeSetParams, cuGraphGetId,     cuGraphNodeGetLocalId, cuGraphNodeGetParams, cuGraphNodeGetToolsId, cuGraphReleaseUserObject, cuGraphRetainUserObject,
    cuGraphicsMapResources, cuGraphicsResourceGetMappedMipmappedArray, cuGraphicsResourceGetMappedPointer,
    cuGraphicsResourceGetMappedPointer_v2, cuGraphicsResourceSetMapFlags, cuGraphicsResourceSetMapFlags_v2,
    cuGraphicsSubResourceGetMappedArray, cuGraphicsUnmapResources, cuGraphicsUnregisterResource, cuGreenCtxCreate, cuGreenCtxDestroy,
    cuGreenCtxGetDevResource, cuGreenCtxGetId, cuGreenCtxRecordEvent, cuGreenCtxStreamCreate, cuGreenCtxWaitEvent, cuImportExternalMemory,
    cuImportExternalSemaphore, cuIpcCloseMemHandle, cuIpcGetEventHandle, cuIpcGetMemHandle, cuIpcOpenEventHandle, cuIpcOpenMemHandle,
    cuIpcOpenMemHandle_v2, cuLibraryGetUnifiedFunction, _cuLibraryGetUnifiedFunction, 
    cuLogicalEndpointAddDevice, cuLogicalEndpointBindAddr,
    cuLogsDumpToFile, cuLogsDumpToMemory,
    cuLogicalEndpointBindMem, cuLogicalEndpointCreate, cuLogicalEndpointDestroy, cuLogicalEndpointExport, cuLogicalEndpointGetLimits,
    cuLogicalEndpointIdRelease, cuLogicalEndpointIdReserve, cuLogicalEndpointImport, cuLogicalEndpointQuery, cuLogicalEndpointUnbind,
    
    cuMemBatchDecompressAsync, cuMemDiscardAndPrefetchBatchAsync, cuMemDiscardBatchAsync,
    cuMemExportToShareableHandle, 
    cuMemGetHandleForAddressRange, cuMemGetLocationInfo, cuMemImportFromShareableHandle, cuMemMapArrayAsync,
    cuMemPoolExportToShareableHandle, cuMemPoolImportFromShareableHandle, cuMemPoolImportPointer, cuMemPrefetchBatchAsync,
    cuMemSetMemPool, 
    cuMemcpy3D, cuMemcpy3DAsync, cuMemcpy3DBatchAsync, cuMemcpy3DWithAttributesAsync, cuMemcpyAtoA, cuMemcpyAtoD, cuMemcpyAtoH,
    cuMemcpyAtoHAsync, cuMemcpyDtoA, cuMemcpyHtoA, cuMemcpyHtoAAsync, cuMemcpyWithAttributesAsync, cuMemsetD2D16,
    cuMipmappedArrayGetMemoryRequirements,
    cuMipmappedArrayGetSparseProperties, cuMulticastAddDevice, cuMulticastBindAddr, cuMulticastBindAddr_v2, cuMulticastBindMem,
    cuMulticastBindMem_v2, cuMulticastCreate, cuMulticastGetGranularity, cuMulticastUnbind, cuSignalExternalSemaphoresAsync,
    cuStreamBatchMemOp, cuStreamBeginCaptureToCig, cuStreamBeginRecaptureToGraph, cuStreamEndCaptureToCig, cuStreamGetAttribute,
    cuStreamGetDevResource, cuStreamGetGreenCtx, cuStreamWaitValue32, cuStreamWaitValue64, cuStreamWriteValue32,
    cuStreamWriteValue64, cuSurfObjectGetResourceDesc,
    cuTensorMapEncodeIm2colWide, cuTensorMapSetAllocationClass, cuTexObjectGetResourceDesc,
    cuTexObjectGetResourceViewDesc, cuTexObjectGetTextureDesc, cuTexRefGetAddress_v2, cuTexRefSetAddress2D_v3, cuTexRefSetAddress_v2,
    cuUserObjectCreate, cuUserObjectRelease, cuUserObjectRetain, cuWaitExternalSemaphoresAsync,
}

#[rustfmt::skip]
unserved! {
    RUNTIME, RUNTIME_CALLS, Primary;
    cudaArrayGetMemoryRequirements, cudaArrayGetPlane, cudaArrayGetSparseProperties, 
    cudaDestroyExternalMemory, cudaDestroyExternalSemaphore, 
    cudaDevResourceGenerateDesc, cudaDevSmResourceSplit, cudaDevSmResourceSplitByCount, cudaDeviceFlushGPUDirectRDMAWrites,
    cudaDeviceGetDevResource, cudaDeviceGetExecutionCtx, cudaDeviceGetHostAtomicCapabilities,
    cudaDeviceGetNvSciSyncAttributes, cudaDeviceGetP2PAtomicCapabilities, cudaDeviceGetTexture1DLinearMaxWidth,
    cudaDeviceRegisterAsyncNotification, cudaDeviceUnregisterAsyncNotification,
    cudaEGLStreamConsumerAcquireFrame, cudaEGLStreamConsumerConnect, cudaEGLStreamConsumerConnectWithFlags, cudaEGLStreamConsumerDisconnect,
    cudaEGLStreamConsumerReleaseFrame, cudaEGLStreamProducerConnect, cudaEGLStreamProducerDisconnect, cudaEGLStreamProducerPresentFrame,
    cudaEGLStreamProducerReturnFrame, cudaEventCreateFromEGLSync, cudaExecutionCtxDestroy, cudaExecutionCtxGetDevResource,
    cudaExecutionCtxGetDevice, cudaExecutionCtxGetId, cudaExecutionCtxRecordEvent, cudaExecutionCtxStreamCreate,
    cudaExecutionCtxSynchronize, cudaExecutionCtxWaitEvent, cudaExternalMemoryGetMappedBuffer, cudaExternalMemoryGetMappedMipmappedArray,
    cudaGLGetDevices, cudaGLMapBufferObject,
    cudaGLMapBufferObjectAsync, cudaGLRegisterBufferObject, cudaGLSetBufferObjectMapFlags, cudaGLSetGLDevice, cudaGLUnmapBufferObject,
    cudaGLUnmapBufferObjectAsync, cudaGLUnregisterBufferObject, cudaGetExportTable, 
    cudaGetSurfaceObjectResourceDesc, cudaGetTextureObjectResourceDesc, cudaGetTextureObjectResourceViewDesc,
    cudaGetTextureObjectTextureDesc, cudaGraphAddExternalSemaphoresSignalNode, cudaGraphAddExternalSemaphoresWaitNode,
    cudaGraphAddMemcpyNodeFromSymbol, cudaGraphAddMemcpyNodeToSymbol, cudaGraphConditionalHandleCreate, cudaGraphConditionalHandleCreate_v2,
    cudaGraphDebugDotPrint, cudaGraphExecExternalSemaphoresSignalNodeSetParams, cudaGraphExecExternalSemaphoresWaitNodeSetParams,
    cudaGraphExecGetId, cudaGraphExecMemcpyNodeSetParamsFromSymbol, cudaGraphExecMemcpyNodeSetParamsToSymbol,
    cudaGraphExternalSemaphoresSignalNodeGetParams, cudaGraphExternalSemaphoresSignalNodeSetParams,
    cudaGraphExternalSemaphoresWaitNodeGetParams, cudaGraphExternalSemaphoresWaitNodeSetParams, cudaGraphGetId,
    cudaGraphMemcpyNodeSetParamsFromSymbol, cudaGraphMemcpyNodeSetParamsToSymbol, cudaGraphNodeGetLocalId,
    cudaGraphNodeGetParams, cudaGraphNodeGetToolsId, cudaGraphReleaseUserObject, cudaGraphRetainUserObject, cudaGraphicsEGLRegisterImage,
    cudaGraphicsGLRegisterBuffer, cudaGraphicsGLRegisterImage, cudaGraphicsMapResources, cudaGraphicsResourceGetMappedEglFrame,
    cudaGraphicsResourceGetMappedMipmappedArray, cudaGraphicsResourceGetMappedPointer, cudaGraphicsResourceSetMapFlags,
    cudaGraphicsSubResourceGetMappedArray, cudaGraphicsUnmapResources, cudaGraphicsUnregisterResource,
    cudaGraphicsVDPAURegisterOutputSurface, cudaGraphicsVDPAURegisterVideoSurface, cudaGreenCtxCreate, cudaImportExternalMemory,
    cudaImportExternalSemaphore, cudaIpcCloseMemHandle, cudaIpcGetEventHandle, cudaIpcGetMemHandle, cudaIpcOpenEventHandle,
    cudaIpcOpenMemHandle, cudaLibraryGetUnifiedFunction, _cudaLibraryGetUnifiedFunction,
    cudaLogsDumpToFile, cudaLogsDumpToMemory, 
    cudaMemDiscardAndPrefetchBatchAsync, cudaMemDiscardAndPrefetchBatchAsync_ptsz, cudaMemDiscardBatchAsync,
    cudaMemDiscardBatchAsync_ptsz, cudaMemGetLocationInfo, cudaMemPoolExportToShareableHandle, cudaMemPoolImportFromShareableHandle,
    cudaMemPoolImportPointer, cudaMemPrefetchBatchAsync, cudaMemPrefetchBatchAsync_ptsz, 
    cudaMemSetMemPool, 
    
    cudaMemcpy3DBatchAsync, cudaMemcpy3DBatchAsync_ptsz,
    cudaMemcpy3DWithAttributesAsync, cudaMemcpy3DWithAttributesAsync_ptsz, cudaMemcpyArrayToArray, cudaMemcpyArrayToArray_ptds,
    
    
    cudaMemcpyWithAttributesAsync, cudaMemcpyWithAttributesAsync_ptsz, cudaMipmappedArrayGetMemoryRequirements,
    cudaMipmappedArrayGetSparseProperties, cudaSignalExternalSemaphoresAsync, cudaSignalExternalSemaphoresAsync_ptsz,
    cudaStreamBeginRecaptureToGraph, cudaStreamBeginRecaptureToGraph_ptsz, cudaStreamGetAttribute, cudaStreamGetAttribute_ptsz,
    cudaStreamGetDevResource, cudaStreamGetDevResource_ptsz, cudaSubgridCreate, cudaSubgridWorkerGridCreate, cudaSubgridWorksetCreate,
    cudaUserObjectCreate, cudaUserObjectRelease, cudaUserObjectRetain, cudaVDPAUGetDevice, cudaVDPAUSetVDPAUDevice,
    cudaWaitExternalSemaphoresAsync, cudaWaitExternalSemaphoresAsync_ptsz,
}
