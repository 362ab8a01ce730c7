// SGLang's host functions take tensors of TVM FFI: here a contiguous one of the first device.
#pragma once
#include <tvm/ffi/dtype.h>

#include <utility>
#include <vector>
namespace tvm::ffi {
class TensorView {
    void* data;
    DLDataType type;
    std::vector<int64_t> sizes, steps;

public:
    TensorView(void* data, DLDataType type, std::vector<int64_t> shape) : data(data), type(type), sizes(std::move(shape)), steps(sizes.size(), 1) {
        for (size_t n = sizes.size(); n-- > 1;) steps[n - 1] = steps[n] * sizes[n];
    }
    void* data_ptr() const { return data; }
    DLDataType dtype() const { return type; }
    DLDevice device() const { return {kDLCUDA, 0}; }
    int32_t dim() const { return (int32_t)sizes.size(); }
    int64_t size(int64_t n) const { return sizes.at(n); }
    int64_t stride(int64_t n) const { return steps.at(n); }
    const std::vector<int64_t>& shape() const { return sizes; }
    const std::vector<int64_t>& strides() const { return steps; }
    bool is_contiguous() const { return true; }
};
}  // namespace tvm::ffi
