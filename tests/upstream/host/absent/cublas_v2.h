// llama.cpp and FlashInfer name cuBLAS in headers that all their kernels include. None of those here calls it; a program that does gets an error.
#pragma once
typedef struct cublasContext* cublasHandle_t;
typedef enum { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_NOT_SUPPORTED = 15 } cublasStatus_t;
typedef enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 } cublasOperation_t;
typedef enum { CUBLAS_GEMM_DEFAULT = -1, CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99 } cublasGemmAlgo_t;
typedef enum { CUBLAS_TF32_TENSOR_OP_MATH = 3 } cublasMath_t;
typedef enum { CUBLAS_COMPUTE_16F = 64, CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_FAST_16F = 74 } cublasComputeType_t;
inline const char* cublasGetStatusString(cublasStatus_t) { return "no cuBLAS"; }
inline cublasStatus_t cublasCreate_v2(cublasHandle_t*) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasDestroy_v2(cublasHandle_t) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasSetStream_v2(cublasHandle_t, void*) { return CUBLAS_STATUS_SUCCESS; }
#define cublasSetStream cublasSetStream_v2
#define cublasCreate cublasCreate_v2
#define cublasDestroy cublasDestroy_v2
template <typename... T> cublasStatus_t cublasSgemm(T...) { return CUBLAS_STATUS_NOT_SUPPORTED; }
template <typename... T> cublasStatus_t cublasGemmEx(T...) { return CUBLAS_STATUS_NOT_SUPPORTED; }
template <typename... T> cublasStatus_t cublasGemmBatchedEx(T...) { return CUBLAS_STATUS_NOT_SUPPORTED; }
template <typename... T> cublasStatus_t cublasGemmStridedBatchedEx(T...) { return CUBLAS_STATUS_NOT_SUPPORTED; }
