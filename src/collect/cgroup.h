/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup.h -- limits and usage of the control group that gsprof runs in.
 *
 * Reads:   /proc/self/cgroup, and the files of version 2 or 1 below /sys/fs/cgroup (both, on
 *          machines that have both). In a container these are the container's.
 * Gives:   the tightest limit on the path from our group to the root, and the usage of the group
 *          that has it, which is what the limit applies to.
 * Threads: one owner.
 *
 * Limits are searched for again every few seconds; usage is read at every tick.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "collect/collect.h"

struct gsp_cgroup_cpu {
    double limit_cores; /* the lower of quota and cpuset; 0: none */
    uint64_t usage_ns;  /* UNKNOWN if the kernel does not report it */
    uint64_t user_ns;
    uint64_t system_ns;
    uint64_t throttled_ns;
};

struct gsp_cgroup_memory {
    uint64_t limit_bytes; /* UNKNOWN: none */
    uint64_t used_bytes;  /* without inactive file pages, which the kernel reclaims first */
    uint64_t cached_bytes;
    uint64_t swap_limit_bytes; /* UNKNOWN: none */
    uint64_t swap_used_bytes;
};

/* Open descriptors; -1 if the file does not exist. */
struct gsp_cgroup {
    int64_t next_search_ns;
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
/* A limit that is not below the number of online cores counts as none. */
void gsp_collect__cgroup_cpu(struct gsp_cgroup *group, const struct gsp_collect_env *env,
                             int64_t now_ns, size_t online, struct gsp_cgroup_cpu *out);
void gsp_collect__cgroup_memory(struct gsp_cgroup *group, const struct gsp_collect_env *env,
                                int64_t now_ns, struct gsp_cgroup_memory *out);
