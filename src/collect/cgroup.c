/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/cgroup.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "collect/source.h"

#define SEARCH_NS  (5 * GSP_NS_PER_S)
/* Version 1 writes "no limit" as the largest number of whole pages. */
#define NO_LIMIT_1 (UINT64_C(1) << 60)

/* A folder below a mount. root_len is the length of the path of the mount. */
struct folder {
    char path[PATH_MAX];
    size_t root_len;
};

static bool exists(const char *folder, const char *name)
{
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof(path), "%s/%s", folder, name);
    return n > 0 && (size_t)n < sizeof(path) && access(path, R_OK) == 0;
}

/* The folder of our group below a mount. In a container that shows the path of the host, the
 * mount itself is the group. */
static bool open_folder(struct folder *folder, const char *mount, struct gsp_sv path)
{
    int n = snprintf(folder->path, sizeof(folder->path), "%s", mount);
    if (n < 0 || (size_t)n >= sizeof(folder->path) || access(mount, R_OK) != 0)
        return false;
    folder->root_len = (size_t)n;
    if (path.len <= 1 || path.len >= sizeof(folder->path) - folder->root_len)
        return true;
    memcpy(folder->path + folder->root_len, path.p, path.len);
    folder->path[folder->root_len + path.len] = '\0';
    if (access(folder->path, R_OK) != 0)
        folder->path[folder->root_len] = '\0';
    return true;
}

/* Goes to the parent folder. Returns false at the mount. */
static bool go_up(struct folder *folder)
{
    char *slash = strrchr(folder->path, '/');
    if (!slash || strlen(folder->path) <= folder->root_len)
        return false;
    *slash = '\0';
    return true;
}

static bool find_unified(const struct gsp_collect_env *env, struct gsp_sv text,
                         struct folder *folder)
{
    static const char *const mounts[] = {"fs/cgroup", "fs/cgroup/unified"};
    struct gsp_sv path = {NULL, 0};
    if (!gsp_collect__parse_cgroup(text, "", &path))
        path = (struct gsp_sv){NULL, 0};
    for (size_t i = 0; i < GSP_COUNT(mounts); i++) {
        char mount[PATH_MAX];
        snprintf(mount, sizeof(mount), "%s/%s", env->sys_root, mounts[i]);
        if (exists(mount, "cgroup.controllers"))
            return open_folder(folder, mount, path);
    }
    return false;
}

static bool find_v1(const struct gsp_collect_env *env, struct gsp_sv text, const char *controller,
                    struct folder *folder)
{
    struct gsp_sv path = {NULL, 0};
    char mount[PATH_MAX];
    if (!gsp_collect__parse_cgroup(text, controller, &path))
        return false;
    snprintf(mount, sizeof(mount), "%s/fs/cgroup/%s", env->sys_root, controller);
    if (open_folder(folder, mount, path))
        return true;
    /* cpu and cpuacct are often one hierarchy; the links with the single names may be missing. */
    snprintf(mount, sizeof(mount), "%s/fs/cgroup/cpu,cpuacct", env->sys_root);
    return strncmp(controller, "cpu", 3) == 0 && strcmp(controller, "cpuset") != 0 &&
           open_folder(folder, mount, path);
}

static uint64_t number_in(const struct folder *folder, const char *name)
{
    char line[64];
    uint64_t value = GSP_UNKNOWN;
    if (!gsp_collect__read_line(line, sizeof(line), "%s/%s", folder->path, name) ||
        !gsp_collect__parse_number(gsp_sv_of(line), &value))
        return GSP_UNKNOWN;
    return value;
}

static void reopen(int *fd, const struct folder *folder, const char *name)
{
    gsp_fd_close(fd);
    *fd = gsp_collect__open("%s/%s", folder->path, name);
}

static void close_fd(int *fd)
{
    gsp_fd_close(fd);
    *fd = -1;
}

/* The number of cores that the quota of one folder allows; 0: no quota. */
static double quota_in(const struct folder *folder, bool is_v1)
{
    char line[128];
    uint64_t quota = GSP_UNKNOWN;
    uint64_t period = 0;
    if (is_v1) {
        quota = number_in(folder, "cpu.cfs_quota_us"); /* -1, which does not parse: no quota */
        period = number_in(folder, "cpu.cfs_period_us");
        if (period == GSP_UNKNOWN || period == 0)
            return 0;
    } else if (!gsp_collect__read_line(line, sizeof(line), "%s/cpu.max", folder->path) ||
               !gsp_collect__parse_cpu_max(gsp_sv_of(line), &quota, &period)) {
        return 0;
    }
    return quota == GSP_UNKNOWN ? 0 : (double)quota / (double)period;
}

/* Finds the lowest quota from here to the mount, and moves *at to its folder. */
static double lowest_quota(struct folder *at, bool is_v1)
{
    struct folder best = *at;
    double cores = 0;
    do {
        const double here = quota_in(at, is_v1);
        if (here > 0 && (cores <= 0 || here < cores)) {
            cores = here;
            best = *at;
        }
    } while (go_up(at));
    *at = best;
    return cores;
}

/* The number of CPUs in the cpuset; 0 if there is none. */
static double cpuset_of(struct folder *folder, const char *const *names, size_t count)
{
    char line[4096];
    do {
        for (size_t i = 0; i < count; i++)
            if (gsp_collect__read_line(line, sizeof(line), "%s/%s", folder->path, names[i]))
                return (double)gsp_collect__parse_cpu_list(gsp_sv_of(line));
    } while (go_up(folder));
    return 0;
}

static double lower_limit(double a, double b)
{
    if (a <= 0 || b <= 0)
        return a > 0 ? a : b;
    return a < b ? a : b;
}

static bool find_cpu_unified(struct gsp_cgroup *group, struct folder *folder)
{
    static const char *const names[] = {"cpuset.cpus.effective"};
    struct folder set = *folder;
    if (!exists(folder->path, "cpu.max") && !exists(folder->path, "cpuset.cpus.effective"))
        return false;
    group->is_v1_cpu = false;
    group->limit_cores =
        lower_limit(lowest_quota(folder, false), cpuset_of(&set, names, GSP_COUNT(names)));
    reopen(&group->usage_fd, folder, "cpu.stat");
    return true;
}

static void find_cpu_v1(struct gsp_cgroup *group, const struct gsp_collect_env *env,
                        struct gsp_sv text)
{
    static const char *const names[] = {"cpuset.effective_cpus", "cpuset.cpus"};
    struct folder folder = {.root_len = 0};
    double cores = 0;
    group->is_v1_cpu = true;
    if (find_v1(env, text, "cpu", &folder)) {
        cores = lowest_quota(&folder, true);
        reopen(&group->throttled_fd, &folder, "cpu.stat");
    }
    if (find_v1(env, text, "cpuset", &folder))
        cores = lower_limit(cores, cpuset_of(&folder, names, GSP_COUNT(names)));
    if (find_v1(env, text, "cpuacct", &folder)) {
        reopen(&group->usage_fd, &folder, "cpuacct.usage");
        reopen(&group->user_fd, &folder, "cpuacct.usage_user");
        reopen(&group->system_fd, &folder, "cpuacct.usage_sys");
    }
    group->limit_cores = cores;
}

/* Finds the lowest limit from here to the mount, and moves *at to its folder. */
static uint64_t lowest_memory_limit(struct folder *at, const char *name)
{
    struct folder best = *at;
    uint64_t limit = GSP_UNKNOWN;
    do {
        const uint64_t here = number_in(at, name);
        if (here < NO_LIMIT_1 && here < limit) {
            limit = here;
            best = *at;
        }
    } while (go_up(at));
    *at = best;
    return limit;
}

static void find_memory(struct gsp_cgroup *group, const struct gsp_collect_env *env,
                        struct gsp_sv text)
{
    struct folder folder = {.root_len = 0};
    group->limit_bytes = GSP_UNKNOWN;
    group->swap_limit_bytes = GSP_UNKNOWN;
    if (find_unified(env, text, &folder) && exists(folder.path, "memory.current")) {
        group->is_v1_memory = false;
        group->limit_bytes = lowest_memory_limit(&folder, "memory.max");
        group->swap_limit_bytes = number_in(&folder, "memory.swap.max");
        reopen(&group->memory_fd, &folder, "memory.current");
        reopen(&group->memory_stat_fd, &folder, "memory.stat");
        reopen(&group->swap_fd, &folder, "memory.swap.current");
    } else if (find_v1(env, text, "memory", &folder)) {
        group->is_v1_memory = true;
        group->limit_bytes = lowest_memory_limit(&folder, "memory.limit_in_bytes");
        reopen(&group->memory_fd, &folder, "memory.usage_in_bytes");
        reopen(&group->memory_stat_fd, &folder, "memory.stat");
        close_fd(&group->swap_fd);
    }
}

void gsp_collect__cgroup_open(struct gsp_cgroup *group)
{
    *group = (struct gsp_cgroup){.usage_fd = -1,
                                 .user_fd = -1,
                                 .system_fd = -1,
                                 .throttled_fd = -1,
                                 .memory_fd = -1,
                                 .memory_stat_fd = -1,
                                 .swap_fd = -1,
                                 .limit_bytes = GSP_UNKNOWN,
                                 .swap_limit_bytes = GSP_UNKNOWN};
}

void gsp_collect__cgroup_close(struct gsp_cgroup *group)
{
    int *const fds[] = {&group->usage_fd,     &group->user_fd,   &group->system_fd,
                        &group->throttled_fd, &group->memory_fd, &group->memory_stat_fd,
                        &group->swap_fd};
    for (size_t i = 0; i < GSP_COUNT(fds); i++)
        close_fd(fds[i]);
    gsp_buf_free(&group->text);
}

/* Returns whether it is time to search; *text is then /proc/self/cgroup. */
static bool is_due(struct gsp_cgroup *group, const struct gsp_collect_env *env, int64_t now_ns,
                   struct gsp_buf *text)
{
    char path[PATH_MAX];
    if (now_ns < group->next_search_ns)
        return false;
    group->next_search_ns = now_ns + SEARCH_NS;
    snprintf(path, sizeof(path), "%s/self/cgroup", env->proc_root);
    gsp_ignore(gsp_file_read(path, 65536, text, NULL)); /* if empty, the mounts are used */
    return true;
}

void gsp_collect__cgroup_cpu(struct gsp_cgroup *group, const struct gsp_collect_env *env,
                             int64_t now_ns, size_t online, struct gsp_cgroup_cpu *out)
{
    static const char *const keys[] = {"usage_usec", "user_usec", "system_usec", "throttled_usec"};
    static const char *const keys_v1[] = {"throttled_time"};
    gsp_auto_buf text = {0};
    if (is_due(group, env, now_ns, &text)) {
        struct folder folder = {.root_len = 0};
        if (!find_unified(env, gsp_buf_sv(&text), &folder) || !find_cpu_unified(group, &folder))
            find_cpu_v1(group, env, gsp_buf_sv(&text));
    }
    /* Quotas are in microseconds: ignore differences below 0.001 cores. */
    const bool limited = group->limit_cores > 0 && group->limit_cores < (double)online - 0.001;
    *out = (struct gsp_cgroup_cpu){limited ? group->limit_cores : 0, GSP_UNKNOWN, GSP_UNKNOWN,
                                   GSP_UNKNOWN, GSP_UNKNOWN};
    if (!limited)
        return;
    if (group->is_v1_cpu) {
        out->usage_ns = gsp_collect__read_number(group->usage_fd);
        out->user_ns = gsp_collect__read_number(group->user_fd);
        out->system_ns = gsp_collect__read_number(group->system_fd);
        if (gsp_collect__read(group->throttled_fd, &group->text) == 0)
            gsp_collect__parse_keys(gsp_buf_sv(&group->text), keys_v1, 1, &out->throttled_ns);
        return;
    }
    uint64_t us[GSP_COUNT(keys)];
    if (gsp_collect__read(group->usage_fd, &group->text) != 0)
        return;
    gsp_collect__parse_keys(gsp_buf_sv(&group->text), keys, GSP_COUNT(keys), us);
    uint64_t *const ns[] = {&out->usage_ns, &out->user_ns, &out->system_ns, &out->throttled_ns};
    for (size_t i = 0; i < GSP_COUNT(keys); i++)
        *ns[i] = us[i] < GSP_UNKNOWN / 1000 ? us[i] * 1000 : GSP_UNKNOWN;
}

void gsp_collect__cgroup_memory(struct gsp_cgroup *group, const struct gsp_collect_env *env,
                                int64_t now_ns, struct gsp_cgroup_memory *out)
{
    static const char *const keys[] = {"inactive_file", "file"};
    static const char *const keys_v1[] = {"total_inactive_file", "total_cache"};
    gsp_auto_buf text = {0};
    if (is_due(group, env, now_ns, &text))
        find_memory(group, env, gsp_buf_sv(&text));
    *out = (struct gsp_cgroup_memory){group->limit_bytes, GSP_UNKNOWN, GSP_UNKNOWN,
                                      group->swap_limit_bytes, GSP_UNKNOWN};
    if (group->limit_bytes == GSP_UNKNOWN)
        return;
    uint64_t values[GSP_COUNT(keys)] = {GSP_UNKNOWN, GSP_UNKNOWN};
    if (gsp_collect__read(group->memory_stat_fd, &group->text) == 0)
        gsp_collect__parse_keys(gsp_buf_sv(&group->text), group->is_v1_memory ? keys_v1 : keys,
                                GSP_COUNT(keys), values);
    const uint64_t inactive = values[0] == GSP_UNKNOWN ? 0 : values[0];
    out->used_bytes = gsp_collect__read_number(group->memory_fd);
    if (out->used_bytes != GSP_UNKNOWN)
        out->used_bytes = out->used_bytes > inactive ? out->used_bytes - inactive : 0;
    out->cached_bytes = values[1];
    out->swap_used_bytes = gsp_collect__read_number(group->swap_fd);
}
