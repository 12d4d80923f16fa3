"""The peers on a GPU, in the order in which they are shown."""

from __future__ import annotations

from int8tune.tuner.bench.gpu.peers.base import GpuPeer
from int8tune.tuner.bench.gpu.peers.cublaslt import CUBLASLT_PEERS
from int8tune.tuner.bench.gpu.peers.torch_product import TorchProduct
from int8tune.tuner.bench.gpu.peers.triton_product import TritonProduct

GPU_PEERS: tuple[GpuPeer, ...] = (*CUBLASLT_PEERS, TorchProduct(), TritonProduct())
