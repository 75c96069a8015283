/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup.h -- what the control group that we run in may use, and uses.
 *
 * Reads:   /proc/self/cgroup, and the files of version 2 or 1 below /sys/fs/cgroup (both, on
 *          machines that have both).  In a container these are the container's.
 * Gives:   the narrowest limit on the way from our group to the root, and the use of the group
 *          that has it: that is what the limit is compared with.
 * Used by: cpu.c, memory.c.
 * Threads: one owner.
 *
 * Limits are looked for again every few seconds; use is read at every tick.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "collect/collect.h"
#include "collect/parse.h"

struct gsp_cgroup_cpu {
    double limit_cores; /* of the quota and the cpuset; 0: none */
    uint64_t usage_ns;  /* UNKNOWN where the kernel does not tell */
    uint64_t user_ns;
    uint64_t system_ns;
    uint64_t throttled_ns;
};

struct gsp_cgroup_memory {
    uint64_t limit_bytes; /* UNKNOWN: none */
    uint64_t used_bytes;  /* without what the kernel would give back first: inactive files */
    uint64_t cached_bytes;
    uint64_t swap_limit_bytes; /* UNKNOWN: none of its own */
    uint64_t swap_used_bytes;
};

/* Kept descriptors; -1 where there is no such file. */
struct gsp_cgroup {
    int64_t next_look_ns;
    int usage_fd; /* cpu.stat, or cpuacct.usage */
    int user_fd;
    int system_fd;
    int throttled_fd;
    int memory_fd; /* memory.current, or memory.usage_in_bytes */
    int memory_stat_fd;
    int swap_fd;
    bool is_v1_cpu;
    bool is_v1_memory;
    double limit_cores;
    uint64_t limit_bytes;
    uint64_t swap_limit_bytes;
    struct gsp_buf text;
};

void gsp_collect__cgroup_open(struct gsp_cgroup *group);
void gsp_collect__cgroup_close(struct gsp_cgroup *group);
/* A limit that is not below the cores online is none. */
void gsp_collect__cgroup_cpu(struct gsp_cgroup *group, const struct gsp_collect_env *env,
                             int64_t now_ns, size_t online, struct gsp_cgroup_cpu *out);
void gsp_collect__cgroup_memory(struct gsp_cgroup *group, const struct gsp_collect_env *env,
                                int64_t now_ns, struct gsp_cgroup_memory *out);
