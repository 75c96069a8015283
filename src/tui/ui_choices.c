/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "tui/ui.h"

static int compare_choices(const void *a, const void *b)
{
    const struct gsp_ui_choice *x = a;
    const struct gsp_ui_choice *y = b;
    bool x_all = x->id == GSP_NO_INDEX;
    bool y_all = y->id == GSP_NO_INDEX;
    if (x_all != y_all)
        return x_all ? -1 : 1;
    if (x->is_main != y->is_main)
        return x->is_main ? -1 : 1;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static void set_label(struct gsp_ui_choice *choice, const struct gsp_buf *raw)
{
    gsp_auto_buf safe = {0};
    gsp_buf_term(&safe, gsp_buf_sv(raw));
    const char *text = gsp_buf_cstr(&safe);
    snprintf(choice->label, sizeof(choice->label), "%s", text ? text : "");
    /* Remove a partial character at the end. */
    size_t len = strlen(choice->label);
    if (len + 1 == sizeof(choice->label))
        while (len > 0 && ((unsigned char)choice->label[len - 1] & 0x80U))
            choice->label[--len] = '\0';
}

static void add_thread(struct gsp_ui *ui, const struct gsp_top *top, uint32_t i)
{
    const struct gsp_profile *profile = gsp_tui__top_profile(top);
    const struct gsp_thread *thread = gsp_model_profile_thread_at(profile, i);
    uint32_t process = ui->query.process;
    if (!thread || (process != GSP_NO_INDEX && thread->process != process))
        return;
    struct gsp_ui_choice *choice = &ui->choices[ui->choice_count++];
    gsp_auto_buf raw = {0};
    gsp_tui__top_thread_name(profile, i, &raw);
    if (gsp_model_profile_process_count(profile) > 1)
        gsp_buf_printf(&raw, " of process %d",
                       gsp_model_profile_process_at(profile, thread->process)->pid);
    *choice = (struct gsp_ui_choice){
        .id = i, .weight = gsp_tui__top_thread_weight(top, i), .is_main = thread->is_main};
    set_label(choice, &raw);
}

static void add_process(struct gsp_ui *ui, const struct gsp_top *top, uint32_t i)
{
    const struct gsp_profile *profile = gsp_tui__top_profile(top);
    struct gsp_ui_choice *choice = &ui->choices[ui->choice_count++];
    gsp_auto_buf raw = {0};
    gsp_tui__top_process_name(profile, i, &raw);
    *choice = (struct gsp_ui_choice){.id = i, .is_main = i == 0};
    for (uint32_t t = 0; t < gsp_model_profile_thread_count(profile); t++) {
        int64_t weight = gsp_tui__top_thread_weight(top, t);
        if (weight > 0 && gsp_model_profile_thread_at(profile, t)->process == i)
            choice->weight = gsp_sum_i64(choice->weight, weight);
    }
    set_label(choice, &raw);
}

void gsp_tui__ui_list_choices(struct gsp_ui *ui, const struct gsp_top *top)
{
    const struct gsp_profile *profile = gsp_tui__top_profile(top);
    bool threads = ui->mode == GSP_UI_THREADS;
    size_t count = threads ? gsp_model_profile_thread_count(profile)
                           : gsp_model_profile_process_count(profile);
    free(ui->choices);
    ui->choice_count = 0;
    ui->choice = 0;
    ui->choices = calloc(count + 1, sizeof(*ui->choices));
    if (!ui->choices)
        return;
    ui->choices[ui->choice_count++] = (struct gsp_ui_choice){.id = GSP_NO_INDEX, .label = "all"};
    for (uint32_t i = 0; i < count; i++)
        if (threads)
            add_thread(ui, top, i);
        else
            add_process(ui, top, i);
    qsort(ui->choices, ui->choice_count, sizeof(*ui->choices), compare_choices);
    uint32_t current = threads ? ui->query.thread : ui->query.process;
    for (size_t i = 0; i < ui->choice_count; i++)
        if (ui->choices[i].id == current)
            ui->choice = i;
}
