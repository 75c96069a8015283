/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CAPACITY_MIN = 8 };

/* memcpy, because the pointer behind `items` does not have the type void *. */
static bool resize(void *items, size_t count, size_t size)
{
    void *old = NULL;
    if (count > SIZE_MAX / 2 / size)
        return false;
    memcpy(&old, items, sizeof(old));
    void *grown = realloc(old, count * size);
    if (!grown)
        return false;
    memcpy(items, &grown, sizeof(grown));
    return true; /* cppcheck-suppress memleak ; memcpy has passed it to the caller */
}

bool gsp_array_fit_sized(void *items, size_t *capacity, size_t need, size_t size)
{
    if (need <= *capacity)
        return true;
    size_t wanted = *capacity < CAPACITY_MIN / 2 ? CAPACITY_MIN : *capacity;
    if (*capacity >= CAPACITY_MIN / 2)
        wanted = *capacity > SIZE_MAX / 2 ? SIZE_MAX : *capacity * 2;
    if (wanted < need)
        wanted = need;
    if (!resize(items, wanted, size))
        return false;
    *capacity = wanted;
    return true;
}

bool gsp_array_fit_zeroed_sized(void *items, size_t *capacity, size_t need, size_t size)
{
    const size_t before = *capacity;
    if (!gsp_array_fit_sized(items, capacity, need, size))
        return false;
    char *bytes = NULL;
    memcpy(&bytes, items, sizeof(bytes));
    if (*capacity > before)
        memset(bytes + before * size, 0, (*capacity - before) * size);
    return true;
}

bool gsp_array_fit_next_sized(void *items, size_t count, size_t size)
{
    /* The capacity is CAPACITY_MIN or the power of two above count. */
    if (count != 0 && (count < CAPACITY_MIN || (count & (count - 1)) != 0))
        return true;
    return resize(items, count == 0 ? CAPACITY_MIN : 2 * count, size);
}
