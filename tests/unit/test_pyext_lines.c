/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "base/attr.h"
#include "pyext/lines.h"
#include "tap.h"

/* Addresses used as code objects and frames. */
static char code_a, code_b, frame_a, frame_b, frame_c;

static bool count_codes(void *user, const struct gsp_pyext_code_lines *lines)
{
    (void)lines;
    ++*(int *)user;
    return true;
}

TAP_TEST(lines_count_while_on)
{
    struct gsp_pyext_code_lines *a = gsp_pyext__lines_add(&code_a, 10, 5);
    struct gsp_pyext_code_lines *b = gsp_pyext__lines_add(&code_b, 1, 2);
    tap_require(a && b);
    tap_check(gsp_pyext__lines_find(&code_a) == a);
    tap_check(!gsp_pyext__lines_find(&frame_a));
    gsp_pyext__lines_call(&frame_a, a);
    tap_check(!gsp_pyext__lines_is_on() && gsp_pyext__lines_line(&frame_a, 10));
    tap_check(a->at[0].hits == 0);

    gsp_pyext__lines_start();
    gsp_pyext__lines_call(&frame_a, a);
    tap_check(gsp_pyext__lines_line(&frame_a, 10));
    tap_check(gsp_pyext__lines_line(&frame_a, 14));
    gsp_pyext__lines_call(&frame_b, b);
    tap_check(gsp_pyext__lines_line(&frame_b, 2));
    gsp_pyext__lines_return(&frame_b);
    tap_check(gsp_pyext__lines_line(&frame_a, 10));
    gsp_pyext__lines_return(&frame_a);
    gsp_pyext__lines_stop();
    tap_check(a->at[0].hits == 2 && a->at[4].hits == 1 && b->at[1].hits == 1);
    tap_check(a->at[4].ns >= b->at[1].ns && b->at[1].ns >= 0);
    int codes = 0;
    gsp_pyext__lines_each(count_codes, &codes);
    tap_check(codes == 2);
}

/* Frames entered before the start, lines outside the table, returns of unknown frames. */
TAP_TEST(unexpected_events_are_harmless)
{
    struct gsp_pyext_code_lines *a = gsp_pyext__lines_add(&code_a, 10, 5);
    tap_require(a);
    gsp_pyext__lines_start();
    gsp_pyext__lines_return(&frame_c);
    tap_check(!gsp_pyext__lines_line(&frame_a, 11));
    gsp_pyext__lines_enter(&frame_a, a, 11);
    gsp_pyext__lines_call(&frame_b, a);
    tap_check(gsp_pyext__lines_line(&frame_b, 9) && gsp_pyext__lines_line(&frame_b, 15));
    tap_check(gsp_pyext__lines_line(&frame_b, -1));
    /* The frame above ended without an event. */
    tap_check(!gsp_pyext__lines_line(&frame_a, 12));
    gsp_pyext__lines_enter(&frame_a, a, 12);
    tap_check(gsp_pyext__lines_line(&frame_a, 12));
    gsp_pyext__lines_return(&frame_c);
    gsp_pyext__lines_stop();
    gsp_pyext__lines_stop();
    tap_check(a->at[1].hits == 1 && a->at[2].hits == 2 && a->at[0].hits == 0);
}

static void *in_thread(void *arg)
{
    for (int i = 0; i < 200000; i++)
        gsp_pyext__lines_call(&frame_b, arg);
    gsp_ignore(!gsp_pyext__lines_line(&frame_b, 13));
    return NULL;
}

/* Stacks deeper than the limit; each thread has its own stack, freed when it ends. */
TAP_TEST(deep_stacks_and_threads)
{
    struct gsp_pyext_code_lines *a = gsp_pyext__lines_add(&code_a, 10, 5);
    tap_require(a);
    gsp_pyext__lines_start();
    gsp_pyext__lines_call(&frame_a, a);
    pthread_t thread;
    tap_check(pthread_create(&thread, NULL, in_thread, a) == 0);
    pthread_join(thread, NULL);
    tap_check(a->at[3].hits == 1 && gsp_pyext__lines_line(&frame_a, 10));
    gsp_pyext__lines_stop();
}

TAP_MAIN()
