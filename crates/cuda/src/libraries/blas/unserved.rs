//! The functions of cuBLAS and cublasLt that are not served. Each reports its name once and returns `CUBLAS_STATUS_NOT_SUPPORTED`. The names are those that
//! the libraries of CUDA 12.9 and 13.x export.

use super::super::answer::unserved;
use super::handle::Failure;

/// What works instead.
const REMEDY: &str = "of cuBLAS, the products of dense matrices and vectors are served, and triangular systems; compute this on the host, or by \
    kernels of the program";

/// What works instead of functions of cublasLt.
const REMEDY_OF_LT: &str =
    "of cublasLt, cublasLtMatmul and cublasLtMatrixTransform are served, and what describes their operands";

#[rustfmt::skip]
unserved! { NAMES Failure, REMEDY;
    cublasAlloc cublasAsumEx cublasAsumEx_64 cublasCaxpy cublasCbdmm cublasCcopy cublasCdotc cublasCdotu cublasCgbmv cublasCgbmv_v2 cublasCgbmv_v2_64
    cublasCgelsBatched cublasCgemm cublasCgemm3mBatched cublasCgemm3mBatched_64 cublasCgemm3mEx cublasCgemm3mEx_64 cublasCgemm3mStridedBatched
    cublasCgemm3mStridedBatched_64 cublasCgemv cublasCgeqrfBatched cublasCgerc cublasCgeru cublasCgetrfBatched cublasCgetriBatched cublasCgetrsBatched
    cublasChbmv cublasChbmv_v2 cublasChbmv_v2_64 cublasChemm cublasChemv cublasCher cublasCher2 cublasCher2_v2 cublasCher2_v2_64 cublasCher2k
    cublasCher2k_v2 cublasCher2k_v2_64 cublasCher_v2 cublasCher_v2_64 cublasCherk cublasCherk3mEx cublasCherk3mEx_64 cublasCherkEx cublasCherkEx_64
    cublasCherkx cublasCherkx_64 cublasChpmv cublasChpmv_v2 cublasChpmv_v2_64 cublasChpr cublasChpr2 cublasChpr2_v2 cublasChpr2_v2_64 cublasChpr_v2
    cublasChpr_v2_64 cublasCmatinvBatched cublasCopyEx cublasCopyEx_64 cublasCrot cublasCrotg cublasCrotg_v2 cublasCscal cublasCsrot cublasCsscal
    cublasCswap cublasCsymm cublasCsyr2_v2 cublasCsyr2_v2_64 cublasCsyr2k cublasCsyr2k_v2 cublasCsyr2k_v2_64 cublasCsyr_v2 cublasCsyr_v2_64
    cublasCsyrk cublasCsyrk3mEx cublasCsyrk3mEx_64 cublasCsyrkEx cublasCsyrkEx_64 cublasCsyrkx cublasCsyrkx_64 cublasCtbmv cublasCtbmv_v2
    cublasCtbmv_v2_64 cublasCtbsv cublasCtbsv_v2 cublasCtbsv_v2_64 cublasCtpmv cublasCtpmv_v2 cublasCtpmv_v2_64 cublasCtpsv cublasCtpsv_v2
    cublasCtpsv_v2_64 cublasCtpttr cublasCtrmm cublasCtrmv cublasCtrmv_v2 cublasCtrmv_v2_64 cublasCtrsm cublasCtrsv cublasCtrttp cublasDasum
    cublasDaxpy cublasDbdmm cublasDcopy cublasDdot cublasDgbmv cublasDgbmv_v2 cublasDgbmv_v2_64 cublasDgelsBatched cublasDgemm
    cublasDgemmGroupedBatched cublasDgemmGroupedBatched_64 cublasDgemv cublasDgeqrfBatched cublasDger cublasDgetrfBatched cublasDgetriBatched
    cublasDgetrsBatched cublasDmatinvBatched cublasDnrm2 cublasDrot cublasDrotg cublasDrotg_v2 cublasDrotm cublasDrotm_v2 cublasDrotm_v2_64
    cublasDrotmg cublasDrotmg_v2 cublasDsbmv cublasDsbmv_v2 cublasDsbmv_v2_64 cublasDscal cublasDspmv cublasDspmv_v2 cublasDspmv_v2_64 cublasDspr
    cublasDspr2 cublasDspr2_v2 cublasDspr2_v2_64 cublasDspr_v2 cublasDspr_v2_64 cublasDswap cublasDsymm cublasDsymv cublasDsyr cublasDsyr2
    cublasDsyr2_v2 cublasDsyr2_v2_64 cublasDsyr2k cublasDsyr2k_v2 cublasDsyr2k_v2_64 cublasDsyr_v2 cublasDsyr_v2_64 cublasDsyrk cublasDsyrkx
    cublasDsyrkx_64 cublasDtbmv cublasDtbmv_v2 cublasDtbmv_v2_64 cublasDtbsv cublasDtbsv_v2 cublasDtbsv_v2_64 cublasDtpmv cublasDtpmv_v2
    cublasDtpmv_v2_64 cublasDtpsv cublasDtpsv_v2 cublasDtpsv_v2_64 cublasDtpttr cublasDtrmm cublasDtrmv cublasDtrmv_v2 cublasDtrmv_v2_64 cublasDtrsm
    cublasDtrsv cublasDtrttp cublasDzasum cublasDznrm2 cublasFree cublasGemmGroupedBatchedEx cublasGemmGroupedBatchedEx_64 cublasGetBackdoor
    cublasGetEmulationSpecialValuesSupport cublasGetEmulationStrategy cublasGetEnvironmentMode cublasGetError
    cublasGetFixedPointEmulationMantissaBitCountPointer cublasGetFixedPointEmulationMantissaBitOffset cublasGetFixedPointEmulationMantissaControl
    cublasGetFixedPointEmulationMaxMantissaBitCount cublasGetVersion cublasHSHgemvBatched cublasHSHgemvBatched_64 cublasHSHgemvStridedBatched
    cublasHSHgemvStridedBatched_64 cublasHSSgemvBatched cublasHSSgemvBatched_64 cublasHSSgemvStridedBatched cublasHSSgemvStridedBatched_64
    cublasIamaxEx cublasIamaxEx_64 cublasIaminEx cublasIaminEx_64 cublasIcamax cublasIcamin cublasIdamax cublasIdamin cublasInit cublasIsamax
    cublasIsamin cublasIzamax cublasIzamin cublasRotEx cublasRotEx_64 cublasRotgEx cublasRotmEx cublasRotmEx_64 cublasRotmgEx cublasSasum cublasSaxpy
    cublasSbdmm cublasScasum cublasScnrm2 cublasScopy cublasSdot cublasSetBackdoor cublasSetBackdoorEx cublasSetEmulationSpecialValuesSupport
    cublasSetEmulationStrategy cublasSetEnvironmentMode cublasSetFixedPointEmulationMantissaBitCountPointer
    cublasSetFixedPointEmulationMantissaBitOffset cublasSetFixedPointEmulationMantissaControl cublasSetFixedPointEmulationMaxMantissaBitCount
    cublasSetKernelStream cublasSgbmv cublasSgbmv_v2 cublasSgbmv_v2_64 cublasSgelsBatched cublasSgemm cublasSgemmGroupedBatched
    cublasSgemmGroupedBatched_64 cublasSgemv cublasSgeqrfBatched cublasSger cublasSgetrfBatched cublasSgetriBatched cublasSgetrsBatched cublasShutdown
    cublasSmatinvBatched cublasSnrm2 cublasSrot cublasSrotg cublasSrotg_v2 cublasSrotm cublasSrotm_v2 cublasSrotm_v2_64 cublasSrotmg cublasSrotmg_v2
    cublasSsbmv cublasSsbmv_v2 cublasSsbmv_v2_64 cublasSscal cublasSspmv cublasSspmv_v2 cublasSspmv_v2_64 cublasSspr cublasSspr2 cublasSspr2_v2
    cublasSspr2_v2_64 cublasSspr_v2 cublasSspr_v2_64 cublasSswap cublasSsymm cublasSsymv cublasSsyr cublasSsyr2 cublasSsyr2_v2 cublasSsyr2_v2_64
    cublasSsyr2k cublasSsyr2k_v2 cublasSsyr2k_v2_64 cublasSsyr_v2 cublasSsyr_v2_64 cublasSsyrk cublasSsyrkx cublasSsyrkx_64 cublasStbmv cublasStbmv_v2
    cublasStbmv_v2_64 cublasStbsv cublasStbsv_v2 cublasStbsv_v2_64 cublasStpmv cublasStpmv_v2 cublasStpmv_v2_64 cublasStpsv cublasStpsv_v2
    cublasStpsv_v2_64 cublasStpttr cublasStrmm cublasStrmv cublasStrmv_v2 cublasStrmv_v2_64 cublasStrsm cublasStrsv cublasStrttp cublasSwapEx
    cublasSwapEx_64 cublasTSSgemvBatched cublasTSSgemvBatched_64 cublasTSSgemvStridedBatched cublasTSSgemvStridedBatched_64 cublasTSTgemvBatched
    cublasTSTgemvBatched_64 cublasTSTgemvStridedBatched cublasTSTgemvStridedBatched_64 cublasUint8gemmBias cublasXerbla cublasXtCgemm cublasXtChemm
    cublasXtCher2k cublasXtCherk cublasXtCherkx cublasXtCreate cublasXtCspmm cublasXtCsymm cublasXtCsyr2k cublasXtCsyrk cublasXtCsyrkx cublasXtCtrmm
    cublasXtCtrsm cublasXtDestroy cublasXtDeviceSelect cublasXtDgemm cublasXtDspmm cublasXtDsymm cublasXtDsyr2k cublasXtDsyrk cublasXtDsyrkx
    cublasXtDtrmm cublasXtDtrsm cublasXtGetBlockDim cublasXtGetNumBoards cublasXtGetPinningMemMode cublasXtMaxBoards cublasXtSetBlockDim
    cublasXtSetCpuRatio cublasXtSetCpuRoutine cublasXtSetPinningMemMode cublasXtSgemm cublasXtSspmm cublasXtSsymm cublasXtSsyr2k cublasXtSsyrk
    cublasXtSsyrkx cublasXtStrmm cublasXtStrsm cublasXtZgemm cublasXtZhemm cublasXtZher2k cublasXtZherk cublasXtZherkx cublasXtZspmm cublasXtZsymm
    cublasXtZsyr2k cublasXtZsyrk cublasXtZsyrkx cublasXtZtrmm cublasXtZtrsm cublasZaxpy cublasZbdmm cublasZcopy cublasZdotc cublasZdotu cublasZdrot
    cublasZdscal cublasZgbmv cublasZgbmv_v2 cublasZgbmv_v2_64 cublasZgelsBatched cublasZgemm cublasZgemv cublasZgeqrfBatched cublasZgerc cublasZgeru
    cublasZgetrfBatched cublasZgetriBatched cublasZgetrsBatched cublasZhbmv cublasZhbmv_v2 cublasZhbmv_v2_64 cublasZhemm cublasZhemv cublasZher
    cublasZher2 cublasZher2_v2 cublasZher2_v2_64 cublasZher2k cublasZher2k_v2 cublasZher2k_v2_64 cublasZher_v2 cublasZher_v2_64 cublasZherk
    cublasZherkx cublasZherkx_64 cublasZhpmv cublasZhpmv_v2 cublasZhpmv_v2_64 cublasZhpr cublasZhpr2 cublasZhpr2_v2 cublasZhpr2_v2_64 cublasZhpr_v2
    cublasZhpr_v2_64 cublasZmatinvBatched cublasZrot cublasZrotg cublasZrotg_v2 cublasZscal cublasZswap cublasZsymm cublasZsyr2_v2 cublasZsyr2_v2_64
    cublasZsyr2k cublasZsyr2k_v2 cublasZsyr2k_v2_64 cublasZsyr_v2 cublasZsyr_v2_64 cublasZsyrk cublasZsyrkx cublasZsyrkx_64 cublasZtbmv cublasZtbmv_v2
    cublasZtbmv_v2_64 cublasZtbsv cublasZtbsv_v2 cublasZtbsv_v2_64 cublasZtpmv cublasZtpmv_v2 cublasZtpmv_v2_64 cublasZtpsv cublasZtpsv_v2
    cublasZtpsv_v2_64 cublasZtpttr cublasZtrmm cublasZtrmv cublasZtrmv_v2 cublasZtrmv_v2_64 cublasZtrsm cublasZtrsv cublasZtrttp
}

#[rustfmt::skip]
unserved! { OF_LT Failure, REMEDY_OF_LT;
    cublasLtAlgoCharacteristicGetAttribute cublasLtClearNvjetCache cublasLtCtxInit cublasLtEmulationDescCreate cublasLtEmulationDescDestroy
    cublasLtEmulationDescGetAttribute cublasLtEmulationDescInit_internal cublasLtEmulationDescSetAttribute cublasLtGetEnvironmentMode
    cublasLtGroupedMatrixLayoutCreate cublasLtGroupedMatrixLayoutInit_internal cublasLtHeuristicLutSerializeEntry cublasLtHeuristicsCacheCreate
    cublasLtHeuristicsCacheDestroy cublasLtHeuristicsCacheGet cublasLtHeuristicsCachePut cublasLtMatmulAlgoConfigGetAttributeRange
    cublasLtSetEnvironmentMode cublasLtShutdownCtx
}
