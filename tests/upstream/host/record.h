// What the programs of the upstream suite share: named buffers and their contents. A program gets the name of a case and launches it.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include <cuda_runtime.h>

extern "C" void record_name(const void* buffer, const char* name);

// A generator whose numbers do not depend on the C++ library (splitmix64).
struct Numbers {
    uint64_t state;
    explicit Numbers(uint64_t seed) : state(seed) {}
    uint64_t next() {
        uint64_t z = state += 0x9E3779B97F4A7C15;
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
        z = (z ^ z >> 27) * 0x94D049BB133111EB;
        return z ^ z >> 31;
    }
    // In [-1, 1), with 24 bits.
    float real() { return (float)(next() >> 40) * (2.0f / 16777216.0f) - 1.0f; }
    uint32_t below(uint32_t n) { return (uint32_t)(next() % n); }
};

// Memory that nobody has written.
template <class T> T* output(const char* name, size_t count) {
    void* at = nullptr;
    cudaMalloc(&at, count * sizeof(T));
    record_name(at, name);
    return (T*)at;
}

template <class T> T* input(const char* name, const std::vector<T>& values) {
    T* at = output<T>(name, values.size());
    cudaMemcpy(at, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice);
    return at;
}

// Real numbers in [-scale, scale), rounded to T.
template <class T> T* reals(const char* name, size_t count, uint64_t seed, float scale = 1.0f) {
    Numbers numbers(seed);
    std::vector<T> values(count);
    for (auto& value : values) value = T(numbers.real() * scale);
    return input(name, values);
}

template <class T> T* integers(const char* name, size_t count, uint64_t seed, uint32_t below) {
    Numbers numbers(seed);
    std::vector<T> values(count);
    for (auto& value : values) value = T(numbers.below(below));
    return input(name, values);
}

#define CASE(name) if (!std::strcmp(argv[1], name))
