"""Eigenmaps of single cells, in place: ``adata.obsm[use_rep] (n, d)`` -> ``adata.obsm[key_added] (n, k)``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InputError
from ..estimators import OptimalApproximationEigenmaps


def eigenmaps(
    adata: Any,
    *,
    use_rep: str | None = None,
    key_added: str = "X_eigenprobe",
    n_components: int = 15,
    random_state: int = 0,
    copy: bool = False,
    **options: Any,
) -> Any:
    """Embed the cells of an AnnData object, as scanpy's tools do: nothing is returned unless ``copy``.

    Parameters
    ----------
    use_rep
        A key of ``adata.obsm``, or ``"X"``. By default ``X_pca`` where it is there, else ``X``.
    key_added
        The coordinates go to ``adata.obsm[key_added]``; eigenvalues and parameters to ``adata.uns`` under the same key
        without its ``X_``. ``scanpy.pp.neighbors(adata, use_rep=key_added)`` goes on from there.
    n_components, random_state, options
        Of `OptimalApproximationEigenmaps`.
    """
    adata = adata.copy() if copy else adata
    chosen = ("X_pca" if "X_pca" in adata.obsm else "X") if use_rep is None else use_rep
    if chosen != "X" and chosen not in adata.obsm:
        known = ", ".join(["X", *adata.obsm.keys()])
        raise InputError(f"expected use_rep to be one of {known}, got {chosen!r}")
    rows = adata.X if chosen == "X" else adata.obsm[chosen]
    rows = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)
    estimator = OptimalApproximationEigenmaps(n_components, random_state=random_state, **options).fit(rows)
    adata.obsm[key_added] = estimator.embedding_
    params = {"use_rep": chosen, "n_components": n_components, "random_state": random_state, **options}
    adata.uns[key_added.removeprefix("X_")] = {"params": params, "eigenvalues": estimator.eigenvalues_}
    return adata if copy else None
