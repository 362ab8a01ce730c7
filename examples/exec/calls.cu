// Device functions that are called, not inlined: recursion, pointers to functions, virtual functions, and structs as arguments.
#include <cstdio>

struct Pair {
    double sum;
    char tag[5];
};

// The sum of a subtree of numbers: each call has two others, with results of 16 bytes.
__device__ __noinline__ Pair tree(int from, int to)
{
    if (to - from == 1) return Pair{double(from), {'l', 'e', 'a', 'f', 0}};
    Pair low = tree(from, (from + to) / 2), high = tree((from + to) / 2, to);
    return Pair{low.sum + high.sum, {low.tag[0], high.tag[3], 'n', 0, 0}};
}

typedef int (*Function)(int);
__device__ __noinline__ int increment(int x) { return x + 1; }
__device__ __noinline__ int twice(int x) { return 2 * x; }
__device__ Function table[2] = {increment, twice};
__constant__ Function constants[2] = {twice, increment};

struct Shape {
    __device__ virtual int area() const = 0;
    __device__ virtual ~Shape() {}
};
struct Square : Shape {
    int side;
    __device__ Square(int side) : side(side) {}
    __device__ int area() const override { return side * side; }
};
struct Box : Square {
    int height;
    __device__ Box(int side, int height) : Square(side), height(height) {}
    __device__ int area() const override { return 2 * Square::area() + 4 * side * height; }
};

__global__ void run(double *trees, int *numbers)
{
    int lane = threadIdx.x;
    trees[lane] = tree(lane, 2 * lane + 1).sum;
    // Lanes call different functions, and meet.
    int number = table[lane % 2](lane) + constants[lane % 2](100 * lane);
    Shape *shape = lane % 3 ? new Square(lane) : new Box(lane, 1);
    number += 10000 * shape->area();
    delete shape;
    numbers[lane] = __shfl_xor_sync(0xFFFFFFFF, number, 1);
}

__global__ void forever(int *to, int depth) { *to = depth > 0 ? int(tree(0, depth).sum) : int(tree(1, 0).sum); }

int main(int argc, char **)
{
    double *trees;
    int *numbers;
    cudaMallocManaged(&trees, 32 * sizeof(double));
    cudaMallocManaged(&numbers, 32 * sizeof(int));
    run<<<1, 32>>>(trees, numbers);
    cudaError_t error = cudaDeviceSynchronize();
    int wrong = error != cudaSuccess;
    for (int lane = 0; lane < 32 && !wrong; lane++) {
        double sum = 0;
        for (int n = lane; n < 2 * lane + 1; n++) sum += n;
        wrong += trees[lane] != sum;
        int other = lane ^ 1, area = other % 3 ? other * other : 2 * other * other + 4 * other;
        int called = other % 2 ? 2 * other + 100 * other + 1 : other + 1 + 200 * other;
        wrong += numbers[lane] != called + 10000 * area;
    }
    printf("%s, %d wrong\n", cudaGetErrorName(error), wrong);
    if (argc > 1) {
        // Recursion that never comes to a leaf.
        forever<<<1, 1>>>(numbers, 0);
        printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    }
    return wrong != 0;
}
