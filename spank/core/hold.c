/* hold.c - see hold_private.h. Without a writable lock directory the port is still
 * bound; only the moment between release and the program's bind is then unguarded. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error_private.h"
#include "hold_private.h"
#include "net_private.h"

void gs_hold_init(struct gs_hold *hold)
{
    memset(hold, 0, sizeof(*hold));
    hold->lock_fd = hold->holder.fd = -1;
}

/* Returns 0 = ours or no locks here, -EADDRINUSE = another living step's. */
static int take_lock(struct gs_hold *hold, const char *dir, uint16_t port)
{
    struct stat by_fd, by_name;
    int fd;

    if (!dir[0])
        return 0;
    snprintf(hold->lock_path, sizeof(hold->lock_path), "%s/port.%u", dir, port);
    fd = open(hold->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        hold->lock_path[0] = '\0';
        return 0;
    }
    /* A file that was unlinked between open and lock guards nothing. */
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &by_fd) < 0
        || lstat(hold->lock_path, &by_name) < 0 || by_fd.st_ino != by_name.st_ino) {
        close(fd);
        hold->lock_path[0] = '\0';
        return -EADDRINUSE;
    }
    hold->lock_fd = fd;
    return 0;
}

static void drop_lock(struct gs_hold *hold)
{
    if (hold->lock_fd < 0)
        return;
    unlink(hold->lock_path);
    close(hold->lock_fd);
    hold->lock_fd = -1;
}

static int open_fixed(struct gs_hold *hold,
                      const struct gs_holdconf *conf,
                      struct gs_error *error)
{
    char owner[128];
    int fd = gs_net_listen(conf->fixed, true);

    if (fd < 0) {
        gs_hold_owner(conf->fixed, owner, sizeof(owner));
        return gs_error_set(error,
                            -fd,
                            "MASTER_PORT %u cannot be used here: %s%s%s",
                            conf->fixed,
                            strerror(-fd),
                            owner[0] ? ", held by " : "",
                            owner);
    }
    take_lock(hold, conf->lock_dir, conf->fixed);
    hold->holder.fd = fd;
    hold->port = conf->fixed;
    return 0;
}

int gs_hold_open(struct gs_hold *hold,
                 const struct gs_holdconf *conf,
                 struct gs_error *error)
{
    uint16_t port;

    if (conf->fixed)
        return open_fixed(hold, conf, error);
    for (uint32_t attempt = 0;; attempt++) {
        int fd, rc = gs_port_candidate(
                    &conf->rules, conf->job_id, conf->step_id, attempt, &port, error);
        if (rc < 0)
            return rc;
        fd = gs_net_listen(port, false);
        if (fd < 0)
            continue;
        if (take_lock(hold, conf->lock_dir, port) < 0) {
            close(fd);
            continue;
        }
        hold->holder.fd = fd;
        hold->port = port;
        return 0;
    }
}

void gs_hold_release(struct gs_hold *hold)
{
    gs_holder_close(&hold->holder);
}

void gs_hold_close(struct gs_hold *hold)
{
    gs_hold_release(hold);
    drop_lock(hold);
}

/* Inode of the socket that listens on port in /proc/net/tcp or tcp6; 0 = none. */
static unsigned long listening_inode(const char *table, uint16_t port)
{
    FILE *file = fopen(table, "re");
    char line[512];
    unsigned long inode = 0;

    if (!file)
        return 0;
    while (!inode && fgets(line, sizeof(line), file)) {
        unsigned long found;
        unsigned local, state;
        /* sl local:port remote:port st tx:rx tr:tm retrnsmt uid timeout inode */
        if (sscanf(line,
                   " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*s %*s %*s %*s %*s %lu",
                   &local,
                   &state,
                   &found)
                == 3
            && state == 0x0a && local == port)
            inode = found;
    }
    fclose(file);
    return inode;
}

static bool has_socket(const char *pid, const char *wanted)
{
    char path[300], link[64];
    DIR *fds;
    bool found = false;

    snprintf(path, sizeof(path), "/proc/%s/fd", pid);
    fds = opendir(path);
    if (!fds)
        return false;
    for (const struct dirent *e = readdir(fds); !found && e; e = readdir(fds)) {
        ssize_t size = readlinkat(dirfd(fds), e->d_name, link, sizeof(link) - 1);
        if (size > 0) {
            link[size] = '\0';
            found = strcmp(link, wanted) == 0;
        }
    }
    closedir(fds);
    return found;
}

static void describe(const char *pid, char *ret_text, size_t size)
{
    char path[300], name[32] = "?";
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%s/comm", pid);
    file = fopen(path, "re");
    if (file) {
        if (fgets(name, sizeof(name), file))
            name[strcspn(name, "\n")] = '\0';
        fclose(file);
    }
    snprintf(ret_text, size, "pid %s (%s)", pid, name);
}

void gs_hold_owner(uint16_t port, char *ret_text, size_t size)
{
    unsigned long inode = listening_inode("/proc/self/net/tcp", port);
    char wanted[64];
    DIR *proc;

    ret_text[0] = '\0';
    if (!inode)
        inode = listening_inode("/proc/self/net/tcp6", port);
    proc = inode ? opendir("/proc") : NULL;
    if (!proc)
        return;
    snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
    for (const struct dirent *e = readdir(proc); e; e = readdir(proc)) {
        if (e->d_name[0] < '1' || e->d_name[0] > '9' || !has_socket(e->d_name, wanted))
            continue;
        describe(e->d_name, ret_text, size);
        break;
    }
    closedir(proc);
}
