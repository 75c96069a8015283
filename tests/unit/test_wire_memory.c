/* SPDX-License-Identifier: Apache-2.0 */
/* The file of memory counters: its areas, and the check of its head. */
#include "tap.h"
#include "wire/memory.h"

static const struct gsp_memory_capacity ROOM = {1000, 10, 20, 5};

/* A complete file: a head followed by zeros. */
static struct gsp_memory_head *new_file(void)
{
    struct gsp_memory_head *head = calloc(1, gsp_wire_memory_bytes(&ROOM));
    tap_require(head != NULL);
    gsp_wire_memory_init(head, &ROOM);
    return head;
}

TAP_TEST(a_new_file_is_valid)
{
    struct gsp_memory_head *head = new_file();
    const size_t bytes = gsp_wire_memory_bytes(&ROOM);
    tap_check(gsp_wire_memory_head_is_valid(head, bytes));
    tap_eq_int(head->file_bytes, bytes);
    tap_check(head->sites_off + 5 * sizeof(struct gsp_memory_site) <= bytes);
    tap_check(
        !gsp_wire_memory_head_is_valid(head, bytes - ROOM.sites * sizeof(struct gsp_memory_site)));
    tap_check(!gsp_wire_memory_head_is_valid(head, 100));
    free(head);
}

TAP_TEST(invalid_heads_are_rejected)
{
    struct gsp_memory_head *head = new_file();
    const size_t bytes = gsp_wire_memory_bytes(&ROOM);
    const struct gsp_memory_head good = *head;
    head->site_max = UINT32_MAX;
    tap_check(!gsp_wire_memory_head_is_valid(head, bytes));
    *head = good;
    head->nodes_off = UINT64_MAX - 7;
    tap_check(!gsp_wire_memory_head_is_valid(head, bytes));
    *head = good;
    head->frames_off = head->strings_off;
    tap_check(!gsp_wire_memory_head_is_valid(head, bytes));
    *head = good;
    head->strings_bytes = UINT64_MAX;
    tap_check(!gsp_wire_memory_head_is_valid(head, bytes));
    *head = good;
    head->site_count = 6;
    tap_check(!gsp_wire_memory_head_is_valid(head, bytes));
    *head = good;
    head->mode = 77;
    tap_check(!gsp_wire_memory_head_is_valid(head, bytes));
    free(head);
}

TAP_TEST(strings_stay_within_their_area)
{
    char area[32] = {0};
    const uint32_t len = 5;
    memcpy(area + 4, &len, sizeof(len));
    snprintf(area + 8, sizeof(area) - 8, "hello");
    tap_check(gsp_sv_eq(gsp_wire_memory_text(area, 13, 4), gsp_sv_of("hello")));
    tap_eq_int(gsp_wire_memory_text(area, 12, 4).len, 0); /* truncated */
    tap_eq_int(gsp_wire_memory_text(area, 13, 0).len, 0);
    tap_eq_int(gsp_wire_memory_text(area, 13, 5).len, 0); /* unaligned */
    tap_eq_int(gsp_wire_memory_text(area, 13, 12).len, 0);
    tap_eq_int(gsp_wire_memory_text(area, 13, UINT32_MAX - 3).len, 0);
}

TAP_TEST(everything_has_a_name)
{
    for (uint32_t i = 0; i < GSP_MEMORY_ALLOCATORS; i++)
        tap_check(strcmp(gsp_wire_memory_allocator_name(i), "?") != 0);
    for (uint32_t i = 0; i < GSP_MEMORY_LOSSES; i++)
        tap_check(strcmp(gsp_wire_memory_loss_name(i), "?") != 0);
    for (uint32_t i = 0; i < GSP_MEMORY_MODES; i++)
        tap_check(strcmp(gsp_wire_memory_mode_name(i), "?") != 0);
    tap_eq_str(gsp_wire_memory_allocator_name(99), "?");
    tap_eq_str(gsp_wire_memory_loss_name(99), "?");
    tap_eq_str(gsp_wire_memory_mode_name(99), "?");
}

TAP_MAIN()
