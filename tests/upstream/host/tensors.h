// Tensors of TVM FFI, as Python hands them to upstream's host functions.
#pragma once
#include <tvm/ffi/container/tensor.h>

#include <list>
#include <numeric>

#include "record.h"

// The default stream; the library of TVM FFI is not linked.
extern "C" void* TVMFFIEnvGetStream(int32_t, int32_t) { return nullptr; }

// A tensor of the first device; a stride that is not given is that of a contiguous tensor.
inline tvm::ffi::TensorView tensor(const void* data, DLDataType type, std::vector<int64_t> shape, std::vector<int64_t> strides = {}) {
    static std::list<std::vector<int64_t>> kept;
    if (strides.empty()) {
        strides.assign(shape.size(), 1);
        for (size_t n = shape.size(); n-- > 1;) strides[n - 1] = strides[n] * shape[n];
    }
    auto& sizes = kept.emplace_back(std::move(shape));
    auto& steps = kept.emplace_back(std::move(strides));
    DLTensor made{const_cast<void*>(data), DLDevice{kDLCUDA, 0}, (int32_t)sizes.size(), type, sizes.data(), steps.data(), 0};
    return tvm::ffi::TensorView(&made);
}
