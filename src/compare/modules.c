/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "compare/compare_internal.h"

static uint64_t key_of(const struct gsp_report_module *module)
{
    return gsp_hash_bytes(module->module.p, module->module.len,
                          gsp_hash_bytes(module->stage.p, module->stage.len, 0));
}

static struct gsp_compare_row *add_row(struct gsp_compare *compare,
                                       const struct gsp_report_module *module)
{
    if (!gsp_compare__array_fit(compare, &compare->modules, compare->module_count))
        return NULL;
    struct gsp_buf name = {0};
    /* The outermost module has no name. */
    if (module->module.len == 0)
        gsp_buf_putsv(&name, module->class_name);
    gsp_buf_putsv(&name, module->module);
    gsp_buf_putc(&name, ' ');
    gsp_buf_putsv(&name, module->stage);
    struct gsp_compare_row *row = &compare->modules[compare->module_count++];
    *row = (struct gsp_compare_row){.name = gsp_compare__text_keep(compare, &name),
                                    .unit = gsp_sv_of("s"),
                                    .better = GSP_BETTER_LOWER};
    return row;
}

/* Copies the durations, because gsp_compare__row_judge() modifies them. Without durations, only the
 * mean is known. */
static struct gsp_compare_values side_of(struct gsp_compare *compare,
                                         const struct gsp_report_module *module)
{
    struct gsp_compare_values side = {.mean = module ? module->mean_s : (double)NAN};
    side.values = calloc((module ? module->value_count : 0) + 1, sizeof(double));
    if (!side.values) {
        compare->no_memory = true;
        return side;
    }
    if (module && module->values) {
        side.count = module->value_count;
        memcpy(side.values, module->values, side.count * sizeof(double));
    }
    return side;
}

static void add_pair(struct gsp_compare *compare, const struct gsp_report_module *a,
                     const struct gsp_report_module *b)
{
    struct gsp_compare_row *row = add_row(compare, a ? a : b);
    if (!row)
        return;
    struct gsp_compare_values sides[2] = {side_of(compare, a), side_of(compare, b)};
    gsp_compare__row_judge(compare, row, sides, &gsp_compare__effort_many);
    row->count[0] = a ? a->calls : 0;
    row->count[1] = b ? b->calls : 0;
    free(sides[0].values);
    free(sides[1].values);
}

static double weight_of(const struct gsp_compare_row *row)
{
    const double a = isnan(row->value[0]) ? 0 : row->value[0] * (double)row->count[0];
    const double b = isnan(row->value[1]) ? 0 : row->value[1] * (double)row->count[1];
    return fabs(b - a);
}

/* Significant differences first, then the largest difference in total time. */
static int by_change(const void *x, const void *y)
{
    const struct gsp_compare_row *a = x;
    const struct gsp_compare_row *b = y;
    const bool a_differs = a->verdict > GSP_COMPARE_SAME;
    const bool b_differs = b->verdict > GSP_COMPARE_SAME;
    if (a_differs != b_differs)
        return a_differs ? -1 : 1;
    const double a_weight = weight_of(a);
    const double b_weight = weight_of(b);
    if (a_weight > b_weight || a_weight < b_weight)
        return a_weight > b_weight ? -1 : 1;
    const size_t len = a->name.len < b->name.len ? a->name.len : b->name.len;
    const int order = len > 0 ? memcmp(a->name.p, b->name.p, len) : 0;
    return order != 0 ? order : (a->name.len > b->name.len) - (a->name.len < b->name.len);
}

void gsp_compare__modules_sort(struct gsp_compare *compare)
{
    if (compare->module_count > 1)
        qsort(compare->modules, compare->module_count, sizeof(*compare->modules), by_change);
}

void gsp_compare__modules_fill(struct gsp_compare *compare)
{
    const struct gsp_report *const *side = compare->side;
    if (side[0]->module_count == 0 || side[1]->module_count == 0)
        return;
    struct gsp_hmap of_b = {0};
    bool *is_matched = calloc(side[1]->module_count, sizeof(*is_matched));
    bool ok = is_matched != NULL;
    for (size_t i = 0; ok && i < side[1]->module_count; i++)
        ok = gsp_hmap_put(&of_b, key_of(&side[1]->modules[i]), 0, (uint32_t)i);
    for (size_t i = 0; ok && i < side[0]->module_count; i++) {
        const uint32_t *at = gsp_hmap_get(&of_b, key_of(&side[0]->modules[i]), 0);
        add_pair(compare, &side[0]->modules[i], at ? &side[1]->modules[*at] : NULL);
        if (at)
            is_matched[*at] = true;
    }
    for (size_t i = 0; ok && i < side[1]->module_count; i++)
        if (!is_matched[i])
            add_pair(compare, NULL, &side[1]->modules[i]);
    compare->no_memory = compare->no_memory || !ok;
    gsp_hmap_free(&of_b);
    free(is_matched);
    gsp_compare__rows_correct_p(compare, compare->modules, compare->module_count,
                                sizeof(*compare->modules));
    gsp_compare__modules_sort(compare);
}
