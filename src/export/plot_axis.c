/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/time.h"
#include "export/plot_scene.h"

#define VALUE_TICKS 4.0
#define TIME_TICKS  9.0
#define TICK_DROP   16.0F

/* Returns the smallest 1, 2 or 5 times a power of ten that is at least `least`. */
static double nice_step(double least)
{
    double power = pow(10, floor(log10(least)));
    double steps[] = {1, 2, 5, 10};
    for (size_t i = 0; i < GSP_COUNT(steps); i++)
        if (steps[i] * power >= least * (1 - 1e-9))
            return steps[i] * power;
    return 10 * power;
}

void gsp_export__plot_value_format(double v, const char *unit, char *out, size_t cap)
{
    static const char PREFIXES[] = " kMGTPE";
    bool is_bytes = strncmp(unit, "bytes", 5) == 0;
    const char *rest = is_bytes ? unit + 5 : unit;
    size_t prefix = 0;
    /* Percentages take no prefix. */
    bool scales = is_bytes || strcmp(unit, "%") != 0;
    while (scales && fabs(v) >= 1000 && prefix + 1 < sizeof(PREFIXES) - 1) {
        v /= 1000;
        prefix++;
    }
    char letter[2] = {prefix ? PREFIXES[prefix] : '\0', '\0'};
    snprintf(out, cap, "%.4g%s%s%s%s", v, unit[0] && strcmp(unit, "%") != 0 ? " " : "", letter,
             is_bytes ? "B" : "", rest);
}

void gsp_export__plot_value_axis_draw(struct plot_scene *scene, struct plot_panel *panel,
                                      const char *unit)
{
    double low = panel->low < 0 ? panel->low : 0;
    double high = panel->high;
    /* Values that are all (nearly) equal need a range as well. */
    if (!(high - low > fabs(low) * 1e-9))
        high = low + fmax(1, fabs(low) * 0.1);
    if (strcmp(unit, "%") == 0 && high <= 100.5 && low >= 0)
        high = 100;
    double step = nice_step((high - low) / VALUE_TICKS);
    panel->low = floor(low / step + 1e-9) * step;
    panel->high = ceil(high / step - 1e-9) * step;
    int ticks = (int)lround((panel->high - panel->low) / step);
    for (int i = 0; i <= ticks && i < 50; i++) {
        char text[48];
        double v = panel->low + i * step;
        float y =
            panel->y + panel->h - (float)((v - panel->low) / (panel->high - panel->low)) * panel->h;
        gsp_export__plot_rect_draw(scene, PLOT_GRID, panel->x, y - 0.5F, panel->w, 1);
        gsp_export__plot_value_format(fabs(v) < step * 1e-6 ? 0 : v, unit, text, sizeof(text));
        gsp_export__plot_text_draw(scene, PLOT_FAINT, (struct plot_point){panel->x - 8, y + 4}, 1,
                                   PLOT_TEXT_SIZE, text);
    }
}

/* Returns the distance between time labels, in nanoseconds. */
static int64_t time_step(int64_t span_ns)
{
    static const int STEPS_S[] = {1,   2,   5,    10,   15,   30,    60,    120,   300,
                                  600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400};
    double least = (double)span_ns / TIME_TICKS;
    if (least < (double)GSP_NS_PER_S)
        return (int64_t)nice_step(least < (double)GSP_NS_PER_MS ? (double)GSP_NS_PER_MS : least);
    for (size_t i = 0; i < GSP_COUNT(STEPS_S); i++)
        if ((double)STEPS_S[i] * (double)GSP_NS_PER_S >= least)
            return STEPS_S[i] * GSP_NS_PER_S;
    int64_t day = 86400 * GSP_NS_PER_S;
    return day * (int64_t)nice_step(least / (double)day);
}

static void tick_text(int64_t local_ns, int64_t step_ns, char *out, size_t cap)
{
    time_t s = (time_t)(local_ns / GSP_NS_PER_S);
    struct tm tm = {0};
    char text[40] = "";
    if (!gmtime_r(&s, &tm)) {
        out[0] = '\0';
        return;
    }
    bool is_day = local_ns % (86400 * GSP_NS_PER_S) == 0;
    if (is_day && step_ns >= 60 * GSP_NS_PER_S)
        strftime(text, sizeof(text), "%Y-%m-%d", &tm);
    else if (step_ns >= 60 * GSP_NS_PER_S)
        strftime(text, sizeof(text), "%H:%M", &tm);
    else
        strftime(text, sizeof(text), "%H:%M:%S", &tm);
    if (step_ns < GSP_NS_PER_S)
        snprintf(out, cap, "%s.%03d", text, (int)(local_ns % GSP_NS_PER_S / GSP_NS_PER_MS));
    else
        snprintf(out, cap, "%s", text);
}

void gsp_export__plot_time_axis_draw(struct plot_scene *scene, const struct plot_panel *panel)
{
    int64_t span = scene->to_ns - scene->from_ns;
    int64_t step = time_step(span);
    int64_t zone = scene->zone_s * GSP_NS_PER_S;
    int64_t local = scene->from_ns + zone;
    int64_t tick = local + (step - local % step) % step;
    for (; tick - zone <= scene->to_ns; tick += step) {
        char text[48];
        float x = panel->x + (float)((double)(tick - local) / (double)span) * panel->w;
        gsp_export__plot_rect_draw(scene, PLOT_GRID, x - 0.5F, panel->y, 1, panel->h);
        tick_text(tick, step, text, sizeof(text));
        gsp_export__plot_text_draw(scene, PLOT_FAINT,
                                   (struct plot_point){x, panel->y + panel->h + TICK_DROP}, 0,
                                   PLOT_TEXT_SIZE, text);
    }
}
