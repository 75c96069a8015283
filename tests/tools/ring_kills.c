/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_kills -- kills processes that write rings, and checks the rings.
 *
 *   ring_kills COUNT SECONDS SEED
 *
 * Prints one JSON object.
 */
#include "ring_kills.h"

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: ring_kills COUNT SECONDS SEED\n");
        return 64;
    }
    const int64_t end_ns = gsp_now_ns() + (int64_t)(strtod(argv[2], NULL) * (double)GSP_NS_PER_S);
    struct ring_kills_result result =
        ring_kills(strtoull(argv[1], NULL, 10), strtoull(argv[3], NULL, 10), end_ns);
    printf("{\"kills\": %llu, \"early\": %llu, \"rows\": %llu, \"strings\": %llu, \"wrong\": %llu, "
           "\"wrong_kill\": %llu, \"what\": \"%s\"}\n",
           (unsigned long long)result.kills, (unsigned long long)result.early,
           (unsigned long long)result.rows, (unsigned long long)result.strings,
           (unsigned long long)result.wrong, (unsigned long long)result.wrong_kill, result.what);
    return tap_failures ? 1 : 0;
}
