# A job of submitit's: four tasks that add their numbers.
import submitit


def step():
    import os

    import torch
    import torch.distributed

    ours = os.environ.get('SGPU_DIST_PROFILE')
    place = submitit.helpers.TorchDistributedEnvironment().export()
    torch.distributed.init_process_group('gloo')
    rank = torch.tensor([float(torch.distributed.get_rank())])
    torch.distributed.all_reduce(rank)
    torch.distributed.destroy_process_group()
    return f'rank {place.rank} of {place.world_size} local {place.local_rank} sum {int(rank)} profile {ours}'


executor = submitit.SlurmExecutor(folder='submitit', max_num_timeout=0)
executor.update_parameters(
    nodes=2, ntasks_per_node=2, gpus_per_node=2, time=5,
    setup=['export GLOO_SOCKET_IFNAME=lo USE_LIBUV=0'],
)
job = executor.submit(step)
for line in job.results():
    print(line)
