/* SPDX-License-Identifier: Apache-2.0 */
/* The file of an image, of hostile bytes: sections and the full symbol table. */
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "proc/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void query(struct gsp_image *image)
{
    struct gsp_range range;
    (void)gsp_proc_image_filesym(image, "_PyRuntime");
    (void)gsp_proc_image_filesym(image, "");
    (void)gsp_proc_image_section(image, ".PyRuntime", &range);
    (void)gsp_proc_image_section(image, ".text", &range);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint64_t BASE = 0x400000;
    char path[64];
    struct stat st;
    gsp_auto_fd fd = memfd_create("image", MFD_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0 || write(fd, data, size) != (ssize_t)size)
        return 0;
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    struct gsp_mem_region region = {BASE, size, data};
    struct gsp_mem *mem;
    if (gsp_proc__mem_open_regions(&region, 1, &mem, NULL) != GSP_OK)
        return 0;
    struct gsp_map map = {
        .start = BASE, .end = BASE + size, .inode = st.st_ino, .path = path, .readable = true};
    struct gsp_image *image;
    if (gsp_proc_image_open(0, mem, &map, &image, NULL) == GSP_OK) {
        query(image);
        gsp_proc_image_close(image);
    }
    gsp_proc_mem_free(mem);
    return 0;
}
