// Sizes, inputs and checks of the nine programs, and the loop that measures them, for hip.cpp and opencl.c alike.
//
// Grids, blocks, sizes and inputs are those of `../programs.rs` when it measures.
#pragma once

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Runs that are timed; one more comes before them, in which the machine compiles and allocates what it needs.
enum { RUNS = 20, MOST_GIVEN = 6 };

typedef enum { NOTHING, FLOATS, WORDS, ZEROS, NUMBER } Kind;

// An argument: `count` normally distributed floats, random words or zeros of 4 bytes in a buffer, or the number `count`.
typedef struct {
    Kind kind;
    unsigned count;
    unsigned seed;
} Given;

typedef struct {
    const char* name;
    unsigned grid[2], block[2];
    Given given[MOST_GIVEN];
} Program;

#define MILLION (1u << 20)
#define SQUARE_PRODUCT \
    {16, 16}, {16, 16}, { {FLOATS, 65536, 1}, {FLOATS, 65536, 2}, {ZEROS, 65536, 0}, {NUMBER, 256, 0} }

static const Program PROGRAMS[] = {
    {"vecadd", {4096, 1}, {256, 1},
        {{FLOATS, MILLION, 1}, {FLOATS, MILLION, 2}, {ZEROS, MILLION, 0}, {NUMBER, MILLION, 0}}},
    {"reduce", {4096, 1}, {256, 1}, {{FLOATS, MILLION, 1}, {ZEROS, 4096, 0}, {NUMBER, MILLION, 0}}},
    {"gemm_naive", SQUARE_PRODUCT},
    {"gemm_tiled", SQUARE_PRODUCT},
    {"softmax", {256, 1}, {256, 1}, {{FLOATS, 256 * 1024, 1}, {ZEROS, 256 * 1024, 0}, {NUMBER, 1024, 0}}},
    {"bitonic", {64, 1}, {512, 1}, {{WORDS, 64 * 1024, 1}}},
    {"histogram", {1024, 1}, {256, 1}, {{WORDS, MILLION, 1}, {ZEROS, 256, 0}, {NUMBER, MILLION, 0}}},
    {"mandelbrot", {32, 32}, {16, 16}, {{ZEROS, 512 * 512, 0}, {NUMBER, 512, 0}, {NUMBER, 256, 0}}},
    {"nbody", {16, 1}, {256, 1},
        {{FLOATS, 4096, 1}, {FLOATS, 4096, 2}, {FLOATS, 4096, 3}, {FLOATS, 4096, 4}, {ZEROS, 3 * 4096, 0},
            {NUMBER, 4096, 0}}},
};
enum { PROGRAM_COUNT = sizeof PROGRAMS / sizeof PROGRAMS[0] };

// The contents of an argument; NULL if it is no buffer.
typedef union {
    float* floats;
    uint32_t* words;
    void* bytes;
} Buffer;

static int is_buffer(const Given* given) {
    return given->kind == FLOATS || given->kind == WORDS || given->kind == ZEROS;
}

static uint32_t next_word(uint64_t* state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)(*state >> 32);
}

static Buffer contents_of(const Given* given) {
    Buffer buffer = {NULL};
    if (!is_buffer(given)) return buffer;
    buffer.bytes = calloc(given->count, 4);
    if (!buffer.bytes) abort();
    uint64_t state = given->seed | 1;
    for (unsigned i = 0; i < given->count; ++i) {
        if (given->kind == WORDS) buffer.words[i] = next_word(&state);
        if (given->kind == FLOATS) {
            double sum = -6.0;
            for (int k = 0; k < 12; ++k) sum += next_word(&state) / 4294967296.0;
            buffer.floats[i] = (float)sum;
        }
    }
    return buffer;
}

// 1 if `got` is further than `most` from `wanted`, or no number.
static size_t off(double got, double wanted, double most) {
    return !(fabs(got - wanted) <= most);
}

static int by_value(const void* a, const void* b) {
    uint32_t x = *(const uint32_t*)a, y = *(const uint32_t*)b;
    return (x > y) - (x < y);
}

// How many results are wrong, by a simple computation from the contents before the launch. Sums may be taken in any order.
static size_t wrong_results(const Program* program, const Buffer* before, const Buffer* after) {
    const char* name = program->name;
    size_t wrong = 0;
    if (!strcmp(name, "vecadd")) {
        for (unsigned i = 0; i < MILLION; ++i) {
            float sum = before[0].floats[i] + before[1].floats[i];
            wrong += off(after[2].floats[i], sum, 0);
        }
    } else if (!strcmp(name, "reduce")) {
        for (int block = 0; block < 4096; ++block) {
            double sum = 0;
            for (int t = 0; t < 256; ++t) sum += before[0].floats[block * 256 + t];
            wrong += off(after[1].floats[block], sum, 1e-3);
        }
    } else if (!strncmp(name, "gemm", 4)) {
        for (int row = 0; row < 256; ++row) {
            for (int column = 0; column < 256; ++column) {
                double sum = 0;
                for (int k = 0; k < 256; ++k) {
                    sum += (double)before[0].floats[row * 256 + k] * before[1].floats[k * 256 + column];
                }
                wrong += off(after[2].floats[row * 256 + column], sum, 1e-3);
            }
        }
    } else if (!strcmp(name, "softmax")) {
        for (int row = 0; row < 256; ++row) {
            const float* x = before[0].floats + row * 1024;
            double sum = 0;
            for (int i = 0; i < 1024; ++i) sum += exp(x[i]);
            for (int i = 0; i < 1024; ++i) {
                double wanted = exp(x[i]) / sum;
                wrong += off(after[1].floats[row * 1024 + i], wanted, 1e-4 * wanted);
            }
        }
    } else if (!strcmp(name, "bitonic")) {
        for (int block = 0; block < 64; ++block) {
            uint32_t sorted[1024];
            memcpy(sorted, before[0].words + block * 1024, sizeof sorted);
            qsort(sorted, 1024, 4, by_value);
            for (int i = 0; i < 1024; ++i) wrong += after[0].words[block * 1024 + i] != sorted[i];
        }
    } else if (!strcmp(name, "histogram")) {
        uint32_t bins[256] = {0};
        for (unsigned i = 0; i < MILLION; ++i) ++bins[before[0].words[i] >> 7 & 255];
        for (int i = 0; i < 256; ++i) wrong += after[1].words[i] != bins[i];
    } else if (!strcmp(name, "mandelbrot")) {
        for (int row = 0; row < 512; ++row) {
            for (int column = 0; column < 512; ++column) {
                float cx = -2.0f + column * (3.0f / 512), cy = -1.5f + row * (3.0f / 512), x = 0, y = 0;
                uint32_t n = 0;
                for (; n < 256 && x * x + y * y < 4.0f; ++n) {
                    float next = x * x - y * y + cx;
                    y = 2 * x * y + cy;
                    x = next;
                }
                wrong += after[0].words[row * 512 + column] != n;
            }
        }
        // Near the edge of the set the count depends on how sums are rounded: one pixel of a hundred may differ.
        if (wrong <= 512 * 512 / 100) wrong = 0;
    } else if (!strcmp(name, "nbody")) {
        for (int i = 0; i < 4096; ++i) {
            double force[3] = {0}, sizes[3] = {0};
            for (int j = 0; j < 4096; ++j) {
                double d[3], square = 1e-4;
                for (int k = 0; k < 3; ++k) {
                    d[k] = (double)before[k].floats[j] - before[k].floats[i];
                    square += d[k] * d[k];
                }
                double scale = before[3].floats[j] / (square * sqrt(square));
                for (int k = 0; k < 3; ++k) {
                    force[k] += scale * d[k];
                    sizes[k] += fabs(scale * d[k]);
                }
            }
            for (int k = 0; k < 3; ++k) wrong += off(after[4].floats[k * 4096 + i], force[k], 1e-4 * sizes[k]);
        }
    } else {
        abort();
    }
    return wrong;
}

// CPU time of all threads of this process, in seconds.
static double cpu_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

// What runs a program. Each function returns when its work is done.
typedef struct {
    void (*prepare)(const Program* program);
    void (*write)(int buffer, const void* bytes, size_t size);
    void (*launch)(const Program* program);
    void (*read)(int buffer, void* bytes, size_t size);
    void (*release)(void);
} Machine;

// Measures the programs that are named, or all: prints a name and the seconds of its fastest run in each line.
// Returns the exit code: 1 if a result is wrong.
static int measure_all(const Machine* machine, int count, char** names) {
    int code = 0;
    for (int p = 0; p < PROGRAM_COUNT; ++p) {
        const Program* program = &PROGRAMS[p];
        int chosen = count == 0;
        for (int i = 0; i < count; ++i) chosen |= !strcmp(names[i], program->name);
        if (!chosen) continue;

        Buffer before[MOST_GIVEN], after[MOST_GIVEN];
        for (int i = 0; i < MOST_GIVEN; ++i) {
            before[i] = contents_of(&program->given[i]);
            after[i] = contents_of(&program->given[i]);
        }
        machine->prepare(program);
        double best = INFINITY;
        for (int run = 0; run <= RUNS; ++run) {
            for (int i = 0; i < MOST_GIVEN; ++i) {
                if (before[i].bytes) machine->write(i, before[i].bytes, (size_t)program->given[i].count * 4);
            }
            double start = cpu_seconds();
            machine->launch(program);
            double taken = cpu_seconds() - start;
            if (run > 0 && taken < best) best = taken;

            if (run != 0 && run != RUNS) continue;
            for (int i = 0; i < MOST_GIVEN; ++i) {
                if (after[i].bytes) machine->read(i, after[i].bytes, (size_t)program->given[i].count * 4);
            }
            size_t wrong = wrong_results(program, before, after);
            if (wrong > 0) {
                fprintf(stderr, "%s: %zu wrong results in run %d\n", program->name, wrong, run);
                code = 1;
            }
        }
        machine->release();
        for (int i = 0; i < MOST_GIVEN; ++i) {
            free(before[i].bytes);
            free(after[i].bytes);
        }
        printf("%s %.7f\n", program->name, best);
        fflush(stdout);
    }
    return code;
}
