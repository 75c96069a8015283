/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse.h -- the texts of /proc and /sys, as numbers.
 *
 * Reads:   texts of any content: what is missing or makes no sense is unknown.
 * Gives:   structs of plain numbers.
 * Used by: the sources, and the fuzz target collect_proc.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/str.h"
#include "collect/scan.h"

/* A number that the text does not tell. */
#define GSP_UNKNOWN UINT64_MAX

/* One cpu line of /proc/stat; times in ticks of the kernel since boot. */
enum gsp_cpu_time {
    GSP_CPU_USER,   /* with nice; guests are within */
    GSP_CPU_SYSTEM, /* with interrupts */
    GSP_CPU_IDLE,
    GSP_CPU_IOWAIT,
    GSP_CPU_STEAL,
    GSP_CPU_TIMES
};

struct gsp_cpu_line {
    int64_t cpu; /* -1: all together */
    uint64_t ticks[GSP_CPU_TIMES];
};

/* Fills at most cap lines; worth how many there are. */
size_t gsp_collect__parse_stat(struct gsp_sv text, struct gsp_cpu_line *lines, size_t cap,
                               uint64_t *ctx_switches);

/* Of words of which one is in brackets, as /sys has choices: that one; empty when there is none. */
struct gsp_sv gsp_collect__parse_chosen(struct gsp_sv text);

/* Lines "key: value [kB]" and "key value": out[i] is the value of keys[i], in bytes where the
 * text says kB; UNKNOWN when it is not there.  Worth how many were found. */
size_t gsp_collect__parse_keys(struct gsp_sv text, const char *const *keys, size_t count,
                               uint64_t *out);

/* A file that is one number. */
bool gsp_collect__parse_number(struct gsp_sv text, uint64_t *out);

struct gsp_loadavg {
    double load_1m;
    uint64_t runnable;
    uint64_t threads;
};
bool gsp_collect__parse_loadavg(struct gsp_sv text, struct gsp_loadavg *out);

/* A device's name and its counters since boot. */
#define GSP_DEVICE_COUNTERS 6U
struct gsp_device_line {
    struct gsp_sv name; /* borrowed from the text */
    uint64_t counters[GSP_DEVICE_COUNTERS];
};

enum gsp_disk_counter {
    GSP_DISK_READS,
    GSP_DISK_READ_SECTORS, /* of 512 bytes, whatever the device has */
    GSP_DISK_WRITES,
    GSP_DISK_WRITE_SECTORS,
    GSP_DISK_BUSY_MS,
};
enum gsp_net_counter {
    GSP_NET_RX_BYTES,
    GSP_NET_RX_PACKETS,
    GSP_NET_TX_BYTES,
    GSP_NET_TX_PACKETS,
    GSP_NET_ERRORS, /* and drops, both directions */
};

/* One line of /proc/diskstats, of /proc/net/dev; false for lines of another form. */
bool gsp_collect__parse_disk(struct gsp_scan line, struct gsp_device_line *out);
bool gsp_collect__parse_net(struct gsp_scan line, struct gsp_device_line *out);

/* One line of pressure-stall information. */
struct gsp_stall {
    bool known;
    double avg10_pct;
    uint64_t total_us;
};
struct gsp_pressure {
    struct gsp_stall some;
    struct gsp_stall full; /* older kernels have none for the CPU */
};
void gsp_collect__parse_pressure(struct gsp_sv text, struct gsp_pressure *out);

/* /proc/<pid>/stat. */
struct gsp_pid_stat {
    struct gsp_sv comm; /* borrowed from the text */
    char state;
    uint64_t minor_faults;
    uint64_t major_faults;
    uint64_t user_ticks;
    uint64_t system_ticks;
    uint64_t threads;
    uint64_t start_ticks;
    uint64_t vms_bytes;
    uint64_t rss_pages;
};
bool gsp_collect__parse_pid_stat(struct gsp_sv text, struct gsp_pid_stat *out);

/* What schedstat says of a thread. */
struct gsp_schedstat {
    uint64_t cpu_ns;
    uint64_t wait_ns; /* ready, without a CPU */
    uint64_t slices;  /* how often it was put on a CPU */
};
bool gsp_collect__parse_schedstat(struct gsp_sv text, struct gsp_schedstat *out);

/* "NSpid: 812 7": the first is the pid here, the last in its own namespace; false without. */
bool gsp_collect__parse_nspid(struct gsp_sv status, uint64_t *inner, bool *nested);

/* cpu.max: "200000 100000"; the quota is UNKNOWN for "max". */
bool gsp_collect__parse_cpu_max(struct gsp_sv text, uint64_t *quota_us, uint64_t *period_us);

/* "0-3,8": how many; 0 when the text is of another form. */
uint64_t gsp_collect__parse_cpu_list(struct gsp_sv text);

/* The path of a process in /proc/<pid>/cgroup: of the controller's hierarchy, or with "" of the
 * unified one.  Borrowed; false when there is none, or it leads out of the mount. */
bool gsp_collect__parse_cgroup(struct gsp_sv text, const char *controller, struct gsp_sv *path);

/* The value of a variable in a text of NUL-ended assignments, as a number. */
bool gsp_collect__parse_env(struct gsp_sv environ_text, const char *name, uint64_t *out);
