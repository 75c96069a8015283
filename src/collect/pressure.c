/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/file.h"
#include "collect/source.h"

#define US_PER_S 1e6

static const char *const resources[] = {"cpu", "memory", "io"};
#define RESOURCES GSP_COUNT(resources)

struct pressure_collector {
    struct gsp_collect_env env;
    struct gsp_row_system_pressure blank;
    int fds[RESOURCES];
    struct gsp_pressure last[RESOURCES];
    struct gsp_buf text;
    int64_t last_mono_ns;
    struct gsp_collect_trouble trouble;
};

static void close_pressure(void *collector)
{
    struct pressure_collector *self = collector;
    if (!self)
        return;
    for (size_t i = 0; i < RESOURCES; i++)
        gsp_fd_close(&self->fds[i]);
    gsp_buf_free(&self->text);
    free(self);
}

static int open_pressure(const struct gsp_collect_env *env, void **out, struct gsp_err *err)
{
    *out = NULL;
    struct pressure_collector *self = calloc(1, sizeof(*self));
    if (!self)
        return gsp_err_nomem(err);
    bool any = false;
    self->env = *env;
    gsp_collect__blank(GSP_TABLE_system_pressure, &self->blank);
    for (size_t i = 0; i < RESOURCES; i++) {
        self->fds[i] = gsp_collect__open("%s/pressure/%s", env->proc_root, resources[i]);
        /* With psi=0 the files can be opened but not read. */
        any = any || gsp_collect__read(self->fds[i], &self->text) == 0;
    }
    if (!any) {
        close_pressure(self);
        return gsp_err_set(err, GSP_E_NOTSUP, 0,
                           "the kernel has no pressure-stall information (needs psi=1)");
    }
    *out = self;
    return 0;
}

static double share(const struct gsp_stall *now, const struct gsp_stall *last, double seconds)
{
    if (!now->known || !last->known)
        return gsp_null_f64();
    const double rate = gsp_collect__rate(now->total_us, last->total_us, seconds);
    if (gsp_is_null_f64(rate))
        return rate;
    /* The sums of the kernel lag a little and then catch up. */
    return rate / US_PER_S > 1 ? 100 : 100 * rate / US_PER_S;
}

static void read_pressure(void *collector, const struct gsp_collect_tick *tick,
                          struct gsp_collect_sink *sink)
{
    struct pressure_collector *self = collector;
    const double seconds = gsp_collect__seconds(self->last_mono_ns, tick);
    gsp_collect__trouble_begin(&self->trouble);
    for (size_t i = 0; i < RESOURCES; i++) {
        struct gsp_pressure now = {0};
        struct gsp_row_system_pressure row = self->blank;
        if (gsp_collect__read(self->fds[i], &self->text) == 0)
            gsp_collect__parse_pressure(gsp_buf_sv(&self->text), &now);
        if (!now.some.known)
            gsp_collect__trouble_add(&self->trouble, "%s/pressure/%s is empty", self->env.proc_root,
                                     resources[i]);
        row.ts_ns = tick->ts_ns;
        row.mono_ns = tick->mono_ns;
        row.resource = sink->intern(sink, GSP_TABLE_system_pressure, gsp_sv_of(resources[i]));
        row.some_percent = share(&now.some, &self->last[i].some, seconds);
        row.full_percent = share(&now.full, &self->last[i].full, seconds);
        if (now.some.known)
            row.some_avg10_percent = now.some.avg10_pct;
        if (now.full.known)
            row.full_avg10_percent = now.full.avg10_pct;
        sink->row(sink, GSP_TABLE_system_pressure, &row);
        self->last[i] = now;
    }
    self->last_mono_ns = tick->mono_ns;
    gsp_collect__trouble_end(&self->trouble);
}

const struct gsp_collector_type gsp_collect__pressure = {
    .name = "pressure",
    .doc = "time lost waiting for CPU, memory and I/O, from /proc/pressure",
    .open = open_pressure,
    .read = read_pressure,
    .trouble = offsetof(struct pressure_collector, trouble),
    .close = close_pressure,
};
