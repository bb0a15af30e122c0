/* A container plugin in front of ours, as pyxis is one: the task gets a mount namespace and a root of its own
   before it starts. What the host has in /opt and /run is not to be seen there. With the word `odd` it closes
   the standard descriptors of the task's process first. */
#define _GNU_SOURCE
#include <linux/capability.h>
#include <sched.h>
#include <slurm/spank.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

SPANK_PLUGIN(sealed, 1);

int slurm_spank_task_init_privileged(spank_t sp, int ac, char **av) {
    if (ac > 0 && !strcmp(av[0], "odd"))
        for (int fd = 0; fd < 3; fd++)
            close(fd);
    return prctl(PR_SET_KEEPCAPS, 1);
}

static int capabilities(unsigned mask) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{mask, mask, 0}, {0, 0, 0}};
    return syscall(SYS_capset, &head, data);
}

int slurm_spank_task_init(spank_t sp, int ac, char **av) {
    if (capabilities(1u << CAP_SYS_CHROOT | 1u << CAP_SYS_ADMIN) || unshare(CLONE_NEWNS) ||
        chroot("/tmp/box") || chdir("/home/alice") || (getuid() && capabilities(0)))
        slurm_error("sealed: %m");
    return 0;
}
