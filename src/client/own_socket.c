/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xdg.h"
#include "client/client.h"
#include "client/listener.h"

/* Whether a server of this user listens on the socket. */
static bool is_ours(const struct sockaddr_un *address)
{
    struct stat facts;
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t len = sizeof(peer);
    if (stat(address->sun_path, &facts) < 0 || !S_ISSOCK(facts.st_mode))
        return false;
    gsp_auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 &&
           getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.uid == geteuid();
}

void gsp_client_own_socket(const char *endpoint, struct gsp_buf *out)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[24];
    const int64_t port = gsp_client__local_port(endpoint, NULL);
    /* daemon/daemon.c creates it. */
    snprintf(name, sizeof(name), "port-%u.sock", (unsigned)port);
    if (port > 0 && gsp_xdg_path(GSP_XDG_STATE, name, address.sun_path, sizeof(address.sun_path)) &&
        is_ours(&address))
        gsp_buf_printf(out, "unix:%s", address.sun_path);
    if (!gsp_buf_cstr(out))
        gsp_buf_free(out);
}
