/* SPDX-License-Identifier: Apache-2.0 */
#include "model/format.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/time.h"

#define WHOLE_MAX 9e18

void gsp_model_count_put(uint64_t n, struct gsp_buf *out)
{
    char digits[24];
    int len = snprintf(digits, sizeof(digits), "%" PRIu64, n);
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            gsp_buf_putc(out, ',');
        gsp_buf_putc(out, digits[i]);
    }
}

void gsp_model_percent_put(double pct, struct gsp_buf *out)
{
    if (pct > 0 && pct < 0.005)
        gsp_buf_puts(out, "<0.01");
    else if (pct >= 99.95)
        gsp_buf_printf(out, "%.0f", pct);
    else
        gsp_buf_printf(out, "%.*f", pct >= 9.995 ? 1 : 2, pct);
}

static void put_bytes(int64_t bytes, struct gsp_buf *out)
{
    static const char *const UNITS[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double v = (double)bytes;
    size_t i = 0;
    while (i + 1 < GSP_COUNT(UNITS) && (v >= 999.5 || v <= -999.5)) {
        v /= 1024;
        i++;
    }
    double mag = v < 0 ? -v : v;
    gsp_buf_printf(out, "%.*f %s", i == 0 || mag >= 99.95 ? 0 : mag >= 9.995 ? 1 : 2, v, UNITS[i]);
}

void gsp_model_amount_put(enum gsp_unit unit, int64_t weight, struct gsp_buf *out)
{
    char text[64];
    switch (unit) {
    case GSP_UNIT_NS:
        gsp_buf_puts(out, gsp_fmt_duration(weight, text, sizeof(text)));
        break;
    case GSP_UNIT_BYTES:
        put_bytes(weight, out);
        break;
    case GSP_UNIT_COUNT:
        gsp_model_count_put(weight > 0 ? (uint64_t)weight : 0, out);
        gsp_buf_puts(out, weight == 1 ? " sample" : " samples");
        break;
    }
}

void gsp_model_share_put(double part, double all, struct gsp_buf *out)
{
    if (part > 0 && all > 0)
        gsp_model_percent_put(100 * part / all, out);
    else
        gsp_buf_putc(out, '0');
    gsp_buf_puts(out, " %");
}

void gsp_model_bytes_put(double bytes, struct gsp_buf *out)
{
    gsp_model_amount_put(GSP_UNIT_BYTES, bytes < WHOLE_MAX ? (int64_t)bytes : INT64_MAX, out);
}

void gsp_model_seconds_put(double s, struct gsp_buf *out)
{
    char text[32];
    const double ns = s * (double)GSP_NS_PER_S;
    gsp_buf_puts(out,
                 gsp_fmt_duration(ns < WHOLE_MAX ? (int64_t)ns : INT64_MAX, text, sizeof(text)));
}

void gsp_model_function_put(struct gsp_sv func, struct gsp_sv file, struct gsp_buf *out)
{
    gsp_buf_putsv(out, func.len ? func : gsp_sv_of("(no name)"));
    if (file.len) {
        gsp_buf_puts(out, " (");
        gsp_buf_putsv(out, gsp_sv_basename(file));
        gsp_buf_putc(out, ')');
    }
}

void gsp_model_value_put(double v, struct gsp_sv unit, struct gsp_buf *out)
{
    if (isnan(v)) {
        gsp_buf_putc(out, '-');
    } else if (gsp_sv_starts(unit, "bytes")) {
        gsp_model_bytes_put(v, out);
        gsp_buf_put(out, unit.p + 5, unit.len - 5);
    } else if (gsp_sv_eq(unit, gsp_sv_of("s"))) {
        gsp_model_seconds_put(v, out);
    } else {
        /* %.3g would print thousands with an exponent. */
        gsp_buf_printf(out, fabs(v) >= 1000 && fabs(v) < 1e6 ? "%.0f" : "%.3g", v);
        gsp_buf_puts(out, unit.len ? " " : "");
        gsp_buf_putsv(out, unit);
    }
}

void gsp_model_losses_put(const struct gsp_losses *losses, struct gsp_buf *out)
{
    const struct {
        uint64_t n;
        const char *one;
        const char *many;
    } rows[] = {
        {losses->torn, "stack torn", "stacks torn"},
        {losses->late, "tick late", "ticks late"},
        {losses->failed, "read failed", "reads failed"},
        {losses->gone, "process ended early", "processes ended early"},
        {losses->skipped, "process not Python", "processes not Python"},
        {losses->unmerged, "stack not merged", "stacks not merged"},
    };
    bool any = false;
    for (size_t i = 0; i < GSP_COUNT(rows); i++) {
        if (rows[i].n == 0)
            continue;
        if (any)
            gsp_buf_puts(out, ", ");
        gsp_model_count_put(rows[i].n, out);
        gsp_buf_putc(out, ' ');
        gsp_buf_puts(out, rows[i].n == 1 ? rows[i].one : rows[i].many);
        any = true;
    }
    if (!any)
        gsp_buf_puts(out, "none");
}

const char *gsp_model_loss_at(const struct gsp_losses *losses, size_t i, uint64_t *count)
{
    const struct {
        const char *cause;
        uint64_t count;
    } all[] = {{"torn", losses->torn},       {"late", losses->late},
               {"failed", losses->failed},   {"gone", losses->gone},
               {"skipped", losses->skipped}, {"unmerged", losses->unmerged}};
    *count = i < GSP_COUNT(all) ? all[i].count : 0;
    return i < GSP_COUNT(all) ? all[i].cause : NULL;
}

void gsp_model_command_put(const struct gsp_profile *profile, struct gsp_buf *out)
{
    const struct gsp_process *p = gsp_model_profile_process_at(profile, 0);
    struct gsp_sv text = gsp_model_profile_string_at(profile, p ? p->cmdline : GSP_NONE);
    if (text.len == 0)
        text = gsp_model_profile_string_at(profile, p ? p->name : GSP_NONE);
    if (text.len == 0)
        text = gsp_sv_of("unknown program");
    gsp_buf_putsv(out, text);
    size_t n = gsp_model_profile_process_count(profile);
    if (n > 1) {
        gsp_buf_puts(out, " and ");
        gsp_model_count_put(n - 1, out);
        gsp_buf_puts(out, n == 2 ? " more process" : " more processes");
    }
}

uint64_t gsp_model_profile_samples(const struct gsp_profile *profile)
{
    if (gsp_model_profile_meta_get(profile)->unit != GSP_UNIT_COUNT)
        return gsp_model_profile_sample_count(profile);
    uint64_t sum = 0;
    for (size_t i = 0; i < gsp_model_profile_total_count(profile); i++) {
        int64_t weight = gsp_model_profile_total_at(profile, i)->weight;
        uint64_t n = weight > 0 ? (uint64_t)weight : 0;
        sum = sum > UINT64_MAX - n ? UINT64_MAX : sum + n;
    }
    return sum;
}

void gsp_model_extent_put(const struct gsp_profile *profile, struct gsp_buf *out)
{
    const struct gsp_model_profile_meta *meta = gsp_model_profile_meta_get(profile);
    char text[64];
    uint64_t n = gsp_model_profile_samples(profile);
    gsp_model_count_put(n, out);
    gsp_buf_puts(out, n == 1 ? " sample" : " samples");
    if (meta->duration_ns > 0) {
        gsp_buf_puts(out, " in ");
        gsp_buf_puts(out, gsp_fmt_duration(meta->duration_ns, text, sizeof(text)));
    }
    if (meta->period_ns > 0) {
        double rate_hz = (double)GSP_NS_PER_S / (double)meta->period_ns;
        gsp_buf_puts(out, " at ");
        if (rate_hz >= 99.5)
            gsp_model_count_put((uint64_t)(rate_hz + 0.5), out);
        else
            gsp_buf_printf(out, "%.3g", rate_hz);
        gsp_buf_puts(out, " Hz");
    }
}
