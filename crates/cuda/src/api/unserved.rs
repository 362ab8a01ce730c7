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

#[rustfmt::skip]
unserved! {
    DRIVER, DRIVER_CALLS, Init;
    _cuLibraryGetUnifiedFunction, cuArray3DCreate, cuArray3DGetDescriptor, cuArrayCreate, cuArrayGetDescriptor, cuArrayGetMemoryRequirements,
    cuArrayGetPlane, cuArrayGetSparseProperties, cuCheckpointOperationComplete, cuCheckpointProcessCheckpoint, cuCheckpointProcessGetRestoreThreadId,
    cuCheckpointProcessGetState, cuCheckpointProcessLock, cuCheckpointProcessRestore, cuCheckpointProcessUnlock, cuCoredumpDeregisterCompleteCallback,
    cuCoredumpDeregisterStartCallback, cuCoredumpGetAttribute, cuCoredumpGetAttributeGlobal, cuCoredumpRegisterCompleteCallback,
    cuCoredumpRegisterStartCallback, cuCoredumpSetAttribute, cuCoredumpSetAttributeGlobal, cuCtxAttach, cuCtxDetach,
    cuCtxFromGreenCtx, cuCtxGetDevResource, cuCtxGetExecAffinity, cuCtxRecordEvent, cuCtxWaitEvent,
    cuDestroyExternalMemory, cuDestroyExternalSemaphore, cuDevResourceGenerateDesc, cuDevSmResourceSplit, cuDevSmResourceSplitByCount,
    cuDeviceGetCliqueCount, cuDeviceGetCliqueInfo, cuDeviceGetDevResource, cuDeviceGetExecAffinitySupport, cuDeviceGetFabricClusterUuid,
    cuDeviceGetHostAtomicCapabilities, cuDeviceGetLuid, cuDeviceGetNvSciSyncAttributes, cuDeviceGetP2PAtomicCapabilities, cuDeviceGetProperties,
    cuDeviceGetTexture1DLinearMaxWidth, 
    cuDeviceRegisterAsyncNotification, cuDeviceTotalMem, cuDeviceUnregisterAsyncNotification, cuExternalMemoryGetMappedBuffer,
    cuExternalMemoryGetMappedMipmappedArray, cuFabricCpyBatchAsync, cuFabricCpyBatchAsync_ptsz, cuFlushGPUDirectRDMAWrites, cuFuncSetBlockShape,
    cuFuncSetSharedSize, cuGraphAddBatchMemOpNode, cuGraphAddExternalSemaphoresSignalNode, cuGraphAddExternalSemaphoresWaitNode,
    cuGraphBatchMemOpNodeGetParams, cuGraphBatchMemOpNodeSetParams, cuGraphDebugDotPrint,
    cuGraphExecBatchMemOpNodeSetParams, cuGraphExecExternalSemaphoresSignalNodeSetParams, cuGraphExecExternalSemaphoresWaitNodeSetParams,
    cuGraphExecGetId, cuGraphExternalSemaphoresSignalNodeGetParams, cuGraphExternalSemaphoresSignalNodeSetParams,
    cuGraphExternalSemaphoresWaitNodeGetParams, cuGraphExternalSemaphoresWaitNodeSetParams, cuGraphGetId, cuGraphNodeGetLocalId, cuGraphNodeGetParams,
    cuGraphNodeGetToolsId, cuGraphicsMapResources, cuGraphicsMapResources_ptsz,
    cuGraphicsResourceGetMappedMipmappedArray, cuGraphicsResourceGetMappedPointer, cuGraphicsResourceGetMappedPointer_v2,
    cuGraphicsResourceSetMapFlags, cuGraphicsResourceSetMapFlags_v2, cuGraphicsSubResourceGetMappedArray, cuGraphicsUnmapResources,
    cuGraphicsUnmapResources_ptsz, cuGraphicsUnregisterResource, cuGreenCtxCreate, cuGreenCtxDestroy, cuGreenCtxGetDevResource, cuGreenCtxGetId,
    cuGreenCtxRecordEvent, cuGreenCtxStreamCreate, cuGreenCtxWaitEvent, cuImportExternalMemory, cuImportExternalSemaphore, cuIpcCloseMemHandle,
    cuIpcGetEventHandle, cuIpcGetMemHandle, cuIpcOpenEventHandle, cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, cuLaunch,
    cuLaunchCooperativeKernelMultiDevice, cuLaunchGrid, cuLaunchGridAsync, cuLibraryGetUnifiedFunction,
    cuLogicalEndpointAddDevice, cuLogicalEndpointBindAddr, cuLogicalEndpointBindMem, cuLogicalEndpointCreate, cuLogicalEndpointDestroy,
    cuLogicalEndpointExport, cuLogicalEndpointGetLimits, cuLogicalEndpointIdRelease, cuLogicalEndpointIdReserve, cuLogicalEndpointImport,
    cuLogicalEndpointQuery, cuLogicalEndpointUnbind, cuLogsDumpToFile, cuLogsDumpToMemory, cuMemAlloc, cuMemAllocHost, cuMemAllocPitch,
    cuMemBatchDecompressAsync, cuMemBatchDecompressAsync_ptsz, cuMemDiscardAndPrefetchBatchAsync, cuMemDiscardAndPrefetchBatchAsync_ptsz,
    cuMemDiscardBatchAsync, cuMemDiscardBatchAsync_ptsz, cuMemExportToShareableHandle, cuMemFree, cuMemGetAddressRange, cuMemGetHandleForAddressRange,
    cuMemGetInfo, cuMemGetLocationInfo, cuMemHostGetDevicePointer, cuMemImportFromShareableHandle, cuMemMapArrayAsync,
    cuMemMapArrayAsync_ptsz, cuMemPoolExportToShareableHandle, cuMemPoolImportFromShareableHandle, cuMemPoolImportPointer, cuMemPrefetchBatchAsync,
    cuMemPrefetchBatchAsync_ptsz, cuMemSetMemPool, cuMemcpy2D, cuMemcpy2DAsync, cuMemcpy2DUnaligned, cuMemcpy3D, cuMemcpy3DAsync,
    cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync_ptsz, cuMemcpy3DBatchAsync_v2, cuMemcpy3DBatchAsync_v2_ptsz, cuMemcpy3DWithAttributesAsync,
    cuMemcpy3DWithAttributesAsync_ptsz, cuMemcpyAtoA, cuMemcpyAtoD, cuMemcpyAtoH, cuMemcpyAtoHAsync, cuMemcpyDtoA, cuMemcpyDtoD, cuMemcpyDtoDAsync,
    cuMemcpyDtoH, cuMemcpyDtoHAsync, cuMemcpyHtoA, cuMemcpyHtoAAsync, cuMemcpyHtoD, cuMemcpyHtoDAsync, cuMemcpyWithAttributesAsync,
    cuMemcpyWithAttributesAsync_ptsz, cuMemsetD16, cuMemsetD2D16, cuMemsetD2D32, cuMemsetD2D8, cuMemsetD32, cuMemsetD8,
    cuMipmappedArrayGetMemoryRequirements, cuMipmappedArrayGetSparseProperties, cuModuleGetGlobal, cuModuleGetSurfRef, cuModuleGetTexRef,
    cuMulticastAddDevice, cuMulticastBindAddr, cuMulticastBindAddr_v2, cuMulticastBindMem, cuMulticastBindMem_v2, cuMulticastCreate,
    cuMulticastGetGranularity, cuMulticastUnbind, cuParamSetSize, cuParamSetTexRef, cuParamSetf, cuParamSeti, cuParamSetv,
    cuSignalExternalSemaphoresAsync, cuSignalExternalSemaphoresAsync_ptsz, cuStreamBeginCaptureToCig, cuStreamBeginCaptureToCig_ptsz,
    cuStreamBeginRecaptureToGraph, cuStreamBeginRecaptureToGraph_ptsz, cuStreamEndCaptureToCig,
    cuStreamEndCaptureToCig_ptsz, cuStreamGetDevResource, cuStreamGetDevResource_ptsz, cuStreamGetGreenCtx,
    cuSurfObjectGetResourceDesc, cuSurfRefGetArray, cuSurfRefSetArray, cuTensorMapEncodeIm2colWide, cuTensorMapSetAllocationClass,
    cuTexObjectGetResourceDesc, cuTexObjectGetResourceViewDesc, cuTexObjectGetTextureDesc, cuTexRefCreate, cuTexRefDestroy, cuTexRefGetAddress,
    cuTexRefGetAddressMode, cuTexRefGetAddress_v2, cuTexRefGetArray, cuTexRefGetBorderColor, cuTexRefGetFilterMode, cuTexRefGetFlags,
    cuTexRefGetFormat, cuTexRefGetMaxAnisotropy, cuTexRefGetMipmapFilterMode, cuTexRefGetMipmapLevelBias, cuTexRefGetMipmapLevelClamp,
    cuTexRefGetMipmappedArray, cuTexRefSetAddress, cuTexRefSetAddress2D, cuTexRefSetAddress2D_v2, cuTexRefSetAddress2D_v3, cuTexRefSetAddressMode,
    cuTexRefSetAddress_v2, cuTexRefSetArray, cuTexRefSetBorderColor, cuTexRefSetFilterMode, cuTexRefSetFlags, cuTexRefSetFormat,
    cuTexRefSetMaxAnisotropy, cuTexRefSetMipmapFilterMode, cuTexRefSetMipmapLevelBias, cuTexRefSetMipmapLevelClamp, cuTexRefSetMipmappedArray,
    cuWaitExternalSemaphoresAsync, cuWaitExternalSemaphoresAsync_ptsz,
}

#[rustfmt::skip]
unserved! {
    RUNTIME, RUNTIME_CALLS, Primary;
    _cudaLibraryGetUnifiedFunction, cudaArrayGetMemoryRequirements, cudaArrayGetPlane, cudaArrayGetSparseProperties, cudaDestroyExternalMemory,
    cudaDestroyExternalSemaphore, cudaDevResourceGenerateDesc, cudaDevSmResourceSplit, cudaDevSmResourceSplitByCount,
    cudaDeviceFlushGPUDirectRDMAWrites, cudaDeviceGetDevResource, cudaDeviceGetExecutionCtx, cudaDeviceGetHostAtomicCapabilities,
    cudaDeviceGetNvSciSyncAttributes, cudaDeviceGetP2PAtomicCapabilities, cudaDeviceGetTexture1DLinearMaxWidth, cudaDeviceRegisterAsyncNotification,
    cudaDeviceUnregisterAsyncNotification, cudaEGLStreamConsumerAcquireFrame, cudaEGLStreamConsumerConnect, cudaEGLStreamConsumerConnectWithFlags,
    cudaEGLStreamConsumerDisconnect, cudaEGLStreamConsumerReleaseFrame, cudaEGLStreamProducerConnect, cudaEGLStreamProducerDisconnect,
    cudaEGLStreamProducerPresentFrame, cudaEGLStreamProducerReturnFrame, cudaEventCreateFromEGLSync, cudaExecutionCtxDestroy,
    cudaExecutionCtxGetDevResource, cudaExecutionCtxGetDevice, cudaExecutionCtxGetId, cudaExecutionCtxRecordEvent, cudaExecutionCtxStreamCreate,
    cudaExecutionCtxSynchronize, cudaExecutionCtxWaitEvent, cudaExternalMemoryGetMappedBuffer, cudaExternalMemoryGetMappedMipmappedArray,
    cudaGLGetDevices, cudaGLMapBufferObject, cudaGLMapBufferObjectAsync, cudaGLRegisterBufferObject, cudaGLSetBufferObjectMapFlags, cudaGLSetGLDevice,
    cudaGLUnmapBufferObject, cudaGLUnmapBufferObjectAsync, cudaGLUnregisterBufferObject, cudaGetExportTable, cudaGetSurfaceObjectResourceDesc,
    cudaGetTextureObjectResourceDesc, cudaGetTextureObjectResourceViewDesc, cudaGetTextureObjectTextureDesc, cudaGraphAddExternalSemaphoresSignalNode,
    cudaGraphAddExternalSemaphoresWaitNode, cudaGraphAddMemcpyNodeFromSymbol, cudaGraphAddMemcpyNodeToSymbol,
    cudaGraphDebugDotPrint, cudaGraphExecExternalSemaphoresSignalNodeSetParams,
    cudaGraphExecExternalSemaphoresWaitNodeSetParams, cudaGraphExecGetId, cudaGraphExecMemcpyNodeSetParamsFromSymbol,
    cudaGraphExecMemcpyNodeSetParamsToSymbol, cudaGraphExternalSemaphoresSignalNodeGetParams, cudaGraphExternalSemaphoresSignalNodeSetParams,
    cudaGraphExternalSemaphoresWaitNodeGetParams, cudaGraphExternalSemaphoresWaitNodeSetParams, cudaGraphGetId,
    cudaGraphMemcpyNodeSetParamsFromSymbol, cudaGraphMemcpyNodeSetParamsToSymbol, cudaGraphNodeGetLocalId, cudaGraphNodeGetParams,
    cudaGraphNodeGetToolsId, cudaGraphicsEGLRegisterImage, cudaGraphicsGLRegisterBuffer,
    cudaGraphicsGLRegisterImage, cudaGraphicsMapResources, cudaGraphicsResourceGetMappedEglFrame, cudaGraphicsResourceGetMappedMipmappedArray,
    cudaGraphicsResourceGetMappedPointer, cudaGraphicsResourceSetMapFlags, cudaGraphicsSubResourceGetMappedArray, cudaGraphicsUnmapResources,
    cudaGraphicsUnregisterResource, cudaGraphicsVDPAURegisterOutputSurface, cudaGraphicsVDPAURegisterVideoSurface, cudaGreenCtxCreate,
    cudaImportExternalMemory, cudaImportExternalSemaphore, cudaIpcCloseMemHandle, cudaIpcGetEventHandle, cudaIpcGetMemHandle, cudaIpcOpenEventHandle,
    cudaIpcOpenMemHandle, cudaLibraryGetUnifiedFunction, cudaLogsDumpToFile, cudaLogsDumpToMemory, cudaMemDiscardAndPrefetchBatchAsync,
    cudaMemDiscardAndPrefetchBatchAsync_ptsz, cudaMemDiscardBatchAsync, cudaMemDiscardBatchAsync_ptsz, cudaMemGetLocationInfo,
    cudaMemPoolExportToShareableHandle, cudaMemPoolImportFromShareableHandle, cudaMemPoolImportPointer, cudaMemPrefetchBatchAsync,
    cudaMemPrefetchBatchAsync_ptsz, cudaMemSetMemPool, cudaMemcpy3DBatchAsync, cudaMemcpy3DBatchAsync_ptsz, cudaMemcpy3DWithAttributesAsync,
    cudaMemcpy3DWithAttributesAsync_ptsz, cudaMemcpyArrayToArray, cudaMemcpyArrayToArray_ptds, cudaMemcpyWithAttributesAsync,
    cudaMemcpyWithAttributesAsync_ptsz, cudaMipmappedArrayGetMemoryRequirements, cudaMipmappedArrayGetSparseProperties,
    cudaSignalExternalSemaphoresAsync, cudaSignalExternalSemaphoresAsync_ptsz, cudaStreamBeginRecaptureToGraph, cudaStreamBeginRecaptureToGraph_ptsz,
    cudaStreamGetDevResource, cudaStreamGetDevResource_ptsz, cudaSubgridCreate, cudaSubgridWorkerGridCreate, cudaSubgridWorksetCreate,
    cudaVDPAUGetDevice, cudaVDPAUSetVDPAUDevice, cudaWaitExternalSemaphoresAsync,
    cudaWaitExternalSemaphoresAsync_ptsz,
}
