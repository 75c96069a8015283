/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA GPUs, with a stand-in for the driver's library: tests how gsprof handles answers, not how
 * a GPU behaves.
 */
#include "collect_fixture.h"

static struct machine m;
static char answers[PATH_MAX]; /* the file that the stand-in reads */

static void set_answers(const char *text, size_t len)
{
    machine_write(&m, "nvml.txt", text, len);
}

static void load_answers(struct gsp_buf *out)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/nvml/three_gpus.txt", GSP_TEST_FIXTURES);
    tap_require(gsp_file_read(path, 65536, out, NULL) == 0);
}

/* The default answers, preceded by others: the first matching line counts. */
static void answer(const char *more)
{
    gsp_auto_buf text = {0};
    gsp_buf_puts(&text, more);
    load_answers(&text);
    set_answers(text.p, text.len);
}

static struct gsp_collect *start(const char *more)
{
    struct gsp_collect *collect = NULL;
    machine_open(&m, "cgroup2");
    m.env.nvml_library = GSP_NVML_STANDIN;
    snprintf(answers, sizeof(answers), "%s/nvml.txt", m.folder);
    setenv("GSP_NVML_STANDIN", answers, 1);
    answer(more);
    tap_require(gsp_collect_open(&m.env, &collect, NULL) == 0);
    return collect;
}

static void end(struct gsp_collect *collect)
{
    gsp_collect_close(collect);
    machine_close(&m);
}

static const struct gsp_row_gpu_metrics *metrics(size_t i)
{
    const struct gsp_row_gpu_metrics *row = machine_need(&m, GSP_TABLE_gpu_metrics, i);
    return row;
}

static bool is_blank(const struct gsp_row_gpu_metrics *row)
{
    return gsp_is_null_f64(row->util_percent) && gsp_is_null_f64(row->power_watts) &&
           gsp_is_null_f64(row->temperature_c) && row->memory_used_bytes == GSP_NULL_I64 &&
           gsp_is_null_f64(row->energy_joules) && row->throttle == GSP_NULL_STR;
}

static size_t count_rows(enum gsp_table_id table)
{
    size_t count = 0;
    while (machine_row(&m, table, count))
        count++;
    return count;
}

TAP_TEST(constant_properties)
{
    struct gsp_collect *collect = start("");
    machine_tick(&m, collect, 1);
    const struct gsp_row_gpu_device *device = machine_need(&m, GSP_TABLE_gpu_device, 0);
    tap_eq_int(count_rows(GSP_TABLE_gpu_device), 3);
    tap_eq_int(device->gpu, 0);
    tap_eq_str(machine_text(&m, device->uuid), "GPU-standin-0");
    tap_eq_str(machine_text(&m, device->name), "STAND-IN A100");
    tap_eq_str(machine_text(&m, device->vendor), "nvidia");
    tap_eq_str(machine_text(&m, device->driver), "999.10.01");
    tap_eq_str(machine_text(&m, device->pci_bus), "00000000:17:00.0");
    tap_eq_int(device->memory_total_bytes, 42949672960LL);
    near(device->power_limit_watts, 400);
    tap_eq_int(device->mig, 0);
    device = machine_need(&m, GSP_TABLE_gpu_device, 1);
    tap_check(gsp_is_null_f64(device->power_limit_watts) && device->mig == GSP_NULL_BOOL);
    device = machine_need(&m, GSP_TABLE_gpu_device, 2);
    tap_eq_int(device->mig, 1);
    /* Once, and again after a change. */
    machine_tick(&m, collect, 2);
    tap_eq_int(count_rows(GSP_TABLE_gpu_device), 0);
    answer("0.power_limit_mw 300000\n");
    machine_tick(&m, collect, 9);
    tap_eq_int(count_rows(GSP_TABLE_gpu_device), 1);
    device = machine_need(&m, GSP_TABLE_gpu_device, 0);
    near(device->power_limit_watts, 300);
    end(collect);
}

TAP_TEST(values_and_rates)
{
    struct gsp_collect *collect = start("");
    machine_tick(&m, collect, 1);
    tap_check(gsp_is_null_f64(metrics(0)->pcie_tx_bytes_per_s));
    answer("0.energy_mj 5200000\n0.field197 3000000\n0.field198 2500000\n0.field138 3000\n"
           "0.field139 500\n");
    machine_tick(&m, collect, 3);
    const struct gsp_row_gpu_metrics *row = metrics(0);
    near(row->util_percent, 75);
    near(row->memory_util_percent, 30);
    tap_eq_int(row->memory_used_bytes, 10737418240LL);
    tap_eq_int(row->memory_total_bytes, 42949672960LL);
    near(row->power_watts, 250.5);
    near(row->temperature_c, 61);
    near(row->sm_clock_mhz, 1410);
    near(row->memory_clock_mhz, 1215);
    near(row->pcie_tx_bytes_per_s, 1000000);
    near(row->pcie_rx_bytes_per_s, 250000);
    near(row->nvlink_tx_bytes_per_s, 1000 * 1024.0);
    near(row->nvlink_rx_bytes_per_s, 0);
    near(row->energy_joules, 5200);
    tap_eq_str(machine_text(&m, row->throttle), "sw_power_cap");
    tap_eq_str(machine_text(&m, metrics(1)->throttle), "none");
    const struct gsp_row_energy_metrics *energy = machine_need(&m, GSP_TABLE_energy_metrics, 0);
    tap_eq_str(machine_text(&m, energy->domain), "gpu");
    tap_eq_str(machine_text(&m, energy->source), "nvml");
    near(energy->joules, 200);
    near(energy->watts, 100);
    near(energy->carbon_grams, 200 / 3.6e6 * 360);
    /* Without a counter: power times time. */
    energy = machine_need(&m, GSP_TABLE_energy_metrics, 1);
    tap_eq_str(machine_text(&m, energy->device), "gpu 1");
    tap_eq_str(machine_text(&m, energy->source), "power");
    near(energy->joules, 120);
    end(collect);
}

TAP_TEST(pcie_of_older_drivers_is_read_in_turns)
{
    struct gsp_collect *collect = start("");
    double tx = gsp_null_f64();
    double rx = gsp_null_f64();
    for (int i = 1; i < 40 && (gsp_is_null_f64(tx) || gsp_is_null_f64(rx)); i++) {
        machine_tick(&m, collect, i);
        tx = metrics(1)->pcie_tx_bytes_per_s;
        rx = metrics(1)->pcie_rx_bytes_per_s;
    }
    near(tx, 2048 * 1024.0);
    near(rx, 1024 * 1024.0);
    end(collect);
}

TAP_TEST(processes_and_their_containers)
{
    struct gsp_collect *collect = start("");
    machine_set(&m, "proc/77/status", "Name:\tx\nNSpid:\t77\t9\n");
    machine_tick(&m, collect, 1);
    tap_eq_int(count_rows(GSP_TABLE_gpu_process), 3);
    const struct gsp_row_gpu_process *row = machine_need(&m, GSP_TABLE_gpu_process, 0);
    tap_eq_int(row->pid, 77);
    tap_eq_int(row->gpu, 0);
    tap_eq_int(row->container_pid, 9);
    tap_eq_str(machine_text(&m, row->name), "a) b (c");
    tap_eq_int(row->memory_used_bytes, 5368709120LL);
    near(row->util_percent, 60);
    tap_eq_int(row->gpu_instance, GSP_NULL_I64);
    /* A process that we cannot see, whose memory the driver does not know. */
    row = machine_need(&m, GSP_TABLE_gpu_process, 1);
    tap_eq_int(row->pid, 4242);
    tap_check(row->name == GSP_NULL_STR && row->memory_used_bytes == GSP_NULL_I64 &&
              row->container_pid == GSP_NULL_I64 && gsp_is_null_f64(row->util_percent));
    /* On an instance of a partitioned GPU. */
    row = machine_need(&m, GSP_TABLE_gpu_process, 2);
    tap_eq_int(row->gpu, 2);
    tap_eq_int(row->gpu_instance, 3);
    end(collect);
}

TAP_TEST(a_partitioned_gpu_has_no_utilisation_and_says_why)
{
    struct gsp_collect *collect = start("");
    machine_tick(&m, collect, 1);
    tap_check(gsp_is_null_f64(metrics(2)->util_percent));
    near(metrics(2)->power_watts, 90);
    tap_eq_str(machine_trouble(collect, "gpu_nvml"),
               "GPU 2 is partitioned (MIG): utilisation not available");
    end(collect);
}

TAP_TEST(a_lost_gpu_is_blank_and_comes_back)
{
    struct gsp_collect *collect = start("2.mig 0\n");
    machine_tick(&m, collect, 1);
    near(metrics(1)->util_percent, 10);
    answer("2.mig 0\n1.code 15\n");
    machine_tick(&m, collect, 2);
    tap_check(is_blank(metrics(1)));
    near(metrics(0)->util_percent, 75);
    near(metrics(2)->power_watts, 90);
    tap_eq_str(machine_trouble(collect, "gpu_nvml"), "GPU 1: GPU is lost (15)");
    for (int i = 3; i < 30; i++)
        machine_tick(&m, collect, i);
    tap_check(is_blank(metrics(1)));
    answer("2.mig 0\n");
    machine_tick(&m, collect, 40);
    near(metrics(1)->util_percent, 10);
    tap_eq_str(machine_trouble(collect, "gpu_nvml"), "");
    /* Its row is added again. */
    const struct gsp_row_gpu_device *device = NULL;
    for (size_t i = 0; (device = machine_row(&m, GSP_TABLE_gpu_device, i)) != NULL; i++)
        if (device->gpu == 1)
            break;
    tap_check(device != NULL);
    end(collect);
}

TAP_TEST(a_replacement_gpu_keeps_the_number)
{
    struct gsp_collect *collect = start("2.mig 0\n");
    machine_tick(&m, collect, 1);
    answer("0.code 1\n1.code 1\n2.code 1\n");
    machine_tick(&m, collect, 2);
    tap_check(is_blank(metrics(0)) && is_blank(metrics(1)) && is_blank(metrics(2)));
    answer("count 2\n1.uuid GPU-standin-2\n1.util 44 1\n");
    for (int i = 3; i < 20; i++)
        machine_tick(&m, collect, i);
    tap_eq_int(count_rows(GSP_TABLE_gpu_metrics), 3);
    near(metrics(0)->util_percent, 75);
    tap_check(is_blank(metrics(1)));
    tap_eq_int(metrics(2)->gpu, 2);
    near(metrics(2)->util_percent, 44);
    end(collect);
}

TAP_TEST(use_by_a_process_is_kept_for_a_while)
{
    struct gsp_collect *collect = start("");
    machine_tick(&m, collect, 1);
    machine_tick(&m, collect, 2);
    const struct gsp_row_gpu_process *row = machine_need(&m, GSP_TABLE_gpu_process, 0);
    near(row->util_percent, 60);
    machine_tick(&m, collect, 5);
    row = machine_need(&m, GSP_TABLE_gpu_process, 0);
    tap_check(gsp_is_null_f64(row->util_percent));
    answer("0.process_util 77 9000000 30\n");
    machine_tick(&m, collect, 6);
    row = machine_need(&m, GSP_TABLE_gpu_process, 0);
    near(row->util_percent, 30);
    end(collect);
}

TAP_TEST(only_the_failing_value_is_blank)
{
    struct gsp_collect *collect = start("2.mig 0\n0.temperature.code 999\n0.power_mw.code 4\n");
    machine_tick(&m, collect, 1);
    tap_check(gsp_is_null_f64(metrics(0)->temperature_c));
    tap_check(gsp_is_null_f64(metrics(0)->power_watts));
    near(metrics(0)->util_percent, 75);
    tap_check(strstr(machine_trouble(collect, "gpu_nvml"), "GPU 0: Unknown Error (999)") != NULL);
    end(collect);
}

TAP_TEST(a_gpu_that_is_unavailable_at_first)
{
    struct gsp_collect *collect = start("2.mig 0\n1.handle.code 15\n");
    machine_tick(&m, collect, 1);
    tap_eq_int(count_rows(GSP_TABLE_gpu_metrics), 3);
    tap_check(is_blank(metrics(1)));
    tap_eq_int(metrics(1)->gpu, 1);
    near(metrics(0)->util_percent, 75);
    answer("2.mig 0\n");
    machine_tick(&m, collect, 10);
    machine_tick(&m, collect, 11);
    near(metrics(1)->util_percent, 10);
    tap_eq_int(metrics(1)->gpu, 1);
    end(collect);
}

TAP_TEST(driver_errors_have_names)
{
    struct gsp_collect *collect = start("init 9\n");
    machine_tick(&m, collect, 1);
    tap_eq_int(count_rows(GSP_TABLE_gpu_metrics), 0);
    tap_eq_str(machine_trouble(collect, "gpu_nvml"),
               "NVML initialization failed: Driver Not Loaded (9)");
    tap_check(machine_row(&m, GSP_TABLE_system_cpu, 0) != NULL);
    /* A driver that is loaded later is found. */
    answer("");
    machine_tick(&m, collect, 20);
    tap_eq_int(count_rows(GSP_TABLE_gpu_metrics), 0);
    machine_tick(&m, collect, 40);
    tap_eq_int(count_rows(GSP_TABLE_gpu_metrics), 3);
    end(collect);
}

TAP_TEST(missing_and_foreign_libraries)
{
    struct gsp_collect *collect = start("");
    gsp_collect_close(collect);
    m.env.nvml_library = "libgsprof-there-is-none.so.1";
    tap_require(gsp_collect_open(&m.env, &collect, NULL) == 0);
    tap_eq_str(machine_trouble(collect, "gpu_nvml"),
               "no libgsprof-there-is-none.so.1: NVIDIA driver not found");
    gsp_collect_close(collect);
    m.env.nvml_library = "libc.so.6";
    tap_require(gsp_collect_open(&m.env, &collect, NULL) == 0);
    tap_eq_str(machine_trouble(collect, "gpu_nvml"), "libc.so.6 has no nvmlInit_v2");
    end(collect);
}

TAP_TEST(arbitrary_answers_do_no_harm)
{
    static const char *const junk[] = {"count 99999\n",
                                       "count -1\n",
                                       "0.processes x x x x\n",
                                       "0.memory 9 1\n",
                                       "0.energy_mj 1\n",
                                       "0.name \xff\xff\xff\n",
                                       "0.throttle 18446744073709551615\n",
                                       "count.code 999\n",
                                       "0.code 1\n1.code 1\n2.code 1\ninit 999\n"};
    struct gsp_collect *collect = start("");
    for (size_t i = 0; i < GSP_COUNT(junk); i++) {
        answer(junk[i]);
        machine_tick(&m, collect, (double)(i + 1) * 400);
        machine_tick(&m, collect, (double)(i + 1) * 400 + 1);
        tap_check(count_rows(GSP_TABLE_gpu_metrics) >= 3);
    }
    end(collect);
}

TAP_MAIN()
