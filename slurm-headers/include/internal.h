/*
 * The internal headers that sgpu's plugins rely on, of whichever release is
 * built against. slurm_xlator.h comes first: it gives the functions the names
 * under which the daemons export them (slurm_bit_alloc, slurm_list_create).
 * From 23.02 the plugin interfaces live in src/interfaces.
 */
#include "src/common/slurm_xlator.h"

#include "src/common/bitstring.h"
#include "src/common/list.h"
#include "src/common/log.h"
#include "src/common/node_conf.h"
#include "src/common/run_in_daemon.h"
#include "src/common/slurm_protocol_api.h"
#include "src/common/xmalloc.h"
#include "src/common/xstring.h"

#if __has_include("src/interfaces/gpu.h")
#include "src/interfaces/acct_gather_energy.h"
#include "src/interfaces/gpu.h"
#include "src/interfaces/gres.h"
#else
#include "src/common/gpu.h"
#include "src/common/gres.h"
#include "src/common/slurm_acct_gather_energy.h"
#endif

#include "src/slurmd/slurmd/slurmd.h"
#include "src/slurmd/slurmstepd/slurmstepd_job.h"

#if __has_include("src/interfaces/preempt.h")
#include "src/interfaces/preempt.h"
#endif
#if __has_include("src/common/job_features.h")
#include "src/common/job_features.h"
#endif
#include "src/slurmctld/slurmctld.h"
#if __has_include("src/slurmctld/preempt.h")
#include "src/slurmctld/preempt.h"
#endif
