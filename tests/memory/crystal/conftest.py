"""Small tensors: a second thread would wait more than it works."""

import torch

torch.set_num_threads(1)
