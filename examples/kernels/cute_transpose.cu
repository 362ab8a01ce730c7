// A transpose of 8 x 8 numbers whose indices are layouts of CuTe.
#include <cute/layout.hpp>

extern "C" __global__ void cute_transpose(const float* x, float* y)
{
    using namespace cute;
    auto rows = make_layout(make_shape(Int<8>{}, Int<8>{}), make_stride(Int<8>{}, Int<1>{}));
    auto columns = make_layout(make_shape(Int<8>{}, Int<8>{}), make_stride(Int<1>{}, Int<8>{}));
    int i = threadIdx.x / 8, j = threadIdx.x % 8;
    y[columns(i, j)] = x[rows(i, j)];
}
