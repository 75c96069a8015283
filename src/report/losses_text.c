/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/format.h"
#include "model/tree.h"
#include "report/document_internal.h"

/* Kinds of losses that are named. */
#define KINDS_MAX   3U
/* Bytes of a reason that fits into a line. */
#define REASON_MAX  60U
#define REASONS_MAX 4U

/* The number of losses with the kind and reason of `loss`. */
static uint64_t count_reason(const struct gsp_report *report, const struct gsp_report_loss *loss)
{
    uint64_t count = 0;
    for (size_t i = 0; i < report->loss_count; i++) {
        const struct gsp_report_loss *other = &report->losses[i];
        if (gsp_sv_eq(other->what, loss->what) && gsp_sv_eq(other->why, loss->why))
            count = gsp_sum_u64(count, other->count);
    }
    return count;
}

/* The most frequent reason of a kind that is not in `named`; NULL if none is left. */
static const struct gsp_report_loss *next_reason(const struct gsp_report *report,
                                                 struct gsp_sv what,
                                                 const struct gsp_report_loss *const *named,
                                                 size_t named_count)
{
    const struct gsp_report_loss *found = NULL;
    uint64_t most = 0;
    for (size_t i = 0; i < report->loss_count; i++) {
        const struct gsp_report_loss *loss = &report->losses[i];
        bool is_named =
            !gsp_sv_eq(loss->what, what) || !loss->why.len || loss->why.len > REASON_MAX;
        for (size_t k = 0; k < named_count && !is_named; k++)
            is_named = gsp_sv_eq(named[k]->why, loss->why);
        const uint64_t times = is_named ? 0 : count_reason(report, loss);
        if (times > most) {
            most = times;
            found = loss;
        }
    }
    return found;
}

/* Appends the reasons, the most frequent first, with their counts if there are several. */
static void put_reasons(const struct gsp_report *report, struct gsp_sv what, uint64_t count,
                        struct gsp_buf *out)
{
    const struct gsp_report_loss *named[REASONS_MAX];
    const struct gsp_report_loss *loss = NULL;
    size_t n = 0;
    uint64_t rest = count;
    while (n < REASONS_MAX && (loss = next_reason(report, what, named, n))) {
        const uint64_t times = count_reason(report, loss);
        gsp_buf_puts(out, n ? "; " : " (");
        if (times < count) {
            gsp_model_count_put(times, out);
            gsp_buf_puts(out, ": ");
        }
        gsp_buf_putsv(out, loss->why);
        rest -= times < rest ? times : rest;
        named[n++] = loss;
    }
    if (n && rest) {
        gsp_buf_puts(out, "; ");
        gsp_model_count_put(rest, out);
        gsp_buf_puts(out, ": other reasons");
    }
    gsp_buf_puts(out, n ? ")" : "");
}

/* Appends the singular if count is 1: "sample", "row of python.span". */
static void put_nouns(struct gsp_sv what, uint64_t count, struct gsp_buf *out)
{
    static const char *const NOUNS[][2] = {{"samples", "sample"},    {"allocations", "allocation"},
                                           {"processes", "process"}, {"stacks", "stack"},
                                           {"rows", "row"},          {"files", "file"}};
    for (size_t i = 0; count == 1 && i < GSP_COUNT(NOUNS); i++) {
        const size_t len = strlen(NOUNS[i][0]);
        if (!gsp_sv_starts(what, NOUNS[i][0]) || (what.len > len && what.p[len] != ' '))
            continue;
        gsp_buf_puts(out, NOUNS[i][1]);
        what = (struct gsp_sv){what.p + len, what.len - len};
        break;
    }
    gsp_buf_putsv(out, what);
}

/* Appends the sum of all losses of one kind. */
static void put_loss(const struct gsp_report *report, size_t first, struct gsp_buf *out)
{
    const struct gsp_sv what = report->losses[first].what;
    uint64_t count = 0;
    for (size_t i = first; i < report->loss_count; i++)
        if (gsp_sv_eq(report->losses[i].what, what))
            count = gsp_sum_u64(count, report->losses[i].count);
    gsp_model_count_put(count, out);
    gsp_buf_putc(out, ' ');
    put_nouns(what, count, out);
    put_reasons(report, what, count, out);
}

void gsp_report__losses_put(const struct gsp_report *report, struct gsp_buf *out)
{
    size_t kinds = 0;
    for (size_t i = 0; i < report->loss_count; i++) {
        bool is_put = false;
        for (size_t k = 0; k < i && !is_put; k++)
            is_put = gsp_sv_eq(report->losses[k].what, report->losses[i].what);
        if (is_put || ++kinds > KINDS_MAX)
            continue;
        gsp_buf_puts(out, kinds > 1 ? ", " : "Missing: ");
        put_loss(report, i, out);
    }
    if (kinds > KINDS_MAX)
        gsp_buf_printf(out, " and %zu more", kinds - KINDS_MAX);
}
