/* SPDX-License-Identifier: Apache-2.0 */
#include "report/run_parts.h"

/* Threads without samples have never run Python. Threads get their names after they start, so the
 * latest name is used. */
static const char THREADS_SQL[] =
    "SELECT name, count(*), sum(cpu) FROM (SELECT pid, thread_id, "
    "max(cpu_s) AS cpu, coalesce(arg_max(thread_name, ts_ns) "
    "FILTER (WHERE thread_name IS NOT NULL), '')::VARCHAR AS name FROM process.thread "
    "WHERE pid IN (SELECT pid FROM python.stack_sample) "
    "AND NOT EXISTS (SELECT 1 FROM python.stack_sample s WHERE s.pid = process.thread.pid "
    "AND s.thread_id = process.thread.thread_id) GROUP BY pid, thread_id) "
    "GROUP BY name ORDER BY 3 DESC, name";

static int add_threads(void *ctx, const struct gsp_store_row *row, struct gsp_err *err)
{
    struct gsp_report *report = ctx;
    struct gsp_report_native *native = &report->native;
    const double cpu_s = gsp_store_row_f64(row, 2);
    (void)err;
    if (!(cpu_s > 0))
        return GSP_OK;
    native->cpu_s += cpu_s;
    native->threads += (size_t)gsp_store_row_i64(row, 1);
    if (native->top_count < GSP_COUNT(native->top))
        native->top[native->top_count++] =
            (struct gsp_report_named_cpu){gsp_report__text_keep(report, gsp_store_row_text(row, 0)),
                                          (size_t)gsp_store_row_i64(row, 1), cpu_s};
    return GSP_OK;
}

int gsp_report__native_threads_fill(struct gsp_report *report, struct gsp_store *store,
                                    struct gsp_err *err)
{
    return gsp_store_query_each(store, THREADS_SQL, add_threads, report, err);
}
