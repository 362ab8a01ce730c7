//! Functions of the headers that are not served: each names itself once and returns `CUDA_ERROR_NOT_SUPPORTED`, so that a program that links
//! them starts.
#![expect(unsafe_code, reason = "exported names")]

use std::ffi::{c_int, c_void};

use crate::api::missed;

macro_rules! unserved {
    ($find:ident; $($name:ident,)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name() -> c_int {
                missed(stringify!($name))
            }
        )*

        /// The stub of a name.
        pub(crate) fn $find(name: &str) -> Option<*const c_void> {
            match name {
                $(stringify!($name) => Some($name as *const c_void),)*
                _ => None,
            }
        }
    };
}

#[rustfmt::skip]
unserved! {
    driver_stub;
    cuArray3DCreate, cuArray3DCreate_v2, cuArray3DGetDescriptor, cuArray3DGetDescriptor_v2, cuArrayCreate, cuArrayCreate_v2, cuArrayDestroy,
    cuArrayGetDescriptor, cuArrayGetDescriptor_v2, cuArrayGetMemoryRequirements, cuArrayGetPlane, cuArrayGetSparseProperties,
    cuCheckpointOperationComplete, cuCheckpointProcessCheckpoint, cuCheckpointProcessGetRestoreThreadId, cuCheckpointProcessGetState,
    cuCheckpointProcessLock, cuCheckpointProcessRestore, cuCheckpointProcessUnlock, cuCoredumpDeregisterCompleteCallback,
    cuCoredumpDeregisterStartCallback, cuCoredumpGetAttribute, cuCoredumpGetAttributeGlobal, cuCoredumpRegisterCompleteCallback,
    cuCoredumpRegisterStartCallback, cuCoredumpSetAttribute, cuCoredumpSetAttributeGlobal, cuCtxDisablePeerAccess, cuCtxEnablePeerAccess,
    cuCtxFromGreenCtx, cuCtxGetDevResource, cuCtxGetDevice_v2, cuCtxGetExecAffinity, cuCtxRecordEvent, cuCtxResetPersistingL2Cache,
    cuCtxSetFlags, cuCtxSynchronize_v2, cuCtxWaitEvent, cuDestroyExternalMemory, cuDestroyExternalSemaphore, cuDevResourceGenerateDesc,
    cuDevSmResourceSplit, cuDevSmResourceSplitByCount, cuDeviceGetByPCIBusId, cuDeviceGetCliqueCount, cuDeviceGetCliqueInfo,
    cuDeviceGetDevResource, cuDeviceGetExecAffinitySupport, cuDeviceGetGraphMemAttribute, cuDeviceGetHostAtomicCapabilities,
    cuDeviceGetLuid, cuDeviceGetNvSciSyncAttributes, cuDeviceGetP2PAtomicCapabilities, cuDeviceGetP2PAttribute,
    cuDeviceGetTexture1DLinearMaxWidth, cuDeviceGraphMemTrim, cuDeviceRegisterAsyncNotification, cuDeviceSetGraphMemAttribute,
    cuDeviceSetMemPool, cuDeviceUnregisterAsyncNotification, cuExternalMemoryGetMappedBuffer, cuExternalMemoryGetMappedMipmappedArray,
    cuFabricCpyBatchAsync, cuFlushGPUDirectRDMAWrites, cuFuncGetName, cuFuncGetParamCount, cuGraphAddBatchMemOpNode,
    cuGraphAddChildGraphNode, cuGraphAddDependencies, cuGraphAddDependencies_v2, cuGraphAddEmptyNode, cuGraphAddEventRecordNode,
    cuGraphAddEventWaitNode, cuGraphAddExternalSemaphoresSignalNode, cuGraphAddExternalSemaphoresWaitNode, cuGraphAddHostNode,
    cuGraphAddKernelNode, cuGraphAddKernelNode_v2, cuGraphAddMemAllocNode, cuGraphAddMemFreeNode, cuGraphAddMemcpyNode,
    cuGraphAddMemsetNode, cuGraphAddNode, cuGraphAddNode_v2, cuGraphAddNode_v3, cuGraphBatchMemOpNodeGetParams,
    cuGraphBatchMemOpNodeSetParams, cuGraphChildGraphNodeGetGraph, cuGraphClone, cuGraphConditionalHandleCreate, cuGraphCreate,
    cuGraphDebugDotPrint, cuGraphDestroy, cuGraphDestroyNode, cuGraphEventRecordNodeGetEvent, cuGraphEventRecordNodeSetEvent,
    cuGraphEventWaitNodeGetEvent, cuGraphEventWaitNodeSetEvent, cuGraphExecBatchMemOpNodeSetParams, cuGraphExecChildGraphNodeSetParams,
    cuGraphExecDestroy, cuGraphExecEventRecordNodeSetEvent, cuGraphExecEventWaitNodeSetEvent,
    cuGraphExecExternalSemaphoresSignalNodeSetParams, cuGraphExecExternalSemaphoresWaitNodeSetParams, cuGraphExecGetFlags, cuGraphExecGetId,
    cuGraphExecHostNodeSetParams, cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams_v2, cuGraphExecMemcpyNodeSetParams,
    cuGraphExecMemsetNodeSetParams, cuGraphExecNodeSetParams, cuGraphExecUpdate, cuGraphExecUpdate_v2,
    cuGraphExternalSemaphoresSignalNodeGetParams, cuGraphExternalSemaphoresSignalNodeSetParams, cuGraphExternalSemaphoresWaitNodeGetParams,
    cuGraphExternalSemaphoresWaitNodeSetParams, cuGraphGetEdges, cuGraphGetEdges_v2, cuGraphGetId, cuGraphGetNodes, cuGraphGetRootNodes,
    cuGraphHostNodeGetParams, cuGraphHostNodeSetParams, cuGraphInstantiate, cuGraphInstantiateWithParams, cuGraphKernelNodeCopyAttributes,
    cuGraphKernelNodeGetAttribute, cuGraphKernelNodeGetParams, cuGraphKernelNodeGetParams_v2, cuGraphKernelNodeSetAttribute,
    cuGraphKernelNodeSetParams, cuGraphKernelNodeSetParams_v2, cuGraphLaunch, cuGraphMemAllocNodeGetParams, cuGraphMemFreeNodeGetParams,
    cuGraphMemcpyNodeGetParams, cuGraphMemcpyNodeSetParams, cuGraphMemsetNodeGetParams, cuGraphMemsetNodeSetParams, cuGraphNodeFindInClone,
    cuGraphNodeGetContainingGraph, cuGraphNodeGetDependencies, cuGraphNodeGetDependencies_v2, cuGraphNodeGetDependentNodes,
    cuGraphNodeGetDependentNodes_v2, cuGraphNodeGetEnabled, cuGraphNodeGetLocalId, cuGraphNodeGetParams, cuGraphNodeGetToolsId,
    cuGraphNodeGetType, cuGraphNodeSetEnabled, cuGraphNodeSetParams, cuGraphNodeSetParams_v2, cuGraphReleaseUserObject,
    cuGraphRemoveDependencies, cuGraphRemoveDependencies_v2, cuGraphRetainUserObject, cuGraphUpload, cuGraphicsMapResources,
    cuGraphicsResourceGetMappedMipmappedArray, cuGraphicsResourceGetMappedPointer, cuGraphicsResourceGetMappedPointer_v2,
    cuGraphicsResourceSetMapFlags, cuGraphicsResourceSetMapFlags_v2, cuGraphicsSubResourceGetMappedArray, cuGraphicsUnmapResources,
    cuGraphicsUnregisterResource, cuGreenCtxCreate, cuGreenCtxDestroy, cuGreenCtxGetDevResource, cuGreenCtxGetId, cuGreenCtxRecordEvent,
    cuGreenCtxStreamCreate, cuGreenCtxWaitEvent, cuImportExternalMemory, cuImportExternalSemaphore, cuIpcCloseMemHandle,
    cuIpcGetEventHandle, cuIpcGetMemHandle, cuIpcOpenEventHandle, cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, cuKernelGetLibrary,
    cuKernelGetName, cuKernelGetParamCount, cuKernelGetParamInfo, cuLaunchHostFunc_v2, cuLibraryEnumerateKernels, cuLibraryGetManaged,
    cuLibraryGetUnifiedFunction, cuLinkAddData, cuLinkAddData_v2, cuLinkAddFile, cuLinkAddFile_v2, cuLinkComplete, cuLinkCreate,
    cuLinkCreate_v2, cuLinkDestroy, cuLogicalEndpointAddDevice, cuLogicalEndpointBindAddr, cuLogicalEndpointBindMem,
    cuLogicalEndpointCreate, cuLogicalEndpointDestroy, cuLogicalEndpointExport, cuLogicalEndpointGetLimits, cuLogicalEndpointIdRelease,
    cuLogicalEndpointIdReserve, cuLogicalEndpointImport, cuLogicalEndpointQuery, cuLogicalEndpointUnbind, cuLogsCurrent, cuLogsDumpToFile,
    cuLogsDumpToMemory, cuLogsRegisterCallback, cuLogsUnregisterCallback, cuMemAddressFree, cuMemAddressReserve, cuMemBatchDecompressAsync,
    cuMemCreate, cuMemDiscardAndPrefetchBatchAsync, cuMemDiscardBatchAsync, cuMemExportToShareableHandle, cuMemGetAccess,
    cuMemGetAllocationGranularity, cuMemGetAllocationPropertiesFromHandle, cuMemGetDefaultMemPool, cuMemGetHandleForAddressRange,
    cuMemGetLocationInfo, cuMemGetMemPool, cuMemImportFromShareableHandle, cuMemMap, cuMemMapArrayAsync, cuMemPoolCreate, cuMemPoolDestroy,
    cuMemPoolExportPointer, cuMemPoolExportToShareableHandle, cuMemPoolGetAccess, cuMemPoolImportFromShareableHandle,
    cuMemPoolImportPointer, cuMemPoolSetAccess, cuMemPrefetchBatchAsync, cuMemRangeGetAttribute, cuMemRangeGetAttributes, cuMemRelease,
    cuMemRetainAllocationHandle, cuMemSetAccess, cuMemSetMemPool, cuMemUnmap, cuMemcpy3D, cuMemcpy3DAsync, cuMemcpy3DBatchAsync,
    cuMemcpy3DPeer, cuMemcpy3DPeerAsync, cuMemcpy3DWithAttributesAsync, cuMemcpyAtoA, cuMemcpyAtoD, cuMemcpyAtoH, cuMemcpyAtoHAsync,
    cuMemcpyBatchAsync, cuMemcpyDtoA, cuMemcpyHtoA, cuMemcpyHtoAAsync, cuMemcpyWithAttributesAsync, cuMemsetD2D16, cuMemsetD2D16Async,
    cuMemsetD2D32Async, cuMipmappedArrayCreate, cuMipmappedArrayDestroy, cuMipmappedArrayGetLevel, cuMipmappedArrayGetMemoryRequirements,
    cuMipmappedArrayGetSparseProperties, cuMulticastAddDevice, cuMulticastBindAddr, cuMulticastBindAddr_v2, cuMulticastBindMem,
    cuMulticastBindMem_v2, cuMulticastCreate, cuMulticastGetGranularity, cuMulticastUnbind, cuOccupancyAvailableDynamicSMemPerBlock,
    cuOccupancyMaxPotentialBlockSizeWithFlags, cuPointerGetAttributes, cuPointerSetAttribute, cuSignalExternalSemaphoresAsync,
    cuStreamAddCallback, cuStreamAttachMemAsync, cuStreamBatchMemOp, cuStreamBeginCapture, cuStreamBeginCaptureToCig,
    cuStreamBeginCaptureToGraph, cuStreamBeginRecaptureToGraph, cuStreamCopyAttributes, cuStreamEndCapture, cuStreamEndCaptureToCig,
    cuStreamGetAttribute, cuStreamGetCtx_v2, cuStreamGetDevResource, cuStreamGetGreenCtx, cuStreamSetAttribute,
    cuStreamUpdateCaptureDependencies, cuStreamWaitValue32, cuStreamWaitValue64, cuStreamWriteValue32, cuStreamWriteValue64,
    cuSurfObjectCreate, cuSurfObjectDestroy, cuSurfObjectGetResourceDesc, cuTensorMapEncodeIm2col, cuTensorMapEncodeIm2colWide,
    cuTensorMapSetAllocationClass, cuTexObjectCreate, cuTexObjectDestroy, cuTexObjectGetResourceDesc, cuTexObjectGetResourceViewDesc,
    cuTexObjectGetTextureDesc, cuTexRefGetAddress_v2, cuTexRefSetAddress2D_v3, cuTexRefSetAddress_v2, cuUserObjectCreate,
    cuUserObjectRelease, cuUserObjectRetain, cuWaitExternalSemaphoresAsync,
}

#[rustfmt::skip]
unserved! {
    runtime_stub;
    cudaArrayGetInfo, cudaArrayGetMemoryRequirements, cudaArrayGetPlane, cudaArrayGetSparseProperties, cudaCreateSurfaceObject,
    cudaCreateTextureObject, cudaDestroyExternalMemory, cudaDestroyExternalSemaphore, cudaDestroySurfaceObject, cudaDestroyTextureObject,
    cudaDevResourceGenerateDesc, cudaDevSmResourceSplit, cudaDevSmResourceSplitByCount, cudaDeviceDisablePeerAccess,
    cudaDeviceFlushGPUDirectRDMAWrites, cudaDeviceGetByPCIBusId, cudaDeviceGetDevResource, cudaDeviceGetExecutionCtx,
    cudaDeviceGetGraphMemAttribute, cudaDeviceGetHostAtomicCapabilities, cudaDeviceGetNvSciSyncAttributes,
    cudaDeviceGetP2PAtomicCapabilities, cudaDeviceGetP2PAttribute, cudaDeviceGetTexture1DLinearMaxWidth, cudaDeviceGraphMemTrim,
    cudaDeviceRegisterAsyncNotification, cudaDeviceSetGraphMemAttribute, cudaDeviceUnregisterAsyncNotification,
    cudaEGLStreamConsumerAcquireFrame, cudaEGLStreamConsumerConnect, cudaEGLStreamConsumerConnectWithFlags, cudaEGLStreamConsumerDisconnect,
    cudaEGLStreamConsumerReleaseFrame, cudaEGLStreamProducerConnect, cudaEGLStreamProducerDisconnect, cudaEGLStreamProducerPresentFrame,
    cudaEGLStreamProducerReturnFrame, cudaEventCreateFromEGLSync, cudaEventRecordWithFlags_ptsz, cudaEventRecord_ptsz,
    cudaExecutionCtxDestroy, cudaExecutionCtxGetDevResource, cudaExecutionCtxGetDevice, cudaExecutionCtxGetId, cudaExecutionCtxRecordEvent,
    cudaExecutionCtxStreamCreate, cudaExecutionCtxSynchronize, cudaExecutionCtxWaitEvent, cudaExternalMemoryGetMappedBuffer,
    cudaExternalMemoryGetMappedMipmappedArray, cudaFreeArray, cudaFreeMipmappedArray, cudaFuncGetName, cudaFuncGetParamCount,
    cudaFuncGetParamInfo, cudaGLGetDevices, cudaGLMapBufferObject, cudaGLMapBufferObjectAsync, cudaGLRegisterBufferObject,
    cudaGLSetBufferObjectMapFlags, cudaGLSetGLDevice, cudaGLUnmapBufferObject, cudaGLUnmapBufferObjectAsync, cudaGLUnregisterBufferObject,
    cudaGetChannelDesc, cudaGetDriverEntryPointByVersion_ptsz, cudaGetDriverEntryPoint_ptsz, cudaGetExportTable, cudaGetMipmappedArrayLevel,
    cudaGetSurfaceObjectResourceDesc, cudaGetTextureObjectResourceDesc, cudaGetTextureObjectResourceViewDesc,
    cudaGetTextureObjectTextureDesc, cudaGraphAddChildGraphNode, cudaGraphAddDependencies, cudaGraphAddEmptyNode,
    cudaGraphAddEventRecordNode, cudaGraphAddEventWaitNode, cudaGraphAddExternalSemaphoresSignalNode,
    cudaGraphAddExternalSemaphoresWaitNode, cudaGraphAddHostNode, cudaGraphAddKernelNode, cudaGraphAddMemAllocNode, cudaGraphAddMemFreeNode,
    cudaGraphAddMemcpyNode, cudaGraphAddMemcpyNode1D, cudaGraphAddMemcpyNodeFromSymbol, cudaGraphAddMemcpyNodeToSymbol,
    cudaGraphAddMemsetNode, cudaGraphAddNode, cudaGraphChildGraphNodeGetGraph, cudaGraphClone, cudaGraphConditionalHandleCreate,
    cudaGraphConditionalHandleCreate_v2, cudaGraphCreate, cudaGraphDebugDotPrint, cudaGraphDestroy, cudaGraphDestroyNode,
    cudaGraphEventRecordNodeGetEvent, cudaGraphEventRecordNodeSetEvent, cudaGraphEventWaitNodeGetEvent, cudaGraphEventWaitNodeSetEvent,
    cudaGraphExecChildGraphNodeSetParams, cudaGraphExecDestroy, cudaGraphExecEventRecordNodeSetEvent, cudaGraphExecEventWaitNodeSetEvent,
    cudaGraphExecExternalSemaphoresSignalNodeSetParams, cudaGraphExecExternalSemaphoresWaitNodeSetParams, cudaGraphExecGetFlags,
    cudaGraphExecGetId, cudaGraphExecHostNodeSetParams, cudaGraphExecKernelNodeSetParams, cudaGraphExecMemcpyNodeSetParams,
    cudaGraphExecMemcpyNodeSetParams1D, cudaGraphExecMemcpyNodeSetParamsFromSymbol, cudaGraphExecMemcpyNodeSetParamsToSymbol,
    cudaGraphExecMemsetNodeSetParams, cudaGraphExecNodeSetParams, cudaGraphExecUpdate, cudaGraphExternalSemaphoresSignalNodeGetParams,
    cudaGraphExternalSemaphoresSignalNodeSetParams, cudaGraphExternalSemaphoresWaitNodeGetParams,
    cudaGraphExternalSemaphoresWaitNodeSetParams, cudaGraphGetEdges, cudaGraphGetId, cudaGraphGetNodes, cudaGraphGetRootNodes,
    cudaGraphHostNodeGetParams, cudaGraphHostNodeSetParams, cudaGraphInstantiate, cudaGraphInstantiateWithFlags,
    cudaGraphInstantiateWithParams, cudaGraphInstantiateWithParams_ptsz, cudaGraphKernelNodeCopyAttributes, cudaGraphKernelNodeGetAttribute,
    cudaGraphKernelNodeGetParams, cudaGraphKernelNodeSetAttribute, cudaGraphKernelNodeSetParams, cudaGraphLaunch, cudaGraphLaunch_ptsz,
    cudaGraphMemAllocNodeGetParams, cudaGraphMemFreeNodeGetParams, cudaGraphMemcpyNodeGetParams, cudaGraphMemcpyNodeSetParams,
    cudaGraphMemcpyNodeSetParams1D, cudaGraphMemcpyNodeSetParamsFromSymbol, cudaGraphMemcpyNodeSetParamsToSymbol,
    cudaGraphMemsetNodeGetParams, cudaGraphMemsetNodeSetParams, cudaGraphNodeFindInClone, cudaGraphNodeGetContainingGraph,
    cudaGraphNodeGetDependencies, cudaGraphNodeGetDependentNodes, cudaGraphNodeGetEnabled, cudaGraphNodeGetLocalId, cudaGraphNodeGetParams,
    cudaGraphNodeGetToolsId, cudaGraphNodeGetType, cudaGraphNodeSetEnabled, cudaGraphNodeSetParams, cudaGraphReleaseUserObject,
    cudaGraphRemoveDependencies, cudaGraphRetainUserObject, cudaGraphUpload, cudaGraphUpload_ptsz, cudaGraphicsEGLRegisterImage,
    cudaGraphicsGLRegisterBuffer, cudaGraphicsGLRegisterImage, cudaGraphicsMapResources, cudaGraphicsResourceGetMappedEglFrame,
    cudaGraphicsResourceGetMappedMipmappedArray, cudaGraphicsResourceGetMappedPointer, cudaGraphicsResourceSetMapFlags,
    cudaGraphicsSubResourceGetMappedArray, cudaGraphicsUnmapResources, cudaGraphicsUnregisterResource,
    cudaGraphicsVDPAURegisterOutputSurface, cudaGraphicsVDPAURegisterVideoSurface, cudaGreenCtxCreate, cudaImportExternalMemory,
    cudaImportExternalSemaphore, cudaIpcCloseMemHandle, cudaIpcGetEventHandle, cudaIpcGetMemHandle, cudaIpcOpenEventHandle,
    cudaIpcOpenMemHandle, cudaLaunchCooperativeKernel_ptsz, cudaLaunchHostFunc_ptsz, cudaLaunchHostFunc_v2, cudaLaunchHostFunc_v2_ptsz,
    cudaLaunchKernelExC_ptsz, cudaLaunchKernel_ptsz, cudaLibraryEnumerateKernels, cudaLibraryGetGlobal, cudaLibraryGetKernelCount,
    cudaLibraryGetManaged, cudaLibraryGetUnifiedFunction, cudaLibraryLoadFromFile, cudaLogsCurrent, cudaLogsDumpToFile,
    cudaLogsDumpToMemory, cudaLogsRegisterCallback, cudaLogsUnregisterCallback, cudaMalloc3D, cudaMalloc3DArray, cudaMallocArray,
    cudaMallocFromPoolAsync_ptsz, cudaMallocMipmappedArray, cudaMemDiscardAndPrefetchBatchAsync, cudaMemDiscardAndPrefetchBatchAsync_ptsz,
    cudaMemDiscardBatchAsync, cudaMemDiscardBatchAsync_ptsz, cudaMemGetDefaultMemPool, cudaMemGetLocationInfo, cudaMemGetMemPool,
    cudaMemPoolExportPointer, cudaMemPoolExportToShareableHandle, cudaMemPoolGetAccess, cudaMemPoolImportFromShareableHandle,
    cudaMemPoolImportPointer, cudaMemPrefetchAsync_ptsz, cudaMemPrefetchBatchAsync, cudaMemPrefetchBatchAsync_ptsz,
    cudaMemRangeGetAttribute, cudaMemRangeGetAttributes, cudaMemSetMemPool, cudaMemcpy2DArrayToArray, cudaMemcpy2DArrayToArray_ptds,
    cudaMemcpy2DAsync_ptsz, cudaMemcpy2DFromArray, cudaMemcpy2DFromArrayAsync, cudaMemcpy2DFromArrayAsync_ptsz, cudaMemcpy2DFromArray_ptds,
    cudaMemcpy2DToArray, cudaMemcpy2DToArrayAsync, cudaMemcpy2DToArrayAsync_ptsz, cudaMemcpy2DToArray_ptds, cudaMemcpy2D_ptds, cudaMemcpy3D,
    cudaMemcpy3DAsync, cudaMemcpy3DAsync_ptsz, cudaMemcpy3DBatchAsync, cudaMemcpy3DBatchAsync_ptsz, cudaMemcpy3DPeer, cudaMemcpy3DPeerAsync,
    cudaMemcpy3DPeerAsync_ptsz, cudaMemcpy3DPeer_ptds, cudaMemcpy3DWithAttributesAsync, cudaMemcpy3DWithAttributesAsync_ptsz,
    cudaMemcpy3D_ptds, cudaMemcpyArrayToArray, cudaMemcpyArrayToArray_ptds, cudaMemcpyBatchAsync, cudaMemcpyBatchAsync_ptsz,
    cudaMemcpyFromArray, cudaMemcpyFromArrayAsync, cudaMemcpyFromArrayAsync_ptsz, cudaMemcpyFromArray_ptds, cudaMemcpyFromSymbolAsync_ptsz,
    cudaMemcpyFromSymbol_ptds, cudaMemcpyToArray, cudaMemcpyToArrayAsync, cudaMemcpyToArrayAsync_ptsz, cudaMemcpyToArray_ptds,
    cudaMemcpyToSymbolAsync_ptsz, cudaMemcpyToSymbol_ptds, cudaMemcpyWithAttributesAsync, cudaMemcpyWithAttributesAsync_ptsz,
    cudaMemset2DAsync_ptsz, cudaMemset2D_ptds, cudaMemset3D, cudaMemset3DAsync, cudaMemset3DAsync_ptsz, cudaMemset3D_ptds,
    cudaMemsetAsync_ptsz, cudaMemset_ptds, cudaMipmappedArrayGetMemoryRequirements, cudaMipmappedArrayGetSparseProperties,
    cudaSignalExternalSemaphoresAsync, cudaSignalExternalSemaphoresAsync_ptsz, cudaStreamAddCallback_ptsz, cudaStreamAttachMemAsync_ptsz,
    cudaStreamBeginCapture, cudaStreamBeginCaptureToGraph, cudaStreamBeginCaptureToGraph_ptsz, cudaStreamBeginCapture_ptsz,
    cudaStreamBeginRecaptureToGraph, cudaStreamBeginRecaptureToGraph_ptsz, cudaStreamCopyAttributes, cudaStreamCopyAttributes_ptsz,
    cudaStreamEndCapture, cudaStreamEndCapture_ptsz, cudaStreamGetAttribute, cudaStreamGetAttribute_ptsz, cudaStreamGetCaptureInfo_ptsz,
    cudaStreamGetDevResource, cudaStreamGetDevResource_ptsz, cudaStreamGetDevice_ptsz, cudaStreamGetFlags_ptsz, cudaStreamGetId_ptsz,
    cudaStreamGetPriority_ptsz, cudaStreamIsCapturing_ptsz, cudaStreamQuery_ptsz, cudaStreamSetAttribute_ptsz, cudaStreamSynchronize_ptsz,
    cudaStreamUpdateCaptureDependencies, cudaStreamUpdateCaptureDependencies_ptsz, cudaStreamWaitEvent_ptsz, cudaSubgridCreate,
    cudaSubgridWorkerGridCreate, cudaSubgridWorksetCreate, cudaUserObjectCreate, cudaUserObjectRelease, cudaUserObjectRetain,
    cudaVDPAUGetDevice, cudaVDPAUSetVDPAUDevice, cudaWaitExternalSemaphoresAsync, cudaWaitExternalSemaphoresAsync_ptsz,
}
