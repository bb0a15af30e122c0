# Each process brings its number and 1; the sum over the mesh of all processes is 10.
import os

import jax
import numpy
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding, PartitionSpec

jax.distributed.initialize()
rank = jax.process_index()
mesh = jax.make_mesh((jax.device_count(),), ('tasks',))
numbers = jax.make_array_from_process_local_data(
    NamedSharding(mesh, PartitionSpec('tasks')), numpy.array([rank + 1.0])
)
total = jax.jit(jax.numpy.sum, out_shardings=NamedSharding(mesh, PartitionSpec()))(numbers)
seen = multihost_utils.process_allgather(numpy.array([rank])).flatten().tolist()
print(
    f'process {rank} of {jax.process_count()} gpus {jax.config.read("jax_cuda_visible_devices")}',
    f'gathered {seen} sum {float(total)} at', os.environ['JAX_COORDINATOR_ADDRESS'],
)
jax.distributed.shutdown()
