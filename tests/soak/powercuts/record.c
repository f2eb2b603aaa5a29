// Preloaded into a process, records what would survive a power failure, and ends the process at a step.
//
// POWERCUT_ROOT is the folder that is watched, POWERCUT_RECORD that of the records. When a file is synced, its content is copied to
// the records; when a folder is, its names are, with the inodes that they name. An inode is the number that the file system gives it,
// kept from being given to another file by a link. POWERCUT_STEP is the number of steps (calls that sync, link, rename, remove or
// create) after which the process is killed.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_long steps, drafts;
// An older record must not replace a newer one.
static pthread_mutex_t recording = PTHREAD_MUTEX_INITIALIZER;

static void step(void) {
    const char *last = getenv("POWERCUT_STEP");
    if (last && atomic_fetch_add(&steps, 1) + 1 >= atol(last)) kill(getpid(), SIGKILL);
}

static const char *record(void) { return getenv("POWERCUT_RECORD"); }

static int is_watched(int fd) {
    char link[64], path[PATH_MAX];
    const char *root = getenv("POWERCUT_ROOT");
    if (!root || !record()) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return strncmp(path, root, strlen(root)) == 0;
}

static int is_watched_path(const char *path) {
    const char *root = getenv("POWERCUT_ROOT");
    return root && path && (path[0] != '/' || strncmp(path, root, strlen(root)) == 0);
}

// Keeps the number of an inode from being given to another file.
static void pin(int fd, ino_t inode) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    snprintf(path, sizeof path, "%s/pins/%lu", record(), (unsigned long)inode);
    syscall(SYS_linkat, AT_FDCWD, link, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
}

static void publish(const char *draft, const char *kind, ino_t inode) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s/%lu", record(), kind, (unsigned long)inode);
    syscall(SYS_renameat2, AT_FDCWD, draft, AT_FDCWD, path, 0);
}

static void record_file(int fd, ino_t inode) {
    char draft[PATH_MAX], self[64], buffer[1 << 16];
    ssize_t length;
    snprintf(draft, sizeof draft, "%s/draft-%d-%ld", record(), getpid(), atomic_fetch_add(&drafts, 1));
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    int source = syscall(SYS_openat, AT_FDCWD, self, O_RDONLY, 0);
    int target = syscall(SYS_openat, AT_FDCWD, draft, O_WRONLY | O_CREAT | O_EXCL, 0600);
    while (source >= 0 && (length = read(source, buffer, sizeof buffer)) > 0)
        if (write(target, buffer, length) != length) abort();
    close(source);
    close(target);
    pin(fd, inode);
    publish(draft, "files", inode);
}

static void record_folder(int fd, ino_t inode) {
    char draft[PATH_MAX], self[64];
    snprintf(draft, sizeof draft, "%s/draft-%d-%ld", record(), getpid(), atomic_fetch_add(&drafts, 1));
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    int copy = syscall(SYS_openat, AT_FDCWD, self, O_RDONLY | O_DIRECTORY, 0);
    DIR *folder = fdopendir(copy);
    if (!folder) return;
    FILE *names = fopen(draft, "w");
    for (struct dirent *entry; (entry = readdir(folder));)
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            fprintf(names, "%lu %c %s\n", (unsigned long)entry->d_ino, entry->d_type == DT_DIR ? 'd' : 'f', entry->d_name);
    fclose(names);
    // What this folder names must not be mistaken for a later file.
    rewinddir(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_type == DT_REG) {
            char path[PATH_MAX];
            snprintf(path, sizeof path, "%s/pins/%lu", record(), (unsigned long)entry->d_ino);
            syscall(SYS_linkat, dirfd(folder), entry->d_name, AT_FDCWD, path, 0);
        }
    closedir(folder);
    publish(draft, "folders", inode);
}

// Excludes other processes until what it returns is closed.
static int lock_records(void) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/lock", record());
    int lock = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    while (flock(lock, LOCK_EX) != 0 && errno == EINTR)
        ;
    return lock;
}

static int synced(int fd, int result) {
    struct stat stat;
    if (result == 0 && is_watched(fd) && fstat(fd, &stat) == 0) {
        pthread_mutex_lock(&recording);
        int lock = lock_records();
        if (S_ISDIR(stat.st_mode)) record_folder(fd, stat.st_ino);
        else if (S_ISREG(stat.st_mode)) record_file(fd, stat.st_ino);
        close(lock);
        pthread_mutex_unlock(&recording);
    }
    return result;
}

// The machine's own disk need not be synced: what survives is what is recorded.
int fsync(int fd) { if (is_watched(fd)) step(); return synced(fd, 0); }
int fdatasync(int fd) { if (is_watched(fd)) step(); return synced(fd, 0); }

#define NEXT(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))

int rename(const char *from, const char *to) { if (is_watched_path(to)) step(); return NEXT(rename)(from, to); }
int link(const char *from, const char *to) { if (is_watched_path(to)) step(); return NEXT(link)(from, to); }
int linkat(int a, const char *from, int b, const char *to, int flags) {
    if (is_watched_path(to)) step();
    return NEXT(linkat)(a, from, b, to, flags);
}
int renameat(int a, const char *from, int b, const char *to) {
    if (is_watched_path(to)) step();
    return NEXT(renameat)(a, from, b, to);
}
int unlink(const char *path) { if (is_watched_path(path)) step(); return NEXT(unlink)(path); }
int mkdir(const char *path, mode_t mode) { if (is_watched_path(path)) step(); return NEXT(mkdir)(path, mode); }
