"""An isolated lowest eigenvalue that the spectral bounds miss must neither stall the solver nor show in the answer."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import torch

from eigenprobe.eigen.solve import solve


@pytest.mark.timeout(60)
@pytest.mark.parametrize("outlier", [0.45, 0.3, -0.5])
def test_a_missed_lowest_eigenvalue(outlier) -> None:
    n, k = 2000, 12
    path = scipy.sparse.diags_array([0.125, 0.75, 0.125], offsets=[-1, 0, 1], shape=(n, n)).tolil()
    path[0, 0] = path[n - 2, n - 2] = 0.875  # a path of n - 1 points ...
    path[n - 1, :] = path[:, n - 1] = 0
    path[n - 1, n - 1] = outlier  # ... and a point of its own
    matrix = path.tocsr()
    tensor = torch.sparse_csr_tensor(
        torch.from_numpy(matrix.indptr), torch.from_numpy(matrix.indices), torch.from_numpy(matrix.data), (n, n)
    )
    exact = 0.75 + 0.25 * np.cos(np.pi * np.arange(k) / (n - 1))
    for seed in range(3):
        pairs = solve(tensor, k, generator=torch.Generator().manual_seed(seed))
        q, mu = pairs.vectors, pairs.factors
        assert np.allclose(mu.numpy(), exact, atol=1e-9)
        assert float((tensor @ q - q * mu).norm(dim=0).max()) < 2e-6
