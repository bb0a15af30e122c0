# One step of SGD with accelerate. The gradient of a rank is its number and 1; that of the step is their mean.
import torch
from accelerate import Accelerator, InitProcessGroupKwargs

# It would take MPI, which Debian builds PyTorch with and which cannot gather there.
accelerator = Accelerator(cpu=True, kwargs_handlers=[InitProcessGroupKwargs(backend='gloo')])
rank = accelerator.process_index
model = torch.nn.Linear(1, 1, bias=False)
torch.nn.init.zeros_(model.weight)
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=1.0))
accelerator.backward(model(torch.tensor([[rank + 1.0]])).sum())
optimizer.step()
seen = accelerator.gather(torch.tensor([rank])).tolist()
print(
    f'process {rank} of {accelerator.num_processes} local {accelerator.local_process_index}',
    f'{accelerator.distributed_type} gathered {seen} weight {accelerator.unwrap_model(model).weight.item()}',
)
accelerator.end_training()
