// CUB's device-wide algorithms, by their own dispatch.
#include <cub/device/device_histogram.cuh>
#include <cub/device/device_merge_sort.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_run_length_encode.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_segmented_reduce.cuh>
#include <cub/device/device_select.cuh>

#include "record.h"

// What CUB asks for as temporary storage, and then the work.
template <class Call> void twice(Call call) {
    void* storage = nullptr;
    size_t bytes = 0;
    call(storage, bytes);
    cudaMalloc(&storage, bytes);
    call(storage, bytes);
}

struct Small {
    __host__ __device__ bool operator()(int x) const { return x < 100; }
};

struct Less {
    __host__ __device__ bool operator()(int x, int y) const { return x < y; }
};

int main(int, char** argv) {
    const int n = 3000;
    CASE("scan") {
        auto x = integers<int>("x", n, 1, 1000);
        auto y = output<int>("y", n);
        twice([&](void* s, size_t& b) { cub::DeviceScan::ExclusiveSum(s, b, x, y, n); });
    }
    CASE("reduce") {
        auto x = integers<int>("x", n, 2, 1000);
        auto y = output<int>("y", 1);
        twice([&](void* s, size_t& b) { cub::DeviceReduce::Sum(s, b, x, y, n); });
    }
    CASE("reduce_large") {
        auto x = integers<int>("x", 40000, 3, 1000);
        auto y = output<int>("y", 1);
        twice([&](void* s, size_t& b) { cub::DeviceReduce::Sum(s, b, x, y, 40000); });
    }
    CASE("sort") {
        auto x = integers<int>("x", n, 4, 100000);
        auto y = output<int>("y", n);
        twice([&](void* s, size_t& b) { cub::DeviceRadixSort::SortKeys(s, b, x, y, n); });
    }
    // Several passes, each overlapped with the one in front.
    CASE("sort_large") {
        auto x = integers<int>("x", 9000, 10, 65536);
        auto y = output<int>("y", 9000);
        twice([&](void* s, size_t& b) { cub::DeviceRadixSort::SortKeys(s, b, x, y, 9000, 0, 16); });
    }
    CASE("select") {
        auto x = integers<int>("x", n, 5, 1000);
        auto y = output<int>("y", n);
        auto count = output<int>("count", 1);
        twice([&](void* s, size_t& b) { cub::DeviceSelect::If(s, b, x, y, count, n, Small{}); });
    }
    CASE("histogram") {
        auto x = integers<int>("x", n, 6, 1024);
        auto y = output<int>("y", 16);
        twice([&](void* s, size_t& b) { cub::DeviceHistogram::HistogramEven(s, b, x, y, 17, 0, 1024, n); });
    }
    CASE("run_lengths") {
        auto x = integers<int>("x", n, 7, 2);
        auto y = output<int>("y", n), lengths = output<int>("lengths", n), count = output<int>("count", 1);
        twice([&](void* s, size_t& b) { cub::DeviceRunLengthEncode::Encode(s, b, x, y, lengths, count, n); });
    }
    CASE("segmented_reduce") {
        auto x = integers<int>("x", n, 8, 1000);
        std::vector<int> ends;
        for (int at = 0; at <= n; at += 300) ends.push_back(at);
        auto offsets = input("offsets", ends);
        auto y = output<int>("y", 10);
        twice([&](void* s, size_t& b) { cub::DeviceSegmentedReduce::Sum(s, b, x, y, 10, offsets, offsets + 1); });
    }
    CASE("merge_sort") {
        auto x = integers<int>("x", n, 9, 100000);
        auto y = output<int>("y", n);
        twice([&](void* s, size_t& b) { cub::DeviceMergeSort::SortKeysCopy(s, b, x, y, n, Less{}); });
    }
}
