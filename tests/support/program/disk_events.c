/* Preloaded into a program, it writes down what the program does to the files of one folder, and what it says on
 * standard output, in the order in which it happens: DISK_EVENTS_FOLDER, DISK_EVENTS_LOG. Read by `disk_events.py`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Not <fcntl.h>: it may declare `open` as an inline function. */
enum { CREATE = 0100, TRUNCATE = 01000, NEW_LOG = 01 | CREATE | 02000 | 02000000, OF_FOLDER = -100 };

struct event {
  uint64_t inode;
  int64_t offset;
  uint32_t kind, name_bytes, to_bytes, data_bytes;
};

static char folder[PATH_MAX];
static int log_descriptor = -1;

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  if (!found) abort();
  return found;
}

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("DISK_EVENTS_FOLDER"), *log = getenv("DISK_EVENTS_LOG");
  if (!path || !log || !realpath(path, folder)) return;
  int descriptor = (int)syscall(SYS_openat, OF_FOLDER, log, NEW_LOG, 0600);
  log_descriptor = dup2(descriptor, 900);
  if (log_descriptor < 0) abort();
  close(descriptor);
}

static void note(char kind, uint64_t inode, const char *name, const char *to, int64_t offset, const void *data,
                 size_t bytes) {
  struct event event = {inode, offset, (uint32_t)kind, (uint32_t)strlen(name), (uint32_t)strlen(to), (uint32_t)bytes};
  struct iovec parts[] = {{&event, sizeof event},
                          {(void *)name, event.name_bytes},
                          {(void *)to, event.to_bytes},
                          {(void *)data, bytes}};
  ssize_t whole = (ssize_t)(sizeof event + event.name_bytes + event.to_bytes + bytes);
  if (syscall(SYS_writev, log_descriptor, parts, 4) != whole) abort();
}

/* The name in the folder of what a path says, by the path of its own folder; null where that is another one. */
static const char *inside(const char *path, char *resolved) {
  char parent[PATH_MAX];
  const char *slash = strrchr(path, '/');
  size_t length = slash ? (size_t)(slash - path) : 0;
  if (log_descriptor < 0 || length + 2 > sizeof parent) return NULL;
  memcpy(parent, slash ? path : ".", slash ? length : 1);
  parent[slash ? length : 1] = 0;
  if (!realpath(slash == path ? "/" : parent, resolved) || strcmp(resolved, folder)) return NULL;
  return slash ? slash + 1 : path;
}

/* 'F' for an open file of the folder, 'D' for the folder itself, 'S' for standard output, 0 for all else. */
static char followed(int descriptor, uint64_t *inode) {
  char link[64], path[PATH_MAX];
  struct stat status;
  if (log_descriptor < 0 || fstat(descriptor, &status)) return 0;
  *inode = status.st_ino;
  if (descriptor == 1) return 'S';
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t bytes = readlink(link, path, sizeof path - 1);
  if (bytes < 0) return 0;
  path[bytes] = 0;
  size_t length = strlen(folder);
  if (strncmp(path, folder, length)) return 0;
  if (!path[length]) return 'D';
  return path[length] == '/' && S_ISREG(status.st_mode) ? 'F' : 0;
}

static void wrote(int descriptor, int64_t offset, const void *data, ssize_t bytes) {
  uint64_t inode;
  char what = bytes > 0 ? followed(descriptor, &inode) : 0;
  if (what == 'S') note('s', 0, "", "", 0, data, (size_t)bytes);
  if (what == 'F') note('w', inode, "", "", offset, data, (size_t)bytes);
}

static void synced(int descriptor, int result) {
  uint64_t inode;
  char what = result ? 0 : followed(descriptor, &inode);
  if (what == 'D') note('d', inode, "", "", 0, "", 0);
  if (what == 'F') note('f', inode, "", "", 0, "", 0);
}

static void truncated(int descriptor, int64_t bytes, int result) {
  uint64_t inode;
  if (!result && followed(descriptor, &inode) == 'F') note('t', inode, "", "", bytes, "", 0);
}

static void opened(const char *path, int existed, int flags, int descriptor) {
  char parent[PATH_MAX];
  uint64_t inode;
  const char *name = descriptor < 0 ? NULL : inside(path, parent);
  if (!name || followed(descriptor, &inode) != 'F') return;
  note('o', inode, name, "", existed, "", 0);
  if (existed && flags & TRUNCATE) note('t', inode, "", "", 0, "", 0);
}

#define OPEN(name)                                            \
  int name(const char *path, int flags, ...) {                \
    va_list more;                                             \
    va_start(more, flags);                                    \
    unsigned mode = flags & CREATE ? va_arg(more, unsigned) : 0; \
    va_end(more);                                             \
    int existed = !access(path, F_OK);                        \
    int descriptor = REAL(name)(path, flags, mode);           \
    opened(path, existed, flags, descriptor);                 \
    return descriptor;                                        \
  }
OPEN(open)
OPEN(open64)

#define WRITE_AT(name)                                                               \
  ssize_t name(int descriptor, const void *data, size_t bytes, int64_t offset) {     \
    ssize_t done = REAL(name)(descriptor, data, bytes, offset);                      \
    wrote(descriptor, offset, data, done);                                           \
    return done;                                                                     \
  }
WRITE_AT(pwrite)
WRITE_AT(pwrite64)

ssize_t write(int descriptor, const void *data, size_t bytes) {
  ssize_t done = REAL(write)(descriptor, data, bytes);
  wrote(descriptor, done > 0 ? lseek(descriptor, 0, SEEK_CUR) - done : 0, data, done);
  return done;
}

#define TRUNCATE_TO(name)                          \
  int name(int descriptor, int64_t bytes) {        \
    int result = REAL(name)(descriptor, bytes);    \
    truncated(descriptor, bytes, result);          \
    return result;                                 \
  }
TRUNCATE_TO(ftruncate)
TRUNCATE_TO(ftruncate64)

#define SYNC(name)                          \
  int name(int descriptor) {                \
    int result = REAL(name)(descriptor);    \
    synced(descriptor, result);             \
    return result;                          \
  }
SYNC(fsync)
SYNC(fdatasync)

int rename(const char *from, const char *to) {
  char parent[PATH_MAX];
  if (REAL(rename)(from, to)) return -1;
  const char *old = inside(from, parent), *new = inside(to, parent);
  if (old && new) note('r', 0, old, new, 0, "", 0);
  return 0;
}

int unlink(const char *path) {
  char parent[PATH_MAX];
  if (REAL(unlink)(path)) return -1;
  const char *name = inside(path, parent);
  if (name) note('u', 0, name, "", 0, "", 0);
  return 0;
}

#define MAP(name)                                                                                       \
  void *name(void *address, size_t bytes, int protection, int flags, int descriptor, int64_t offset) {  \
    void *memory = REAL(name)(address, bytes, protection, flags, descriptor, offset);                   \
    uint64_t inode;                                                                                     \
    if (memory != MAP_FAILED && flags & MAP_SHARED && protection & PROT_WRITE && descriptor >= 0 &&     \
        followed(descriptor, &inode) == 'F')                                                            \
      note('m', inode, "", "", 0, "", 0);                                                               \
    return memory;                                                                                      \
  }
MAP(mmap)
MAP(mmap64)
