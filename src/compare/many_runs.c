/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "base/map.h"
#include "compare/compare_internal.h"

/* Each recording is one value, independent of the others. */
static const struct gsp_compare_effort EFFORT = {
    .rounds = 2000, .effect_max = GSP_COMPARE_SIDE_MAX, .is_unordered = true};

/* The values of one recording, from its comparison with itself. */
struct one {
    struct gsp_compare *self;
    struct gsp_hmap modules;   /* hash of the name -> index */
    struct gsp_hmap functions; /* hashes of name and file -> index */
};

struct several {
    struct gsp_compare *compare; /* of the first recordings */
    struct one *ones[2];
    size_t count[2];
    double *values; /* space for the values of both sides */
};

static uint64_t hash_of(struct gsp_sv text)
{
    return gsp_hash_bytes(text.p, text.len, 0);
}

static int open_one(struct one *one, const struct gsp_report *report,
                    const struct gsp_compare_opts *opts, struct gsp_err *err)
{
    int rc = gsp_compare__new(report, report, opts, &one->self, err);
    bool ok = true;
    for (size_t i = 0; rc == GSP_OK && ok && i < one->self->module_count; i++)
        ok = gsp_hmap_put(&one->modules, hash_of(one->self->modules[i].name), 0, (uint32_t)i);
    for (size_t i = 0; rc == GSP_OK && ok && i < one->self->function_count; i++) {
        const struct gsp_compare_function *function = &one->self->functions[i];
        ok = gsp_hmap_put(&one->functions, hash_of(function->row.name), hash_of(function->file),
                          (uint32_t)i);
    }
    return ok ? rc : gsp_err_nomem(err);
}

/* The corresponding row of one recording; NULL if it has none. */
static const struct gsp_compare_row *metric_of(const struct several *several, const struct one *one,
                                               size_t i)
{
    const struct gsp_sv name = several->compare->metrics[i].name;
    for (size_t k = 0; k < one->self->metric_count; k++)
        if (gsp_sv_eq(one->self->metrics[k].name, name))
            return &one->self->metrics[k];
    return NULL;
}

static const struct gsp_compare_row *module_of(const struct several *several, const struct one *one,
                                               size_t i)
{
    const uint32_t *at = gsp_hmap_get(&one->modules, hash_of(several->compare->modules[i].name), 0);
    return at ? &one->self->modules[*at] : NULL;
}

static const struct gsp_compare_row *function_of(const struct several *several,
                                                 const struct one *one, size_t i)
{
    const struct gsp_compare_function *function = &several->compare->functions[i];
    const uint32_t *at =
        gsp_hmap_get(&one->functions, hash_of(function->row.name), hash_of(function->file));
    return at ? &one->self->functions[*at].row : NULL;
}

typedef const struct gsp_compare_row *find_row(const struct several *several, const struct one *one,
                                               size_t i);

/* Judges a row from one value per recording. `absent` is the value of recordings without the row:
 * NaN, or 0 for functions. */
static void judge(struct several *several, struct gsp_compare_row *row, find_row *find, size_t i,
                  double absent)
{
    struct gsp_compare_values sides[2];
    double *at = several->values;
    for (int side = 0; side < 2; side++) {
        sides[side] = (struct gsp_compare_values){.values = at, .mean = (double)NAN};
        for (size_t k = 0; k < several->count[side]; k++) {
            const struct gsp_compare_row *found = find(several, &several->ones[side][k], i);
            at[sides[side].count++] = found ? found->value[0] : absent;
        }
        at += sides[side].count;
    }
    gsp_compare__row_judge(several->compare, row, sides, &EFFORT);
}

static void judge_all(struct several *several)
{
    struct gsp_compare *compare = several->compare;
    for (size_t i = 0; i < compare->metric_count; i++)
        judge(several, &compare->metrics[i], metric_of, i, (double)NAN);
    for (size_t i = 0; i < compare->module_count; i++)
        judge(several, &compare->modules[i], module_of, i, (double)NAN);
    for (size_t i = 0; i < compare->function_count; i++)
        judge(several, &compare->functions[i].row, function_of, i, 0);
    gsp_compare__rows_correct_p(compare, compare->modules, compare->module_count,
                                sizeof(*compare->modules));
    if (compare->function_count > 0)
        gsp_compare__rows_correct_p(compare, &compare->functions[0].row, compare->function_count,
                                    sizeof(*compare->functions));
    gsp_compare__functions_sort(compare);
    gsp_compare__modules_sort(compare);
    compare->is_same = false;
    gsp_compare__note_add(compare,
                          gsp_compare__text_printf(compare,
                                                   "%zu recordings against %zu, one value each; "
                                                   "flame graph and charts show the first ones",
                                                   several->count[0], several->count[1]));
    gsp_compare__verdict_fill(compare);
}

int gsp_compare_many(const struct gsp_report *const *const sides[2], const size_t counts[2],
                     const struct gsp_compare_opts *opts, struct gsp_compare **out,
                     struct gsp_err *err)
{
    struct several several = {.count = {counts[0], counts[1]}};
    *out = NULL;
    int rc = gsp_compare__new(sides[0][0], sides[1][0], opts, &several.compare, err);
    if (rc < 0 || counts[0] + counts[1] == 2) {
        *out = several.compare;
        return rc;
    }
    struct gsp_compare_opts alike = *opts;
    alike.per = several.compare->per;
    several.values = calloc(counts[0] + counts[1], sizeof(*several.values));
    for (int side = 0; side < 2; side++)
        several.ones[side] = calloc(counts[side], sizeof(*several.ones[side]));
    if (!several.values || !several.ones[0] || !several.ones[1])
        rc = gsp_err_nomem(err);
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; rc == GSP_OK && i < counts[side]; i++)
            rc = open_one(&several.ones[side][i], sides[side][i], &alike, err);
    if (rc == GSP_OK)
        judge_all(&several);
    if (rc == GSP_OK && several.compare->no_memory)
        rc = gsp_err_nomem(err);
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; several.ones[side] && i < counts[side]; i++) {
            gsp_compare_free(several.ones[side][i].self);
            gsp_hmap_free(&several.ones[side][i].modules);
            gsp_hmap_free(&several.ones[side][i].functions);
        }
        free(several.ones[side]);
    }
    free(several.values);
    if (rc < 0)
        gsp_compare_free(several.compare);
    else
        *out = several.compare;
    return rc;
}
