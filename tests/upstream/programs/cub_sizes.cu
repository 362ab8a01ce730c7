// CUB's and Thrust's algorithms at every small size and around powers of two, compared with the CPU: the ends of arrays.
// Usage: cub_sizes SUITE; exits with 1 if a result is wrong.
#include <cub/device/device_merge_sort.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/unique.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <vector>

static int wrong = 0, done = 0;

// Sizes up to `most`: 0 to 70, and 2^k - 1, 2^k, 2^k + 1.
static std::vector<int> sizes(int most) {
    std::vector<int> all;
    for (int n = 1; n <= 70; ++n) all.push_back(n);
    for (int k = 7; k <= 16; ++k)
        for (int d = -1; d <= 1; ++d) all.push_back((1 << k) + d);
    all.erase(std::remove_if(all.begin(), all.end(), [=](int n) { return n > most; }), all.end());
    return all;
}

template <class T> std::vector<T> numbers(int n, unsigned most) {
    std::vector<T> x(n);
    unsigned s = n * 2654435761u + 1;
    for (auto& v : x) {
        s = s * 1664525u + 1013904223u;
        v = T((s >> 9) % most);
    }
    return x;
}

// An array on the device without a byte to spare.
template <class T> struct Array {
    T* data = nullptr;
    int n;
    explicit Array(int n) : n(n) { cudaMalloc(&data, n * sizeof(T)); }
    explicit Array(const std::vector<T>& x) : Array(int(x.size())) {
        cudaMemcpy(data, x.data(), n * sizeof(T), cudaMemcpyHostToDevice);
    }
    Array(const Array&) = delete;
    ~Array() { cudaFree(data); }
    std::vector<T> back(int count) const {
        std::vector<T> x(count);
        cudaMemcpy(x.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost);
        return x;
    }
};

template <class T> void check(const char* what, int n, const std::vector<T>& got, const std::vector<T>& want) {
    ++done;
    auto error = cudaGetLastError();
    bool same = got.size() == want.size() && std::memcmp(got.data(), want.data(), want.size() * sizeof(T)) == 0;
    if (error != cudaSuccess || !same) {
        ++wrong;
        std::printf("%s of %d elements of %d bytes: %s\n", what, n, int(sizeof(T)), error ? cudaGetErrorString(error) : "wrong");
    }
}

// What CUB asks for as temporary storage, and then the work.
template <class Call> void twice(Call call) {
    void* storage = nullptr;
    size_t bytes = 0;
    call(storage, bytes);
    cudaMalloc(&storage, bytes);
    call(storage, bytes);
    cudaFree(storage);
}

template <class T> void scans(int most) {
    for (int n : sizes(most)) {
        auto h = numbers<T>(n, 100);
        std::vector<T> inclusive(n), exclusive(n);
        T sum = 0;
        for (int i = 0; i < n; ++i) {
            exclusive[i] = sum;
            sum = T(sum + h[i]);
            inclusive[i] = sum;
        }
        Array<T> x(h), y(n);
        twice([&](void* s, size_t& b) { cub::DeviceScan::ExclusiveSum(s, b, x.data, y.data, n); });
        check("ExclusiveSum", n, y.back(n), exclusive);
        twice([&](void* s, size_t& b) { cub::DeviceScan::InclusiveSum(s, b, x.data, y.data, n); });
        check("InclusiveSum", n, y.back(n), inclusive);
        thrust::device_ptr<T> from(x.data), to(y.data);
        thrust::exclusive_scan(from, from + n, to);
        check("exclusive_scan", n, y.back(n), exclusive);
        thrust::inclusive_scan(from, from + n, from);
        check("inclusive_scan", n, x.back(n), inclusive);
    }
}

template <class T> void reductions(int most) {
    for (int n : sizes(most)) {
        auto h = numbers<T>(n, 100);
        T sum = 0;
        for (T v : h) sum = T(sum + v);
        Array<T> x(h), y(1);
        twice([&](void* s, size_t& b) { cub::DeviceReduce::Sum(s, b, x.data, y.data, n); });
        check("Sum", n, y.back(1), {sum});
        twice([&](void* s, size_t& b) { cub::DeviceReduce::Max(s, b, x.data, y.data, n); });
        check("Max", n, y.back(1), {*std::max_element(h.begin(), h.end())});
        thrust::device_ptr<T> from(x.data);
        check<T>("reduce", n, {thrust::reduce(from, from + n, T(0))}, {sum});
    }
}

struct Small {
    template <class T> __host__ __device__ bool operator()(T x) const { return x < T(40); }
};

template <class T> void selections(int most) {
    for (int n : sizes(most)) {
        auto h = numbers<T>(n, 100);
        std::vector<T> small, runs(h);
        std::copy_if(h.begin(), h.end(), std::back_inserter(small), Small());
        for (auto& v : runs) v = v < T(50) ? T(1) : T(2);
        auto different = runs;
        different.erase(std::unique(different.begin(), different.end()), different.end());
        Array<T> x(h), r(runs), y(n);
        Array<int> count(1);
        twice([&](void* s, size_t& b) { cub::DeviceSelect::If(s, b, x.data, y.data, count.data, n, Small()); });
        int kept = count.back(1)[0];
        check("Select", n, y.back(kept), small);
        twice([&](void* s, size_t& b) { cub::DeviceSelect::Unique(s, b, r.data, y.data, count.data, n); });
        kept = count.back(1)[0];
        check("Unique", n, y.back(kept), different);
        thrust::device_ptr<T> from(x.data), run(r.data), to(y.data);
        kept = int(thrust::copy_if(from, from + n, to, Small()) - to);
        check("copy_if", n, y.back(kept), small);
        kept = int(thrust::unique(run, run + n) - run);
        check("unique", n, r.back(kept), different);
    }
}

struct Less {
    template <class T> __host__ __device__ bool operator()(T x, T y) const { return x < y; }
};

template <class T> void radix_sorts(int most) {
    for (int n : sizes(most)) {
        auto h = numbers<T>(n, 1u << 20);
        auto sorted = h;
        std::sort(sorted.begin(), sorted.end());
        Array<T> x(h), y(n);
        twice([&](void* s, size_t& b) { cub::DeviceRadixSort::SortKeys(s, b, x.data, y.data, n); });
        check("SortKeys", n, y.back(n), sorted);
        thrust::device_ptr<T> from(x.data);
        thrust::sort(from, from + n);
        check("sort", n, x.back(n), sorted);
    }
}

template <class T> void merge_sorts(int most) {
    for (int n : sizes(most)) {
        auto h = numbers<T>(n, 1u << 20);
        auto sorted = h;
        std::sort(sorted.begin(), sorted.end());
        Array<T> x(h), y(h);
        twice([&](void* s, size_t& b) { cub::DeviceMergeSort::SortKeys(s, b, x.data, n, Less()); });
        check("merge sort", n, x.back(n), sorted);
        thrust::device_ptr<T> from(y.data);
        thrust::stable_sort(from, from + n, Less());
        check("stable_sort", n, y.back(n), sorted);
    }
}

int main(int, char** argv) {
    const char* suite = argv[1];
    const int most = argv[2] ? std::atoi(argv[2]) : 1 << 30;
    auto is = [&](const char* name) { return std::strcmp(suite, name) == 0; };
    if (is("scan8")) scans<std::uint8_t>(most);
    if (is("scan16")) scans<std::uint16_t>(most);
    if (is("scan32")) scans<int>(most);
    if (is("scan64")) scans<double>(most);
    if (is("reduce8")) reductions<std::int8_t>(most);
    if (is("reduce32")) reductions<int>(most);
    if (is("reduce64")) reductions<double>(most);
    if (is("select8")) selections<std::uint8_t>(most);
    if (is("select32")) selections<int>(most);
    if (is("select64")) selections<double>(most);
    if (is("radix8")) radix_sorts<std::uint8_t>(most);
    if (is("radix32")) radix_sorts<int>(most);
    if (is("radix64")) radix_sorts<double>(most);
    if (is("merge16")) merge_sorts<std::int16_t>(most);
    if (is("merge32")) merge_sorts<int>(most);
    if (is("merge64")) merge_sorts<std::int64_t>(most);
    std::printf("%s: %d of %d wrong\n", suite, wrong, done);
    return wrong != 0 || done == 0;
}
