/* SPDX-License-Identifier: Apache-2.0 */
/* What a target writes after injected code ran: its answer and the agent's outcome; and what the
 * kernel tells about a thread that is to run it. */
#include "fuzz_file.h"
#include "inject/run_python.h"
#include "inject/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require_inside(struct gsp_sv part, struct gsp_sv all)
{
    if (part.len && (part.p < all.p || part.p + part.len > all.p + all.len))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct gsp_sv text = {(const char *)data, size};
    struct gsp_python_call_result result = {0};
    struct gsp_inject_call_at at;
    struct gsp_err err = {0};
    gsp_buf_put(&result.answer, data, size);
    if (gsp_inject__answer_parse(&result, &err) == GSP_OK) {
        require_inside(result.printed, gsp_buf_sv(&result.answer));
        require_inside(result.value, gsp_buf_sv(&result.answer));
        require_inside(result.trace, gsp_buf_sv(&result.answer));
    } else if (err.msg[0] == '\0') {
        abort();
    }
    gsp_inject_python_call_result_free(&result);
    gsp_ignore(gsp_inject__outcome_parse(text, &err));
    if (gsp_inject__state_parse(text, &at) != GSP_INJECT_UNSAFE) {
        (void)gsp_inject__call_can_repeat(&at);
        (void)gsp_inject__call_is_relative_sleep(&at);
    }
    return 0;
}
