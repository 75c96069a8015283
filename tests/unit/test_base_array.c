/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>

#include "base/array.h"
#include "tap.h"

TAP_TEST(grows_and_keeps_elements)
{
    uint32_t *items = NULL;
    size_t capacity = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        tap_require(gsp_array_fit(&items, &capacity, i + 1));
        items[i] = i;
    }
    tap_check(capacity >= 1000 && capacity < 2100);
    for (uint32_t i = 0; i < 1000; i++)
        tap_require(items[i] == i);
    free(items);
}

TAP_TEST(an_impossible_size_leaves_the_array_unchanged)
{
    uint64_t *items = NULL;
    size_t capacity = 0;
    tap_require(gsp_array_fit(&items, &capacity, 3));
    const size_t before = capacity;
    uint64_t *const held = items;
    tap_check(!gsp_array_fit(&items, &capacity, SIZE_MAX / 4));
    tap_check(capacity == before && items == held);
    free(items);
}

TAP_TEST(new_elements_are_zero)
{
    uint32_t *items = NULL;
    size_t capacity = 0;
    for (size_t need = 1; need < 1000; need += 7) {
        const size_t before = capacity;
        tap_require(gsp_array_fit_zeroed(&items, &capacity, need));
        for (size_t i = before; i < capacity; i++)
            tap_require(items[i]++ == 0);
    }
    for (size_t i = 0; i < capacity; i++)
        tap_require(items[i] == 1);
    free(items);
}

TAP_TEST(an_array_without_capacity_grows_by_one)
{
    uint64_t *items = NULL;
    for (size_t i = 0; i < 1000; i++) {
        tap_require(gsp_array_fit_next(&items, i));
        items[i] = i;
    }
    for (size_t i = 0; i < 1000; i++)
        tap_require(items[i] == i);
    free(items);
}

TAP_MAIN()
