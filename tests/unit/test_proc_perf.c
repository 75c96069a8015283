/* SPDX-License-Identifier: Apache-2.0 */
/* Perf records, valid and malformed, and perf events of a child process. */
#include <linux/perf_event.h>
#include <string.h>

#include "proc/perf.h"
#include "tap.h"

#if defined(__x86_64__)
#define REGS  8U
#define AT_SP 2U
#define AT_PC 3U
#else
#define REGS  4U
#define AT_SP 2U
#define AT_PC 3U
#endif

#define STACK_WORDS 4U

/* header, ABI, registers, size of the stack area, stack, bytes used */
struct record {
    struct perf_event_header header;
    uint64_t abi;
    uint64_t regs[REGS];
    uint64_t area;
    uint64_t stack[STACK_WORDS];
    uint64_t used;
};

static struct record make(void)
{
    struct record record = {
        .header = {.type = PERF_RECORD_SAMPLE, .size = sizeof(record)},
        .abi = PERF_SAMPLE_REGS_ABI_64,
        .area = sizeof(record.stack),
        .stack = {11, 12, 13, 14},
        .used = 24,
    };
    for (size_t i = 0; i < REGS; i++)
        record.regs[i] = 100 + i;
    return record;
}

TAP_TEST(a_record)
{
    struct record record = make();
    struct gsp_perf_sample moment;
    tap_require(gsp_proc__perf_parse(&record, sizeof(record), &moment));
    tap_eq_int(moment.regs.sp, 100 + AT_SP);
    tap_eq_int(moment.regs.pc, 100 + AT_PC);
    tap_eq_int(moment.stack_len, 24);
    tap_check(memcmp(moment.stack, record.stack, 24) == 0);
}

TAP_TEST(malformed_records)
{
    struct gsp_perf_sample moment;
    struct record record = make();
    for (size_t len = 0; len < sizeof(record); len++)
        tap_check(!gsp_proc__perf_parse(&record, len, &moment));
    for (size_t size = 0; size < sizeof(record); size += 4) {
        record = make();
        record.header.size = (uint16_t)size;
        tap_check(!gsp_proc__perf_parse(&record, sizeof(record), &moment));
    }
    record = make();
    record.abi = PERF_SAMPLE_REGS_ABI_32;
    tap_check(!gsp_proc__perf_parse(&record, sizeof(record), &moment));
    record = make();
    record.area = UINT64_MAX;
    tap_check(!gsp_proc__perf_parse(&record, sizeof(record), &moment));
    record = make();
    record.used = record.area + 8;
    tap_check(!gsp_proc__perf_parse(&record, sizeof(record), &moment));
    record = make();
    record.header.type = PERF_RECORD_LOST;
    tap_check(!gsp_proc__perf_parse(&record, sizeof(record), &moment));
}

static void need_events(void)
{
    struct gsp_err err = {0};
    if (gsp_proc_perf_selftest(&err) != GSP_OK)
        tap_skip(err.msg);
}

TAP_TEST(a_running_thread)
{
    need_events();
    pid_t child = fork();
    if (child == 0) {
        for (volatile unsigned i = 0;; i++) {
        }
    }
    struct gsp_perf *perf;
    struct gsp_perf_sample moment;
    tap_require(gsp_proc_perf_open(child, 8192, &perf, NULL) == GSP_OK);
    for (int i = 0; i < 20; i++) {
        tap_require(gsp_proc_perf_capture(perf, 10000000000LL, &moment));
        tap_check(moment.regs.pc != 0 && moment.regs.sp != 0);
        tap_check(moment.stack_len > 0 && moment.stack_len <= 8192);
    }
    gsp_proc_perf_close(perf);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

TAP_TEST(a_sleeping_and_an_ended_thread)
{
    need_events();
    int ends[2];
    tap_require(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
    }
    struct gsp_perf *perf;
    struct gsp_perf_sample moment;
    tap_require(gsp_proc_perf_open(child, 8192, &perf, NULL) == GSP_OK);
    /* The child may still run for a moment before it sleeps. */
    bool captured = true;
    for (int i = 0; captured && i < 100; i++)
        captured = gsp_proc_perf_capture(perf, 1000000, &moment);
    tap_check(!captured);
    close(ends[1]);
    tap_require(waitpid(child, NULL, 0) == child);
    tap_check(!gsp_proc_perf_capture(perf, 1000000, &moment));
    gsp_proc_perf_close(perf);
    gsp_proc_perf_close(NULL);
    tap_eq_int(gsp_proc_perf_open(child, 8192, &perf, NULL), GSP_E_NOPROC);
}

TAP_MAIN()
