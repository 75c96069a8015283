/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse.h -- parses the text files of /proc and /sys into numbers.
 *
 * Reads:   texts with any content: missing or invalid values are unknown.
 * Gives:   structs of plain numbers.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "collect/scan.h"

/* A number that is missing in the text. */
#define GSP_UNKNOWN UINT64_MAX

/* One cpu line of /proc/stat; times in kernel ticks since boot. */
enum gsp_cpu_time {
    GSP_CPU_USER,   /* including nice and guest time */
    GSP_CPU_SYSTEM, /* including interrupts */
    GSP_CPU_IDLE,
    GSP_CPU_IOWAIT,
    GSP_CPU_STEAL,
    GSP_CPU_TIMES
};

struct gsp_cpu_line {
    int64_t cpu; /* -1: the sum of all */
    uint64_t ticks[GSP_CPU_TIMES];
};

/* Fills at most cap lines. Returns the number of lines in the text. */
size_t gsp_collect__parse_stat(struct gsp_sv text, struct gsp_cpu_line *lines, size_t cap,
                               uint64_t *ctx_switches);

/* The word in brackets, which marks the current value of a setting in /sys; empty if there is
 * none. */
struct gsp_sv gsp_collect__parse_selected(struct gsp_sv text);

/* Parses lines "key: value [kB]" and "key value": out[i] is the value of keys[i], in bytes if
 * the unit is kB; UNKNOWN if the key is missing. Returns the number of keys found. */
size_t gsp_collect__parse_keys(struct gsp_sv text, const char *const *keys, size_t count,
                               uint64_t *out);

/* Parses a text that is one number. */
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
    GSP_DISK_READ_SECTORS, /* of 512 bytes, independent of the device */
    GSP_DISK_WRITES,
    GSP_DISK_WRITE_SECTORS,
    GSP_DISK_BUSY_MS,
};
enum gsp_net_counter {
    GSP_NET_RX_BYTES,
    GSP_NET_RX_PACKETS,
    GSP_NET_TX_BYTES,
    GSP_NET_TX_PACKETS,
    GSP_NET_ERRORS, /* including drops, both directions */
};

/* Parses one line of /proc/diskstats or /proc/net/dev. Returns false for any other line. */
bool gsp_collect__parse_disk(struct gsp_text_scan line, struct gsp_device_line *out);
bool gsp_collect__parse_net(struct gsp_text_scan line, struct gsp_device_line *out);

/* One line of pressure-stall information. */
struct gsp_stall {
    bool known;
    double avg10_pct;
    uint64_t total_us;
};
struct gsp_pressure {
    struct gsp_stall some;
    struct gsp_stall full; /* older kernels lack it for the CPU */
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

/* The schedstat of a thread. */
struct gsp_schedstat {
    uint64_t cpu_ns;
    uint64_t wait_ns; /* runnable, without a CPU */
    uint64_t slices;  /* number of times it was put on a CPU */
};
bool gsp_collect__parse_schedstat(struct gsp_sv text, struct gsp_schedstat *out);

/* Parses "NSpid: 812 7": the first number is the pid here, the last one the pid in its own
 * namespace. Returns false if the line is missing. */
bool gsp_collect__parse_nspid(struct gsp_sv status, uint64_t *inner, bool *nested);

/* Parses cpu.max: "200000 100000"; the quota is UNKNOWN for "max". */
bool gsp_collect__parse_cpu_max(struct gsp_sv text, uint64_t *quota_us, uint64_t *period_us);

/* The number of CPUs in a list like "0-3,8"; 0 if the text is malformed. */
uint64_t gsp_collect__parse_cpu_list(struct gsp_sv text);

/* The path of a process in /proc/<pid>/cgroup: in the hierarchy of the controller, or in the
 * unified one with "". Borrowed. Returns false if there is none, or if it leads out of the
 * mount. */
bool gsp_collect__parse_cgroup(struct gsp_sv text, const char *controller, struct gsp_sv *path);

/* The numeric value of a variable in a text of NUL-terminated assignments. */
bool gsp_collect__parse_env(struct gsp_sv environ_text, const char *name, uint64_t *out);
