/* SPDX-License-Identifier: Apache-2.0 */
/* Calls a function of a library in another process:
 *     inject_call PID LIBRARY SYMBOL [TEXT [TEXT]]
 * Prints as JSON the function's return value and how long the target was stopped. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "inject/inject.h"

int main(int argc, char **argv)
{
    if (argc < 4)
        return 64;
    struct gsp_inject_request request = {
        .pid = (pid_t)strtol(argv[1], NULL, 10), .library = argv[2], .symbol = argv[3]};
    for (int i = 4; i < argc && i - 4 < (int)GSP_INJECT_ARGS_MAX; i++)
        request.args[i - 4] = argv[i];
    struct gsp_inject_result result;
    struct gsp_err err = {0};
    int64_t start_ns = gsp_now_ns();
    int rc = gsp_inject__call(&request, &result, &err);
    if (rc != GSP_OK)
        fprintf(stderr, "%s: %s\n", gsp_err_name(rc), err.msg);
    printf("{\"rc\": %d, \"value\": %d, \"tid\": %d, \"tries\": %u, \"was_loaded\": %s, "
           "\"by_memfd\": %s, \"stopped_ms\": %.3f, \"total_ms\": %.3f}\n",
           rc, result.value, (int)result.tid, result.tries, result.was_loaded ? "true" : "false",
           result.by_memfd ? "true" : "false", (double)result.stopped_ns / 1e6,
           (double)(gsp_now_ns() - start_ns) / 1e6);
    return gsp_err_exit_status(rc);
}
