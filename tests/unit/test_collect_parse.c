/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/parse.h"
#include "tap.h"

static struct gsp_sv sv(const char *text)
{
    return gsp_sv_of(text);
}

static struct gsp_text_scan line_of(const char *text)
{
    return gsp_collect__scan_of(sv(text));
}

TAP_TEST(processors)
{
    struct gsp_cpu_line lines[2];
    uint64_t ctx = 0;
    /* Lines beyond the capacity are counted. */
    tap_eq_int(gsp_collect__parse_stat(sv("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 1 1 1 1 1 1 1\n"
                                          "cpu7 9 9 9 9\nintr 5\nctxt 99\n"),
                                       lines, 2, &ctx),
               3);
    tap_eq_int(lines[0].cpu, -1);
    tap_eq_int(lines[0].ticks[GSP_CPU_USER], 3);
    tap_eq_int(lines[0].ticks[GSP_CPU_SYSTEM], 16);
    tap_eq_int(lines[0].ticks[GSP_CPU_STEAL], 8);
    tap_eq_int(lines[1].cpu, 0);
    tap_eq_int(ctx, 99);
    tap_eq_int(gsp_collect__parse_stat(sv("cpu\ncpux 1 2 3 4\ncpu 1 2\ncpu99999999 1 2 3 4\n"),
                                       lines, 2, &ctx),
               0);
    tap_check(ctx == GSP_UNKNOWN);
    tap_eq_int(gsp_collect__parse_stat((struct gsp_sv){NULL, 0}, NULL, 0, &ctx), 0);
}

TAP_TEST(sums_of_huge_numbers_do_not_wrap)
{
    struct gsp_cpu_line line;
    uint64_t ctx = 0;
    tap_eq_int(gsp_collect__parse_stat(sv("cpu  18446744073709551615 18446744073709551615 1 1\n"),
                                       &line, 1, &ctx),
               1);
    tap_check(line.ticks[GSP_CPU_USER] == GSP_UNKNOWN - 1);
    /* One more digit does not fit. */
    tap_eq_int(gsp_collect__parse_stat(sv("cpu  184467440737095516150 1 1 1\n"), &line, 1, &ctx),
               0);
}

TAP_TEST(keys)
{
    static const char *const keys[] = {"MemTotal", "file", "gone", "huge"};
    uint64_t out[4];
    tap_eq_int(
        gsp_collect__parse_keys(
            sv("MemTotal:   2 kB\nMemTotalX: 9\n\nfile 7\nfile 8\nhuge: 18446744073709551614 kB"),
            keys, 4, out),
        2);
    tap_eq_int(out[0], 2048);
    tap_eq_int(out[1], 7);
    tap_check(out[2] == GSP_UNKNOWN);
    tap_check(out[3] == GSP_UNKNOWN);
}

TAP_TEST(selected_word)
{
    tap_check(
        gsp_sv_eq(gsp_collect__parse_selected(sv("always [madvise] never\n")), sv("madvise")));
    tap_check(gsp_sv_eq(gsp_collect__parse_selected(sv("[always]")), sv("always")));
    static const char *const none[] = {"", "[", "[]", "always madvise", "[a b]", "a]"};
    for (size_t i = 0; i < GSP_COUNT(none); i++)
        tap_eq_int(gsp_collect__parse_selected(sv(none[i])).len, 0);
}

TAP_TEST(devices)
{
    struct gsp_device_line line;
    tap_check(gsp_collect__parse_disk(line_of(" 259 0 nvme0n1 1 2 3 4 5 6 7 8 9 10 11"), &line));
    tap_check(gsp_sv_eq(line.name, sv("nvme0n1")));
    tap_eq_int(line.counters[GSP_DISK_READ_SECTORS], 3);
    tap_eq_int(line.counters[GSP_DISK_WRITE_SECTORS], 7);
    tap_eq_int(line.counters[GSP_DISK_BUSY_MS], 10);
    tap_check(!gsp_collect__parse_disk(line_of(" 259 0 nvme0n1 1 2 3 4"), &line));
    tap_check(gsp_collect__parse_net(line_of("eth0:1 2 3 4 5 6 7 8 9 10 11 12 13"), &line));
    tap_check(gsp_sv_eq(line.name, sv("eth0")));
    tap_eq_int(line.counters[GSP_NET_TX_BYTES], 9);
    tap_eq_int(line.counters[GSP_NET_ERRORS], 3 + 4 + 11 + 12);
    tap_check(!gsp_collect__parse_net(line_of(" face |bytes packets"), &line));
    tap_check(!gsp_collect__parse_net(line_of(": 1 2 3"), &line));
}

TAP_TEST(a_command_can_have_any_name)
{
    struct gsp_pid_stat stat;
    tap_check(gsp_collect__parse_pid_stat(
        sv("12 (a) R 1 (x) S 1 1 1 0 -1 4194304 10 0 20 0 30 40 0 0 20 -5 6 0 7000 8192 9 1"),
        &stat));
    tap_check(gsp_sv_eq(stat.comm, sv("a) R 1 (x")));
    tap_eq_int(stat.state, 'S');
    tap_eq_int(stat.minor_faults, 10);
    tap_eq_int(stat.major_faults, 20);
    tap_eq_int(stat.user_ticks, 30);
    tap_eq_int(stat.system_ticks, 40);
    tap_eq_int(stat.threads, 6);
    tap_eq_int(stat.start_ticks, 7000);
    tap_eq_int(stat.vms_bytes, 8192);
    tap_eq_int(stat.rss_pages, 9);
    tap_check(!gsp_collect__parse_pid_stat(sv("12 (a) S 1 1 1"), &stat));
    tap_check(!gsp_collect__parse_pid_stat(sv(")("), &stat));
    tap_check(!gsp_collect__parse_pid_stat(sv("12 (a)"), &stat));
}

TAP_TEST(pressure)
{
    struct gsp_pressure p;
    gsp_collect__parse_pressure(sv("some avg10=85.82 avg60=1.0 avg300=1.0 total=55\n"), &p);
    tap_check(p.some.known && p.some.avg10_pct > 85.81 && p.some.avg10_pct < 85.83);
    tap_eq_int(p.some.total_us, 55);
    tap_check(!p.full.known);
    gsp_collect__parse_pressure(sv("some avg10=x total=1\nfull total=5\n"), &p);
    tap_check(!p.some.known && !p.full.known);
}

TAP_TEST(groups)
{
    struct gsp_sv path;
    const struct gsp_sv text = sv("4:memory:/a b\n3:cpu,cpuacct:/c:d\n0::/e\n");
    tap_check(gsp_collect__parse_cgroup(text, "memory", &path) && gsp_sv_eq(path, sv("/a b")));
    tap_check(gsp_collect__parse_cgroup(text, "cpuacct", &path) && gsp_sv_eq(path, sv("/c:d")));
    tap_check(gsp_collect__parse_cgroup(text, "", &path) && gsp_sv_eq(path, sv("/e")));
    tap_check(!gsp_collect__parse_cgroup(text, "cpuset", &path));
    tap_check(!gsp_collect__parse_cgroup(sv("0::/../../x\n"), "", &path));
    tap_check(!gsp_collect__parse_cgroup(sv("0::relative\n0:\n:::\n"), "", &path));
    uint64_t quota = 0;
    uint64_t period = 0;
    tap_check(gsp_collect__parse_cpu_max(sv("max 100000\n"), &quota, &period));
    tap_check(quota == GSP_UNKNOWN);
    tap_check(gsp_collect__parse_cpu_max(sv("150000 100000\n"), &quota, &period));
    tap_eq_int(quota, 150000);
    tap_check(!gsp_collect__parse_cpu_max(sv("150000 0\n"), &quota, &period));
    tap_eq_int(gsp_collect__parse_cpu_list(sv("0-3,8,10-11\n")), 7);
    tap_eq_int(gsp_collect__parse_cpu_list(sv("\n")), 0);
    tap_eq_int(gsp_collect__parse_cpu_list(sv("3-1")), 0);
    tap_eq_int(gsp_collect__parse_cpu_list(sv("0-99999999999")), 0);
}

TAP_TEST(small_files)
{
    uint64_t value = 0;
    bool nested = false;
    struct gsp_loadavg load;
    tap_check(gsp_collect__parse_nspid(sv("Name:\tx\nNSpid:\t812\t7\n"), &value, &nested));
    tap_check(nested && value == 7);
    tap_check(gsp_collect__parse_nspid(sv("NSpid:\t812\n"), &value, &nested) && !nested);
    tap_check(!gsp_collect__parse_nspid(sv("NSpid:\n"), &value, &nested));
    struct gsp_schedstat sched;
    tap_check(gsp_collect__parse_schedstat(sv("1 2 3\n"), &sched) && sched.cpu_ns == 1 &&
              sched.wait_ns == 2 && sched.slices == 3);
    tap_check(!gsp_collect__parse_schedstat(sv("1 2\n"), &sched));
    tap_check(gsp_collect__parse_loadavg(sv("1.25 1 1 3/250 9\n"), &load) && load.runnable == 3);
    tap_check(!gsp_collect__parse_loadavg(sv("1.25 1 1 3\n"), &load));
    tap_check(!gsp_collect__parse_number(sv("-1\n"), &value));
    tap_check(!gsp_collect__parse_number(sv("max\n"), &value));
    const struct gsp_sv variables = {"A=1\0LOCAL_RANK=5\0RANK=12\0", 26};
    tap_check(gsp_collect__parse_env(variables, "RANK", &value) && value == 12);
    tap_check(!gsp_collect__parse_env(variables, "RANKS", &value));
}

TAP_MAIN()
