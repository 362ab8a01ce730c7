// Headers of FlashInfer name cuBLASLt; no kernel here calls it.
#pragma once
#include "cublas_v2.h"
