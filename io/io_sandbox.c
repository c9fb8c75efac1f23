/* SPDX-License-Identifier: BSD-3-Clause */
/* What a process that reads a stranger's file may still do, once and for all: read that file, take memory, answer. Where the
   kernel has no such means the process goes on without; it is a second wall, the first is that its faults stay its own. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "io_internal.h"

/* ---- Landlock (Linux 5.13): which files can be opened; its numbers are the same everywhere, and headers may lack them ---- */

enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446, PATH_BENEATH = 1 };
enum { WRITE_FILE = 1 << 1, READ_FILE = 1 << 2, READ_FOLDER = 1 << 3, EVERY_ACCESS = (1 << 13) - 1 };

static void allow_path(int rules, const char *path, uint64_t access)
{
    struct {
        uint64_t access;
        int32_t fd;
    } __attribute__((packed)) rule = {access, open(path, O_PATH | O_CLOEXEC)};
    if (rule.fd < 0)
        return;
    syscall(ADD_RULE, rules, PATH_BENEATH, &rule, 0);
    close(rule.fd);
}

static void restrict_files(const char *reads, const char *writes)
{
    uint64_t handled = EVERY_ACCESS;
    int rules = (int)syscall(CREATE_RULESET, &handled, sizeof handled, 0);
    if (rules < 0)
        return;
    if (io_h5_plugins_allowed())
        allow_path(rules, "/", READ_FILE | READ_FOLDER);
    allow_path(rules, reads, READ_FILE);
    if (writes)
        allow_path(rules, writes, READ_FILE | WRITE_FILE);
    syscall(RESTRICT_SELF, rules, 0);
    close(rules);
}

/* ---- seccomp: which system calls there are ---- */

#if defined(__x86_64__)
enum { THIS_MACHINE = AUDIT_ARCH_X86_64 };
#elif defined(__aarch64__)
enum { THIS_MACHINE = AUDIT_ARCH_AARCH64 };
#else
enum { THIS_MACHINE = 0 };
#endif

static const int to_read[] = {
    SYS_read,      SYS_pread64,   SYS_lseek,         SYS_fstat,        SYS_newfstatat,   SYS_statx,   SYS_close,
    SYS_flock,     SYS_fcntl,     SYS_munmap,        SYS_mremap,       SYS_brk,          SYS_madvise, SYS_futex,
    SYS_sendto,    SYS_recvfrom,  SYS_exit,          SYS_exit_group,   SYS_getpid,       SYS_gettid,  SYS_getcwd,
    SYS_faccessat, SYS_getrandom, SYS_clock_gettime, SYS_rt_sigreturn, SYS_rt_sigaction, SYS_uname,   SYS_rt_sigprocmask};
static const int to_write[] = {SYS_write, SYS_pwrite64, SYS_ftruncate, SYS_fallocate, SYS_ioctl, SYS_copy_file_range, SYS_fsync};

enum { MOST = 160 };

struct program {
    struct sock_filter at[MOST];
    unsigned short used;
};

static void add(struct program *p, unsigned short code, unsigned k, unsigned char yes, unsigned char no)
{
    if (p->used < MOST)
        p->at[p->used++] = (struct sock_filter){code, yes, no, k};
}

static void allow(struct program *p, int number)
{
    add(p, BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1);
    add(p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
}

/* Only where no bit of mask is set in the low half of an argument; little-endian, as both machines are. */
static void allow_without(struct program *p, int number, int argument, unsigned mask)
{
    add(p, BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 4);
    add(p, BPF_LD | BPF_W | BPF_ABS, (unsigned)(offsetof(struct seccomp_data, args) + 8 * (size_t)argument), 0, 0);
    add(p, BPF_JMP | BPF_JSET | BPF_K, mask, 1, 0);
    add(p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    add(p, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
}

/* A signal to itself: how abort ends. */
static void allow_signals(struct program *p)
{
    add(p, BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 0, 4);
    add(p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args), 0, 0);
    add(p, BPF_JMP | BPF_JEQ | BPF_K, (unsigned)getpid(), 0, 1);
    add(p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    add(p, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
}

static void restrict_calls(int writes)
{
    unsigned no_program = io_h5_plugins_allowed() ? 0 : PROT_EXEC;
    unsigned no_change = writes ? O_CREAT : O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;
    struct program p = {.used = 0};
    add(&p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
    add(&p, BPF_JMP | BPF_JEQ | BPF_K, THIS_MACHINE, 1, 0);
    add(&p, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
    add(&p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
    for (size_t i = 0; i < sizeof to_read / sizeof *to_read; i++)
        allow(&p, to_read[i]);
    for (size_t i = 0; writes && i < sizeof to_write / sizeof *to_write; i++)
        allow(&p, to_write[i]);
    allow_without(&p, SYS_mmap, 2, no_program);
    allow_without(&p, SYS_mprotect, 2, no_program);
    allow_without(&p, SYS_prlimit64, 0, ~0u); /* of itself */
    allow_without(&p, SYS_openat, 2, no_change);
    allow_signals(&p);
    add(&p, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
    struct sock_fprog whole = {p.used, p.at};
    if (p.used < MOST)
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole);
}

void io_sandbox(const char *reads, const char *writes)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return;
    restrict_files(reads, writes);
    if (THIS_MACHINE != 0)
        restrict_calls(writes != NULL);
}
