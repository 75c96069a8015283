/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/wait.h>

#include "collect_fixture.h"

static struct machine m;

/* Opens a machine and reads it at two times, one second apart. */
static struct gsp_collect *two_ticks(const char *name)
{
    struct gsp_collect *collect = NULL;
    machine_open(&m, name);
    tap_require(gsp_collect_open(&m.env, &collect, NULL) == 0);
    machine_tick(&m, collect, 1);
    machine_later(&m);
    machine_tick(&m, collect, 2);
    return collect;
}

static void end(struct gsp_collect *collect)
{
    gsp_collect_close(collect);
    machine_close(&m);
}

TAP_TEST(the_first_reading_has_no_rates)
{
    struct gsp_collect *collect = NULL;
    machine_open(&m, "plain");
    tap_require(gsp_collect_open(&m.env, &collect, NULL) == 0);
    machine_tick(&m, collect, 1);
    const struct gsp_row_system_cpu *cpu = machine_need(&m, GSP_TABLE_system_cpu, 0);
    const struct gsp_row_system_disk *disk = machine_need(&m, GSP_TABLE_system_disk, 0);
    const struct gsp_row_system_memory *memory = machine_need(&m, GSP_TABLE_system_memory, 0);
    tap_check(gsp_is_null_f64(cpu->util_percent));
    tap_check(gsp_is_null_f64(cpu->ctx_switches_per_s));
    near(cpu->load_1m, 1.5);
    tap_check(gsp_is_null_f64(disk->read_bytes_per_s));
    tap_check(gsp_is_null_f64(memory->major_faults_per_s));
    tap_eq_int(memory->total_bytes, 16LL << 30);
    tap_eq_int(cpu->mono_ns, machine_time(1).mono_ns);
    tap_eq_int(cpu->ts_ns, machine_time(1).ts_ns);
    end(collect);
}

TAP_TEST(a_machine_without_limits)
{
    struct gsp_collect *collect = two_ticks("plain");
    const struct gsp_row_system_cpu *all = machine_need(&m, GSP_TABLE_system_cpu, 0);
    const struct gsp_row_system_cpu *first = machine_need(&m, GSP_TABLE_system_cpu, 1);
    const struct gsp_row_system_cpu *second = machine_need(&m, GSP_TABLE_system_cpu, 2);
    const struct gsp_row_system_memory *memory = machine_need(&m, GSP_TABLE_system_memory, 0);
    /* Of 400 ticks: 100 user, 50 system, 20 stolen. */
    tap_eq_int(all->cpu, GSP_NULL_I64);
    near(all->util_percent, 42.5);
    near(all->user_percent, 25);
    near(all->system_percent, 12.5);
    near(all->steal_percent, 5);
    near(all->machine_percent, 42.5);
    near(all->limit_cores, 4);
    near(all->freq_mhz, 2600);
    near(all->ctx_switches_per_s, 5000);
    tap_eq_int(all->threads, 250);
    tap_eq_int(all->runnable, 3);
    tap_eq_str(machine_text(&m, all->limit_source), "machine");
    tap_check(gsp_is_null_f64(all->throttled_percent));
    tap_eq_int(first->cpu, 0);
    near(first->util_percent, 100);
    near(first->freq_mhz, 2000);
    near(second->system_percent, 50);
    tap_eq_int(memory->available_bytes, 8LL << 30);
    tap_eq_int(memory->used_bytes, 8LL << 30);
    tap_eq_int(memory->swap_used_bytes, 1LL << 30);
    near(memory->faults_per_s, 2000);
    near(memory->major_faults_per_s, 4);
    tap_eq_str(machine_text(&m, memory->limit_source), "machine");
    /* This kernel has no PSI: no rows, and the reason. */
    tap_check(machine_row(&m, GSP_TABLE_system_pressure, 0) == NULL);
    tap_check(strstr(machine_trouble(collect, "pressure"), "pressure-stall") != NULL);
    tap_eq_str(machine_trouble(collect, "cpu"), "");
    end(collect);
}

TAP_TEST(disks_and_networks)
{
    struct gsp_collect *collect = two_ticks("plain");
    const struct gsp_row_system_disk *disk = machine_need(&m, GSP_TABLE_system_disk, 0);
    const struct gsp_row_system_disk *idle = machine_need(&m, GSP_TABLE_system_disk, 1);
    const struct gsp_row_system_network *lo = machine_need(&m, GSP_TABLE_system_network, 0);
    const struct gsp_row_system_network *eth = machine_need(&m, GSP_TABLE_system_network, 1);
    tap_eq_str(machine_text(&m, disk->device), "nvme0n1");
    near(disk->read_bytes_per_s, 4096 * 512.0);
    near(disk->write_bytes_per_s, 8192 * 512.0);
    near(disk->reads_per_s, 100);
    near(disk->writes_per_s, 400);
    near(disk->util_percent, 50);
    /* Neither partitions nor unused loop devices. */
    tap_eq_str(machine_text(&m, idle->device), "sda");
    near(idle->util_percent, 0);
    tap_check(machine_row(&m, GSP_TABLE_system_disk, 2) == NULL);
    near(lo->rx_bytes_per_s, 0);
    tap_eq_str(machine_text(&m, eth->device), "eth0");
    near(eth->rx_bytes_per_s, 2000000);
    near(eth->tx_bytes_per_s, 500000);
    near(eth->rx_packets_per_s, 1000);
    near(eth->errors_per_s, 4);
    tap_check(machine_row(&m, GSP_TABLE_system_network, 2) == NULL);
    end(collect);
}

TAP_TEST(percent_is_relative_to_the_cgroup_limit)
{
    struct gsp_collect *collect = two_ticks("cgroup2");
    const struct gsp_row_system_cpu *cpu = machine_need(&m, GSP_TABLE_system_cpu, 0);
    const struct gsp_row_system_memory *memory = machine_need(&m, GSP_TABLE_system_memory, 0);
    /* The parent pod allows 2 cores; it used 1.5 s in one second. */
    tap_eq_str(machine_text(&m, cpu->limit_source), "cgroup");
    near(cpu->limit_cores, 2);
    near(cpu->util_percent, 75);
    near(cpu->user_percent, 60);
    near(cpu->system_percent, 15);
    near(cpu->throttled_percent, 25);
    near(cpu->machine_percent, 42.5);
    tap_eq_str(machine_text(&m, memory->limit_source), "cgroup");
    tap_eq_int(memory->total_bytes, 4LL << 30);
    tap_eq_int(memory->used_bytes, (2LL << 30) - (256 << 20));
    tap_eq_int(memory->available_bytes, (2LL << 30) + (256 << 20));
    tap_eq_int(memory->cached_bytes, 512 << 20);
    tap_eq_int(memory->swap_total_bytes, 0);
    const struct gsp_row_system_pressure *p = machine_need(&m, GSP_TABLE_system_pressure, 1);
    tap_eq_str(machine_text(&m, p->resource), "memory");
    near(p->some_percent, 40);
    near(p->full_percent, 10);
    near(p->some_avg10_percent, 13);
    p = machine_need(&m, GSP_TABLE_system_pressure, 0);
    tap_check(gsp_is_null_f64(p->full_percent));
    end(collect);
}

TAP_TEST(limits_of_cgroup_v1)
{
    struct gsp_collect *collect = two_ticks("cgroup1");
    const struct gsp_row_system_cpu *cpu = machine_need(&m, GSP_TABLE_system_cpu, 0);
    const struct gsp_row_system_memory *memory = machine_need(&m, GSP_TABLE_system_memory, 0);
    near(cpu->limit_cores, 2);
    near(cpu->util_percent, 50);
    near(cpu->user_percent, 40);
    near(cpu->throttled_percent, 0);
    tap_eq_int(memory->total_bytes, 1LL << 30);
    tap_eq_int(memory->used_bytes, (512 << 20) - (64 << 20));
    tap_eq_int(memory->cached_bytes, 128 << 20);
    tap_eq_str(machine_text(&m, memory->limit_source), "cgroup");
    end(collect);
}

TAP_TEST(a_changed_limit_is_noticed)
{
    struct gsp_collect *collect = two_ticks("cgroup2");
    machine_set(&m, "sys/fs/cgroup/kubepods/pod1/memory.max", "2147483648\n");
    machine_tick(&m, collect, 20);
    const struct gsp_row_system_memory *memory = machine_need(&m, GSP_TABLE_system_memory, 0);
    tap_eq_int(memory->total_bytes, 2LL << 30);
    end(collect);
}

TAP_TEST(energy_counters_wrap)
{
    struct gsp_collect *collect = two_ticks("rapl");
    const struct gsp_row_energy_metrics *package = machine_need(&m, GSP_TABLE_energy_metrics, 0);
    const struct gsp_row_energy_metrics *core = machine_need(&m, GSP_TABLE_energy_metrics, 1);
    const struct gsp_row_energy_metrics *dram = machine_need(&m, GSP_TABLE_energy_metrics, 2);
    tap_eq_str(machine_text(&m, package->domain), "package");
    tap_eq_str(machine_text(&m, package->device), "package-0");
    tap_eq_str(machine_text(&m, package->source), "rapl");
    near(package->joules, 1);
    near(package->watts, 1);
    near(package->carbon_grams, 360 / 3.6e6);
    near(core->joules, 20);
    tap_eq_str(machine_text(&m, dram->domain), "dram");
    tap_eq_str(machine_text(&m, dram->device), "package-0 dram");
    near(dram->joules, 3);
    /* The second path to the same counter is omitted. */
    tap_check(machine_row(&m, GSP_TABLE_energy_metrics, 3) == NULL);
    tap_eq_str(machine_trouble(collect, "energy"), "");
    end(collect);
}

TAP_TEST(an_estimate_is_marked_as_one)
{
    struct gsp_collect *collect = NULL;
    machine_open(&m, "plain");
    m.env.cpu_tdp_watts = 100;
    m.env.carbon_g_per_kwh = 0;
    tap_require(gsp_collect_open(&m.env, &collect, NULL) == 0);
    machine_tick(&m, collect, 1);
    machine_later(&m);
    machine_tick(&m, collect, 2);
    const struct gsp_row_energy_metrics *row = machine_need(&m, GSP_TABLE_energy_metrics, 0);
    tap_eq_str(machine_text(&m, row->source), "estimate");
    /* 37.5 % busy without stolen time: 10 % + 90 % of that, of 100 W. */
    near(row->watts, 10 + 90 * 0.375);
    tap_check(gsp_is_null_f64(row->carbon_grams));
    tap_check(strstr(machine_trouble(collect, "energy"), "TDP of 100 W") != NULL);
    end(collect);
}

TAP_TEST(amd_gpus)
{
    struct gsp_collect *collect = two_ticks("amdgpu");
    const struct gsp_row_gpu_metrics *a = machine_need(&m, GSP_TABLE_gpu_metrics, 0);
    const struct gsp_row_gpu_metrics *b = machine_need(&m, GSP_TABLE_gpu_metrics, 1);
    tap_eq_int(a->gpu, 0);
    near(a->util_percent, 90);
    tap_eq_int(a->memory_used_bytes, 8589934592LL);
    near(a->power_watts, 210);
    near(a->temperature_c, 65);
    near(a->sm_clock_mhz, 2100);
    near(a->memory_clock_mhz, 1000);
    near(b->power_watts, 35);
    tap_check(gsp_is_null_f64(a->pcie_rx_bytes_per_s));
    /* GPUs of other vendors are omitted, and each device has one row. */
    tap_check(machine_row(&m, GSP_TABLE_gpu_metrics, 2) == NULL);
    tap_check(machine_row(&m, GSP_TABLE_gpu_device, 0) == NULL);
    bool found = false;
    for (size_t i = 0; !found && machine_row(&m, GSP_TABLE_energy_metrics, i); i++) {
        const struct gsp_row_energy_metrics *energy = machine_need(&m, GSP_TABLE_energy_metrics, i);
        found = strcmp(machine_text(&m, energy->device), "gpu 0") == 0;
        if (found) {
            near(energy->joules, 210);
            tap_eq_str(machine_text(&m, energy->source), "power");
        }
    }
    tap_check(found);
    machine_set(&m, "sys/class/drm/card1/device/hwmon/hwmon5/power1_cap", "100000000\n");
    machine_tick(&m, collect, 3);
    const struct gsp_row_gpu_device *device = machine_need(&m, GSP_TABLE_gpu_device, 0);
    tap_eq_int(device->gpu, 1);
    near(device->power_limit_watts, 100);
    tap_eq_str(machine_text(&m, device->pci_bus), "0000:04:00.0");
    tap_eq_str(machine_text(&m, device->name), "AMD GPU 0x73bf");
    tap_eq_str(machine_text(&m, device->driver), "6.3.6");
    end(collect);
}

TAP_TEST(a_failing_amd_gpu_is_blank)
{
    static const char *const files[] = {"gpu_busy_percent",
                                        "mem_busy_percent",
                                        "mem_info_vram_used",
                                        "mem_info_vram_total",
                                        "hwmon/hwmon4/power1_average",
                                        "hwmon/hwmon4/power1_cap",
                                        "hwmon/hwmon4/temp1_input",
                                        "hwmon/hwmon4/freq1_input",
                                        "hwmon/hwmon4/freq2_input"};
    struct gsp_collect *collect = two_ticks("amdgpu");
    for (size_t i = 0; i < GSP_COUNT(files); i++) {
        char path[160];
        snprintf(path, sizeof(path), "sys/class/drm/card0/device/%s", files[i]);
        machine_set(&m, path, "");
    }
    machine_tick(&m, collect, 3);
    const struct gsp_row_gpu_metrics *a = machine_need(&m, GSP_TABLE_gpu_metrics, 0);
    const struct gsp_row_gpu_metrics *b = machine_need(&m, GSP_TABLE_gpu_metrics, 1);
    tap_check(gsp_is_null_f64(a->util_percent) && a->memory_used_bytes == GSP_NULL_I64);
    near(b->util_percent, 0);
    tap_eq_str(machine_trouble(collect, "gpu_amdgpu"), "GPU 0 (card0) reports no values");
    machine_set(&m, "sys/class/drm/card0/device/gpu_busy_percent", "12\n");
    machine_tick(&m, collect, 10);
    a = machine_need(&m, GSP_TABLE_gpu_metrics, 0);
    near(a->util_percent, 12);
    tap_check(machine_row(&m, GSP_TABLE_gpu_device, 0) != NULL);
    end(collect);
}

TAP_TEST(a_watched_process)
{
    struct gsp_collect *collect = NULL;
    const int32_t pids[] = {77, 77, 4444, -3};
    const double hz = (double)sysconf(_SC_CLK_TCK);
    machine_open(&m, "cgroup2");
    m.env.pss = true;
    tap_require(gsp_collect_open(&m.env, &collect, NULL) == 0);
    gsp_collect_watch(collect, pids, GSP_COUNT(pids));
    machine_tick(&m, collect, 1);
    machine_later(&m);
    machine_tick(&m, collect, 2);
    const struct gsp_row_process_metrics *row = machine_need(&m, GSP_TABLE_process_metrics, 0);
    const struct gsp_row_process_metrics *gone = machine_need(&m, GSP_TABLE_process_metrics, 1);
    tap_check(machine_row(&m, GSP_TABLE_process_metrics, 2) == NULL);
    tap_eq_int(row->pid, 77);
    tap_eq_int(row->rank, 3);
    tap_eq_str(machine_text(&m, row->name), "a) b (c");
    tap_eq_str(machine_text(&m, row->state), "S");
    near(row->cpu_percent, 50 / hz * 100);
    near(row->user_s, 340 / hz);
    tap_eq_int(row->vms_bytes, 1048576000);
    tap_eq_int(row->rss_bytes, 2560LL * sysconf(_SC_PAGESIZE));
    tap_eq_int(row->pss_bytes, 5120 * 1024);
    tap_eq_int(row->swap_bytes, 64 * 1024);
    tap_eq_int(row->threads, 2);
    tap_eq_int(row->read_bytes, 4096);
    tap_eq_int(row->write_bytes, 8192);
    tap_eq_int(row->minor_faults, 150);
    tap_eq_int(row->major_faults, 3);
    tap_eq_int(row->ctx_switches, 125);
    /* The CPU time of each thread. */
    const struct gsp_row_process_thread *thread = machine_need(&m, GSP_TABLE_process_thread, 0);
    const struct gsp_row_process_thread *other = machine_need(&m, GSP_TABLE_process_thread, 1);
    tap_check(machine_row(&m, GSP_TABLE_process_thread, 2) == NULL);
    if (thread->thread_id != 77) {
        thread = other;
        other = machine_need(&m, GSP_TABLE_process_thread, 0);
    }
    tap_eq_int(thread->pid, 77);
    tap_eq_int(thread->thread_id, 77);
    near(thread->cpu_s, 0.002);
    near(thread->wait_s, 600e-9);
    tap_eq_int(other->thread_id, 78);
    tap_eq_str(machine_text(&m, other->thread_name), "worker-1");
    tap_eq_int(gone->pid, 4444);
    tap_eq_int(gone->rss_bytes, GSP_NULL_I64);
    tap_check(gone->state == GSP_NULL_STR && gsp_is_null_f64(gone->cpu_percent));
    tap_eq_str(machine_trouble(collect, "process"), "process 4444 has exited");
    /* Another list of processes. */
    gsp_collect_watch(collect, &pids[2], 1);
    machine_tick(&m, collect, 3);
    row = machine_need(&m, GSP_TABLE_process_metrics, 0);
    tap_eq_int(row->pid, 4444);
    gsp_collect_watch(collect, NULL, 0);
    machine_tick(&m, collect, 4);
    tap_check(machine_row(&m, GSP_TABLE_process_metrics, 0) == NULL);
    end(collect);
}

/* On this machine: a child that works, then exits. */
TAP_TEST(a_real_process_that_exits)
{
    struct gsp_collect *collect = NULL;
    int begin[2];
    int ready[2];
    char byte = 'x';
    tap_require(pipe(begin) == 0 && pipe(ready) == 0);
    const pid_t child = fork();
    if (child == 0) {
        gsp_ignore(read(begin[0], &byte, 1) != 1);
        for (volatile long i = 0; i < 30000000; i++) {
        }
        gsp_ignore(write(ready[1], &byte, 1) != 1);
        pause();
        _exit(0);
    }
    tap_require(child > 0);
    machine_open(&m, "plain");
    m.env.proc_root = "/proc";
    m.env.sys_root = "/sys";
    tap_require(gsp_collect_open(&m.env, &collect, NULL) == 0);
    const int32_t pid = child;
    gsp_collect_watch(collect, &pid, 1);
    machine_tick(&m, collect, 1);
    tap_require(write(begin[1], &byte, 1) == 1 && read(ready[0], &byte, 1) == 1);
    machine_tick(&m, collect, 2);
    const struct gsp_row_process_metrics *row = machine_need(&m, GSP_TABLE_process_metrics, 0);
    tap_check(row->cpu_percent > 0 && row->rss_bytes > 0 && row->vms_bytes > row->rss_bytes);
    tap_check(row->threads >= 1); /* an emulator adds its own */
    tap_check(row->ctx_switches > 0);
    kill(child, SIGKILL);
    /* Its memory is unknown, not 0 bytes. */
    siginfo_t info;
    tap_require(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0);
    machine_tick(&m, collect, 2.5);
    row = machine_need(&m, GSP_TABLE_process_metrics, 0);
    tap_eq_int(row->pid, child);
    tap_eq_int(row->rss_bytes, GSP_NULL_I64);
    tap_eq_int(row->vms_bytes, GSP_NULL_I64);
    tap_require(waitpid(child, NULL, 0) == child);
    machine_tick(&m, collect, 3);
    row = machine_need(&m, GSP_TABLE_process_metrics, 0);
    tap_eq_int(row->pid, child);
    tap_eq_int(row->rss_bytes, GSP_NULL_I64);
    char gone[64];
    snprintf(gone, sizeof(gone), "process %d has exited", (int)child);
    tap_eq_str(machine_trouble(collect, "process"), gone);
    /* The other processes are still read. */
    tap_check(machine_row(&m, GSP_TABLE_system_cpu, 0) != NULL);
    end(collect);
}

/* Replaces every file of a machine in turn by malformed bytes. */
static size_t spoil(const char *folder, const char *under, struct gsp_collect *collect,
                    double *seconds)
{
    size_t count = 0;
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", folder, under);
    DIR *dir = opendir(path);
    for (const struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
        static const char *const junk[] = {"", "\n", "99999999999999999999999999 x -1\n",
                                           "cpu cpu0 \xff\xfe : = , - 1e9 NaN", "(((("};
        char name[PATH_MAX];
        struct stat st;
        if (e->d_name[0] == '.')
            continue;
        tap_require((size_t)snprintf(name, sizeof(name), "%s/%s", under, e->d_name) < sizeof(name));
        tap_require((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) < sizeof(path));
        if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
            count += spoil(folder, name, collect, seconds);
            continue;
        }
        for (size_t i = 0; i < GSP_COUNT(junk); i++) {
            machine_set(&m, name, junk[i]);
            machine_tick(&m, collect, *seconds += 6);
        }
        count++;
    }
    if (dir)
        closedir(dir);
    return count;
}

TAP_TEST(arbitrary_files_do_no_harm)
{
    static const char *const machines[] = {"cgroup2", "cgroup1", "amdgpu", "rapl"};
    const int32_t pid = 77;
    for (size_t i = 0; i < GSP_COUNT(machines); i++) {
        double seconds = 10;
        struct gsp_collect *collect = two_ticks(machines[i]);
        gsp_collect_watch(collect, &pid, 1);
        tap_check(spoil(m.folder, "proc", collect, &seconds) > 5);
        spoil(m.folder, "sys", collect, &seconds);
        const struct gsp_row_system_memory *memory = machine_need(&m, GSP_TABLE_system_memory, 0);
        tap_require(memory != NULL);
        tap_eq_int(memory->total_bytes, GSP_NULL_I64);
        tap_check(machine_trouble(collect, "memory")[0] != '\0');
        end(collect);
    }
}

TAP_TEST(a_huge_file_is_rejected)
{
    struct gsp_collect *collect = two_ticks("plain");
    const size_t len = 9U << 20;
    char *text = malloc(len);
    tap_require(text != NULL);
    memset(text, '7', len);
    machine_write(&m, "proc/stat", text, len);
    machine_write(&m, "proc/diskstats", text, len);
    machine_tick(&m, collect, 3);
    tap_check(machine_row(&m, GSP_TABLE_system_cpu, 0) == NULL);
    tap_check(machine_trouble(collect, "cpu")[0] != '\0');
    tap_check(machine_row(&m, GSP_TABLE_system_network, 0) != NULL);
    free(text);
    end(collect);
}

TAP_TEST(an_empty_machine)
{
    struct gsp_collect *collect = NULL;
    const struct gsp_collect_env env = {.proc_root = "/nowhere", .sys_root = "/nowhere"};
    struct gsp_collect_state state;
    machine_open(&m, "plain");
    tap_require(gsp_collect_open(&env, &collect, NULL) == 0);
    machine_tick(&m, collect, 1);
    tap_eq_int(m.row_count, 0);
    size_t count = 0;
    for (; gsp_collect_state(collect, count, &state); count++) {
        tap_check(state.name && state.doc);
        tap_check(state.open == (strcmp(state.name, "process") == 0));
        tap_check(state.open || (state.trouble && state.trouble[0]));
        tap_eq_str(gsp_collect__collector_type_at(count)->name, state.name);
    }
    tap_check(gsp_collect__collector_type_at(count) == NULL);
    end(collect);
    gsp_collect_close(NULL);
}

TAP_MAIN()
