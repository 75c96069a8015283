/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/hint.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/str.h"
#include "cli/events.h"
#include "proc/perm.h"
#include "py/layout.h"

/* Longer command lines are not repeated in hints. */
#define PROGRAM_SHOWN_MAX 120U
#define CMDLINE_MAX       4096U

/* The input of the functions that make hints. */
struct scene {
    const struct gsp_err *err;
    const struct gsp_hint_context *context;
    const char *command; /* never NULL */
    struct gsp_perm perm;
    char program[PROGRAM_SHOWN_MAX + 1]; /* the target's command line, quoted; or "" */
    char target[PROGRAM_SHOWN_MAX + 40]; /* "process 4242 (python3 train.py)" */
};

void gsp_cli__hint_add(struct gsp_hint *hint, const char *note, const char *fmt, ...)
{
    if (hint->try_count == GSP_HINT_TRIES_MAX)
        return;
    struct gsp_hint_try *remedy = &hint->tries[hint->try_count++];
    va_list args;
    va_start(args, fmt);
    vsnprintf(remedy->line, sizeof(remedy->line), fmt, args);
    va_end(args);
    snprintf(remedy->note, sizeof(remedy->note), "%s", note);
}

/* Reads the target's command line, quoted for a shell; "" if unknown or too long. */
static void read_program(const char *root, pid_t pid, char *out, size_t cap)
{
    char path[PATH_MAX];
    gsp_auto_buf raw = {0};
    gsp_auto_buf typed = {0};
    snprintf(path, sizeof(path), "%s/proc/%d/cmdline", root, (int)pid);
    out[0] = '\0';
    if (gsp_file_read(path, CMDLINE_MAX, &raw, NULL) < 0 || raw.len == 0)
        return;
    struct gsp_sv rest = gsp_buf_sv(&raw);
    if (rest.p[rest.len - 1] == '\0')
        rest.len--;
    struct gsp_sv word;
    while (gsp_sv_split(&rest, '\0', &word)) {
        if (typed.len)
            gsp_buf_putc(&typed, ' ');
        gsp_buf_shell(&typed, word);
    }
    if (typed.len < cap && !typed.failed && memchr(raw.p, '\n', raw.len) == NULL)
        snprintf(out, cap, "%.*s", (int)typed.len, typed.p);
}

static void set_what(struct gsp_hint *out, const char *fmt, ...) GSP_PRINTF(2, 3);
static void set_why(struct gsp_hint *out, const char *fmt, ...) GSP_PRINTF(2, 3);

static void set_what(struct gsp_hint *out, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(out->what, sizeof(out->what), fmt, args);
    va_end(args);
}

static void set_why(struct gsp_hint *out, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(out->why, sizeof(out->why), fmt, args);
    va_end(args);
}

static void add_launch(const struct scene *scene, struct gsp_hint *out)
{
    const char *program = scene->program[0] ? scene->program : "COMMAND";
    gsp_cli__hint_add(out, "needs no permissions", "gsprof record -- %s", program);
}

static void add_sudo(const struct scene *scene, struct gsp_hint *out)
{
    gsp_cli__hint_add(out, "as root", "sudo gsprof %s --pid %d", scene->command,
                      (int)scene->context->pid);
}

/* Appends the words of a command line, with an option after the command's name. Leaves out
 * --ready-fd, which only a program can use. Returns false if the name is missing. */
static bool put_again(char *const *argv, const char *command, const char *option,
                      struct gsp_buf *out)
{
    struct gsp_sv names = gsp_sv_of(command); /* "mem record" is two words */
    struct gsp_sv name = {0};
    bool has_name = gsp_sv_split(&names, ' ', &name);
    for (size_t i = 1; argv && argv[0] && argv[i]; i++) {
        if (has_name && argv[i + 1] && strcmp(argv[i], "--ready-fd") == 0) {
            i++;
            continue;
        }
        gsp_buf_putc(out, ' ');
        gsp_buf_shell(out, gsp_sv_of(argv[i]));
        if (!has_name || !gsp_sv_eq(gsp_sv_of(argv[i]), name))
            continue;
        has_name = gsp_sv_split(&names, ' ', &name);
        if (!has_name)
            gsp_buf_printf(out, " %s", option);
    }
    return !has_name;
}

/* Adds the same command line with one more option. */
static void add_again(const struct scene *scene, struct gsp_hint *out, const char *option,
                      const char *note)
{
    gsp_auto_buf line = {0};
    gsp_buf_puts(&line, "gsprof");
    const bool has_name = put_again(scene->context->argv, scene->command, option, &line);
    const char *text = gsp_buf_cstr(&line);
    if (text && has_name && line.len <= PROGRAM_SHOWN_MAX)
        gsp_cli__hint_add(out, note, "%s", text);
    else
        gsp_cli__hint_add(out, note, "gsprof %s %s ...", scene->command, option);
}

static void perm_traced(const struct scene *scene, struct gsp_hint *out)
{
    set_why(out, "process %d already traces %d, and the kernel allows only one tracer",
            (int)scene->perm.tracer, (int)scene->context->pid);
    gsp_cli__hint_add(out, "does not stop the target", "gsprof %s --pid %d", scene->command,
                      (int)scene->context->pid);
    gsp_cli__hint_add(out, "shows the tracer", "ps -o pid,user,args -p %d",
                      (int)scene->perm.tracer);
}

static void perm_container(const struct scene *scene, struct gsp_hint *out)
{
    enum gsp_container kind = scene->perm.container;
    if (kind == GSP_CONTAINER_NONE)
        set_why(out, "root lacks the capability SYS_PTRACE here (a sandbox?)");
    else
        set_why(out, "this container (%s) lacks the capability SYS_PTRACE",
                gsp_proc_container_name(kind));
    add_launch(scene, out);
    if (kind == GSP_CONTAINER_KUBERNETES)
        gsp_cli__hint_add(out, "in the container's spec",
                          "securityContext: {capabilities: {add: [SYS_PTRACE]}}");
    else if (kind == GSP_CONTAINER_PODMAN)
        gsp_cli__hint_add(out, "in a new container", "podman run --cap-add SYS_PTRACE IMAGE");
    else if (kind == GSP_CONTAINER_DOCKER)
        gsp_cli__hint_add(out, "in a new container", "docker run --cap-add SYS_PTRACE IMAGE");
    gsp_cli__hint_add(out,
                      kind == GSP_CONTAINER_NONE ? "outside the sandbox" : "outside the container",
                      "sudo gsprof %s --pid HOST_PID", scene->command);
}

static void perm_user(const struct scene *scene, struct gsp_hint *out)
{
    const struct passwd *user = getpwuid((uid_t)scene->perm.target_uid);
    if (user)
        set_why(out, "the process belongs to user %s, and gsprof runs as user %lld", user->pw_name,
                (long long)scene->perm.euid);
    else
        set_why(out, "the process belongs to user %lld, and gsprof runs as user %lld",
                (long long)scene->perm.target_uid, (long long)scene->perm.euid);
    if (user && scene->perm.target_uid != 0)
        gsp_cli__hint_add(out, "as its owner", "sudo -u %s gsprof %s --pid %d", user->pw_name,
                          scene->command, (int)scene->context->pid);
    add_sudo(scene, out);
}

static void perm_yama(const struct scene *scene, struct gsp_hint *out)
{
    int scope = scene->perm.yama_scope;
    if (scope == 1) {
        set_why(out, "kernel.yama.ptrace_scope is 1 and %d is not a child of gsprof",
                (int)scene->context->pid);
        add_launch(scene, out);
        add_sudo(scene, out);
        gsp_cli__hint_add(out, "until reboot, for all users",
                          "sudo sysctl kernel.yama.ptrace_scope=0");
        return;
    }
    if (scope == 2) {
        set_why(out, "kernel.yama.ptrace_scope is 2: only root may read other processes");
        add_sudo(scene, out);
        gsp_cli__hint_add(out, "until reboot, for all users",
                          "sudo sysctl kernel.yama.ptrace_scope=0");
        return;
    }
    set_why(out, "kernel.yama.ptrace_scope is %d: reading processes is disabled until reboot",
            scope);
    gsp_cli__hint_add(out, "shows where it is set",
                      "grep -r ptrace_scope /etc/sysctl.conf /etc/sysctl.d /usr/lib/sysctl.d");
}

static void perm_other(const struct scene *scene, struct gsp_hint *out)
{
    if (scene->perm.is_dumpable == GSP_ANSWER_NO && !scene->perm.sys_ptrace) {
        set_why(out, "process %d is not dumpable (set-user-id, or prctl(PR_SET_DUMPABLE))",
                (int)scene->context->pid);
        add_sudo(scene, out);
        return;
    }
    if (scene->perm.seccomp == 2 && scene->perm.sys_ptrace) {
        set_why(out, "a seccomp filter forbids process_vm_readv or ptrace here");
        gsp_cli__hint_add(out, "in a new container",
                          "docker run --security-opt seccomp=unconfined IMAGE");
        gsp_cli__hint_add(out, "tests the system calls", "gsprof doctor");
        return;
    }
    set_why(out, "the kernel denies access, perhaps by an LSM or a namespace");
    if (scene->perm.euid != 0)
        add_sudo(scene, out);
    gsp_cli__hint_add(out, "checks this machine", "gsprof doctor");
}

static void hint_perm(const struct scene *scene, struct gsp_hint *out)
{
    const struct gsp_perm *perm = &scene->perm;
    if (scene->context->pid <= 0) {
        set_what(out, "%s", scene->err->msg);
        gsp_cli__hint_add(out, "checks this machine", "gsprof doctor");
        return;
    }
    set_what(out, "cannot read %s: permission denied", scene->target);
    out->more = "gsprof help permissions";
    bool by_yama =
        perm->yama_scope >= 3 ||
        (!perm->sys_ptrace && (perm->yama_scope == 2 ||
                               (perm->yama_scope == 1 && perm->is_descendant != GSP_ANSWER_YES)));
    bool by_user = perm->euid > 0 && perm->target_uid >= 0 && perm->target_uid != perm->euid;
    if (scene->context->blocking && perm->tracer > 0)
        perm_traced(scene, out);
    else if (perm->yama_scope < 3 && perm->euid == 0 && !perm->sys_ptrace)
        perm_container(scene, out);
    else if (perm->yama_scope < 3 && by_user)
        perm_user(scene, out);
    else if (by_yama && (perm->yama_scope >= 3 || perm->is_dumpable != GSP_ANSWER_NO))
        perm_yama(scene, out);
    else
        perm_other(scene, out);
}

static void hint_noproc(const struct scene *scene, struct gsp_hint *out)
{
    if (scene->context->pid <= 0) {
        set_what(out, "%s", scene->err->msg);
    } else {
        set_what(out, "no process %d", (int)scene->context->pid);
        if (scene->perm.in_pid_ns == GSP_ANSWER_YES)
            set_why(out, "it has exited, or has another pid in this container");
    }
    gsp_cli__hint_add(out, "lists Python processes", "pgrep -af python");
}

static void hint_notpy(const struct scene *scene, struct gsp_hint *out)
{
    set_why(out, "no CPython interpreter was found in its memory");
    if (scene->context->program) {
        set_what(out, "%.200s is not Python", scene->context->program);
        add_again(scene, out, "--subprocesses", "if it starts Python");
        return;
    }
    set_what(out, "%s is not Python", scene->target);
    if (scene->context->pid > 0 && strcmp(scene->command, "record") == 0)
        gsp_cli__hint_add(out, "if its children are Python",
                          "gsprof record --subprocesses --pid %d", (int)scene->context->pid);
    gsp_cli__hint_add(out, "lists Python processes", "pgrep -af python");
}

static void hint_version(const struct scene *scene, struct gsp_hint *out)
{
    set_what(out, "%s", scene->err->msg);
    set_why(out, "gsprof supports CPython 3.%u to 3.%u", GSP_PY_MINOR_MIN, GSP_PY_MINOR_MAX);
    gsp_cli__hint_add(out, "lists the interpreters found here", "gsprof doctor");
}

static void hint_starting(const struct scene *scene, struct gsp_hint *out)
{
    set_what(out, "%s has not started its interpreter yet", scene->target);
    gsp_cli__hint_add(out, "again in a moment", "gsprof %s --pid %d", scene->command,
                      (int)scene->context->pid);
    add_launch(scene, out);
}

/* Advice about the folder of a file that could not be created. */
static void hint_folder(const struct scene *scene, const char *path, struct gsp_hint *out)
{
    gsp_auto_buf folder = {0};
    struct gsp_sv name = {path, strlen(path) - gsp_sv_basename(gsp_sv_of(path)).len};
    if (name.len > 1)
        name.len--; /* the slash, unless it is the root */
    gsp_buf_shell(&folder, name.len ? name : gsp_sv_of("."));
    const char *text = gsp_buf_cstr(&folder);
    if (text && scene->err->sys == ENOENT)
        gsp_cli__hint_add(out, "creates the folder", "mkdir -p %.200s", text);
    else if (text)
        gsp_cli__hint_add(out, "shows its permissions", "ls -ld %.200s", text);
}

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static void hint_file(const struct scene *scene, struct gsp_hint *out)
{
    const char *path = scene->context->path;
    set_what(out, "%s", scene->err->msg);
    if (!path && scene->err->code == GSP_E_NOFILE && scene->context->pid > 0)
        gsp_cli__hint_add(out, "loads the agent", "gsprof inject %d", (int)scene->context->pid);
    if (!path)
        return;
    if (scene->err->code == GSP_E_EXISTS) {
        set_what(out, "%s already exists", path);
        add_again(scene, out, "--force", "overwrites it");
    } else if (scene->err->code == GSP_E_NOWRITE) {
        hint_folder(scene, path, out);
    } else if (scene->err->code == GSP_E_EMPTY) {
        gsp_auto_buf quoted = {0};
        gsp_buf_shell(&quoted, gsp_sv_of(path));
        const char *text = gsp_buf_cstr(&quoted);
        if (text && is_folder(path))
            gsp_cli__hint_add(out, "lists its tables", "gsprof tables %.200s", text);
    } else if (scene->err->code == GSP_E_NOFILE && is_folder(path)) {
        gsp_cli__hint_add(out, "creates a run", "gsprof run -- python3 train.py");
    } else if (scene->err->code == GSP_E_NOFILE) {
        set_what(out, "%s does not exist", path);
        gsp_cli__hint_add(out, "lists recordings here",
                          "ls -dt -- *.gsp *.gspm *.json gsprof-runs/*");
    } else {
        gsp_cli__hint_add(out, "lists the formats", "gsprof help formats");
    }
}

/* The program that decompresses a file; NULL if it is not compressed. */
static const char *decompressor(const char *path)
{
    static const struct {
        unsigned char magic[4];
        const char *program;
    } kinds[] = {
        {{0x28, 0xb5, 0x2f, 0xfd}, "zstd"},
        {{0x04, 0x22, 0x4d, 0x18}, "lz4"},
        {{0xfd, '7', 'z', 'X'}, "xz"},
        {{0x1f, 0x8b, 8, 0}, "gzip"},
    };
    unsigned char head[4] = {0};
    gsp_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || read(fd, head, sizeof(head)) != (ssize_t)sizeof(head))
        return NULL;
    for (size_t i = 0; i < GSP_COUNT(kinds); i++) {
        /* The fourth byte of gzip holds flags. */
        size_t len = kinds[i].magic[3] ? sizeof(head) : sizeof(head) - 1;
        if (memcmp(head, kinds[i].magic, len) == 0)
            return kinds[i].program;
    }
    return NULL;
}

static void hint_core(const struct scene *scene, struct gsp_hint *out)
{
    gsp_auto_buf quoted = {0};
    gsp_buf_shell(&quoted, gsp_sv_of(scene->context->path));
    const char *path = gsp_buf_cstr(&quoted);
    const char *program = decompressor(scene->context->path);
    set_what(out, "%s", scene->err->msg);
    if (scene->err->code == GSP_E_NOFILE)
        gsp_cli__hint_add(out, "lists cores kept by systemd", "coredumpctl list");
    else if (path && scene->err->code == GSP_E_NOTPY)
        gsp_cli__hint_add(out, "prints its native frames", "gsprof dump --core %.200s --native",
                          path);
    else if (path && program)
        gsp_cli__hint_add(out, "decompresses it", "%s -dc %.200s >core && gsprof dump --core core",
                          program, path);
    else if (path)
        gsp_cli__hint_add(out, "shows the file's type and program", "file %.200s", path);
}

static void hint_noexec(const struct scene *scene, struct gsp_hint *out)
{
    const char *program = scene->context->program;
    set_what(out, "%s", scene->err->msg);
    if (!program)
        return;
    char *end = NULL;
    long pid = strtol(program, &end, 10);
    if (end != program && *end == '\0' && pid > 0)
        gsp_cli__hint_add(out, "attaches to a process", "gsprof %s --pid %ld", scene->command, pid);
    size_t len = strlen(program);
    if (len > 3 && strcmp(program + len - 3, ".py") == 0)
        gsp_cli__hint_add(out, "", "gsprof %s -- python3 %.180s", scene->command, program);
}

/* The function that makes the hint for each code. */
static const struct {
    int code;
    void (*make)(const struct scene *scene, struct gsp_hint *out);
} MAKERS[] = {
    {GSP_E_PERM, hint_perm},       {GSP_E_NOPROC, hint_noproc},     {GSP_E_NOTPY, hint_notpy},
    {GSP_E_VERSION, hint_version}, {GSP_E_STARTING, hint_starting}, {GSP_E_EXISTS, hint_file},
    {GSP_E_NOWRITE, hint_file},    {GSP_E_NOFILE, hint_file},       {GSP_E_FORMAT, hint_file},
    {GSP_E_NOTSUP, hint_file},     {GSP_E_NOEXEC, hint_noexec},     {GSP_E_EMPTY, hint_file},
};

/* Whether inject, eject or eval failed for a reason of its own. Permissions and unsuitable targets
 * get the hints of all commands. */
static bool is_injection(const struct scene *scene)
{
    static const char *const names[] = {"inject", "eject", "eval"};
    const int code = scene->err->code;
    if (code == GSP_E_PERM || code == GSP_E_NOPROC || code == GSP_E_NOTPY ||
        code == GSP_E_VERSION || code == GSP_E_STARTING)
        return false;
    for (size_t i = 0; i < GSP_COUNT(names); i++)
        if (strcmp(scene->command, names[i]) == 0)
            return true;
    return false;
}

void gsp_cli__hint_make(const struct gsp_err *err, const struct gsp_hint_context *context,
                        struct gsp_hint *out)
{
    *out = (struct gsp_hint){0};
    struct scene scene = {
        .err = err, .context = context, .command = context->command ? context->command : "record"};
    gsp_proc_perm_read(context->root, context->pid, &scene.perm);
    snprintf(scene.target, sizeof(scene.target), "the process");
    if (context->pid > 0) {
        read_program(context->root, context->pid, scene.program, sizeof(scene.program));
        snprintf(scene.target, sizeof(scene.target), "process %d%s%s%s", (int)context->pid,
                 scene.program[0] ? " (" : "", scene.program, scene.program[0] ? ")" : "");
    }
    if (context->is_core && context->path) {
        hint_core(&scene, out);
        return;
    }
    if (context->server) {
        gsp_cli__hint_http(err, context, out);
        return;
    }
    if (context->endpoint) {
        gsp_cli__hint_query(err, context, out);
        return;
    }
    if (strcmp(scene.command, "serve") == 0) {
        gsp_cli__hint_serve(err, out);
        return;
    }
    if (is_injection(&scene)) {
        gsp_cli__hint_inject(err, context, out);
        return;
    }
    for (size_t i = 0; i < GSP_COUNT(MAKERS); i++) {
        if (MAKERS[i].code == err->code) {
            MAKERS[i].make(&scene, out);
            return;
        }
    }
    set_what(out, "%s", err->msg[0] ? err->msg : gsp_err_text(err->code));
}

static void put_safe(struct gsp_buf *out, const char *text)
{
    gsp_buf_term_lines(out, gsp_sv_of(text), false);
}

void gsp_cli__hint_print(const struct gsp_hint *hint, const struct gsp_term *term,
                         struct gsp_buf *out)
{
    gsp_buf_printf(out, "%sgsprof:%s ", gsp_cli__term_red(term), gsp_cli__term_off(term));
    gsp_buf_term(out, gsp_sv_of(hint->what));
    gsp_buf_putc(out, '\n');
    const char *dim = gsp_cli__term_dim(term);
    const char *off = gsp_cli__term_off(term);
    put_safe(out, hint->excerpt);
    if (hint->why[0]) {
        gsp_buf_printf(out, "    %swhy%s   ", dim, off);
        put_safe(out, hint->why);
        gsp_buf_putc(out, '\n');
    }
    size_t column = 0;
    for (size_t i = 0; i < hint->try_count; i++) {
        size_t len = strlen(hint->tries[i].line);
        /* A very long command must not push the notes of the others off the screen. */
        if (len > column && len <= 60)
            column = len;
    }
    for (size_t i = 0; i < hint->try_count; i++) {
        const struct gsp_hint_try *remedy = &hint->tries[i];
        gsp_buf_printf(out, "    %s%-5s%s %s", dim, i ? "or" : "try", off,
                       gsp_cli__term_bold(term));
        put_safe(out, remedy->line);
        gsp_buf_puts(out, off);
        size_t len = strlen(remedy->line);
        if (remedy->note[0])
            gsp_buf_printf(out, "%*s   %s%s%s", (int)(len < column ? column - len : 0), "", dim,
                           remedy->note, off);
        gsp_buf_putc(out, '\n');
    }
    if (hint->more)
        gsp_buf_printf(out, "    %smore%s  %s\n", dim, off, hint->more);
}

int gsp_cli__fail(const struct gsp_parsed *parsed, const struct gsp_hint_context *context,
                  const struct gsp_err *err)
{
    struct gsp_term term;
    struct gsp_hint hint;
    gsp_auto_buf text = {0};
    gsp_cli__term_init(&term, STDERR_FILENO, parsed->globals.color);
    struct gsp_hint_context whole = *context;
    whole.argv = parsed->argv;
    whole.root = whole.root ? whole.root : "";
    if (!whole.command && parsed->command)
        whole.command = parsed->command->name;
    gsp_cli__hint_make(err, &whole, &hint);
    gsp_cli__hint_print(&hint, &term, &text);
    gsp_cli__events_error(err, gsp_buf_sv(&text));
    gsp_cli__term_write(&term, &text);
    return gsp_err_exit_status(err->code);
}

void gsp_cli__warn(const struct gsp_parsed *parsed, struct gsp_sv message)
{
    struct gsp_term term;
    gsp_auto_buf safe = {0};
    gsp_cli__events_warning(message);
    gsp_buf_term(&safe, message);
    const char *text = gsp_buf_cstr(&safe);
    gsp_cli__term_init(&term, STDERR_FILENO, parsed->globals.color);
    if (text && !parsed->globals.quiet)
        gsp_cli__term_line(&term, "gsprof: warning: %s", text);
}
