/* SPDX-License-Identifier: Apache-2.0 */
#include <locale.h>

#include "base/width.h"
#include "tap.h"

static void check_widths(void)
{
    tap_eq_int(gsp_width(gsp_sv_of("")), 0);
    tap_eq_int(gsp_width(gsp_sv_of("train.py")), 8);
    tap_eq_int(gsp_width(gsp_sv_of("gr\xc3\xb6\xc3\x9f"
                                   "e")),
               5);
    tap_eq_int(gsp_width(gsp_sv_of("\xe8\xa8\x93\xe7\xb7\xb4")), 4); /* two CJK characters */
    tap_eq_int(gsp_width(gsp_sv_of("\xf0\x9f\x9a\x80")), 2);         /* a rocket */
    tap_eq_int(gsp_width((struct gsp_sv){"\xff\x80"
                                         "a",
                                         3}),
               3); /* not UTF-8 */
}

TAP_TEST(widths_without_a_locale)
{
    check_widths();
}

TAP_TEST(widths_in_a_locale)
{
    tap_require(setlocale(LC_CTYPE, "C.UTF-8") != NULL);
    check_widths();
    tap_eq_int(gsp_width(gsp_sv_of("e\xcc\x81")), 1); /* a combining accent */
}

TAP_MAIN()
