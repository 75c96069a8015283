/* SPDX-License-Identifier: Apache-2.0 */
#include "report/phrases.h"

#include <math.h>
#include <stdint.h>

#include "base/time.h"
#include "model/format.h"

#define WHOLE_MAX 9e18

void gsp_words_share(double part, double all, struct gsp_buf *out)
{
    if (part > 0 && all > 0)
        gsp_model_percent_put(100 * part / all, out);
    else
        gsp_buf_putc(out, '0');
    gsp_buf_puts(out, " %");
}

void gsp_words_bytes(double bytes, struct gsp_buf *out)
{
    gsp_model_amount_put(GSP_UNIT_BYTES, bytes < WHOLE_MAX ? (int64_t)bytes : INT64_MAX, out);
}

void gsp_words_seconds(double s, struct gsp_buf *out)
{
    char text[32];
    const double ns = s * (double)GSP_NS_PER_S;
    gsp_buf_puts(out,
                 gsp_fmt_duration(ns < WHOLE_MAX ? (int64_t)ns : INT64_MAX, text, sizeof(text)));
}

void gsp_words_function(struct gsp_sv func, struct gsp_sv file, struct gsp_buf *out)
{
    gsp_buf_putsv(out, func.len ? func : gsp_sv_of("(no name)"));
    if (file.len) {
        gsp_buf_puts(out, " (");
        gsp_buf_putsv(out, gsp_sv_basename(file));
        gsp_buf_putc(out, ')');
    }
}

void gsp_words_value(double v, struct gsp_sv unit, struct gsp_buf *out)
{
    if (isnan(v)) {
        gsp_buf_putc(out, '-');
    } else if (gsp_sv_starts(unit, "bytes")) {
        gsp_words_bytes(v, out);
        gsp_buf_put(out, unit.p + 5, unit.len - 5);
    } else if (gsp_sv_eq(unit, gsp_sv_of("s"))) {
        gsp_words_seconds(v, out);
    } else {
        /* Thousands are no place for an exponent. */
        gsp_buf_printf(out, fabs(v) >= 1000 && fabs(v) < 1e6 ? "%.0f" : "%.3g", v);
        gsp_buf_puts(out, unit.len ? " " : "");
        gsp_buf_putsv(out, unit);
    }
}
