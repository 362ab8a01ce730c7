/* sm121probe: PTX kernels for NVIDIA SM12x on the CPU, judged by the rules of the PTX ISA.
 *
 * Every function may be called from any thread; launches on one device run one after the other. Texts that functions return are
 * UTF-8, end with a zero byte, and are given back by sm121probe_text_free(). Nothing here prints or ends the process.
 */
#ifndef SM121PROBE_H
#define SM121PROBE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a call ended. */
typedef enum sm121probe_status {
    SM121PROBE_OK = 0,
    /* A null pointer, an unknown name or address, sizes that do not fit. */
    SM121PROBE_USAGE = 2,
    /* The kernel violates a rule; no memory has changed. */
    SM121PROBE_VIOLATION = 100,
    /* Results depend on the schedule; no memory has changed. */
    SM121PROBE_DISAGREEMENT = 101,
    /* The kernel uses what the emulator lacks. */
    SM121PROBE_UNSUPPORTED = 102,
    /* The emulator failed: a defect of sm121probe. */
    SM121PROBE_FAILED = 1
} sm121probe_status;

/* A module of PTX. */
typedef struct sm121probe_module sm121probe_module;
/* Global memory that lives on between launches. */
typedef struct sm121probe_device sm121probe_device;

/* The version of this interface: 1. */
uint32_t sm121probe_version(void);

/* Reads PTX of `bytes` bytes; null where it is none. *error, where error is not null, becomes a text that says why, or null. */
sm121probe_module *sm121probe_load(const char *ptx, size_t bytes, char **error);
/* Null is no module, and no error. */
void sm121probe_module_free(sm121probe_module *module);

sm121probe_device *sm121probe_device_new(void);
void sm121probe_device_free(sm121probe_device *device);

/* A buffer of `bytes` bytes, with the contents of `from`, or that nobody has written where `from` is null; its address for
 * kernels, 0 where there is no memory. */
uint64_t sm121probe_alloc(sm121probe_device *device, const void *from, size_t bytes);
/* Copies from the beginning of a buffer; *unwritten, where it is not null, becomes the number of bytes of the buffer that nobody has
 * written. SM121PROBE_USAGE for an address that is none, or a buffer that is smaller. */
sm121probe_status sm121probe_read(sm121probe_device *device, uint64_t address, void *to, size_t bytes, size_t *unwritten);
/* Replaces bytes of a buffer, from any address in it on. */
sm121probe_status sm121probe_write(sm121probe_device *device, uint64_t address, const void *from, size_t bytes);
/* Frees a buffer: a kernel that uses it from now on violates a rule. */
sm121probe_status sm121probe_free(sm121probe_device *device, uint64_t address);

/* A launch. Set all of it to zero first: later versions may add fields in the place of `reserved`. */
typedef struct sm121probe_launch {
    /* The kernel; null where the module has only one. */
    const char *kernel;
    /* CTAs, threads of a CTA, CTAs of a cluster; 0 counts as 1. */
    uint32_t grid[3], block[3], cluster[3];
    /* Dynamic shared memory, bytes. */
    uint32_t shared_bytes;
    /* The parameters, laid out as the kernel declares them. */
    const void *params;
    size_t param_bytes;
    /* Schedules that are run from the same memory, with equal results demanded; 0 counts as 1. */
    uint32_t schedules;
    /* Instructions that warps may execute in each; 0 for 20,000,000,000. */
    uint64_t fuel;
    /* The hardware whose tensor-core sums and special functions are computed: 80, 89, 90, 100 or 120; 0 for the target's. */
    uint32_t model;
    /* 1 to round an unqualified product and the sum that uses it once, wherever PTX allows it in a basic block; 0 for never. */
    uint32_t contract;
    uint64_t reserved[7];
} sm121probe_launch;

/* Launches and judges. *report, where it is not null, becomes JSON: {"status", "instructions", "schedules", "message", "violation": {"rule",
 * "what", "kernel", "line", "instruction", "source", "cta", "warp", "lane"}, "remarks", "printed"}. */
sm121probe_status sm121probe_run(sm121probe_device *device, const sm121probe_module *module,
                                 const sm121probe_launch *launch, char **report);

void sm121probe_text_free(char *text);

/* The entry of gpuocelot that tinygrad's CUDA emulation calls: launches the only kernel of `ptx` with `count` arguments. An argument of a
 * 64-bit parameter is a pointer into this process or a number, one of a smaller parameter a number in the pointer's low bits. Memory
 * behind pointers is changed in place. Returns 0, or a status of above, having written why to standard error. */
int ptx_run(const char *ptx, int count, void *args[], int lx, int ly, int lz, int gx, int gy, int gz, int shared_bytes);

#ifdef __cplusplus
}
#endif

#endif
