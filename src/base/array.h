/* SPDX-License-Identifier: Apache-2.0 */
/*
 * array.h -- arrays that grow.
 *
 * A growable array is three members of its owner's struct: a pointer, a count and a capacity.
 * Initialize all three to zero. The owner frees the pointer with free().
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"

/* Grows the array to hold at least `need` elements:
 * gsp_array_fit(&list->items, &list->capacity, n).
 * The capacity at least doubles, so appending one element takes amortized constant time.
 * Returns false if memory runs out or the size overflows; the array is then unchanged. */
#define gsp_array_fit(items, capacity, need)                                                       \
    gsp_array_fit_sized((items), (capacity), (need), sizeof(**(items)))

/* The same; the new elements are zero. */
#define gsp_array_fit_zeroed(items, capacity, need)                                                \
    gsp_array_fit_zeroed_sized((items), (capacity), (need), sizeof(**(items)))

/* For an array without a capacity, which starts as NULL and grows by one element at a time: makes
 * space for the element at the index `count`. Returns false if memory runs out. */
#define gsp_array_fit_next(items, count)                                                           \
    gsp_array_fit_next_sized((items), (count), sizeof(**(items)))

/* The functions behind the macros. `items` is the address of the pointer to the elements. */
GSP_MUST_CHECK bool gsp_array_fit_sized(void *items, size_t *capacity, size_t need, size_t size);
GSP_MUST_CHECK bool gsp_array_fit_zeroed_sized(void *items, size_t *capacity, size_t need,
                                               size_t size);
GSP_MUST_CHECK bool gsp_array_fit_next_sized(void *items, size_t count, size_t size);
