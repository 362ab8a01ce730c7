// llama.cpp names cuBLAS in a header that all its kernels include; none of those here calls it.
#pragma once
typedef struct cublasContext* cublasHandle_t;
typedef enum { CUBLAS_STATUS_SUCCESS = 0 } cublasStatus_t;
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
