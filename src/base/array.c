/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CAPACITY_MIN = 8 };

bool gsp_array_fit_sized(void *items, size_t *capacity, size_t need, size_t size)
{
    if (need <= *capacity)
        return true;
    size_t wanted = *capacity < CAPACITY_MIN / 2 ? CAPACITY_MIN : *capacity;
    if (*capacity >= CAPACITY_MIN / 2)
        wanted = *capacity > SIZE_MAX / 2 ? SIZE_MAX : *capacity * 2;
    if (wanted < need)
        wanted = need;
    if (wanted > SIZE_MAX / 2 / size)
        return false;
    /* memcpy, because the pointer behind `items` does not have the type void *. */
    void *old = NULL;
    memcpy(&old, items, sizeof(old));
    void *grown = realloc(old, wanted * size);
    if (!grown)
        return false;
    memcpy(items, &grown, sizeof(grown));
    *capacity = wanted;
    return true; /* cppcheck-suppress memleak ; memcpy has passed it to the caller */
}
