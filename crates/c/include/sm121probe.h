/* sm121probe: PTX kernels for NVIDIA SM12x on the CPU, judged by the rules of the PTX ISA.
 *
 * Every function may be called from any thread; launches on one device run one after the other. Texts that functions return are
 * UTF-8, end with a zero byte, and are freed with sm121probe_text_free(). Nothing here prints or ends the process.
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
    /* Results depend on a race or on unwritten memory, and no memory has changed; or on the schedule, with `require_equal`, or on what PTX
     * leaves open, with `strict`, and memory holds the results of the first schedule. */
    SM121PROBE_DISAGREEMENT = 101,
    /* The kernel uses something that the emulator does not support. */
    SM121PROBE_UNSUPPORTED = 102,
    /* The emulator failed: a defect of sm121probe. */
    SM121PROBE_FAILED = 1
} sm121probe_status;

/* A module of PTX. */
typedef struct sm121probe_module sm121probe_module;
/* Global memory that persists between launches. */
typedef struct sm121probe_device sm121probe_device;

/* The version of this interface: 1. */
uint32_t sm121probe_version(void);

/* Reads PTX of `bytes` bytes; returns null if it is not valid PTX. If error is not null, *error is set to the reason, or to null on success. */
sm121probe_module *sm121probe_load(const char *ptx, size_t bytes, char **error);
/* Frees a module; a null pointer is ignored. */
void sm121probe_module_free(sm121probe_module *module);

sm121probe_device *sm121probe_device_new(void);
void sm121probe_device_free(sm121probe_device *device);

/* A buffer of `bytes` bytes, with the contents of `from`, or unwritten if `from` is null; returns its address for
 * kernels, or 0 if there is no memory. */
uint64_t sm121probe_alloc(sm121probe_device *device, const void *from, size_t bytes);
/* Copies from the beginning of a buffer; if unwritten is not null, *unwritten is set to the number of bytes of the buffer that were never
 * written. SM121PROBE_USAGE if there is no buffer at the address, or if it is smaller. */
sm121probe_status sm121probe_read(sm121probe_device *device, uint64_t address, void *to, size_t bytes, size_t *unwritten);
/* Replaces bytes of a buffer, starting at any address in it. */
sm121probe_status sm121probe_write(sm121probe_device *device, uint64_t address, const void *from, size_t bytes);
/* Frees a buffer: a kernel that uses it from now on violates a rule. */
sm121probe_status sm121probe_free(sm121probe_device *device, uint64_t address);

/* A launch. Set all of it to zero first: later versions may use `reserved` for new fields. */
typedef struct sm121probe_launch {
    /* The kernel; may be null if the module has only one. */
    const char *kernel;
    /* CTAs, threads of a CTA, CTAs of a cluster; 0 counts as 1. */
    uint32_t grid[3], block[3], cluster[3];
    /* Dynamic shared memory in bytes. */
    uint32_t shared_bytes;
    /* The parameters, laid out as the kernel declares them. */
    const void *params;
    size_t param_bytes;
    /* Number of schedules run from the same memory, whose results are compared; 0 for 1, or for 4 where results decide (`rules`). */
    uint32_t schedules;
    /* Maximum number of warp instructions per schedule; 0 for 20,000,000,000. */
    uint64_t fuel;
    /* The hardware whose tensor-core sums and special functions are computed: 80, 89, 90, 100 or 120; 0 for the target's. */
    uint32_t model;
    /* 1 to round an unqualified product and the sum that uses it once, wherever PTX allows it in a basic block; 0 to round both. */
    uint32_t contract;
    /* 0: all rules are checked, and the first violation stops. 1: races and undefined values are listed, and the results decide. 2: no race
     * and no undefined value is looked for. */
    uint32_t rules;
    /* Number of contents of unwritten memory and registers; 0 for 1, or for 2 where results decide. */
    uint32_t fillings;
    /* 1 if results that differ between schedules are a failure although nothing races. */
    uint32_t require_equal;
    /* 1 if results that PTX leaves open are a failure. */
    uint32_t strict;
    uint64_t reserved[5];
} sm121probe_launch;

/* Launches and judges. If report is not null, *report is set to JSON: {"status", "verdict": "equal", "nondeterministic", "undetermined",
 * "violation", "incomplete" or "refused", "instructions", "schedules", "message", "violation": {"rule", "what", "kernel", "line",
 * "instruction", "source", "source_text", "cta", "warp", "lane", "other": of a race, the place of the other access, with "wrote", or null},
 * "violations": those that are listed, with "times", "differences": the first difference
 * between schedules or fillings by each cause, {"cause", "what", "buffer", "byte", "element", "values", "seeds"}, "undetermined": what PTX
 * leaves open, {"by", "buffer", "differing", "elements", "element", "values", "largest"}, "undetermined_stores", "remarks", "printed"}. */
sm121probe_status sm121probe_run(sm121probe_device *device, const sm121probe_module *module,
                                 const sm121probe_launch *launch, char **report);

void sm121probe_text_free(char *text);

/* The entry of gpuocelot that tinygrad's CUDA emulation calls: launches the only kernel of `ptx` with `count` arguments. An argument of a
 * 64-bit parameter is a pointer into this process or a number, one of a smaller parameter a number in the pointer's low bits. Memory
 * that pointers refer to is changed in place. Returns 0, or a status from above after writing the reason to standard error. */
int ptx_run(const char *ptx, int count, void *args[], int lx, int ly, int lz, int gx, int gy, int gz, int shared_bytes);

#ifdef __cplusplus
}
#endif

#endif
