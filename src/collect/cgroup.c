/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/cgroup.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "collect/source.h"

#define LOOK_NS    (5 * GSP_NS_PER_S)
/* Version 1 writes "no limit" as the largest number of whole pages. */
#define NO_LIMIT_1 (UINT64_C(1) << 60)

/* A folder, and how long the part is that may not be cut off: the mount. */
struct place {
    char path[PATH_MAX];
    size_t root_len;
};

static bool exists(const char *folder, const char *name)
{
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof(path), "%s/%s", folder, name);
    return n > 0 && (size_t)n < sizeof(path) && access(path, R_OK) == 0;
}

/* Our group's folder below a mount.  Where the path of the host stands in a container, the mount
 * itself is the group. */
static bool go_to(struct place *place, const char *mount, struct gsp_sv path)
{
    int n = snprintf(place->path, sizeof(place->path), "%s", mount);
    if (n < 0 || (size_t)n >= sizeof(place->path) || access(mount, R_OK) != 0)
        return false;
    place->root_len = (size_t)n;
    if (path.len <= 1 || path.len >= sizeof(place->path) - place->root_len)
        return true;
    memcpy(place->path + place->root_len, path.p, path.len);
    place->path[place->root_len + path.len] = '\0';
    if (access(place->path, R_OK) != 0)
        place->path[place->root_len] = '\0';
    return true;
}

/* To the parent; false at the mount. */
static bool climb(struct place *place)
{
    char *slash = strrchr(place->path, '/');
    if (!slash || strlen(place->path) <= place->root_len)
        return false;
    *slash = '\0';
    return true;
}

static bool find_unified(const struct gsp_collect_env *env, struct gsp_sv text, struct place *place)
{
    static const char *const mounts[] = {"fs/cgroup", "fs/cgroup/unified"};
    struct gsp_sv path = {NULL, 0};
    if (!gsp_collect__parse_cgroup(text, "", &path))
        path = (struct gsp_sv){NULL, 0};
    for (size_t i = 0; i < GSP_COUNT(mounts); i++) {
        char mount[PATH_MAX];
        snprintf(mount, sizeof(mount), "%s/%s", env->sys_root, mounts[i]);
        if (exists(mount, "cgroup.controllers"))
            return go_to(place, mount, path);
    }
    return false;
}

static bool find_v1(const struct gsp_collect_env *env, struct gsp_sv text, const char *controller,
                    struct place *place)
{
    struct gsp_sv path = {NULL, 0};
    char mount[PATH_MAX];
    if (!gsp_collect__parse_cgroup(text, controller, &path))
        return false;
    snprintf(mount, sizeof(mount), "%s/fs/cgroup/%s", env->sys_root, controller);
    if (go_to(place, mount, path))
        return true;
    /* The two are often one hierarchy; the links with the single names may be missing. */
    snprintf(mount, sizeof(mount), "%s/fs/cgroup/cpu,cpuacct", env->sys_root);
    return strncmp(controller, "cpu", 3) == 0 && strcmp(controller, "cpuset") != 0 &&
           go_to(place, mount, path);
}

static uint64_t number_in(const struct place *place, const char *name)
{
    char line[64];
    uint64_t value = GSP_UNKNOWN;
    if (!gsp_collect__read_line(line, sizeof(line), "%s/%s", place->path, name) ||
        !gsp_collect__parse_number(gsp_sv_of(line), &value))
        return GSP_UNKNOWN;
    return value;
}

static void keep(int *fd, const struct place *place, const char *name)
{
    gsp_fd_close(fd);
    *fd = gsp_collect__open("%s/%s", place->path, name);
}

static void drop(int *fd)
{
    gsp_fd_close(fd);
    *fd = -1;
}

/* Cores that the quota of one folder allows; 0: no quota. */
static double quota_in(const struct place *place, bool is_v1)
{
    char line[128];
    uint64_t quota = GSP_UNKNOWN;
    uint64_t period = 0;
    if (is_v1) {
        quota = number_in(place, "cpu.cfs_quota_us"); /* -1, which is no number: none */
        period = number_in(place, "cpu.cfs_period_us");
        if (period == GSP_UNKNOWN || period == 0)
            return 0;
    } else if (!gsp_collect__read_line(line, sizeof(line), "%s/cpu.max", place->path) ||
               !gsp_collect__parse_cpu_max(gsp_sv_of(line), &quota, &period)) {
        return 0;
    }
    return quota == GSP_UNKNOWN ? 0 : (double)quota / (double)period;
}

/* The narrowest quota from here to the mount, and where it stands. */
static double narrowest_quota(struct place *at, bool is_v1)
{
    struct place best = *at;
    double cores = 0;
    do {
        const double here = quota_in(at, is_v1);
        if (here > 0 && (cores <= 0 || here < cores)) {
            cores = here;
            best = *at;
        }
    } while (climb(at));
    *at = best;
    return cores;
}

/* Processors of the cpuset; 0 when there is none. */
static double cpuset_of(struct place *place, const char *const *names, size_t count)
{
    char line[4096];
    do {
        for (size_t i = 0; i < count; i++) {
            if (gsp_collect__read_line(line, sizeof(line), "%s/%s", place->path, names[i]))
                return (double)gsp_collect__parse_cpu_list(gsp_sv_of(line));
        }
    } while (climb(place));
    return 0;
}

static double narrower(double a, double b)
{
    if (a <= 0 || b <= 0)
        return a > 0 ? a : b;
    return a < b ? a : b;
}

static bool look_cpu_unified(struct gsp_cgroup *group, struct place *place)
{
    static const char *const names[] = {"cpuset.cpus.effective"};
    struct place set = *place;
    if (!exists(place->path, "cpu.max") && !exists(place->path, "cpuset.cpus.effective"))
        return false;
    group->is_v1_cpu = false;
    group->limit_cores =
        narrower(narrowest_quota(place, false), cpuset_of(&set, names, GSP_COUNT(names)));
    keep(&group->usage_fd, place, "cpu.stat");
    return true;
}

static void look_cpu_v1(struct gsp_cgroup *group, const struct gsp_collect_env *env,
                        struct gsp_sv text)
{
    static const char *const names[] = {"cpuset.effective_cpus", "cpuset.cpus"};
    struct place place = {.root_len = 0};
    double cores = 0;
    group->is_v1_cpu = true;
    if (find_v1(env, text, "cpu", &place)) {
        cores = narrowest_quota(&place, true);
        keep(&group->throttled_fd, &place, "cpu.stat");
    }
    if (find_v1(env, text, "cpuset", &place))
        cores = narrower(cores, cpuset_of(&place, names, GSP_COUNT(names)));
    if (find_v1(env, text, "cpuacct", &place)) {
        keep(&group->usage_fd, &place, "cpuacct.usage");
        keep(&group->user_fd, &place, "cpuacct.usage_user");
        keep(&group->system_fd, &place, "cpuacct.usage_sys");
    }
    group->limit_cores = cores;
}

/* The narrowest limit from here to the mount, and where it stands. */
static uint64_t narrowest_memory(struct place *at, const char *name)
{
    struct place best = *at;
    uint64_t limit = GSP_UNKNOWN;
    do {
        const uint64_t here = number_in(at, name);
        if (here < NO_LIMIT_1 && here < limit) {
            limit = here;
            best = *at;
        }
    } while (climb(at));
    *at = best;
    return limit;
}

static void look_memory(struct gsp_cgroup *group, const struct gsp_collect_env *env,
                        struct gsp_sv text)
{
    struct place place = {.root_len = 0};
    group->limit_bytes = GSP_UNKNOWN;
    group->swap_limit_bytes = GSP_UNKNOWN;
    if (find_unified(env, text, &place) && exists(place.path, "memory.current")) {
        group->is_v1_memory = false;
        group->limit_bytes = narrowest_memory(&place, "memory.max");
        group->swap_limit_bytes = number_in(&place, "memory.swap.max");
        keep(&group->memory_fd, &place, "memory.current");
        keep(&group->memory_stat_fd, &place, "memory.stat");
        keep(&group->swap_fd, &place, "memory.swap.current");
    } else if (find_v1(env, text, "memory", &place)) {
        group->is_v1_memory = true;
        group->limit_bytes = narrowest_memory(&place, "memory.limit_in_bytes");
        keep(&group->memory_fd, &place, "memory.usage_in_bytes");
        keep(&group->memory_stat_fd, &place, "memory.stat");
        drop(&group->swap_fd);
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
        drop(fds[i]);
    gsp_buf_free(&group->text);
}

/* Whether it is time; then *text has /proc/self/cgroup. */
static bool is_due(struct gsp_cgroup *group, const struct gsp_collect_env *env, int64_t now_ns,
                   struct gsp_buf *text)
{
    char path[PATH_MAX];
    if (now_ns < group->next_look_ns)
        return false;
    group->next_look_ns = now_ns + LOOK_NS;
    snprintf(path, sizeof(path), "%s/self/cgroup", env->proc_root);
    gsp_ignore(gsp_file_read(path, 65536, text, NULL)); /* empty: the mounts' roots */
    return true;
}

void gsp_collect__cgroup_cpu(struct gsp_cgroup *group, const struct gsp_collect_env *env,
                             int64_t now_ns, size_t online, struct gsp_cgroup_cpu *out)
{
    static const char *const keys[] = {"usage_usec", "user_usec", "system_usec", "throttled_usec"};
    static const char *const keys_v1[] = {"throttled_time"};
    gsp_auto_buf text = {0};
    if (is_due(group, env, now_ns, &text)) {
        struct place place = {.root_len = 0};
        if (!find_unified(env, gsp_buf_sv(&text), &place) || !look_cpu_unified(group, &place))
            look_cpu_v1(group, env, gsp_buf_sv(&text));
    }
    /* Quotas are told in microseconds: a thousandth of a core is no difference. */
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
        look_memory(group, env, gsp_buf_sv(&text));
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
