// Measures opencl.cl on the CPU by POCL.
//
// opencl FILE.cl [NAME...] prints a name and CPU seconds in each line; exit code 3: there is no POCL.
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "programs.h"

static cl_context context;
static cl_command_queue queue;
static cl_program built;
static cl_kernel kernel;
static cl_mem buffers[MOST_GIVEN];

static void must(cl_int error, const char* call) {
    if (error == CL_SUCCESS) return;
    fprintf(stderr, "%s: OpenCL error %d\n", call, (int)error);
    exit(2);
}

// The CPU of POCL; exits if there is none.
static cl_device_id cpu_of_pocl(void) {
    cl_platform_id platforms[16];
    cl_uint count = 0;
    if (clGetPlatformIDs(16, platforms, &count) != CL_SUCCESS) count = 0;
    for (cl_uint i = 0; i < count && i < 16; ++i) {
        char name[256] = "";
        clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof name, name, NULL);
        if (strcmp(name, "Portable Computing Language")) continue;
        cl_device_id device;
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_CPU, 1, &device, NULL) == CL_SUCCESS) return device;
    }
    exit(3);
}

static void build(const char* path) {
    FILE* file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(2);
    }
    static char text[1 << 16];
    size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    const char* source = text;
    cl_device_id device = cpu_of_pocl();
    cl_int error;
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    must(error, "clCreateContext");
    queue = clCreateCommandQueue(context, device, 0, &error);
    must(error, "clCreateCommandQueue");
    built = clCreateProgramWithSource(context, 1, &source, &length, &error);
    must(error, "clCreateProgramWithSource");
    error = clBuildProgram(built, 1, &device, "", NULL, NULL);
    if (error != CL_SUCCESS) {
        static char log[1 << 16];
        clGetProgramBuildInfo(built, device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
        fputs(log, stderr);
    }
    must(error, "clBuildProgram");
}

static void prepare(const Program* program) {
    cl_int error;
    kernel = clCreateKernel(built, program->name, &error);
    must(error, "clCreateKernel");
    for (cl_uint i = 0; i < MOST_GIVEN; ++i) {
        const Given* given = &program->given[i];
        if (is_buffer(given)) {
            buffers[i] = clCreateBuffer(context, CL_MEM_READ_WRITE, (size_t)given->count * 4, NULL, &error);
            must(error, "clCreateBuffer");
            must(clSetKernelArg(kernel, i, sizeof buffers[i], &buffers[i]), "clSetKernelArg");
        } else if (given->kind == NUMBER) {
            cl_int number = (cl_int)given->count;
            must(clSetKernelArg(kernel, i, sizeof number, &number), "clSetKernelArg");
        }
    }
}

static void write_buffer(int buffer, const void* bytes, size_t size) {
    must(clEnqueueWriteBuffer(queue, buffers[buffer], CL_TRUE, 0, size, bytes, 0, NULL, NULL), "clEnqueueWriteBuffer");
}

static void read_buffer(int buffer, void* bytes, size_t size) {
    must(clEnqueueReadBuffer(queue, buffers[buffer], CL_TRUE, 0, size, bytes, 0, NULL, NULL), "clEnqueueReadBuffer");
}

static void launch(const Program* program) {
    size_t block[2], all[2];
    for (int i = 0; i < 2; ++i) {
        block[i] = program->block[i];
        all[i] = (size_t)program->grid[i] * program->block[i];
    }
    must(clEnqueueNDRangeKernel(queue, kernel, 2, NULL, all, block, 0, NULL, NULL), "clEnqueueNDRangeKernel");
    must(clFinish(queue), "clFinish");
}

static void release(void) {
    for (int i = 0; i < MOST_GIVEN; ++i) {
        if (buffers[i]) clReleaseMemObject(buffers[i]);
        buffers[i] = NULL;
    }
    clReleaseKernel(kernel);
}

int main(int count, char** arguments) {
    if (count < 2) {
        fputs("opencl FILE.cl [NAME...]\n", stderr);
        return 2;
    }
    build(arguments[1]);
    const Machine machine = {prepare, write_buffer, launch, read_buffer, release};
    return measure_all(&machine, count - 2, arguments + 2);
}
