/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "base/map.h"
#include "tap.h"

TAP_TEST(empty_map_has_no_keys)
{
    struct gsp_hmap map = {0};
    tap_check(gsp_hmap_get(&map, 0, 0) == NULL);
    gsp_hmap_clear(&map);
    gsp_hmap_free(&map);
    gsp_hmap_free(NULL);
}

TAP_TEST(values_survive_growth)
{
    struct gsp_hmap map = {0};
    const uint32_t count = 200000;
    /* Aligned addresses, as in practice. */
    for (uint32_t i = 0; i < count; i++)
        tap_require(gsp_hmap_put(&map, 0x7f0000000000ULL + i * 64ULL, i % 7, i));
    tap_eq_int(map.count, count);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t *v = gsp_hmap_get(&map, 0x7f0000000000ULL + i * 64ULL, i % 7);
        tap_require(v && *v == i);
        tap_require(!gsp_hmap_get(&map, 0x7f0000000000ULL + i * 64ULL, 7));
    }
    gsp_hmap_free(&map);
}

TAP_TEST(put_replaces_and_zero_is_a_key)
{
    struct gsp_hmap map = {0};
    tap_check(gsp_hmap_put(&map, 0, 0, 1));
    tap_check(gsp_hmap_put(&map, 0, 0, 2));
    tap_eq_int(map.count, 1);
    const uint32_t *v = gsp_hmap_get(&map, 0, 0);
    tap_check(v && *v == 2);
    gsp_hmap_free(&map);
}

TAP_TEST(clear_removes_all_keys)
{
    struct gsp_hmap map = {0};
    for (uint32_t i = 0; i < 100; i++)
        tap_check(gsp_hmap_put(&map, i, i, i));
    gsp_hmap_clear(&map);
    tap_eq_int(map.count, 0);
    for (uint32_t i = 0; i < 100; i++)
        tap_check(!gsp_hmap_get(&map, i, i));
    tap_check(gsp_hmap_put(&map, 5, 5, 9));
    const uint32_t *v = gsp_hmap_get(&map, 5, 5);
    tap_check(v && *v == 9);
    gsp_hmap_free(&map);
}

TAP_TEST(full_maps_keep_free_slots)
{
    struct gsp_hmap map = {0};
    for (uint32_t i = 0; i < 10000; i++) {
        tap_require(gsp_hmap_put(&map, i, 0, i));
        tap_require(map.count < map.cap);
    }
    gsp_hmap_free(&map);
}

TAP_TEST(hash_depends_on_every_byte_the_length_and_the_seed)
{
    unsigned char bytes[24] = {0};
    uint64_t base = gsp_hash_bytes(bytes, sizeof(bytes), 0);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = 1;
        tap_check(gsp_hash_bytes(bytes, sizeof(bytes), 0) != base);
        bytes[i] = 0;
    }
    for (size_t len = 0; len < sizeof(bytes); len++)
        tap_check(gsp_hash_bytes(bytes, len, 0) != base);
    tap_check(gsp_hash_bytes(bytes, sizeof(bytes), 1) != base);
    tap_check(gsp_hash_bytes(bytes, sizeof(bytes), 0) == base);
    tap_check(gsp_hash_bytes(NULL, 0, 0) == gsp_hash_bytes(bytes, 0, 0));
}

TAP_MAIN()
