/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Energy of the processors: the RAPL counters if they are readable, otherwise an estimate: the
 * configured TDP of the processors times a share that rises with their load, from a tenth when idle
 * to all of it. Estimated rows are marked as such. GPU sources report their own energy.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "collect/source.h"

#define ZONES_MAX     64U
#define ZONE_PREFIX   "intel-rapl:"
#define UJ_PER_J      1e6
#define IDLE_SHARE    0.1
/* A guess per hardware thread of a server processor, if no TDP is configured. */
#define WATTS_PER_CPU 4.0
#define LINES_MAX     1U

struct zone {
    char domain[24];
    char device[64];
    int fd;
    uint64_t range_uj; /* the counter wraps after this */
    uint64_t last_uj;
};

struct energy_collector {
    struct gsp_collect_env env;
    struct zone zones[ZONES_MAX];
    size_t zone_count;
    bool denied; /* counters exist but are not readable */
    int stat_fd;
    struct gsp_cpu_line last;
    bool has_last;
    struct gsp_buf text;
    int64_t last_mono_ns;
    struct gsp_collect_trouble trouble;
};

static void close_energy(void *collector)
{
    struct energy_collector *self = collector;
    if (!self)
        return;
    for (size_t i = 0; i < self->zone_count; i++)
        gsp_fd_close(&self->zones[i].fd);
    gsp_fd_close(&self->stat_fd);
    gsp_buf_free(&self->text);
    free(self);
}

/* "package-0" belongs to the domain package; parts also carry the name of their package. */
static void name_zone(const char *folder, const char *entry, struct zone *zone)
{
    char name[32];
    char parent[32] = "";
    if (!gsp_collect__read_line(name, sizeof(name), "%s/%s/name", folder, entry))
        snprintf(name, sizeof(name), "package");
    const char *part = strchr(entry + strlen(ZONE_PREFIX), ':');
    if (part)
        gsp_collect__read_line(parent, sizeof(parent), "%s/%.*s/name", folder, (int)(part - entry),
                               entry);
    snprintf(zone->domain, sizeof(zone->domain), "%.*s", (int)strcspn(name, "-"), name);
    snprintf(zone->device, sizeof(zone->device), "%s%s%s", parent, parent[0] ? " " : "", name);
}

static void add_zone(struct energy_collector *self, const char *folder, const char *entry)
{
    char range[32];
    struct zone *zone = &self->zones[self->zone_count];
    const int fd = gsp_collect__open("%s/%s/energy_uj", folder, entry);
    if (fd < 0 && (errno == EACCES || errno == EPERM))
        self->denied = true;
    if (fd < 0)
        return;
    *zone = (struct zone){.fd = fd, .last_uj = GSP_UNKNOWN, .range_uj = GSP_UNKNOWN};
    if (gsp_collect__read_line(range, sizeof(range), "%s/%s/max_energy_range_uj", folder, entry) &&
        !gsp_collect__parse_number(gsp_sv_of(range), &zone->range_uj))
        zone->range_uj = GSP_UNKNOWN;
    name_zone(folder, entry, zone);
    self->zone_count++;
}

static int by_device(const void *a, const void *b)
{
    return strcmp(((const struct zone *)a)->device, ((const struct zone *)b)->device);
}

static void find_zones(struct energy_collector *self)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof(folder), "%s/class/powercap", self->env.sys_root);
    DIR *dir = opendir(folder);
    if (!dir)
        return;
    /* Other zones (intel-rapl-mmio) report the same energy again. */
    for (const struct dirent *e = readdir(dir); e && self->zone_count < ZONES_MAX; e = readdir(dir))
        if (strncmp(e->d_name, ZONE_PREFIX, strlen(ZONE_PREFIX)) == 0)
            add_zone(self, folder, e->d_name);
    closedir(dir);
    qsort(self->zones, self->zone_count, sizeof(self->zones[0]), by_device);
}

static int open_energy(const struct gsp_collect_env *env, void **out, struct gsp_err *err)
{
    *out = NULL;
    struct energy_collector *self = calloc(1, sizeof(*self));
    if (!self)
        return gsp_err_nomem(err);
    self->env = *env;
    self->stat_fd = -1;
    find_zones(self);
    if (self->zone_count == 0)
        self->stat_fd = gsp_collect__open("%s/stat", env->proc_root);
    if (self->zone_count == 0 && self->stat_fd < 0) {
        close_energy(self);
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "neither RAPL nor %s/stat can be read",
                           env->proc_root);
    }
    *out = self;
    return 0;
}

/* Energy between two readings; the counter may have wrapped once. */
static double zone_joules(const struct zone *zone, uint64_t now)
{
    if (now == GSP_UNKNOWN || zone->last_uj == GSP_UNKNOWN)
        return gsp_null_f64();
    if (now >= zone->last_uj)
        return (double)(now - zone->last_uj) / UJ_PER_J;
    if (zone->range_uj == GSP_UNKNOWN || zone->last_uj > zone->range_uj)
        return gsp_null_f64();
    return (double)(zone->range_uj - zone->last_uj + now) / UJ_PER_J;
}

static void put_zone(struct energy_collector *self, struct zone *zone,
                     const struct gsp_collect_tick *tick, struct gsp_collect_sink *sink)
{
    const uint64_t now = gsp_collect__read_number(zone->fd);
    if (now == GSP_UNKNOWN)
        gsp_collect__trouble_add(&self->trouble, "RAPL: %s cannot be read", zone->device);
    const struct gsp_energy energy = {.domain = zone->domain,
                                      .device = zone->device,
                                      .source = "rapl",
                                      .joules = zone_joules(zone, now),
                                      .seconds = gsp_collect__seconds(self->last_mono_ns, tick)};
    zone->last_uj = now;
    gsp_collect__put_energy(&self->env, tick, &energy, sink);
}

static void put_estimate(struct energy_collector *self, const struct gsp_collect_tick *tick,
                         struct gsp_collect_sink *sink)
{
    struct gsp_cpu_line now = {0};
    uint64_t ctx = 0;
    double pct[GSP_CPU_TIMES];
    const double seconds = gsp_collect__seconds(self->last_mono_ns, tick);
    struct gsp_energy energy = {.domain = "package",
                                .device = "cpu",
                                .source = "estimate",
                                .joules = gsp_null_f64(),
                                .seconds = seconds};
    size_t lines = 0;
    if (gsp_collect__read(self->stat_fd, &self->text) == 0)
        lines = gsp_collect__parse_stat(gsp_buf_sv(&self->text), &now, LINES_MAX, &ctx);
    double tdp = self->env.cpu_tdp_watts;
    if (!(tdp > 0))
        tdp = WATTS_PER_CPU * (double)(lines > 1 ? lines - 1 : 1);
    if (lines > 0 && self->has_last && seconds > 0 &&
        gsp_collect__cpu_shares(&now, &self->last, pct)) {
        /* Stolen time was used by other virtual machines. */
        const double busy = (pct[GSP_CPU_USER] + pct[GSP_CPU_SYSTEM]) / 100;
        energy.joules = tdp * (IDLE_SHARE + (1 - IDLE_SHARE) * busy) * seconds;
    }
    self->last = now;
    self->has_last = lines > 0;
    gsp_collect__trouble_add(&self->trouble,
                             "%s: energy is estimated from CPU use and a TDP of %.0f W%s",
                             self->denied ? "RAPL is readable by root only" : "RAPL not available",
                             tdp, self->env.cpu_tdp_watts > 0 ? "" : " (a guess)");
    gsp_collect__put_energy(&self->env, tick, &energy, sink);
}

static void read_energy(void *collector, const struct gsp_collect_tick *tick,
                        struct gsp_collect_sink *sink)
{
    struct energy_collector *self = collector;
    gsp_collect__trouble_begin(&self->trouble);
    for (size_t i = 0; i < self->zone_count; i++)
        put_zone(self, &self->zones[i], tick, sink);
    if (self->zone_count == 0)
        put_estimate(self, tick, sink);
    self->last_mono_ns = tick->mono_ns;
    gsp_collect__trouble_end(&self->trouble);
}

const struct gsp_collector_type gsp_collect__energy = {
    .name = "energy",
    .doc = "energy of processors and memory, from RAPL, or estimated",
    .open = open_energy,
    .read = read_energy,
    .trouble = offsetof(struct energy_collector, trouble),
    .close = close_energy,
};
