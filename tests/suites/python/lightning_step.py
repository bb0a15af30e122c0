# One step of SGD with Lightning. The gradient of a rank is its number and 1; that of the step is their mean.
import os
import warnings

import pytorch_lightning as lightning
import torch
from pytorch_lightning.plugins.environments import SLURMEnvironment


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(self.layer.weight)

    def training_step(self, batch, _):
        return self.layer(torch.full((1, 1), self.global_rank + 1.0)).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1.0)


assert SLURMEnvironment.detect()
warnings.simplefilter('ignore')
trainer = lightning.Trainer(
    accelerator='cpu', devices=2, num_nodes=2, max_steps=1,
    logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
)
model = Model()
trainer.fit(model, torch.utils.data.DataLoader(torch.zeros(4, 1)))
place = trainer.strategy.cluster_environment
print(
    f'{type(place).__name__} rank {place.global_rank()} of {place.world_size()} local {place.local_rank()}',
    f'node {place.node_rank()} at {place.main_address}:{place.main_port} weight {model.layer.weight.item()}',
)
assert (str(place.global_rank()), str(place.local_rank())) == (os.environ['RANK'], os.environ['LOCAL_RANK'])
assert (place.main_address, str(place.main_port)) == (os.environ['MASTER_ADDR'], os.environ['MASTER_PORT'])
