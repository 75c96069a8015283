/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tap.h"
#include "tui/machine.h"

TAP_TEST(stat_is_summed)
{
    struct gsp_machine_times times;
    tap_require(gsp_tui__machine_parse_stat(gsp_sv_of("cpu  10 20 30 100 40 5 6 7 1000 1000\n"
                                                      "cpu0 5 10 15 50 20 2 3 4 0 0\n"
                                                      "cpu1 5 10 15 50 20 3 3 3 0 0\n"
                                                      "intr 1 2 3\n"),
                                            &times));
    tap_eq_int(times.all, 218); /* guest time is part of user time */
    tap_eq_int(times.busy, 78);
    tap_eq_int(times.cores, 2);
}

TAP_TEST(malformed_text_is_rejected)
{
    static const char *const bad[] = {"",
                                      "cpu",
                                      "cpu  1 2 3\n",
                                      "cpu  a b c d\n",
                                      "cpu  18446744073709551615 1 1 1\n",
                                      "cpu  99999999999999999999 1 1 1\n",
                                      "intr 1\n"};
    struct gsp_machine_times times;
    for (size_t i = 0; i < GSP_COUNT(bad); i++)
        tap_check(!gsp_tui__machine_parse_stat(gsp_sv_of(bad[i]), &times));
    uint64_t used = 0;
    uint64_t total = 0;
    tap_check(!gsp_tui__machine_parse_meminfo(gsp_sv_of("MemTotal: 5 kB\n"), &used, &total));
    tap_check(!gsp_tui__machine_parse_meminfo(gsp_sv_of("MemTotal: 5 kB\nMemAvailable: 6 kB\n"),
                                              &used, &total));
}

TAP_TEST(memory_in_bytes)
{
    uint64_t used = 0;
    uint64_t total = 0;
    tap_require(gsp_tui__machine_parse_meminfo(
        gsp_sv_of("MemTotal:       1000 kB\nMemFree:  1 kB\nMemAvailable:    400 kB\n"), &used,
        &total));
    tap_eq_int(used, 600 * 1024);
    tap_eq_int(total, 1000 * 1024);
}

TAP_TEST(load_covers_the_time_between_readings)
{
    struct gsp_machine machine = {0};
    gsp_tui__machine_load(&machine,
                          &(struct gsp_machine_times){.busy = 100, .all = 200, .cores = 4});
    tap_check(!machine.has_cpu); /* no earlier reading */
    gsp_tui__machine_load(&machine,
                          &(struct gsp_machine_times){.busy = 125, .all = 300, .cores = 4});
    tap_check(machine.has_cpu);
    tap_eq_int(machine.cpu_pct, 25);
    /* Counters that decrease are ignored. */
    gsp_tui__machine_load(&machine,
                          &(struct gsp_machine_times){.busy = 120, .all = 400, .cores = 4});
    tap_check(!machine.has_cpu);
}

TAP_TEST(this_machine_can_be_read)
{
    struct gsp_machine machine = {0};
    gsp_tui_machine_read(&machine);
    tap_check(machine.has_memory && machine.memory_used_bytes <= machine.memory_total_bytes);
    tap_check(machine.cores > 0);
}

TAP_TEST(the_gpu_is_identified_by_its_driver)
{
    char root[] = "/tmp/gsprof-test-XXXXXX";
    char folder[64];
    char mark[72];
    tap_require(mkdtemp(root) != NULL);
    snprintf(folder, sizeof(folder), "%s/dev", root);
    snprintf(mark, sizeof(mark), "%s/kfd", folder);
    tap_check(!gsp_tui__machine_find_gpu(root));
    tap_require(mkdir(folder, 0700) == 0 && mkdir(mark, 0700) == 0);
    tap_check(gsp_tui__machine_find_gpu(root));
    rmdir(mark);
    rmdir(folder);
    rmdir(root);
}

TAP_MAIN()
