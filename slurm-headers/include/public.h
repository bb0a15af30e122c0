/* The public headers, as Debian's libslurm-dev installs them. */
#include <slurm/spank.h>
#include <slurm/slurm_version.h>
