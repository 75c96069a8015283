/* SPDX-License-Identifier: Apache-2.0 */
/* Files of /proc about the process that owns rings, with hostile text. Links with --wrap=open64. */
#include <fcntl.h>

#include "fuzz_file.h"
#include "ring/process.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int __wrap_open64(const char *path, int flags, ...);

int __wrap_open64(const char *path, int flags, ...)
{
    (void)path;
    (void)flags;
    return fuzz_file_open(fuzz_file_bytes, fuzz_file_len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t ticks = 0;
    char state = 0;
    fuzz_file_set(data, size);
    if (gsp_ring_process_start_time(1, &ticks, &state)) {
        if (ticks == 0)
            abort();
        /* A process of another namespace is searched in all of /proc, which is slow. */
        if (size % 64 == 0)
            (void)gsp_ring_process_is_live(1, ticks, 1);
    }
    return 0;
}
