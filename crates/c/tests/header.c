/* Calls every function of the header; prints what goes wrong, and returns how much. */
#include "sm121probe.h"

#include <stdio.h>
#include <string.h>

static int wrong;
#define CHECK(what) do { if (!(what)) { printf("line %d: %s\n", __LINE__, #what); wrong++; } } while (0)

static const char PTX[] =
    ".version 8.7\n.target sm_120\n.address_size 64\n"
    ".visible .entry twice(.param .u64 x, .param .u32 n)\n{\n"
    " .reg .b64 p; .reg .b32 i, m, v; .reg .pred out;\n"
    " ld.param.u64 p, [x]; ld.param.u32 m, [n]; mov.u32 i, %tid.x; setp.ge.u32 out, i, m;\n"
    " @out ret;\n mad.wide.u32 p, i, 4, p;\n ld.global.u32 v, [p]; add.u32 v, v, v; st.global.u32 [p], v;\n ret;\n}\n";

int main(void) {
    uint32_t host[64], seen[64];
    for (int i = 0; i < 64; i++) host[i] = (uint32_t)i;
    CHECK(sm121probe_version() == 1);

    char *error = NULL;
    CHECK(sm121probe_load("hello", 5, &error) == NULL && error != NULL);
    sm121probe_text_free(error);
    sm121probe_module *module = sm121probe_load(PTX, sizeof PTX, &error);
    CHECK(module != NULL && error == NULL);

    sm121probe_device *device = sm121probe_device_new();
    uint64_t x = sm121probe_alloc(device, host, sizeof host);
    CHECK(x != 0);
    struct { uint64_t x; uint32_t n; } params = {x, 64};
    sm121probe_launch launch = {0};
    launch.kernel = "twice";
    launch.block[0] = 64;
    launch.params = &params;
    launch.param_bytes = 12;
    launch.schedules = 3;
    char *report = NULL;
    CHECK(sm121probe_run(device, module, &launch, &report) == SM121PROBE_OK);
    CHECK(strstr(report, "\"status\":\"ok\"") && strstr(report, "\"schedules\":3"));
    sm121probe_text_free(report);
    size_t unwritten = 1;
    CHECK(sm121probe_read(device, x, seen, sizeof seen, &unwritten) == SM121PROBE_OK && unwritten == 0);
    for (int i = 0; i < 64; i++) CHECK(seen[i] == 2u * (uint32_t)i);

    params.n = 65;
    launch.model = 90;
    launch.contract = 1;
    CHECK(sm121probe_run(device, module, &launch, NULL) == SM121PROBE_OK);
    launch.model = 91;
    CHECK(sm121probe_run(device, module, &launch, NULL) == SM121PROBE_USAGE);
    launch.model = 0;
    launch.contract = 2;
    CHECK(sm121probe_run(device, module, &launch, NULL) == SM121PROBE_USAGE);
    launch.contract = 0;
    launch.rules = 3;
    CHECK(sm121probe_run(device, module, &launch, NULL) == SM121PROBE_USAGE);
    launch.rules = 0;
    launch.block[0] = 65;
    CHECK(sm121probe_run(device, module, &launch, &report) == SM121PROBE_VIOLATION);
    CHECK(strstr(report, "\"rule\":\"out_of_bounds\"") && strstr(report, "\"line\":10"));
    sm121probe_text_free(report);
    CHECK(sm121probe_read(device, x, seen, sizeof seen, NULL) == SM121PROBE_OK && seen[1] == 4);
    launch.kernel = "thrice";
    CHECK(sm121probe_run(device, module, &launch, NULL) == SM121PROBE_USAGE);
    launch.kernel = NULL;
    launch.param_bytes = 8;
    CHECK(sm121probe_run(device, module, &launch, NULL) == SM121PROBE_USAGE);
    CHECK(sm121probe_run(NULL, module, &launch, NULL) == SM121PROBE_USAGE);

    CHECK(sm121probe_write(device, x + 4, host, 8) == SM121PROBE_OK);
    CHECK(sm121probe_write(device, x + 252, host, 8) == SM121PROBE_USAGE);
    CHECK(sm121probe_read(device, x, seen, sizeof seen, NULL) == SM121PROBE_OK && seen[1] == 0 && seen[2] == 1);
    CHECK(sm121probe_read(device, 1, seen, 4, NULL) == SM121PROBE_USAGE);
    uint64_t y = sm121probe_alloc(device, NULL, 16);
    CHECK(sm121probe_read(device, y, seen, 16, &unwritten) == SM121PROBE_OK && unwritten == 16);
    CHECK(sm121probe_free(device, y) == SM121PROBE_OK && sm121probe_free(device, y) == SM121PROBE_USAGE);

    void *args[] = {host, (void *)(uintptr_t)64};
    CHECK(ptx_run(PTX, 2, args, 64, 1, 1, 1, 1, 1, 0) == 0);
    for (int i = 0; i < 64; i++) CHECK(host[i] == 2u * (uint32_t)i);
    static uint32_t large[1 << 20];
    for (int i = 0; i < 1 << 20; i++) large[i] = 3;
    void *far[] = {large + (1 << 19), (void *)(uintptr_t)1024};
    CHECK(ptx_run(PTX, 2, far, 1024, 1, 1, 1, 1, 1, 0) == 0);
    CHECK(large[(1 << 19) - 1] == 3 && large[1 << 19] == 6 && large[(1 << 19) + 1023] == 6 && large[(1 << 19) + 1024] == 3);
    CHECK(ptx_run(PTX, 1, args, 64, 1, 1, 1, 1, 1, 0) == SM121PROBE_USAGE);
    void *nowhere[] = {(void *)16, (void *)(uintptr_t)1};
    CHECK(ptx_run(PTX, 2, nowhere, 1, 1, 1, 1, 1, 1, 0) == SM121PROBE_VIOLATION);

    /* Tickets are nondeterministic: a failure only where equal results are required, and the first schedule's results are there. */
    static const char TICKETS[] =
        ".version 8.7\n.target sm_120\n.address_size 64\n.visible .entry t(.param .u64 x)\n{\n .reg .b64 p, q; .reg .b32 i, v;\n"
        " ld.param.u64 p, [x]; mov.u32 i, %tid.x; mad.wide.u32 q, i, 4, p;\n atom.global.add.u32 v, [p], 1; st.global.u32 [q+4], v;\n"
        " ret;\n}\n";
    sm121probe_module *tickets = sm121probe_load(TICKETS, sizeof TICKETS, NULL);
    static uint32_t words[129];
    for (uint32_t required = 0; required < 2; required++) {
        uint64_t t = sm121probe_alloc(device, words, sizeof words);
        sm121probe_launch draw = {0};
        draw.block[0] = 128;
        draw.params = &t;
        draw.param_bytes = 8;
        draw.schedules = 6;
        draw.require_equal = required;
        sm121probe_status status = sm121probe_run(device, tickets, &draw, &report);
        CHECK(status == (required ? SM121PROBE_DISAGREEMENT : SM121PROBE_OK));
        CHECK(strstr(report, "\"verdict\":\"nondeterministic\"") && strstr(report, "\"cause\":\"nondeterministic\""));
        sm121probe_text_free(report);
        uint32_t drawn[129];
        CHECK(sm121probe_read(device, t, drawn, sizeof drawn, NULL) == SM121PROBE_OK && drawn[0] == 128 && drawn[128] == 127);
    }
    sm121probe_module_free(tickets);

    sm121probe_module_free(module);
    sm121probe_module_free(NULL);
    sm121probe_device_free(device);
    return wrong;
}
